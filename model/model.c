/* The model: layers become operations, in order. */
#include "model/model.h"

#include <assert.h>
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "model/layers.h"
#include "model/loss.h"
#include "model/metric.h"

/* ---- the input ---- */

static enum err set_input(struct model *m, const struct job *job, struct errmsg *e)
{
    uint64_t elems = 1;
    m->shape.rank = job->model.rank;
    for (uint32_t i = 0; i < job->model.rank; i++) {
        m->shape.dim[i] = job->model.shape[i];
        if (__builtin_mul_overflow(elems, job->model.shape[i], &elems) || elems > INT32_MAX)
            return err_set(e, ERR_INPUT, "model.input.shape: too large");
    }
    if (job_has_tables(job) && (job->model.rank == 0 || elems == 0)) {
        m->shape = (struct shape){.rank = 1}; /* keys only */
        return ERR_OK;
    }
    if (job->model.rank == 0 || elems == 0)
        return err_set(e, ERR_INPUT,
                       "model.input.shape: it has no dimensions, or one of them is 0");
    m->features = (uint32_t)elems;
    return ERR_OK;
}

/* ---- columns of the input, side by side, in the order in which a layer names them ---- */

/* Append the columns' features to the model's ranges, merging adjacent ones. Returns the number of features. */
static uint64_t select_ranges(struct model *m, const struct job *job, const struct job_selection *s)
{
    uint32_t before = m->ranges;
    uint64_t width = 0;
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct job_column *c = &job->data.csv.column[job->model.selected[s->first + i]];
        struct feature_range *last = &m->range[m->ranges - (m->ranges > before)];
        assert((uint64_t)c->feature + c->width <= m->features);
        width += c->width;
        if (m->ranges > before && last->first + last->n == c->feature)
            last->n += c->width;
        else
            m->range[m->ranges++] = (struct feature_range){c->feature, c->width};
    }
    return width;
}

static enum err select_grow(struct model *m, uint32_t more, struct errmsg *e)
{
    struct feature_range *grown = mem_resize(m->range, (size_t)m->ranges + more + 1, sizeof *grown);
    if (!grown)
        return err_memory_of(e, "model");
    m->range = grown;
    return ERR_OK;
}

static enum err select_append(struct model *m, const struct job *job, const struct job_layer *l,
                              uint32_t i, struct errmsg *e)
{
    const struct job_selection *s = &job->model.selection[i];
    assert(i < job->model.selections);
    struct op op = {
        .type = &select_op, .layer = l, .outer = 1, .inputs = 1, .select.first = m->ranges};
    enum err err = select_grow(m, s->columns, e);
    if (err)
        return err;
    uint64_t width = select_ranges(m, job, s);
    if (width == 0 || width > INT32_MAX)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: the columns that it names have no features, or too many",
                       l->name);
    op.select.ranges = m->ranges - op.select.first;
    op.in = m->features;
    op.out = (uint32_t)width;
    m->value = 0;
    if (op.select.ranges > 1 || width != m->features)
        op_append(m, &op);
    m->shape = (struct shape){.rank = 1, .dim = {op.out}};
    return ERR_OK;
}

/* y (n, out) = the ranges of x (n, in) side by side */
static void select_forward(const struct op *op, const struct op_pass *p)
{
    float *y = p->y;
    for (size_t r = 0; r < p->n; r++)
        for (uint32_t i = 0; i < op->select.ranges; i++) {
            const struct feature_range *of = &p->range[op->select.first + i];
            memcpy(y, p->x[0] + r * op->in + of->first, of->n * sizeof *y);
            y += of->n;
        }
}

const struct op_type select_op = {.forward =
                                      select_forward}; /* no gradient by the input is needed */

/* ---- reshape and flatten: rows are contiguous, so there is nothing to compute ---- */

enum err reshape_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    uint64_t before = shape_elems(&m->shape), behind = 1;
    for (uint32_t i = 0; i < l->reshape.rank; i++)
        if (behind == UINT64_MAX || __builtin_mul_overflow(behind, l->reshape.shape[i], &behind))
            behind = UINT64_MAX;
    if (before != behind)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: target_shape has %llu elements, but its input has %llu",
                       l->name, (unsigned long long)behind, (unsigned long long)before);
    m->shape.rank = l->reshape.rank;
    memcpy(m->shape.dim, l->reshape.shape, l->reshape.rank * sizeof *l->reshape.shape);
    return ERR_OK;
}

/* (a, b, ...) -> (a * b * ...) */
enum err flatten_add(struct model *m, const struct job_layer *l, struct errmsg *e)
{
    (void)l, (void)e;
    m->shape = (struct shape){.rank = 1, .dim = {shape_elems(&m->shape)}};
    return ERR_OK;
}

/* ---- the list of layers ---- */

static layer_add *const add[LAYER_KINDS] = {
#define ADD(KIND, name, ...) [LAYER_##KIND] = name##_add,
    JOB_LAYERS(ADD, JOB_NO_LAYER_ALIAS)};

