/* Builds the graph of a model layer by layer, each from the values of its inputs; at the end every value gets its name. */
#include "formats/graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "formats/graph/build.h"
#include "model/layers.h"

/* ---- facts ---- */

const char *graph_op_name(enum graph_op op)
{
    static const char *const names[] = {
#define NAME(KIND, inputs, name) #name,
        GRAPH_OPS(NAME)};
    return names[op];
}

uint64_t graph_elems(const struct graph_value *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++)
        n *= v->dim[i] == GRAPH_ROWS ? 1 : v->dim[i];
    return n;
}

size_t graph_type_bytes(enum graph_type t)
{
    static const size_t bytes[] = {4, 8, 8, 1, 0};
    return bytes[t];
}

/* ---- the inputs of layers ---- */

/* values of the layers: [0] is the model's input, [i + 1] the output of layer i. */
struct taps {
    uint32_t value[JOB_LAYERS_MAX + 1];
    bool input_made;
};

static uint32_t concat_columns(struct build *b, const uint32_t *column, uint32_t columns)
{
    uint32_t *value = build_own(b, columns, sizeof *value);
    for (uint32_t i = 0; value && i < columns; i++)
        value[i] = encode_column(b, column[i]);
    return value ? build_concat(b, value, columns) : 0;
}

/* The features of all columns. */
static uint32_t all_columns(struct build *b)
{
    const struct job_csv *csv = &b->folder->job.data.csv;
    uint32_t *column = build_own(b, csv->columns, sizeof *column), n = 0;
    for (uint32_t i = 0; column && i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_NUMBER || csv->column[i].kind == COLUMN_CATEGORY)
            column[n++] = i;
    return n ? concat_columns(b, column, n) : 0;
}

static uint32_t model_input(struct build *b)
{
    const struct job *job = &b->folder->job;
    const struct graph_input raw = {.source = GRAPH_RAW};
    if (b->folder->schema)
        return build_reshape(b, all_columns(b), job->model.rank, job->model.shape);
    uint32_t x = build_input(b, &raw, GRAPH_F32, job->model.rank, job->model.shape, "input");
    float scale = 1.0f / job->data.scale;
    return scale == 1.0f ? x : build_binary(b, GRAPH_MUL, x, build_f32(b, scale));
}

static uint32_t take(struct build *b, struct taps *t, uint32_t input)
{
    const struct job *job = &b->folder->job;
    if (input >= JOB_INPUT_SELECTION) {
        const struct job_selection *s = &job->model.selection[input - JOB_INPUT_SELECTION];
        return concat_columns(b, job->model.selected + s->first, s->columns);
    }
    if (input == 0 && !t->input_made) {
        t->value[0] = model_input(b);
        t->input_made = true;
    }
    return t->value[input];
}

/* ---- layers ---- */

static uint32_t with_bias(struct build *b, const struct job_layer *l, uint32_t x)
{
    return l->use_bias ? build_binary(b, GRAPH_ADD, x, build_tensor(b, l->name, "bias")) : x;
}

static uint32_t activated(struct build *b, enum activation a, uint32_t x)
{
    return activation_build(b, a, activation_alpha(a), x);
}

static uint32_t dense(struct build *b, const struct job_layer *l, uint32_t x)
{
    uint32_t y = build_matmul(b, x, build_tensor(b, l->name, "kernel"));
    return activated(b, l->dense.activation, with_bias(b, l, y));
}

