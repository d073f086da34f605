/* Reads an ONNX file and walks over its graph. */
#include <string.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/imports/onnx_tensor.h"
#include "formats/imports/onnx_walk.h"

#define FILE_BYTES_MAX ((size_t)INT32_MAX /* protobuf's own limit */)

/* ---- values ---- */

const struct walk_value *walk_find(const struct walk *w, const char *name)
{
    for (uint32_t i = w->values; *name && i-- > 0;)
        if (strcmp(w->value[i].name, name) == 0)
            return &w->value[i];
    return NULL;
}

void walk_put(struct walk *w, const char *name, struct walk_value v)
{
    if (w->s.failed)
        return;
    struct walk_value *grown = mem_extend(w->value, w->values, 1, sizeof *grown);
    w->s.failed = !grown;
    if (!grown)
        return;
    w->value = grown;
    v.name = name;
    w->value[w->values++] = v;
}

const char *walk_input(const Onnx__Node *n, size_t i)
{
    return i < n->n_input ? n->input[i] : "";
}

uint32_t walk_uses(const struct walk *w, const char *name)
{
    uint32_t uses = 0;
    for (size_t i = 0; i < w->g->n_node; i++)
        for (size_t k = 0; k < w->g->node[i]->n_input; k++)
            uses += strcmp(w->g->node[i]->input[k], name) == 0;
    for (size_t i = 0; i < w->g->n_output; i++)
        uses += strcmp(w->g->output[i]->name, name) == 0;
    return uses;
}

const Onnx__Node *walk_only_reader(const struct walk *w, const char *name, size_t *at)
{
    if (walk_uses(w, name) != 1)
        return NULL;
    for (size_t i = 0; i < w->g->n_node; i++)
        for (size_t k = 0; k < w->g->node[i]->n_input; k++)
            if (strcmp(w->g->node[i]->input[k], name) == 0) {
                *at = i;
                return w->g->node[i];
            }
    return NULL;
}

bool walk_read_as_image(const struct walk *w, const char *name)
{
    static const char *const image[] = {"Conv",        "MaxPool",           "BatchNormalization",
                                        "AveragePool", "GlobalAveragePool", "GlobalMaxPool"};
    for (size_t i = 0; i < w->g->n_node; i++)
        for (size_t k = 0; k < sizeof image / sizeof *image; k++)
            if (strcmp(w->g->node[i]->op_type, image[k]) == 0 &&
                strcmp(walk_input(w->g->node[i], 0), name) == 0)
                return true;
    return false;
}

/* True if the value reaches, unchanged except for a scale, a node that reads it as an image. */
static bool is_image_input(const struct walk *w, const char *name)
{
    for (size_t steps = 0; steps <= w->g->n_node; steps++) {
        size_t at;
        if (walk_read_as_image(w, name))
            return true;
        const Onnx__Node *next = walk_only_reader(w, name, &at);
        static const char *const same[] = {"Identity", "Cast", "Mul", "Div", "Sub", "Add"};
        bool passes = false;
        for (size_t i = 0; next && i < sizeof same / sizeof *same; i++)
            passes = passes || strcmp(next->op_type, same[i]) == 0;
        if (!passes || next->n_output != 1)
            return false;
        name = next->output[0];
    }
    return false;
}

/* ---- the graph ---- */

static bool is_initializer(const Onnx__Graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(g->initializer[i]->name, name) == 0)
            return true;
    return false;
}

/* The only input that is not a constant; NULL: there is none, or several. */
static const Onnx__Value *input_of(const Onnx__Graph *g)
{
    const Onnx__Value *found = NULL;
    for (size_t i = 0; i < g->n_input; i++) {
        if (is_initializer(g, g->input[i]->name))
            continue;
        if (found)
            return NULL;
        found = g->input[i];
    }
    return found;
}

