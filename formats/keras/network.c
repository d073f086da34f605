/* The job's layers as Keras's, with their inputs, in the order of Keras. */
#include "formats/keras/network.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "formats/keras/layers.h"

/* After the first failure nothing more is added. */
struct making {
    struct network *n;
    const struct job *job;
    uint32_t made[JOB_LAYERS_MAX]; /* by layer of the job: the layer of Keras that has its output */
    uint32_t features,
        columns; /* the layers with features; for columns as (features, 1); NONE: not made */
    bool failed;
};
enum { NONE = UINT32_MAX };

/* ---- JSON of Keras's shapes and numbers ---- */

json_t *network_shape(bool batch, uint32_t rank, const uint32_t *dim)
{
    json_t *shape = json_array();
    bool ok = true;
    if (batch)
        json_push(shape, json_null(), &ok);
    for (uint32_t i = 0; i < rank; i++)
        json_push(shape, json_integer(dim[i]), &ok);
    return json_whole(shape, ok);
}

json_t *network_real(float x)
{
    char text[DIGITS_REAL_BYTES];
    return json_real(strtod(digits_float((double)x, text), NULL));
}

/* ---- layers and their inputs ---- */

static bool is_named(const struct network *n, const char *name)
{
    for (uint32_t i = 0; i < n->layers; i++)
        if (strcmp(n->layer[i].name, name) == 0)
            return true;
    return false;
}

/* The name of a layer of the job, as Keras allows it: with the backend torch a name has no point. */
static void keras_name(char *out, const char *name)
{
    (void)snprintf(out, NETWORK_NAME_MAX, "%s", name);
    for (char *c = out; *c; c++)
        if (*c == '.')
            *c = '_';
}

/* True if a layer of the job other than `l` has the name in Keras. */
static bool job_has(const struct job *job, const char *name, const struct job_layer *l)
{
    char taken[NETWORK_NAME_MAX];
    for (uint32_t i = 0; i < job->model.layers; i++) {
        keras_name(taken, job->model.layer[i].name);
        if (&job->model.layer[i] != l && strcmp(taken, name) == 0)
            return true;
    }
    return false;
}

/* A name that no other layer has. */
static void free_name(const struct making *m, char *out, const char *wanted)
{
    char numbered[NETWORK_NAME_MAX];
    keras_name(out, wanted);
    for (uint32_t i = 1; job_has(m->job, out, NULL) || is_named(m->n, out); i++) {
        (void)snprintf(numbered, sizeof numbered, "%.80s_%u", wanted, i);
        keras_name(out, numbered);
    }
}

/* The name of a layer of the job: another one if it has a point, and is like that of another layer without it. */
static void own_name(const struct making *m, char *out, const struct job_layer *l)
{
    keras_name(out, l->name);
    if (strchr(l->name, '.') && job_has(m->job, out, l))
        free_name(m, out, l->name);
}

/* Append a layer with a name that is free. Takes config. Returns its index. */
static uint32_t append(struct making *m, const char *name, const char *class, json_t *take_config)
{
    struct network *n = m->n;
    struct network_layer *grown =
        m->failed || !take_config ? NULL : mem_extend(n->layer, n->layers, 1, sizeof *grown);
    if (!grown) {
        m->failed = true;
        json_decref(take_config);
        return 0;
    }
    n->layer = grown;
    struct network_layer *l = &n->layer[n->layers];
    *l = (struct network_layer){.class = class, .config = take_config, .first_input = n->inputs};
    (void)snprintf(l->name, sizeof l->name, "%s", name);
    return n->layers++;
}

/* The last layer reads layer `from`, too. */
static void read_from(struct making *m, uint32_t from)
{
    struct network *n = m->n;
    uint32_t *grown = mem_extend(n->input, n->inputs, 1, sizeof *grown);
    if (grown)
        n->input = grown;
    m->failed |= !grown;
    if (m->failed)
        return;
    n->input[n->inputs++] = from;
    n->layer[n->layers - 1].inputs++;
}

/* A layer that reads `from`, named after a layer of the job. */
static uint32_t help(struct making *m, const char *of, const char *what, const char *class,
                     json_t *take_config, uint32_t from)
{
    char wanted[2 * NETWORK_NAME_MAX], name[NETWORK_NAME_MAX];
    (void)snprintf(wanted, sizeof wanted, "%s%s%s", of, *of ? "_" : "", what);
    free_name(m, name, wanted);
    uint32_t made = append(m, name, class, take_config);
    read_from(m, from);
    return made;
}

static json_t *rescaling(float scale, float offset)
{
    return json_pack("{s:o, s:o}", "scale", network_real(scale), "offset", network_real(offset));
}

/* ---- what the first layers read ---- */