/* The windows of a layer over images, and height and width of its output. */
static bool windows(struct build *b, const struct job_layer *l, uint32_t x, const uint32_t size[2],
                    const uint32_t stride[2], const uint32_t dilation[2], enum padding padding,
                    struct graph_window window[2], uint32_t out[2])
{
    const struct graph_value in = build_look(b, x);
    struct shape image = {.rank = in.rank - 1};
    struct window w;
    memcpy(image.dim, in.dim + 1, image.rank * sizeof *image.dim);
    if (!b->err)
        b->err = window_init(&w, &image, l->name, size, stride, dilation, padding, b->e);
    for (int i = 0; i < 2 && !b->err; i++) {
        const struct window_axis *a = i ? &w.x : &w.y;
        uint64_t reach = (uint64_t)(a->out - 1) * a->stride + window_span(a);
        uint64_t behind = (uint64_t)a->in + a->pad;
        window[i] =
            (struct graph_window){.size = a->size,
                                  .stride = a->stride,
                                  .dilation = a->dilation,
                                  .pad_begin = a->pad,
                                  .pad_end = reach > behind ? (uint32_t)(reach - behind) : 0};
        out[i] = a->out;
    }
    return !b->err;
}

static uint32_t conv2d(struct build *b, const struct job_layer *l, uint32_t x)
{
    struct graph_window window[2];
    uint32_t out[3] = {0, 0, l->conv2d.filters};
    if (!windows(b, l, x, l->conv2d.kernel_size, l->conv2d.strides, l->conv2d.dilation_rate,
                 l->conv2d.padding, window, out))
        return 0;
    uint32_t y = build_window(b, GRAPH_CONV2D, x, build_tensor(b, l->name, "kernel"), window,
                              l->conv2d.padding == PADDING_SAME, out);
    return activated(b, l->conv2d.activation, with_bias(b, l, y));
}

static uint32_t pool(struct build *b, const struct job_layer *l, enum graph_op op, uint32_t x)
{
    static const uint32_t close_by[2] = {1, 1};
    struct graph_window window[2];
    uint32_t out[3];
    if (!windows(b, l, x, l->pooling2d.pool_size, l->pooling2d.strides, close_by,
                 l->pooling2d.padding, window, out))
        return 0;
    out[2] = build_look(b, x).dim[3];
    return build_window(b, op, x, GRAPH_NONE, window, l->pooling2d.padding == PADDING_SAME, out);
}

static uint32_t global_pool(struct build *b, const struct job_layer *l, enum graph_op op,
                            uint32_t x)
{
    return build_reduce(b, op, x, 1, 3, l->global_pooling2d.keepdims);
}

static uint32_t with_beta(struct build *b, const struct job_layer *l, uint32_t x)
{
    return l->normalization.center ? build_binary(b, GRAPH_ADD, x, build_tensor(b, l->name, "beta"))
                                   : x;
}

/* (x - mean) a + beta, where a = gamma / sqrt(variance + epsilon) */
static uint32_t batch_normalization(struct build *b, const struct job_layer *l, uint32_t x)
{
    const struct graph_value in = build_look(b, x);
    uint32_t cols = in.dim[in.rank - 1];
    float *a = build_own(b, cols, sizeof *a);
    if (!a)
        return 0;
    const float *variance = build_tensor_data(b, l->name, "moving_variance");
    const float *gamma = l->normalization.scale ? build_tensor_data(b, l->name, "gamma") : NULL;
    for (uint32_t c = 0; c < cols; c++) {
        float inverse = 1.0f / sqrtf(variance[c] + l->normalization.epsilon);
        a[c] = gamma ? gamma[c] * inverse : inverse;
    }
    x = build_binary(b, GRAPH_SUB, x, build_tensor(b, l->name, "moving_mean"));
    x = build_binary(b, GRAPH_MUL, x, build_constant(b, GRAPH_F32, 1, &cols, a));
    return with_beta(b, l, x);
}

static uint32_t layer_normalization(struct build *b, const struct job_layer *l, uint32_t x)
{
    uint32_t last = build_look(b, x).rank - 1;
    uint32_t mean = build_reduce(b, GRAPH_REDUCE_MEAN, x, last, last + 1, true);
    uint32_t centered = build_binary(b, GRAPH_SUB, x, mean);
    uint32_t square = build_binary(b, GRAPH_MUL, centered, centered);
    uint32_t variance = build_reduce(b, GRAPH_REDUCE_MEAN, square, last, last + 1, true);
    uint32_t more = build_binary(b, GRAPH_ADD, variance, build_f32(b, l->normalization.epsilon));
    x = build_binary(b, GRAPH_DIV, centered, build_unary(b, GRAPH_SQRT, more));
    if (l->normalization.scale)
        x = build_binary(b, GRAPH_MUL, x, build_tensor(b, l->name, "gamma"));
    return with_beta(b, l, x);
}

