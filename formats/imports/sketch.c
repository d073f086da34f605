/* Keeps the lines of YAML and the values of tensors as the layers are found. At the end a model is made of the lines, and each of its
 * tensors gets the values of its name. */
#include "formats/imports/onnx_walk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

void sketch_init(struct sketch *s)
{
    memset(s, 0, sizeof *s);
    s->layer_lines = open_memstream(&s->layer_text, &s->layer_bytes);
    s->refused_lines = open_memstream(&s->refused_text, &s->refused_bytes);
    s->note_lines = open_memstream(&s->note_text, &s->note_bytes);
    s->failed = !s->layer_lines || !s->refused_lines || !s->note_lines;
}

/* The text is complete; it is for free(). */
static void sketch_end_lines(struct sketch *s, FILE **lines)
{
    if (*lines && fclose(*lines) != 0)
        s->failed = true;
    *lines = NULL;
}

void sketch_close(struct sketch *s)
{
    sketch_end_lines(s, &s->layer_lines);
    sketch_end_lines(s, &s->refused_lines);
    sketch_end_lines(s, &s->note_lines);
    free(s->layer_text);
    free(s->refused_text);
    free(s->note_text);
    for (uint32_t i = 0; i < s->parts; i++)
        mem_free(s->part[i].value);
    mem_free(s->part);
}

/* ---- lines ---- */

static void sketch_add_line(struct sketch *s, FILE *to, const char *format, va_list args)
{
    char line[512];
    if (s->failed)
        return;
    (void)vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    s->failed = fprintf(to, "%s\n", line) < 0;
}

void sketch_refuse(struct sketch *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sketch_add_line(s, s->refused_lines, format, args);
    va_end(args);
    s->refusals++;
}

void sketch_note(struct sketch *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sketch_add_line(s, s->note_lines, format, args);
    va_end(args);
}

/* ---- layers ---- */

static bool sketch_has_name(const struct sketch *s, const char *name)
{
    for (uint32_t i = 0; i < s->layers; i++)
        if (strcmp(s->name[i], name) == 0)
            return true;
    return strcmp(name, JOB_INPUT_NAME) == 0;
}

/* A name that a job's layer can have, and no other layer has: as wanted, or the layer's word; with a number if needed. */
static void choose_name(const struct sketch *s, const char *word, const char *wanted,
                        char name[JOB_NAME_MAX])
{
    enum { ROOM = JOB_NAME_MAX - 8 };
    char base[ROOM];
    size_t n = 0;
    for (const char *c = wanted; *c && n + 1 < ROOM; c++) {
        bool letter =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (letter || n > 0)
            base[n++] = letter || strchr("._-", *c) ? *c : '_';
    }
    base[n] = 0;
    const char *from = n ? base : word;
    (void)snprintf(name, JOB_NAME_MAX, "%s", from);
    for (uint32_t i = 1; sketch_has_name(s, name); i++)
        (void)snprintf(name, JOB_NAME_MAX, "%.*s_%u", ROOM - 1, from, i);
}

/* True if the layer reads only the layer before it, which needs no `inputs`. */
static bool reads_the_one_before(const struct sketch *s, const char *const *input, uint32_t inputs)
{
    const char *before = s->layers ? s->name[s->layers - 1] : JOB_INPUT_NAME;
    return inputs == 1 && strcmp(input[0], before) == 0;
}

const char *sketch_layer(struct sketch *s, const char *word, const char *wanted,
                         const char *const *input, uint32_t inputs, const char *options, ...)
{
    va_list args;
    if (s->failed)
        return NULL;
    if (s->layers == JOB_LAYERS_MAX) {
        if (!s->refusals)
            sketch_refuse(s, "more than %d layers", JOB_LAYERS_MAX);
        return NULL;
    }
    char *name = s->name[s->layers], text[320];
    choose_name(s, word, wanted, name);
    va_start(args, options);
    (void)vsnprintf(text, sizeof text, options, args);
    va_end(args);
    (void)fprintf(s->layer_lines, "    - %s: {%s%sname: %s", word, text, text[0] ? ", " : "", name);
    for (uint32_t i = 0; i < inputs && !reads_the_one_before(s, input, inputs); i++)
        (void)fprintf(s->layer_lines, "%s%s%s", i ? ", " : ", inputs: [", input[i],
                      i + 1 == inputs ? "]" : "");
    s->failed = fputs("}\n", s->layer_lines) == EOF;
    s->layers++;
    return name;
}

/* ---- tensors ---- */

float *sketch_part(struct sketch *s, const char *layer, const char *what, uint64_t elems)
{
    if (s->failed)
        return NULL;
    struct sketch_part *grown = mem_extend(s->part, s->parts, 1, sizeof *grown);
    s->failed = !grown;
    if (!grown)
        return NULL;
    s->part = grown;
    struct sketch_part *p = &s->part[s->parts];
    (void)snprintf(p->name, sizeof p->name, "%s/%s", layer, what);
    p->elems = elems;
    p->value = mem_floats(elems);
    s->failed = !p->value;
    s->parts += p->value != NULL;
    return p->value;
}

static enum err sketch_fill(const struct sketch *s, const struct layout *l, float *w,
                            struct errmsg *e)
{
    for (uint32_t i = 0; i < l->tensors; i++) {
        const struct tensor *t = &l->tensor[i];
        const struct sketch_part *p = NULL;
        for (uint32_t k = 0; k < s->parts && !p; k++)
            p = strcmp(s->part[k].name, t->name) == 0 ? &s->part[k] : NULL;
        if (!p || p->elems != t->elems)
            return err_set(e, ERR_INPUT, "the values of %s do not fit the layer", t->name);
        memcpy(w + t->offset_elems, p->value, t->elems * sizeof *w);
    }
    return ERR_OK;
}

/* ---- the model ---- */

static enum err sketch_make(struct sketch *s, const char *input_shape, const char *tail,
                            struct imported *m, struct errmsg *e)
{
    int n = asprintf(&m->yaml, "model:\n  input: {shape: [%s]}\n  layers:\n%s%s", input_shape,
                     s->layer_text, tail);
    if (n < 0)
        m->yaml = NULL;
    char *copy = n < 0 ? NULL : mem_strdup(m->yaml);
    free(m->yaml);
    m->yaml = copy;
    m->notes = mem_strdup(s->note_text);
    if (!m->yaml || !m->notes)
        return err_memory(e);
    enum err err = imported_model(&m->model, "the imported model", m->yaml,
                                  "write the job, and import the tensors from a safetensors file "
                                  "with --job",
                                  e);
    if (err)
        return err;
    m->w = mem_floats(model_layout(m->model)->elems);
    return m->w ? sketch_fill(s, model_layout(m->model), m->w, e) : err_memory(e);
}

enum err sketch_finish(struct sketch *s, const char *input_shape, const char *tail,
                       struct imported *m, char **refused, struct errmsg *e)
{
    struct imported made = {.scale = m->scale};
    sketch_end_lines(s, &s->layer_lines);
    sketch_end_lines(s, &s->refused_lines);
    sketch_end_lines(s, &s->note_lines);
    if (s->failed)
        return err_memory(e);
    if (s->refusals) {
        *refused = mem_strdup(s->refused_text);
        return *refused ? err_set(e, ERR_INPUT, "a job cannot have %u of its parts", s->refusals)
                        : err_memory(e);
    }
    enum err err = sketch_make(s, input_shape, tail, &made, e);
    if (err)
        imported_close(&made);
    else
        *m = made;
    return err;
}
