/* Shared by the files of the operators: refusing a node, making a layer of it, passing its value on. */
#include "formats/imports/onnx_step.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void step_refuse(const struct step *s, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = s->n->name[0] ? s->n->name : s->n->n_output ? s->n->output[0] : "";
    sketch_refuse(&s->w->s, "%.40s (%.80s): %s", s->n->op_type, name, text);
}

const Onnx__Tensor *step_constant(const struct step *s, size_t i, uint64_t *elems)
{
    const struct walk_value *v = walk_find(s->w, walk_input(s->n, i));
    return v && v->data && onnx_tensor_elems(v->data, elems) ? v->data : NULL;
}

void step_layer_name(char out[STEP_NAME_BYTES], const Onnx__Tensor *t)
{
    const char *end = strrchr(t->name, '/'), *dot = strrchr(t->name, '.');
    if (!end || (dot && dot > end))
        end = dot;
    size_t n = end ? (size_t)(end - t->name) : 0;
    (void)snprintf(out, STEP_NAME_BYTES, "%.*s", n < STEP_NAME_BYTES ? (int)n : STEP_NAME_BYTES - 1,
                   t->name);
    for (char *slash; (slash = strrchr(out, '/'));)
        memmove(out, slash + 1, strlen(slash));
}

void step_put(const struct step *s, struct walk_value v, const char *word, const char *layer)
{
    if (!layer || s->n->n_output == 0)
        return;
    v.layer = layer;
    v.word = word;
    v.gamma = v.beta = NULL;
    walk_put(s->w, s->n->output[0], v);
}

void step_pass(const struct step *s)
{
    struct walk_value v = s->x;
    v.gamma = v.beta = NULL;
    if (!v.word[0] && walk_uses(s->w, walk_input(s->n, 0)) != 1)
        v.word = JOB_INPUT_NAME; /* not every reader sees a scale that follows */
    if (s->n->n_output)
        walk_put(s->w, s->n->output[0], v);
}

uint32_t step_elems(const struct walk_value *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++)
        n = n * v->dim[i] > UINT32_MAX ? UINT32_MAX : n * v->dim[i];
    return (uint32_t)n;
}

uint32_t step_width(const struct walk_value *v)
{
    return v->dim[v->rank - 1];
}

uint64_t step_place(const struct walk_value *v, uint64_t i)
{
    uint64_t pixels = v->channels ? v->dim[0] / v->channels : 0;
    return v->channels ? i % v->channels * pixels + i / v->channels : i;
}

bool step_is_of_opset(const struct step *s, int64_t opset)
{
    if (s->w->opset >= opset)
        return true;
    step_refuse(
        s, "in opset %lld it computes something else: export the model with opset %lld or later",
        (long long)s->w->opset, (long long)opset);
    return false;
}

bool step_is_image(const struct step *s)
{
    if (s->x.rank == 3 && s->x.first)
        return true;
    step_refuse(s, "its input must be an image (n, channels, height, width)");
    return false;
}

const Onnx__Tensor *step_bias_after(const struct step *s, uint64_t units)
{
    size_t at;
    uint64_t elems;
    const Onnx__Node *next = s->n->n_output ? walk_only_reader(s->w, s->n->output[0], &at) : NULL;
    if (!next || strcmp(next->op_type, "Add") != 0 || next->n_input != 2 || next->n_output != 1)
        return NULL;
    size_t other = strcmp(next->input[0], s->n->output[0]) == 0;
    const struct walk_value *v = walk_find(s->w, next->input[other]);
    bool fits = v && v->data && onnx_tensor_elems(v->data, &elems) && elems == units;
    const Onnx__Tensor *t = fits ? v->data : NULL;
    bool images = s->x.rank == 3 && s->x.first;
    size_t axis = images ? 3 : 1; /* from the end */
    fits = fits && t->n_dims >= axis && t->dims[t->n_dims - axis] == (int64_t)units;
    if (!fits)
        return NULL;
    s->w->alias[at] = s->n->output[0];
    return t;
}

void step_fill(float *to, const Onnx__Tensor *t, uint64_t n)
{
    uint64_t elems = 0;
    bool one = onnx_tensor_elems(t, &elems) && elems == 1;
    for (uint64_t i = 0; i < n; i++)
        to[i] = (float)onnx_tensor_at(t, one ? 0 : i);
}

size_t step_axes(const struct step *s, int64_t *out, size_t room)
{
    uint64_t elems;
    const Onnx__Tensor *t = step_constant(s, 1, &elems);
    if (!t)
        return onnx_ints(s->n, "axes", out, room);
    for (uint64_t i = 0; i < elems && i < room; i++)
        out[i] = (int64_t)onnx_tensor_at(t, i);
    return elems < room ? (size_t)elems : room;
}

bool step_are_sides(const struct step *s, const int64_t axis[2])
{
    int64_t a = axis[0] < 0 ? axis[0] + 4 : axis[0], b = axis[1] < 0 ? axis[1] + 4 : axis[1];
    int64_t from = s->x.first ? 2 : 1;
    return s->x.rank == 3 && (a < b ? a : b) == from && (a < b ? b : a) == from + 1;
}