static uint64_t feature_count(const struct job *job)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < job->model.rank; i++)
        n *= job->model.shape[i];
    return n;
}

/* of: the layer of the job with these values; NULL: none. */
static uint32_t input_layer(struct making *m, const char *wanted, uint32_t rank,
                            const uint32_t *shape, const struct job_layer *of)
{
    char name[NETWORK_NAME_MAX];
    if (of)
        own_name(m, name, of);
    else
        free_name(m, name, wanted);
    return append(m, name, "InputLayer",
                  json_pack("{s:o}", "batch_shape", network_shape(true, rank, shape)));
}

/* The encoded features of csv rows. */
static uint32_t features(struct making *m)
{
    uint32_t n = (uint32_t)feature_count(m->job);
    if (m->features == NONE)
        m->features = input_layer(m, "features", 1, &n, NULL);
    return m->features;
}

/* Rows of other data, divided by data.scale. */
static uint32_t rows(struct making *m)
{
    const struct job *job = m->job;
    if (m->features != NONE)
        return m->features;
    m->features = input_layer(m, "input", job->model.rank, job->model.shape, NULL);
    if (job->data.scale != 1.0f)
        m->features =
            help(m, "", "scale", "Rescaling", rescaling(1.0f / job->data.scale, 0), m->features);
    return m->features;
}

static uint32_t model_input(struct making *m)
{
    const struct job *job = m->job;
    if (!job_reads_columns(job))
        return rows(m);
    if (job->model.rank == 1)
        return features(m);
    return help(
        m, "", "features_shape", "Reshape",
        json_pack("{s:o}", "target_shape", network_shape(false, job->model.rank, job->model.shape)),
        features(m));
}

/* ---- columns ---- */

/* Features [first, first + n). */
struct cut {
    uint32_t first, n;
};

/* Cut features out of (features, 1). */
static uint32_t crop(struct making *m, const char *of, struct cut c)
{
    uint32_t all = (uint32_t)feature_count(m->job), shape[] = {all, 1};
    if (m->columns == NONE)
        m->columns =
            help(m, "", "features_list", "Reshape",
                 json_pack("{s:o}", "target_shape", network_shape(false, 2, shape)), features(m));
    uint32_t around[] = {c.first, all - c.first - c.n};
    return help(m, of, "columns", "Cropping1D",
                json_pack("{s:o}", "cropping", network_shape(false, 2, around)), m->columns);
}

/* The columns of a selection as ranges of features, adjacent ones merged. Returns their number. */
static uint32_t cuts_of(const struct job *job, const struct job_selection *s, struct cut *cut)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct job_column *c = &job->data.csv.column[job->model.selected[s->first + i]];
        if (n > 0 && cut[n - 1].first + cut[n - 1].n == c->feature)
            cut[n - 1].n += c->width;
        else if (c->width > 0)
            cut[n++] = (struct cut){c->feature, c->width};
    }
    return n;
}

/* The values next to each other along an axis. */
static uint32_t join_layers(struct making *m, const char *of, const char *what, int axis,
                            const uint32_t *from, uint32_t n)
{
    uint32_t made = help(m, of, what, keras_class_of(LAYER_JOINING).name,
                         json_pack("{s:i}", "axis", axis), from[0]);
    for (uint32_t i = 1; i < n; i++)
        read_from(m, from[i]);
    return made;
}

static uint32_t crop_all(struct making *m, const char *of, const struct cut *cut, uint32_t n)
{
    uint32_t *part = mem_zalloc(n, sizeof *part), made = 0;
    m->failed |= !part;
    for (uint32_t i = 0; i < n && !m->failed; i++)
        part[i] = crop(m, of, cut[i]);
    if (!m->failed)
        made = n > 1 ? join_layers(m, of, "columns", -2, part, n) : part[0];
    mem_free(part);
    return help(m, of, "columns", "Flatten", json_object(), made);
}

static uint32_t select_columns(struct making *m, const char *of, uint32_t selection)
{
    const struct job_selection *s = &m->job->model.selection[selection];
    struct cut *cut = mem_zalloc(s->columns, sizeof *cut);
    uint32_t made = 0;
    m->failed |= !cut;
    if (cut) {
        uint32_t n = cuts_of(m->job, s, cut);
        bool all = n == 1 && cut[0].first == 0 && cut[0].n == feature_count(m->job);
        made = all ? features(m) : crop_all(m, of, cut, n);
    }
    mem_free(cut);
    return made;
}

/* ---- the job's layers ---- */

/* input: as in struct job_layer. */
static uint32_t source(struct making *m, const struct job_layer *l, uint32_t input)
{
    if (input >= JOB_INPUT_SELECTION)
        return select_columns(m, l->name, input - JOB_INPUT_SELECTION);
    return input == 0 ? model_input(m) : m->made[input - 1];
}