/* Set *out to one input of *l, which is behind i layers: tap[0] is the model's input, tap[j + 1] the output of layer j. */
static enum err find_input(struct model *m, const struct job *job, const struct job_layer *l,
                           uint32_t i, uint32_t input, const struct tap *tap, struct tap *out,
                           struct errmsg *e)
{
    enum err err = ERR_OK;
    if (input >= JOB_INPUT_SELECTION) {
        err = select_append(m, job, l, input - JOB_INPUT_SELECTION, e);
        *out = (struct tap){m->value, m->shape};
        return err;
    }
    if (input > i)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s: its input comes after it: change their order", l->name);
    *out = tap[input];
    if (out->value == 0 && m->features == 0)
        return err_set(e, ERR_INPUT,
                       "model.layers: %s reads the model's input, but the data have only keys: "
                       "name a layer in its inputs, or give the data a number or category column",
                       l->name);
    return ERR_OK;
}

/* Set the inputs of *l, which is behind i layers. Several are put side by side. */
static enum err find_inputs(struct model *m, const struct job *job, const struct job_layer *l,
                            uint32_t i, const struct tap *tap, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (l->lookups)
        return ERR_OK;
    if (l->inputs == 0)
        err = find_input(m, job, l, i, i, tap, &m->from[0], e);
    for (uint32_t k = 0; k < l->inputs && !err; k++)
        err = find_input(m, job, l, i, l->input[k], tap, &m->from[k], e);
    m->value = m->from[0].value;
    m->shape = m->from[0].shape;
    return l->inputs > 1 && !err ? merge_inputs(m, l, e) : err;
}

/* Check that every value reaches a head. */
static enum err check_used(const struct model *m, const struct job *job, struct errmsg *e)
{
    for (uint32_t v = 1; v <= m->ops; v++) {
        const struct job_layer *l = m->op[v - 1].layer;
        if (value_readers(m, v) == 0)
            return job_blame_layer(
                job, (uint32_t)(l - m->layer),
                err_set(e, ERR_INPUT, "model.layers: %s: no layer uses it", l->name), e);
    }
    return ERR_OK;
}

static enum err check_name(const struct model *m, const struct job *job, uint32_t i,
                           struct errmsg *e)
{
    for (uint32_t j = 0; j < i; j++)
        if (!strcmp(m->layer[j].name, job->model.layer[i].name))
            return err_set(e, ERR_INPUT, "model.layers: two layers have the name %s",
                           m->layer[j].name);
    return ERR_OK;
}

static enum err add_one(struct model *m, const struct job *job, uint32_t i, struct tap *tap,
                        struct errmsg *e)
{
    struct job_layer *l = &m->layer[i];
    *l = job->model.layer[i];
    enum err code = check_name(m, job, i, e);
    if (!code)
        code = find_inputs(m, job, l, i, tap, e);
    if (!code)
        code = add[l->kind](m, l, e);
    tap[i + 1] = (struct tap){m->value, m->shape};
    m->layer_shape[i] = m->shape;
    return code;
}

static enum err add_head(struct model *m, const struct job *job, uint32_t i, const struct tap *tap,
                         struct errmsg *e)
{
    const struct job_head *from = &job->model.head[i];
    struct head *h = &m->head[i];
    *h = (struct head){.first_label = m->labels,
                       .labels = from->labels,
                       .masked = from->masked,
                       .weight = from->weight,
                       .loss = from->loss,
                       .reader = {.inputs = from->inputs}};
    (void)snprintf(h->reader.name, sizeof h->reader.name, "head %u", i);
    memcpy(h->reader.input, from->input, sizeof from->input);
    enum err code = find_inputs(m, job, &h->reader, job->model.layers, tap, e);
    h->value = m->value;
    h->shape = m->shape;
    m->labels += h->labels;
    m->heads++;
    return code;
}

/* The plan of the shards needs a flat block, even a small one. */
static enum err refuse_without_tensors(const struct model *m, const struct job *job,
                                       struct errmsg *e)
{
    const char *why =
        m->layout.rows ? "model.layers: only tables, but at least one weight outside them is "
                         "needed: use_bias: true of a linear layer, or a dense layer"
                       : "model.layers: nothing to train: add at least one dense or conv2d layer";
    return job_blame(job, PLACE_LAYERS, err_set(e, ERR_INPUT, "%s", why), e);
}

static enum err refuse_all_frozen(const struct model *m, const struct job *job, struct errmsg *e)
{
    for (uint32_t i = 0; i < m->ops; i++)
        if (op_learns(&m->op[i]))
            return ERR_OK;
    return job_blame(job, PLACE_LAYERS,
                     err_set(e, ERR_INPUT,
                             "model.layers: nothing to train: every layer with weights has "
                             "trainable: false; remove it from at least one of them"),
                     e);
}

static enum err add_layers(struct model *m, const struct job *job, struct errmsg *e)
{
    struct tap tap[JOB_LAYERS_MAX + 1] = {{0, m->shape}};
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < job->model.layers && !code; i++)
        code = job_blame_layer(job, i, add_one(m, job, i, tap, e), e);
    for (uint32_t i = 0; i < job->model.heads && !code; i++)
        code = job_blame(job, PLACE_LOSS, add_head(m, job, i, tap, e), e);
    if (!code && m->layout.tensors == 0)
        return refuse_without_tensors(m, job, e);
    if (!code)
        code = refuse_all_frozen(m, job, e);
    return code ? code : check_used(m, job, e);
}

