/* One thread's pass through the model: forward, loss, backward. */
#include "model/model.h"

#include <assert.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "model/loss.h"
#include "common/math/bins.h"
#include "model/metric.h"

struct model_run {
    const struct model *m;
    uint32_t rows_max;
    float *slot[SLOTS_MAX]; /* values and gradients, as planned by flow.c */
    void *state[OPS_MAX];   /* the state that an op's forward leaves to its backward */
    float *work;            /* scratch memory of the running op; NULL: none needs any */
    float *scratch;         /* (2, rows_max, labels of a head), for the loss */
    float *label, *weight;  /* (rows_max, labels of a head), where they are not the examples' own */
    const float *value[OPS_MAX + 1]; /* from the last forward */
    struct op_fault fault;
    uint16_t *marks; /* model_run_mark */
};

/* ---- buffers ---- */

static size_t widest(const struct model *m)
{
    size_t most = m->features;
    for (uint32_t i = 0; i < m->slots; i++)
        most = m->slot_elems[i] > most ? m->slot_elems[i] : most;
    return most;
}

static bool alloc_work(struct model_run *r)
{
    size_t most = 0;
    for (uint32_t i = 0; i < r->m->ops; i++) {
        const struct op *op = &r->m->op[i];
        size_t elems = op->type->work_elems ? op->type->work_elems(op) : 0;
        most = elems > most ? elems : most;
    }
    return most == 0 || (r->work = mem_floats(most));
}

static size_t most_labels(const struct model *m)
{
    size_t most = 0;
    for (uint32_t h = 0; h < m->heads; h++)
        most = m->head[h].labels > most ? m->head[h].labels : most;
    return most;
}

static bool alloc_all(struct model_run *r)
{
    const struct model *m = r->m;
    for (uint32_t s = 0; s < m->slots; s++)
        if (!(r->slot[s] = mem_floats(r->rows_max * m->slot_elems[s])))
            return false;
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op_type *type = m->op[i].type;
        size_t bytes = type->state_bytes ? type->state_bytes(&m->op[i], r->rows_max) : 0;
        if (bytes && !(r->state[i] = mem_floats(bytes / sizeof(float) + 1)))
            return false;
    }
    const size_t labels = r->rows_max * most_labels(m);
    r->scratch = mem_floats(2 * labels);
    r->label = mem_floats(labels);
    r->weight = mem_floats(labels);
    return r->scratch && r->label && r->weight && alloc_work(r);
}

enum err model_run_new(struct model_run **out, const struct model *m, uint32_t rows_max,
                       struct errmsg *e)
{
    if (rows_max * (uint64_t)widest(m) > INT32_MAX) /* BLAS counts in int, dropout in 32 bits */
        return err_set(e, ERR_INPUT,
                       "training.batch_size: %u rows of %zu elements at a time are too many",
                       rows_max, widest(m));
    struct model_run *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_memory_of(e, "model");
    r->m = m;
    r->rows_max = rows_max;
    if (!alloc_all(r)) {
        model_run_free(r);
        return err_set(e, ERR_NOMEM, "model: no memory for the activations of %u rows", rows_max);
    }
    *out = r;
    return ERR_OK;
}

void model_run_free(struct model_run *r)
{
    if (!r)
        return;
    for (uint32_t s = 0; s < SLOTS_MAX; s++)
        mem_free(r->slot[s]);
    for (uint32_t i = 0; i < OPS_MAX; i++)
        mem_free(r->state[i]);
    mem_free(r->work);
    mem_free(r->scratch);
    mem_free(r->label);
    mem_free(r->weight);
    mem_free(r);
}

enum err model_run_fault(const struct model_run *r, struct errmsg *e)
{
    return r->fault.err ? err_set(e, r->fault.err, "%s", r->fault.why.text) : ERR_OK;
}

const float *model_run_outputs(const struct model_run *r, uint32_t head)
{
    return r->value[r->m->head[head].value];
}

/* ---- the weights of a trained model ---- */

struct packed {
    const float *w;
    float *of[OPS_MAX];
};