/* Reads the shape of one row. False: it is refused. */
static bool take_input(struct walk *w, const Onnx__Value *in)
{
    struct walk_value v = {.layer = JOB_INPUT_NAME, .word = ""};
    const Onnx__TensorType *type = in && in->type ? in->type->tensor_type : NULL;
    const Onnx__Shape *shape = type ? type->shape : NULL;
    bool fits = shape && type->elem_type == ONNX__DATA_TYPE__FLOAT && shape->n_dim >= 2 &&
                shape->n_dim <= TENSOR_RANK_MAX + 1;
    for (size_t i = 1; fits && i < shape->n_dim; i++) {
        const Onnx__Dimension *d = shape->dim[i];
        fits = d->value_case == ONNX__DIMENSION__VALUE_DIM_VALUE && d->dim_value > 0 &&
               d->dim_value <= INT32_MAX;
        v.dim[v.rank++] = fits ? (uint32_t)d->dim_value : 0;
    }
    if (!fits) {
        sketch_refuse(&w->s, "the model must have one input, float32 (n, ..), with a known shape");
        return false;
    }
    v.first = v.rank == 3 && is_image_input(w, in->name);
    if (v.first) {
        uint32_t channels = v.dim[0];
        v.dim[0] = v.dim[1];
        v.dim[1] = v.dim[2];
        v.dim[2] = channels;
        sketch_note(&w->s,
                    "the input %.60s is (n, %u, %u, %u) in the file; in the job an image is "
                    "[%u, %u, %u], with the channels last",
                    in->name, channels, v.dim[0], v.dim[1], v.dim[0], v.dim[1], channels);
    }
    walk_put(w, in->name, v);
    return true;
}

static void take_constants(struct walk *w)
{
    for (size_t i = 0; i < w->g->n_initializer; i++)
        walk_put(w, w->g->initializer[i]->name, (struct walk_value){.data = w->g->initializer[i]});
    for (size_t i = 0; i < w->g->n_node; i++) {
        const Onnx__Node *n = w->g->node[i];
        const Onnx__Attribute *a =
            strcmp(n->op_type, "Constant") == 0 ? onnx_attribute(n, "value") : NULL;
        if (a && a->t && n->n_output == 1)
            walk_put(w, n->output[0], (struct walk_value){.data = a->t});
    }
}

static void take_nodes(struct walk *w)
{
    for (size_t i = 0; i < w->g->n_node && !w->s.failed; i++) {
        const Onnx__Node *n = w->g->node[i];
        const struct walk_value *same = w->alias[i] ? walk_find(w, w->alias[i]) : NULL;
        if (same)
            walk_put(w, n->output[0], *same);
        else if (!w->alias[i] && strcmp(n->op_type, "Constant") != 0)
            walk_node(w, i);
    }
}

/* ---- the end ---- */

/* The loss that fits the last layer; it is a guess. */
static const char *tail_of(struct walk *w, const struct walk_value *out)
{
    const char *tail = "  loss: mean_squared_error\n";
    if (strcmp(out->word, "softmax") == 0)
        tail = "  loss: sparse_categorical_crossentropy\n  metrics: [accuracy]\n";
    else if (strcmp(out->word, "sigmoid") == 0 && out->dim[0] == 1)
        tail = "  loss: binary_crossentropy\n  metrics: [accuracy]\n";
    else if (out->dim[0] > 1)
        tail = "  loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"
               "  metrics: [accuracy]\n";
    sketch_note(&w->s, "the file has no loss; model.loss is a guess from the last layer, %s",
                out->layer);
    return tail;
}

/* The graph's output is that of the last layer. NULL: it is refused. */
static const struct walk_value *output_of(struct walk *w)
{
    const struct walk_value *out = w->g->n_output == 1 ? walk_find(w, w->g->output[0]->name) : NULL;
    if (w->g->n_output != 1)
        sketch_refuse(&w->s, "the model must have one output; it has %zu", w->g->n_output);
    else if (!out && !w->s.refusals)
        sketch_refuse(&w->s, "no node makes the output %.80s", w->g->output[0]->name);
    if (!out || w->s.refusals || w->s.failed)
        return NULL;
    bool last = !out->data && w->s.layers && out->layer == w->s.name[w->s.layers - 1];
    if (!last || out->channels || out->first || out->rank != 1) {
        sketch_refuse(&w->s, "the output %.80s must be a vector, of the last node", out->name);
        return NULL;
    }
    return out;
}