/* The layers that layer i of the job reads. Returns their number. */
static uint32_t sources(struct making *m, uint32_t i, uint32_t from[JOB_INPUTS_MAX])
{
    const struct job_layer *l = &m->job->model.layer[i];
    if (l->inputs == 0) {
        from[0] = source(m, l, i);
        return 1;
    }
    for (uint32_t k = 0; k < l->inputs; k++)
        from[k] = source(m, l, l->input[k]);
    bool merges = layer_has(l->kind, LAYER_MERGES);
    if (merges || l->inputs == 1)
        return l->inputs;
    from[0] = join_layers(m, l->name, "inputs", -1, from, l->inputs);
    return 1;
}

static uint32_t looked_up(struct making *m, const struct job_layer *l)
{
    const struct job_table *t = &m->job->model.table[l->table];
    uint32_t width = l->kind == LAYER_LINEAR ? t->dim : l->lookups * t->dim;
    uint32_t made = input_layer(m, l->name, 1, &width, l);
    if (!m->failed)
        m->n->layer[made].vectors = true;
    return made;
}

/* gelu by tanh (keras/src/activations/activations.py): no layer of Keras has it. 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715
 * x^3))) */
static uint32_t gelu_tanh(struct making *m, const struct job_layer *l, uint32_t x)
{
    const char *of = l->name;
    char name[NETWORK_NAME_MAX];
    uint32_t square = help(m, of, "square", "Multiply", json_object(), x);
    read_from(m, x);
    uint32_t factor = help(m, of, "cubic", "Rescaling", rescaling(0.044715f, 1), square);
    uint32_t inner = help(m, of, "inner", "Multiply", json_object(), x);
    read_from(m, factor);
    uint32_t scaled = help(m, of, "scaled", "Rescaling", rescaling(0.7978845608f, 0), inner);
    uint32_t tanh =
        help(m, of, "tanh", "Activation", json_pack("{s:s}", "activation", "tanh"), scaled);
    uint32_t half = help(m, of, "half", "Rescaling", rescaling(0.5f, 0.5f), tanh);
    own_name(m, name, l);
    uint32_t made = append(m, name, "Multiply", json_object());
    read_from(m, x);
    read_from(m, half);
    return made;
}

static uint32_t add_layer(struct making *m, uint32_t i)
{
    const struct job_layer *l = &m->job->model.layer[i];
    uint32_t from[JOB_INPUTS_MAX];
    char name[NETWORK_NAME_MAX];
    if (job_layer_looks_up(l))
        return looked_up(m, l);
    uint32_t n = sources(m, i, from);
    if (l->kind == LAYER_GELU && l->gelu.approximate)
        return gelu_tanh(m, l, from[0]);
    own_name(m, name, l);
    const struct keras_class class = keras_class_of(l->kind);
    uint32_t made =
        class.name ? append(m, name, class.name, keras_options(l))
                   : append(m, name, "Activation", json_pack("{s:s}", "activation", class.word));
    for (uint32_t k = 0; k < n; k++)
        read_from(m, from[k]);
    if (!m->failed && class.has_weights)
        m->n->layer[made].of = l;
    return made;
}

/* ---- the order of Keras (keras/src/ops/function.py, map_graph) ---- */

static void set_depths(struct network *n)
{
    for (uint32_t i = n->layers; i-- > 0;)
        for (uint32_t k = 0; k < n->layer[i].inputs; k++) {
            struct network_layer *in = &n->layer[n->input[n->layer[i].first_input + k]];
            if (in->depth < n->layer[i].depth + 1)
                in->depth = n->layer[i].depth + 1;
        }
}

/* Number the layers in the order in which a walk from the output first meets them. `stack` has room for an entry for each
 * input of each layer. */
static void set_visits(struct network *n, uint32_t *stack)
{
    uint32_t top = 0, visits = 0;
    stack[top++] = n->output;
    while (top > 0) {
        struct network_layer *l = &n->layer[stack[--top]];
        if (l->visit)
            continue;
        l->visit = ++visits;
        for (uint32_t k = l->inputs; k-- > 0;)
            stack[top++] = n->input[l->first_input + k];
    }
}

static bool comes_before(const struct network_layer *a, const struct network_layer *b)
{
    return a->depth != b->depth ? a->depth > b->depth : a->visit < b->visit;
}

static void sort(struct network *n)
{
    for (uint32_t i = 0; i < n->layers; i++) {
        uint32_t at = i;
        for (; at > 0 && comes_before(&n->layer[i], &n->layer[n->order[at - 1]]); at--)
            n->order[at] = n->order[at - 1];
        n->order[at] = i;
    }
}