static bool packed_fill(struct packed *p, const struct model *m)
{
    for (uint32_t i = 0; i < m->ops; i++) {
        const struct op *op = &m->op[i];
        if (!op->type->pack)
            continue;
        p->of[i] = mem_floats(op->type->packed_elems(op));
        if (!p->of[i])
            return false;
        op->type->pack(op, p->of[i], p->w);
    }
    return true;
}

enum err packed_new(struct packed **out, const struct model *m, const float *w, struct errmsg *e)
{
    struct packed *p = mem_zalloc(1, sizeof *p);
    if (p)
        p->w = w;
    if (!p || !packed_fill(p, m)) {
        packed_free(p);
        return err_set(e, ERR_NOMEM, "model: no memory for a copy of its weights");
    }
    *out = p;
    return ERR_OK;
}

void packed_free(struct packed *p)
{
    for (uint32_t i = 0; p && i < OPS_MAX; i++)
        mem_free(p->of[i]);
    mem_free(p);
}

/* ---- forward ---- */

/* Make the pass of op i, without the gradient by an input; *p has the members that are the same for all ops. */
static struct op_pass pass_of(struct model_run *r, uint32_t i, const struct op_pass *p)
{
    const struct op *op = &r->m->op[i];
    struct op_pass of = *p;
    of.rows = p->n * op->outer;
    of.range = r->m->range;
    of.key = rng_u64(p->key, i);
    of.y = r->slot[op->y];
    of.state = r->state[i];
    of.work = r->work;
    of.fault = &r->fault;
    for (uint32_t k = 0; k < op->inputs; k++)
        of.x[k] = r->value[op->input[k]];
    return of;
}

static void forward_op(struct model_run *r, uint32_t i, const struct op_pass *p)
{
    const struct op_pass of = pass_of(r, i, p);
    r->value[i + 1] = of.y;
    r->m->op[i].type->forward(&r->m->op[i], &of);
}

/* w: NULL: in training and evaluation. */
static void run_forward(struct model_run *r, const float *x, const struct packed *w,
                        const struct op_pass *p)
{
    r->value[0] = x;
    for (uint32_t i = 0; i < r->m->ops; i++) {
        struct op_pass of = *p;
        of.packed = w ? w->of[i] : NULL;
        forward_op(r, i, &of);
    }
}

/* ---- loss and metrics ---- */

static bool is_absent(const struct head *h, const struct leaf *of, uint32_t columns, size_t i)
{
    size_t row = i / h->labels, column = h->first_label + i % h->labels;
    return h->masked && of->present && !of->present[row * columns + column];
}

/* The head's labels, 0 where they are absent. */
static const float *labels_of(struct model_run *r, const struct head *h, const struct leaf *of)
{
    const uint32_t columns = r->m->labels;
    if (h->labels == columns && !h->masked)
        return of->y;
    for (size_t i = 0; i < (size_t)of->n * h->labels; i++)
        r->label[i] = is_absent(h, of, columns, i)
                          ? 0.0f
                          : of->y[i / h->labels * columns + h->first_label + i % h->labels];
    return r->label;
}

/* The weights of the head's labels, times `factor` and the weights of their classes y; NULL: all 1. */
static const float *weights_of(struct model_run *r, const struct head *h, const struct leaf *of,
                               const float *y, const float *class_weight, float factor)
{
    bool two = job_loss_labels(h->loss) == LABELS_TWO_CLASSES;
    if (!class_weight && factor == 1.0f && !h->masked && (h->labels == 1 || !of->weight))
        return of->weight;
    for (size_t i = 0; i < (size_t)of->n * h->labels; i++) {
        float weight = class_weight ? class_weight[two ? y[i] > 0.5f : (size_t)y[i]] : 1.0f;
        weight = of->weight ? of->weight[i / h->labels] * weight : weight;
        r->weight[i] = is_absent(h, of, r->m->labels, i) ? 0.0f : weight * factor;
    }
    return r->weight;
}

static struct outputs outputs_of(const struct model_run *r, const struct head *h, size_t n)
{
    return (struct outputs){.head = h,
                            .n = n * h->labels,
                            .cols = head_cols(h),
                            .z = r->value[h->value],
                            .scratch = r->scratch};
}

