#include "tests/lib/models.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

void models_start(struct job *job, uint32_t a, uint32_t b, enum loss_kind loss, bool from_logits)
{
    memset(job, 0, sizeof *job);
    job->model.rank = b ? 2 : 1;
    job->model.shape[0] = a;
    job->model.shape[1] = b;
    (void)models_head(job, loss);
    job->model.head[0].from_logits = from_logits;
}

struct job_head *models_head(struct job *job, enum loss_kind loss)
{
    struct job_head *h = &job->model.head[job->model.heads++];
    *h = job_head_of_one_label();
    h->loss = loss;
    return h;
}

static struct job_layer *add(struct job *job, enum layer_kind kind, const char *name)
{
    uint32_t i = job->model.layers++;
    struct job_layer *l = &job->model.layer[i];
    l->kind = kind;
    l->trainable = true;
    (void)snprintf(l->name, sizeof l->name, "%s_%u", name, i);
    return l;
}

void models_dense(struct job *job, uint32_t units, enum activation activation)
{
    struct job_layer *l = add(job, LAYER_DENSE, "dense");
    l->dense.units = units;
    l->dense.activation = activation;
    l->use_bias = true;
    l->kernel.initializer = INIT_GLOROT_UNIFORM;
    l->bias.initializer = INIT_ZEROS;
}

void models_flatten(struct job *job)
{
    (void)add(job, LAYER_FLATTEN, "flatten");
}

void models_dropout(struct job *job, float rate)
{
    add(job, LAYER_DROPOUT, "dropout")->dropout.rate = rate;
}

void models_activation(struct job *job, enum activation activation)
{
    add(job, LAYER_ACTIVATION, "activation")->activation.activation = activation;
}

struct job_layer *models_conv2d(struct job *job, uint32_t filters, uint32_t height, uint32_t width,
                                enum activation activation)
{
    struct job_layer *l = add(job, LAYER_CONV2D, "conv2d");
    l->conv2d.filters = filters;
    l->conv2d.kernel_size[0] = height;
    l->conv2d.kernel_size[1] = width;
    l->conv2d.strides[0] = l->conv2d.strides[1] = l->conv2d.dilation_rate[0] =
        l->conv2d.dilation_rate[1] = 1;
    l->conv2d.activation = activation;
    l->use_bias = true;
    l->kernel.initializer = INIT_GLOROT_UNIFORM;
    l->bias.initializer = INIT_ZEROS;
    return l;
}

struct job_layer *models_pooling(struct job *job, enum layer_kind kind, uint32_t size,
                                 uint32_t stride)
{
    struct job_layer *l = add(job, kind, "pooling");
    l->pooling2d.pool_size[0] = l->pooling2d.pool_size[1] = size;
    l->pooling2d.strides[0] = l->pooling2d.strides[1] = stride;
    return l;
}

void models_reshape(struct job *job, uint32_t height, uint32_t width, uint32_t channels)
{
    struct job_layer *l = add(job, LAYER_RESHAPE, "reshape");
    l->reshape.rank = 3;
    l->reshape.shape[0] = height;
    l->reshape.shape[1] = width;
    l->reshape.shape[2] = channels;
}

void models_metric(struct job *job, enum metric_kind metric)
{
    job->model.metric[job->model.metrics++] = job_metric_of(metric);
}

void models_read(struct job *job, uint32_t a, uint32_t b)
{
    struct job_layer *l = &job->model.layer[job->model.layers - 1];
    bool merges = l->kind == LAYER_ADD || l->kind == LAYER_CONCATENATE;
    l->inputs = merges ? 2 : 1;
    l->input[0] = a;
    l->input[1] = b;
}

void models_head_reads(struct job *job, uint32_t inputs, const uint32_t *input)
{
    struct job_head *h = &job->model.head[job->model.heads - 1];
    h->inputs = inputs;
    memcpy(h->input, input, inputs * sizeof *input);
}

void models_merge(struct job *job, enum layer_kind kind, uint32_t a, uint32_t b)
{
    (void)add(job, kind, kind == LAYER_ADD ? "add" : "concatenate");
    models_read(job, a, b);
}

struct job_layer *models_normalization(struct job *job, enum layer_kind kind)
{
    struct job_layer *l = add(job, kind, "normalization");
    l->normalization.momentum = 0.99f;
    l->normalization.epsilon = 1e-3f;
    l->normalization.center = l->normalization.scale = true;
    return l;
}

struct job_layer *models_slope(struct job *job, enum layer_kind kind, float alpha)
{
    struct job_layer *l = add(job, kind, "slope");
    if (kind == LAYER_LEAKY_RELU)
        l->leaky_relu.negative_slope = alpha;
    else if (kind == LAYER_ELU)
        l->elu.alpha = alpha;
    return l;
}

void models_embedding(struct job *job, uint32_t input_dim, uint32_t output_dim)
{
    struct job_layer *l = add(job, LAYER_EMBEDDING, "embedding");
    l->embedding.input_dim = input_dim;
    l->embedding.output_dim = output_dim;
}

/* ---- tables ---- */

/* `was` with room for n; a test ends without memory. */
static void *grown(void *was, size_t n, size_t size)
{
    void *is = mem_resize(was, n, size);
    assert(is);
    return is;
}

uint32_t models_table(struct job *job, uint32_t dim, uint32_t list)
{
    struct job_table *t = &job->model.table[job->model.tables];
    *t = (struct job_table){.dim = dim, .list = list};
    (void)snprintf(t->name, sizeof t->name, "table_%u", job->model.tables);
    t->init = (struct job_weights){
        .initializer = INIT_RANDOM_UNIFORM, .init_value = 0.05f, .init_other = -0.05f};
    if (list == job->model.lists)
        job->model.lists++;
    return job->model.tables++;
}

struct job_layer *models_lookup(struct job *job, enum layer_kind kind, uint32_t table,
                                uint32_t lookups)
{
    struct job_layer *l = add(job, kind, "lookup");
    uint32_t first = job->model.lookups;
    job->model.lookup = grown(job->model.lookup, first + lookups, sizeof *job->model.lookup);
    for (uint32_t i = 0; i < lookups; i++)
        job->model.lookup[first + i] = (struct job_lookup){job->model.table[table].list, first + i};
    job->model.lookups += lookups;
    l->table = table;
    l->first_lookup = first;
    l->lookups = lookups;
    return l;
}

void models_columns(struct job *job, uint32_t columns, uint32_t width)
{
    struct job_csv *csv = &job->data.csv;
    csv->column = grown(NULL, columns, sizeof *csv->column);
    csv->columns = columns;
    for (uint32_t i = 0; i < columns; i++)
        csv->column[i] =
            (struct job_column){.kind = COLUMN_CATEGORY, .feature = i * width, .width = width};
}

void models_select(struct job *job, uint32_t columns, const uint32_t *column)
{
    struct job_layer *l = &job->model.layer[job->model.layers - 1];
    uint32_t first = 0;
    for (uint32_t i = 0; i < job->model.selections; i++)
        first += job->model.selection[i].columns;
    job->model.selected = grown(job->model.selected, first + columns, sizeof *column);
    memcpy(job->model.selected + first, column, columns * sizeof *column);
    job->model.selection[job->model.selections] = (struct job_selection){first, columns};
    l->input[l->inputs++] = JOB_INPUT_SELECTION + job->model.selections++;
}

void models_close(struct job *job)
{
    mem_free(job->model.lookup);
    mem_free(job->model.selected);
    mem_free(job->data.csv.column);
}