/* ---- tables ---- */

static struct row_table_spec table_spec(const struct job_table *from)
{
    struct tensor row = {.rank = 1, .shape = {from->dim}};
    weights_init(&row, &from->init);
    struct row_table_spec t = {.dim = from->dim,
                               .list = from->list,
                               .init = row.init,
                               .init_value = row.init_value,
                               .init_center = row.init_center,
                               .has_optimizer = true,
                               .optimizer = from->optimizer,
                               .unseen_steps = from->unseen_steps,
                               .admission = {.min_count = from->min_count,
                                             .initial = from->unadmitted == UNADMITTED_INITIAL}};
    t.admission.probability = from->probability < 1 ? from->probability : 0;
    t.admission.sketch_mb = from->min_count > 1 ? from->sketch_mb : 0;
    static_assert(sizeof t.name == sizeof from->name, "a table's name fits");
    memcpy(t.name, from->name, sizeof t.name);
    return t;
}

static enum err add_row_tables(struct model *m, const struct job *job, struct errmsg *e)
{
    if (!job_has_tables(job))
        return ERR_OK;
    struct row_layout *rows = m->layout.rows = mem_zalloc(1, sizeof *rows);
    if (!rows)
        return err_memory_of(e, "model");
    for (uint32_t i = 0; i < job->model.tables; i++) {
        rows->codecs.push[i] = job->model.table[i].push;
        rows->codecs.reply[i] = job->model.table[i].reply;
        m->row_penalty[i].l1 = job->model.table[i].init.l1;
        m->row_penalty[i].l2 = job->model.table[i].init.l2;
        rows->table[rows->tables++] = table_spec(&job->model.table[i]);
        assert(job->model.table[i].list <= rows->lists); /* list numbers ascend */
        if (job->model.table[i].list == rows->lists)
            rows->lists++;
    }
    assert(rows->lists == job->model.lists);
    return ERR_OK;
}

static void name_blas(struct model *m)
{
    char version[32] = "";
    bool needs = false;
    for (uint32_t i = 0; i < m->ops; i++)
        needs |= m->op[i].blas;
    if (!needs)
        return;
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH .." */
    (void)sscanf(openblas_get_config(), "OpenBLAS %31s", version);
    (void)snprintf(m->blas, sizeof m->blas, "%.24s (OpenBLAS %s)", openblas_get_corename(),
                   version);
}

static enum err build(struct model *m, const struct job *job, struct errmsg *e)
{
    enum err code = job_blame(job, PLACE_INPUT_SHAPE, set_input(m, job, e), e);
    if (!code)
        code = add_row_tables(m, job, e);
    if (!code)
        code = add_layers(m, job, e);
    if (code)
        return code;
    layout_exclude_from_decay(&m->layout, job->decay_exclude);
    code = loss_attach(m, job, e);
    if (code)
        return code;
    conv2d_fuse(m);
    name_blas(m);
    flow_plan(m);
    return job_blame(job, PLACE_METRICS, metric_attach(m, job, e), e);
}

/* ---- the model ---- */

enum err model_new(struct model **out, const struct job *job, struct errmsg *e)
{
    struct model *m = mem_zalloc(1, sizeof *m);
    if (!m)
        return err_memory_of(e, "model");
    enum err code = build(m, job, e);
    if (code) {
        model_free(m);
        return code;
    }
    *out = m;
    return ERR_OK;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    layout_close(&m->layout);
    mem_free(m->range);
    for (uint32_t i = 0; i < m->heads; i++)
        mem_free(m->head[i].class_weight);
    mem_free(m);
}

const struct layout *model_layout(const struct model *m)
{
    return &m->layout;
}

const char *model_blas(const struct model *m)
{
    return m->blas;
}

uint32_t model_features(const struct model *m)
{
    return m->features;
}

uint32_t model_layer_shape(const struct model *m, uint32_t layer, uint32_t dim[TENSOR_RANK_MAX])
{
    memcpy(dim, m->layer_shape[layer].dim, sizeof m->layer_shape[layer].dim);
    return m->layer_shape[layer].rank;
}

uint32_t model_classes(const struct model *m)
{
    return head_classes(&m->head[0]);
}

uint32_t model_labels(const struct model *m)
{
    return m->labels;
}

uint32_t model_outputs(const struct model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->heads; i++)
        n += m->head[i].shape.dim[0];
    return n;
}

/* ---- layers over tables ---- */

uint32_t model_lookups(const struct model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->ops; i++)
        n += m->op[i].lookups > 0;
    return n;
}

uint32_t lookup_op_index(const struct model *m, uint32_t i)
{
    uint32_t op = 0;
    while (m->op[op].lookups == 0 || i-- > 0)
        op++;
    assert(op < m->ops);
    return op;
}

struct model_lookup model_lookup(const struct model *m, uint32_t i)
{
    const struct op *op = &m->op[lookup_op_index(m, i)];
    return (struct model_lookup){op->layer->name, op->out};
}