/* Add a head's loss and metrics. The gradient by z goes to the slot where the op that made z expects it, to those of earlier
 * heads. */
static void score_head(struct model_run *r, uint32_t i, const struct leaf *of, bool by_class,
                       struct sums *sums)
{
    const struct head *h = &r->m->head[i];
    float *dz = r->slot[h->dz.slot], *sum = h->dz.sum == SLOT_NONE ? NULL : r->slot[h->dz.sum];
    struct outputs o = outputs_of(r, h, of->n);
    o.y = labels_of(r, h, of);
    o.weight =
        weights_of(r, h, of, o.y, by_class ? h->class_weight : NULL, h->weight / (float)h->labels);
    sums->loss += loss_add(dz, &o);
    if (sum)
        kernels()->add(sum, sum, dz, o.n * o.cols);
    o.weight = weights_of(r, h, of, o.y, NULL, 1.0f);
    metric_add(sums->metric, r->m, i, &o);
}

static void score(struct model_run *r, const struct leaf *of, bool by_class, struct sums *sums)
{
    sums->examples += of->n;
    for (uint32_t i = 0; i < r->m->heads; i++)
        score_head(r, i, of, by_class, sums);
}

bool model_is_progressive(const struct model *m)
{
    return m->progressive > 0;
}

void model_run_mark(struct model_run *r, uint16_t *marks)
{
    r->marks = marks;
}

/* A cross-entropy of two classes works on logits. */
static void mark(const struct model_run *r, const struct leaf *of, struct sums *sums)
{
    const float *z = r->value[r->m->head[0].value];
    for (uint32_t i = 0; i < of->n && r->marks; i++)
        r->marks[i] = bins_mark(z[i], of->y[i]);
    sums->metric[r->m->progressive - 1] = sums->metric[r->m->error_sum] = NAN;
}

uint32_t metric_scores(struct model_run *r, uint32_t head, uint32_t label, const struct leaf *of,
                       struct scored *out)
{
    const struct head *h = &r->m->head[head];
    const float *y = labels_of(r, h, of), *weight = weights_of(r, h, of, y, NULL, 1.0f);
    const float *z = r->value[h->value];
    uint32_t n = 0;
    for (size_t i = label; i < (size_t)of->n * h->labels; i += h->labels)
        if (!is_absent(h, of, r->m->labels, i))
            out[n++] = (struct scored){z[i], weight ? weight[i] : 1.0f, y[i] > 0.5f};
    return n;
}

/* ---- backward ---- */

/* dy becomes the gradient by input k, or that is computed from it. */
static void backward_op(struct model_run *r, uint32_t i, uint32_t k, const struct op_pass *p)
{
    const struct op *op = &r->m->op[i];
    struct op_pass of = pass_of(r, i, p);
    of.input = k;
    of.dx = op->dx[k].slot == SLOT_NONE ? NULL : r->slot[op->dx[k].slot];
    of.dy = r->slot[op->dy];
    of.dw = op_is_frozen(op) ? NULL : p->dw;
    op->type->backward(op, &of);
}

/* The gradient by tensors [first, end) is 0. */
static void zero_tensors(const struct model *m, uint32_t first, uint32_t end, float *dw)
{
    for (uint32_t i = first; i < end; i++) {
        const struct tensor *t = &m->layout.tensor[i];
        memset(dw + t->offset_elems, 0, t->elems * sizeof *dw);
    }
}

/* Add input k's gradient to those of other readers of the same value. */
static void join(struct model_run *r, const struct op *op, uint32_t k, size_t n)
{
    const struct op_gradient *dx = &op->dx[k];
    if (dx->sum == SLOT_NONE)
        return;
    float *sum = r->slot[dx->sum];
    kernels()->add(sum, sum, r->slot[dx->slot], n * op_out_elems(&r->m->op[op->input[k] - 1]));
}