static bool set_order(struct network *n)
{
    uint32_t *stack = mem_zalloc((size_t)n->inputs + 1, sizeof *stack);
    n->order = mem_zalloc(n->layers, sizeof *n->order);
    bool made = stack && n->order;
    if (made) {
        set_depths(n);
        set_visits(n, stack);
        sort(n);
    }
    mem_free(stack);
    return made;
}

enum err network_init(struct network *n, const struct job *job, struct errmsg *e)
{
    struct making m = {.n = n, .job = job, .features = NONE, .columns = NONE};
    *n = (struct network){0};
    assert(job->model.layers > 0);
    for (uint32_t i = 0; i < job->model.layers && !m.failed; i++)
        m.made[i] = add_layer(&m, i);
    n->output = m.made[job->model.layers - 1];
    if (m.failed || !set_order(n))
        return err_memory(e);
    return ERR_OK;
}

void network_close(struct network *n)
{
    for (uint32_t i = 0; i < n->layers; i++)
        json_decref(n->layer[i].config);
    mem_free(n->layer);
    mem_free(n->input);
    mem_free(n->order);
    *n = (struct network){0};
}

void network_group(const struct network *n, uint32_t i, char *out, size_t bytes)
{
    const char *class = n->layer[n->order[i]].class;
    uint32_t same = 0;
    for (uint32_t k = 0; k < i; k++)
        same += strcmp(n->layer[n->order[k]].class, class) == 0;
    keras_group(class, same, out, bytes);
}

const struct network_layer *network_input(const struct network *n, uint32_t i)
{
    const struct network_layer *l = &n->layer[i % n->layers];
    return l->inputs == 0 && l->vectors == (i >= n->layers) ? l : NULL;
}

/* ---- config.json ---- */

/* The output of a layer, as an argument of another one. Keras derives its shape again. */
static json_t *tensor_of(const struct network_layer *l)
{
    return json_pack("{s:s, s:{s:[n], s:s, s:[s, i, i]}}", "class_name", "__keras_tensor__",
                     "config", "shape", "dtype", "float32", "keras_history", l->name, 0, 0);
}

/* The calls of a layer: one, or none of an input. */
static json_t *calls_of(const struct network *n, const struct network_layer *l)
{
    json_t *all = json_array();
    bool ok = true;
    if (l->inputs == 0)
        return all;
    for (uint32_t i = 0; i < l->inputs; i++)
        json_push(all, tensor_of(&n->layer[n->input[l->first_input + i]]), &ok);
    return json_whole(
        json_pack(l->inputs > 1 ? "[{s:[o], s:{}}]" : "[{s:o, s:{}}]", "args", all, "kwargs"), ok);
}

static json_t *layer_json(const struct network *n, const struct network_layer *l)
{
    json_t *config = json_pack("{s:s, s:s}", "name", l->name, "dtype", "float32");
    bool frozen = l->of && !l->of->trainable;
    if (!config || json_object_update(config, l->config) != 0 ||
        (frozen && json_object_set_new(config, "trainable", json_false()) != 0)) {
        json_decref(config);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o, s:n, s:s, s:o}", "module", "keras.layers", "class_name",
                     l->class, "config", config, "registered_name", "name", l->name,
                     "inbound_nodes", calls_of(n, l));
}

/* All layers, in the order of Keras. */
static json_t *layers_json(const struct network *n)
{
    json_t *all = json_array();
    bool ok = true;
    for (uint32_t i = 0; i < n->layers; i++)
        json_push(all, layer_json(n, &n->layer[n->order[i]]), &ok);
    return json_whole(all, ok);
}

static json_t *inputs_json(const struct network *n)
{
    json_t *all = json_array();
    bool ok = true;
    for (uint32_t i = 0; i < 2 * n->layers; i++) {
        const struct network_layer *l = network_input(n, i);
        if (l)
            json_push(all, json_pack("[s, i, i]", l->name, 0, 0), &ok);
    }
    return json_whole(all, ok);
}

enum err network_config(const struct network *n, const struct job *job, char **text,
                        struct errmsg *e)
{
    json_t *config = json_pack("{s:s, s:s, s:{s:s, s:b, s:o, s:o, s:[[s, i, i]]}, s:s}", "module",
                               "keras.src.models.functional", "class_name", "Functional", "config",
                               "name", job->name, "trainable", 1, "layers", layers_json(n),
                               "input_layers", inputs_json(n), "output_layers",
                               n->layer[n->output].name, 0, 0, "registered_name", "Functional");
    /* a double has more digits, and versions of jansson differ in how they write it */
    *text = config ? json_dumps(config, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS_FLOAT)) : NULL;
    json_decref(config);
    return *text ? ERR_OK : err_memory(e);
}