/* Rows of the layer's own tensor, by their numbers. */
static uint32_t embedding(struct build *b, const struct job_layer *l, uint32_t x)
{
    uint32_t table = build_tensor(b, l->name, "embeddings");
    return build_gather(b, table, build_cast(b, GRAPH_I64, x));
}

static uint32_t flatten(struct build *b, uint32_t x)
{
    const struct graph_value v = build_look(b, x);
    uint32_t elems = (uint32_t)graph_elems(&v);
    return build_reshape(b, x, 1, &elems);
}

/* A layer of one input. */
static uint32_t of_one(struct build *b, const struct job_layer *l, uint32_t x)
{
    switch (l->kind) {
    case LAYER_FLATTEN:
        return flatten(b, x);
    case LAYER_RESHAPE:
        return build_reshape(b, x, l->reshape.rank, l->reshape.shape);
    case LAYER_DENSE:
        return dense(b, l, x);
    case LAYER_ACTIVATION:
        return activated(b, l->activation.activation, x);
    case LAYER_LEAKY_RELU:
        return activation_build(b, ACT_LEAKY_RELU, l->leaky_relu.negative_slope, x);
    case LAYER_ELU:
        return activation_build(b, ACT_ELU, l->elu.alpha, x);
    case LAYER_GELU:
        return activated(b, l->gelu.approximate ? ACT_GELU_TANH : ACT_GELU, x);
    case LAYER_CONV2D:
        return conv2d(b, l, x);
    case LAYER_MAX_POOLING2D:
        return pool(b, l, GRAPH_MAX_POOL, x);
    case LAYER_AVERAGE_POOLING2D:
        return pool(b, l, GRAPH_AVERAGE_POOL, x);
    case LAYER_GLOBAL_MAX_POOLING2D:
        return global_pool(b, l, GRAPH_REDUCE_MAX, x);
    case LAYER_GLOBAL_AVERAGE_POOLING2D:
        return global_pool(b, l, GRAPH_REDUCE_MEAN, x);
    case LAYER_BATCH_NORMALIZATION:
        return batch_normalization(b, l, x);
    case LAYER_LAYER_NORMALIZATION:
        return layer_normalization(b, l, x);
    case LAYER_EMBEDDING:
        return embedding(b, l, x);
    case LAYER_DROPOUT: /* in training only */
    case LAYER_ADD:     /* these have several inputs, or tables */
    case LAYER_CONCATENATE:
    case LAYER_EMBEDDING_BAG:
    case LAYER_LINEAR:
    case LAYER_KINDS:
        break;
    }
    return x;
}

static uint32_t layer(struct build *b, struct taps *t, uint32_t i)
{
    const struct job_layer *l = &b->folder->job.model.layer[i];
    uint32_t x[JOB_INPUTS_MAX], inputs = l->inputs ? l->inputs : 1;
    if (l->lookups)
        return table_layer_build(b, i);
    for (uint32_t k = 0; k < inputs; k++)
        x[k] = take(b, t, l->inputs ? l->input[k] : i);
    if (l->kind != LAYER_ADD)
        return of_one(b, l, build_concat(b, x, inputs));
    for (uint32_t k = 1; k < inputs; k++)
        x[0] = build_binary(b, GRAPH_ADD, x[0], x[k]);
    return x[0];
}

/* ---- names ---- */