static enum err import_graph(struct walk *w, struct imported *m, char **refused, struct errmsg *e)
{
    char shape[64] = "";
    const char *tail = "";
    const Onnx__Value *in = input_of(w->g);
    w->alias = mem_zalloc(w->g->n_node + 1, sizeof *w->alias);
    w->s.failed = w->s.failed || !w->alias;
    if (!w->s.failed && take_input(w, in)) {
        const struct walk_value *v = walk_find(w, in->name);
        (void)digits_list(shape, sizeof shape, v ? v->dim : NULL, v ? v->rank : 0);
        take_constants(w);
        take_nodes(w);
        const struct walk_value *out = output_of(w);
        if (out)
            tail = tail_of(w, out);
    }
    m->scale = w->scale;
    return sketch_finish(&w->s, shape, tail, m, refused, e);
}

/* ---- the file ---- */

/* Names are searched one by one. */
static bool is_small(const Onnx__Graph *g)
{
    size_t inputs = 0;
    bool small = g->n_node <= WALK_NODES_MAX && g->n_initializer <= WALK_VALUES_MAX &&
                 g->n_input <= WALK_VALUES_MAX && g->n_output <= WALK_VALUES_MAX;
    for (size_t i = 0; small && i < g->n_node; i++) {
        inputs += g->node[i]->n_input;
        small = inputs <= WALK_INPUTS_MAX && g->node[i]->n_attribute <= WALK_ATTRIBUTES_MAX;
    }
    return small;
}

static int64_t opset_of(const Onnx__Model *file)
{
    int64_t version = 1;
    for (size_t i = 0; i < file->n_opset_import; i++) {
        const char *domain = file->opset_import[i]->domain;
        if (domain[0] == 0 || strcmp(domain, "ai.onnx") == 0)
            version = file->opset_import[i]->version;
    }
    return version;
}

/* in_file: the model's file is at `path`, so its folder can have more of it. */
static enum err import_bytes(struct imported *m, const char *path, bool in_file,
                             const uint8_t *data, size_t bytes, char **refused, struct errmsg *e)
{
    *refused = NULL;
    Onnx__Model *file = onnx__model__unpack(NULL, bytes, data);
    if (!file || !file->graph || file->graph->n_node == 0) {
        if (file)
            onnx__model__free_unpacked(file, NULL);
        return err_set(e, ERR_INPUT,
                       "%s: it is damaged, or not a model: import reads .keras archives, ONNX and "
                       "safetensors files",
                       path);
    }
    struct imported made = {.scale = 1};
    struct walk w = {.g = file->graph, .opset = opset_of(file), .scale = 1};
    sketch_init(&w.s);
    enum err err = ERR_OK;
    if (!is_small(w.g))
        err = err_set(e, ERR_INPUT, "its graph has more than %d nodes, or too many inputs",
                      WALK_NODES_MAX);
    if (!err && in_file)
        err = onnx_external_read(file->graph, path, e);
    if (!err)
        err = import_graph(&w, &made, refused, e);
    sketch_close(&w.s);
    mem_free(w.value);
    mem_free(w.alias);
    onnx__model__free_unpacked(file, NULL);
    if (err)
        return err_wrap(e, err, "%s: ", path);
    *m = made;
    return ERR_OK;
}

enum err imports_onnx_bytes(struct imported *m, const char *path, const uint8_t *data, size_t bytes,
                            char **refused, struct errmsg *e)
{
    return import_bytes(m, path, false, data, bytes, refused, e);
}

enum err imports_onnx(struct imported *m, const char *path, char **refused, struct errmsg *e)
{
    uint8_t *data;
    size_t bytes;
    *refused = NULL;
    enum err err = files_read_regular(path, FILE_BYTES_MAX, &data, &bytes, e);
    if (err)
        return err == ERR_NOTFOUND || err == ERR_TOOBIG ? ERR_INPUT : err;
    err = import_bytes(m, path, true, data, bytes, refused, e);
    mem_free(data);
    return err;
}