static void run_backward(struct model_run *r, const struct op_pass *p, model_ready *ready,
                         void *ctx)
{
    const struct model *m = r->m;
    for (uint32_t i = m->ops; i-- > 0;) {
        const struct op *op = &m->op[i];
        if (op->backward && op->inputs == 0)
            backward_op(r, i, 0, p);
        for (uint32_t k = op->inputs; op->backward && k-- > 0;) {
            backward_op(r, i, k, p);
            join(r, op, k, p->n);
        }
        if (op_is_frozen(op))
            zero_tensors(m, op->tensor, op->tensor + op->tensors, p->dw);
        regularizer_backward(m, op, p->dw, p->w, (float)p->n);
        if (!op->tensors || !ready)
            continue;
        uint64_t begin =
            m->layout.tensor[op->tensor].offset_elems; /* gaps are reported with the tensors */
        ready(ctx, begin, layout_end(&m->layout, op->tensor + op->tensors - 1) - begin);
    }
    lookup_backward_rows(m, r->slot, p);
    regularizer_backward_rows(m, p);
}

/* ---- a single op ---- */

void run_op_forward(struct model_run *r, uint32_t i, const float *w, uint32_t n)
{
    const struct op_pass p = {.w = w, .n = n, .train = true};
    forward_op(r, i, &p);
}

void run_op_backward(struct model_run *r, uint32_t i, const float *w, uint32_t n, float *dw)
{
    const struct op_pass p = {.w = w, .n = n, .train = true, .dw = dw};
    backward_op(r, i, 0, &p);
}

/* ---- the whole model ---- */

void model_train(struct model_run *r, const float *w, const struct leaf *of, uint64_t key,
                 float *dw, struct sums *sums, model_ready *ready, void *ctx)
{
    uint32_t n = of->n;
    assert(n <= r->rows_max);
    if (n == 0) {
        zero_tensors(r->m, 0, r->m->layout.tensors, dw);
        if (ready)
            ready(ctx, 0, r->m->layout.elems);
        return;
    }
    const struct op_pass p = {
        .w = w, .n = n, .train = true, .key = key, .keys = of->keys, .table = of->rows, .dw = dw};
    run_forward(r, of->x, NULL, &p);
    /* no range is reported, because a gradient of invalid data must not be used */
    if (r->fault.err)
        return;
    score(r, of, true, sums);
    if (r->m->progressive)
        mark(r, of, sums);
    sums->loss += n * model_penalty(r->m, w) + regularizer_rows(r->m, &p);
    run_backward(r, &p, ready, ctx);
}

void model_eval(struct model_run *r, const float *w, const struct leaf *of, struct sums *sums)
{
    assert(of->n <= r->rows_max);
    if (of->n == 0)
        return;
    const struct op_pass p = {.w = w, .n = of->n, .keys = of->keys, .table = of->rows};
    run_forward(r, of->x, NULL, &p);
    score(r, of, false, sums);
}

enum err model_predict(struct model_run *r, const struct packed *w, const struct leaf *of,
                       float *out, struct errmsg *e)
{
    const size_t features = r->m->features;
    r->fault.err = ERR_OK;
    for (uint32_t first = 0; first < of->n; first += r->rows_max) {
        const struct op_pass p = {.w = w->w,
                                  .n = of->n - first < r->rows_max ? of->n - first : r->rows_max,
                                  .first = first,
                                  .keys = of->keys,
                                  .table = of->rows};
        const float *x = of->x ? of->x + first * features : NULL;
        float *to = out;
        run_forward(r, x, w, &p);
        for (uint32_t h = 0; h < r->m->heads; h++) {
            const size_t outputs = r->m->head[h].shape.dim[0];
            const struct outputs o = outputs_of(r, &r->m->head[h], p.n);
            loss_outputs(to + first * outputs, &o);
            to += of->n * outputs;
        }
    }
    return model_run_fault(r, e);
}

void model_look_up(struct model_run *r, const float *w, const struct leaf *of, uint32_t i,
                   float *out)
{
    const struct op_pass p = {.w = w, .n = of->n, .keys = of->keys, .table = of->rows};
    uint32_t op = lookup_op_index(r->m, i);
    if (of->n == 0)
        return;
    struct op_pass one = pass_of(r, op, &p);
    one.y = out;
    r->m->op[op].type->forward(&r->m->op[op], &one);
}