static int by_place(const void *a, const void *b)
{
    const struct graph_input *x = a, *y = b;
    bool vectors = x->source == GRAPH_VECTORS;
    if (vectors != (y->source == GRAPH_VECTORS))
        return vectors ? 1 : -1;
    uint32_t of_x = vectors ? x->layer : x->column, of_y = vectors ? y->layer : y->column;
    if (of_x != of_y)
        return of_x < of_y ? -1 : 1;
    return (int)x->source - (int)y->source;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_names(struct build *b)
{
    const struct graph *g = b->g;
    const char **name = build_own(b, g->values, sizeof *name);
    for (uint32_t i = 0; name && i < g->values; i++)
        name[i] = g->value[i].name;
    if (name)
        qsort(name, g->values, sizeof *name, by_text);
    for (uint32_t i = 1; name && i < g->values && !b->err; i++)
        if (!strcmp(name[i - 1], name[i]))
            b->err =
                err_set(b->e, ERR_INPUT,
                        "%s: an exported model needs distinct names, but its columns, layers and "
                        "tensors give two values the name \"%s\": rename the column",
                        b->folder->path, SHOWN(name[i]));
}

/* Name the values, of which tensors and inputs have their names already. */
static void name_values(struct build *b)
{
    struct graph *g = b->g;
    for (uint32_t i = 0; i < g->values; i++)
        if (g->value[i].data && !g->value[i].name)
            g->value[i].name = build_text(b, "constant/%u", i);
    for (uint32_t i = 0; i < g->nodes; i++) {
        uint32_t value = g->node[i].output;
        if (value != g->output)
            g->value[value].name = build_text(b, "%s/%u", graph_op_name(g->node[i].op), value);
    }
}

/* The output; NaN for rows that training and predict refuse. NaN among the features is not enough: buckets have none, and
 * layers of other programs can make a number of it. */
static uint32_t refuse_rows(struct build *b, uint32_t output)
{
    static const uint32_t one[GRAPH_RANK_MAX] = {1, 1, 1, 1, 1};
    if (b->err || !b->lacking)
        return output;
    const uint32_t rank = build_look(b, output).rank;
    uint32_t refused = build_binary(b, GRAPH_GREATER_OR_EQUAL, b->lacking - 1, build_f32(b, 1));
    refused = build_reshape(b, refused, rank - 1, one);
    return build_select(b, refused, build_f32(b, NAN), output);
}

static void finish(struct build *b, uint32_t output)
{
    struct graph *g = b->g;
    const struct job *job = &b->folder->job;
    if (b->err)
        return;
    if (g->value[output].name)
        build_fail(b, ERR_INPUT,
                   "an exported model would have nothing to compute: its output is the output of a "
                   "layer whose table is not inside");
    output = refuse_rows(b, output);
    if (b->err)
        return;
    g->output = output;
    g->value[output].name = build_text(b, "%s", job->model.layer[job->model.layers - 1].name);
    name_values(b);
    qsort(g->input, g->inputs, sizeof *g->input, by_place);
    if (!b->err)
        check_names(b);
}

/* ---- the graph ---- */

enum err graph_new(struct graph **out, const struct folder *f, const struct graph_options *o,
                   struct errmsg *e)
{
    struct build b = {.g = mem_zalloc(1, sizeof *b.g), .folder = f, .options = o, .e = e};
    struct taps t = {.input_made = false};
    if (!b.g)
        return err_memory_for(e, "the graph of the model");
    b.column = build_own(&b, f->job.data.csv.columns, sizeof *b.column);
    b.key = build_own(&b, f->job.data.csv.columns, sizeof *b.key);
    b.weights = build_own(&b, f->job.data.csv.columns, sizeof *b.weights);
    tables_begin(&b);
    for (uint32_t i = 0; i < f->job.model.layers && !b.err; i++)
        t.value[i + 1] = layer(&b, &t, i);
    finish(&b, t.value[f->job.model.layers]);
    if (b.err) {
        graph_free(b.g);
        return b.err;
    }
    *out = b.g;
    return ERR_OK;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    graph_memory_close(&g->memory);
    mem_free(g->value);
    mem_free(g->node);
    mem_free(g->input_of_node);
    mem_free(g->input);
    mem_free(g);
}
