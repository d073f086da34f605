#include "tests/lib/reference.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A layer's output: (rows, outer, cols) */
struct plane {
    uint32_t rows, outer, cols;
    double v[REFERENCE_ROWS_MAX * REFERENCE_WIDTH_MAX];
};

const double *reference_tensor(const struct layout *l, const double *w, const char *layer,
                               const char *what)
{
    char name[TENSOR_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s/%s", layer, what);
    for (uint32_t i = 0; i < l->tensors; i++)
        if (!strcmp(l->tensor[i].name, name))
            return w + l->tensor[i].offset_elems;
    return NULL;
}

/* ---- activations ---- */

static double activate_one(enum activation a, double alpha, double v)
{
    switch (a) {
    case ACT_RELU:
        return v > 0 ? v : 0;
    case ACT_SIGMOID:
        return 1 / (1 + exp(-v));
    case ACT_TANH:
        return tanh(v);
    case ACT_LEAKY_RELU:
        return v > 0 ? v : alpha * v;
    case ACT_ELU:
        return v > 0 ? v : alpha * expm1(v);
    case ACT_SELU:
        return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * expm1(v));
    case ACT_GELU:
        return 0.5 * v * (1 + erf(v / sqrt(2)));
    case ACT_GELU_TANH:
        return 0.5 * v * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
    case ACT_SILU:
        return v / (1 + exp(-v));
    case ACT_SOFTPLUS:
        return log1p(exp(v));
    case ACT_LINEAR:
    case ACT_SOFTMAX:
        break;
    }
    return v;
}

static void softmax(double *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i] = exp(v[i]);
    for (uint32_t i = 0; i < n; i++)
        v[i] /= sum;
}

static void activate(enum activation a, double alpha, struct plane *p)
{
    for (uint32_t i = 0; i < p->rows * p->outer; i++)
        if (a == ACT_SOFTMAX)
            softmax(p->v + i * p->cols, p->cols);
    for (uint32_t i = 0; i < p->rows * p->outer * p->cols; i++)
        p->v[i] = activate_one(a, alpha, p->v[i]);
}

/* ---- layers ---- */

/* Of an activation that is named, without options. */
static double slope_of(enum activation a)
{
    return a == ACT_LEAKY_RELU ? 0.2 : 1;
}

/* Value i of n, `step` apart: by their own mean and variance, then gamma and beta. */
static void normalize(double *v, uint32_t n, uint32_t step, double epsilon, const double *gamma,
                      const double *beta, uint32_t each)
{
    double mean = 0, variance = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += v[i * step] / n;
    for (uint32_t i = 0; i < n; i++)
        variance += (v[i * step] - mean) * (v[i * step] - mean) / n;
    for (uint32_t i = 0; i < n; i++) {
        double hat = (v[i * step] - mean) / sqrt(variance + epsilon);
        v[i * step] = hat * (gamma ? gamma[i * each] : 1) + (beta ? beta[i * each] : 0);
    }
}

/* A frozen batch normalization: with its moving averages. */
static void normalize_frozen(const struct job_layer *l, const struct layout *lay, const double *w,
                             struct plane *p, const double *gamma, const double *beta)
{
    const double *mean = reference_tensor(lay, w, l->name, "moving_mean");
    const double *variance = reference_tensor(lay, w, l->name, "moving_variance");
    for (uint32_t i = 0; i < p->rows * p->outer * p->cols; i++) {
        uint32_t c = i % p->cols;
        double hat = (p->v[i] - mean[c]) / sqrt(variance[c] + (double)l->normalization.epsilon);
        p->v[i] = hat * (gamma ? gamma[c] : 1) + (beta ? beta[c] : 0);
    }
}

static void normalization(const struct job_layer *l, const struct layout *lay, const double *w,
                          struct plane *p)
{
    const double *gamma = reference_tensor(lay, w, l->name, "gamma");
    const double *beta = reference_tensor(lay, w, l->name, "beta");
    uint32_t rows = p->rows * p->outer;
    double epsilon = (double)l->normalization.epsilon;
    if (l->kind == LAYER_BATCH_NORMALIZATION && !l->trainable)
        normalize_frozen(l, lay, w, p, gamma, beta);
    else if (l->kind == LAYER_LAYER_NORMALIZATION)
        for (uint32_t r = 0; r < rows; r++)
            normalize(p->v + r * p->cols, p->cols, 1, epsilon, gamma, beta, 1);
    else
        for (uint32_t c = 0; c < p->cols; c++)
            normalize(p->v + c, rows, p->cols, epsilon, gamma ? gamma + c : NULL,
                      beta ? beta + c : NULL, 0);
}

static void embedding(const struct job_layer *l, const struct layout *lay, const double *w,
                      struct plane *out, const struct plane *in)
{
    const double *table = reference_tensor(lay, w, l->name, "embeddings");
    out->outer = in->outer * in->cols;
    out->cols = l->embedding.output_dim;
    for (uint32_t r = 0; r < in->rows * out->outer; r++)
        memcpy(out->v + r * out->cols, table + (uint32_t)in->v[r] * out->cols,
               out->cols * sizeof *out->v);
}

static void dense(const struct job_layer *l, const struct layout *lay, const double *w,
                  struct plane *out, const struct plane *in)
{
    const double *kernel = reference_tensor(lay, w, l->name, "kernel");
    const double *bias = reference_tensor(lay, w, l->name, "bias");
    out->cols = l->dense.units;
    for (uint32_t r = 0; r < in->rows * in->outer; r++)
        for (uint32_t o = 0; o < l->dense.units; o++) {
            double sum = bias ? bias[o] : 0;
            for (uint32_t i = 0; i < in->cols; i++)
                sum += in->v[r * in->cols + i] * kernel[i * l->dense.units + o];
            out->v[r * l->dense.units + o] = sum;
        }
    activate(l->dense.activation, slope_of(l->dense.activation), out);
}

/* ---- tables ---- */

/* out (dim) += the bag of row r in a lookup: sum w v; / sum w; / sqrt(sum w^2) */
static void bag(double *out, const struct lookup_column *c, uint32_t r, const double *table,
                uint32_t dim, enum bag_mode mode)
{
    double sum[REFERENCE_WIDTH_MAX] = {0}, norm = 0;
    uint32_t places = c->count ? c->count[r] : c->width;
    for (uint32_t p = r * c->width; p < r * c->width + places; p++) {
        double weight = c->weight ? (double)c->weight[p] : 1;
        if (c->at[p] == LOOKUP_NONE || (mode != BAG_SUM && weight <= 0))
            continue;
        norm += mode == BAG_MEAN ? weight : weight * weight;
        for (uint32_t i = 0; i < dim; i++)
            sum[i] += weight * table[c->at[p] * dim + i];
    }
    for (uint32_t i = 0; i < dim; i++)
        if (mode == BAG_SUM)
            out[i] += sum[i];
        else if (norm > 0)
            out[i] += sum[i] / (mode == BAG_MEAN ? norm : sqrt(norm));
}

static void lookups(const struct job *job, const struct job_layer *l, const struct layout *lay,
                    const double *w, const struct reference_rows *rows, struct plane *out)
{
    uint32_t dim = job->model.table[l->table].dim;
    bool side_by_side = l->kind != LAYER_LINEAR;
    enum bag_mode mode = l->kind == LAYER_EMBEDDING_BAG ? l->embedding_bag.mode : BAG_SUM;
    const double *bias = reference_tensor(lay, w, l->name, "bias");
    out->outer = 1;
    out->cols = side_by_side ? l->lookups * dim : dim;
    for (uint32_t r = 0; r < out->rows; r++) {
        double *row = out->v + r * out->cols;
        for (uint32_t i = 0; i < out->cols; i++)
            row[i] = bias ? bias[i] : 0;
        for (uint32_t k = 0; k < l->lookups; k++)
            bag(row + (side_by_side ? k * dim : 0), &rows->keys->column[l->first_lookup + k], r,
                rows->w[l->table], dim, mode);
    }
}

/* ---- inputs ---- */

static void selection(const struct job *job, uint32_t which, struct plane *out,
                      const struct plane *x)
{
    const struct job_selection *s = &job->model.selection[which];
    *out = (struct plane){.rows = x->rows, .outer = 1};
    for (uint32_t i = 0; i < s->columns; i++)
        out->cols += job->data.csv.column[job->model.selected[s->first + i]].width;
    for (uint32_t r = 0, at = 0; r < x->rows; r++)
        for (uint32_t i = 0; i < s->columns; i++) {
            const struct job_column *c = &job->data.csv.column[job->model.selected[s->first + i]];
            for (uint32_t f = 0; f < c->width; f++)
                out->v[at++] = x->v[r * x->cols + c->feature + f];
        }
}

static void add(struct plane *out, const struct plane *other)
{
    for (uint32_t i = 0; i < out->rows * out->outer * out->cols; i++)
        out->v[i] += other->v[i];
}

static void concatenate(struct plane *out, const struct plane *const *in, uint32_t inputs)
{
    out->cols = 0;
    for (uint32_t k = 0; k < inputs; k++)
        out->cols += in[k]->cols;
    for (uint32_t r = 0, at = 0; r < out->rows * out->outer; r++)
        for (uint32_t k = 0; k < inputs; k++)
            for (uint32_t i = 0; i < in[k]->cols; i++)
                out->v[at++] = in[k]->v[r * in[k]->cols + i];
}

/* The single input of a layer for which several are named. */
static const struct plane *const *side_by_side(const struct job_layer *l,
                                               const struct plane *const *in)
{
    static struct plane joined;
    static const struct plane *one[] = {&joined};
    if (l->inputs < 2 || l->kind == LAYER_ADD || l->kind == LAYER_CONCATENATE)
        return in;
    joined = *in[0];
    concatenate(&joined, in, l->inputs);
    return one;
}

static void layer(const struct job_layer *l, const struct layout *lay, const double *w,
                  struct plane *out, const struct plane *const *in)
{
    *out = *in[0];
    switch (l->kind) {
    case LAYER_FLATTEN:
        out->cols *= out->outer;
        out->outer = 1;
        return;
    case LAYER_DENSE:
        dense(l, lay, w, out, in[0]);
        return;
    case LAYER_ACTIVATION:
        activate(l->activation.activation, slope_of(l->activation.activation), out);
        return;
    case LAYER_LEAKY_RELU:
        activate(ACT_LEAKY_RELU, (double)l->leaky_relu.negative_slope, out);
        return;
    case LAYER_ELU:
        activate(ACT_ELU, (double)l->elu.alpha, out);
        return;
    case LAYER_GELU:
        activate(l->gelu.approximate ? ACT_GELU_TANH : ACT_GELU, 0, out);
        return;
    case LAYER_BATCH_NORMALIZATION:
    case LAYER_LAYER_NORMALIZATION:
        normalization(l, lay, w, out);
        return;
    case LAYER_EMBEDDING:
        embedding(l, lay, w, out, in[0]);
        return;
    case LAYER_ADD:
        for (uint32_t k = 1; k < l->inputs; k++)
            add(out, in[k]);
        return;
    case LAYER_CONCATENATE:
        concatenate(out, in, l->inputs);
        return;
    case LAYER_DROPOUT:
        return;
    default: /* images have references of their own */
        assert(0);
    }
}

/* ---- losses: Keras's formulas on probabilities or outputs ---- */

static double loss_of(const struct job_head *h, double *v, uint32_t n, double label)
{
    switch (h->loss) {
    case LOSS_SPARSE_CATEGORICAL_CROSSENTROPY:
        if (h->from_logits)
            softmax(v, n);
        return -log(v[(int)label]);
    case LOSS_BINARY_CROSSENTROPY:
        if (h->from_logits)
            v[0] = activate_one(ACT_SIGMOID, 0, v[0]);
        return -label * log(v[0]) - (1 - label) * log(1 - v[0]);
    case LOSS_MEAN_SQUARED_ERROR:
        return (v[0] - label) * (v[0] - label);
    case LOSS_MEAN_ABSOLUTE_ERROR:
        return fabs(v[0] - label);
    }
    return NAN;
}

static double penalty_of(const struct layout *lay, const double *w, const struct job_layer *l,
                         const char *what, double l1, double l2)
{
    double sum = 0;
    char name[TENSOR_NAME_MAX];
    (void)snprintf(name, sizeof name, "%s/%s", l->name, what);
    for (uint32_t i = 0; i < lay->tensors; i++)
        for (uint64_t k = 0; !strcmp(lay->tensor[i].name, name) && k < lay->tensor[i].elems; k++) {
            double v = w[lay->tensor[i].offset_elems + k];
            sum += l1 * fabs(v) + l2 * v * v;
        }
    return sum;
}

/* Of the rows that are looked up, each once. */
static double penalty_of_rows(const struct job *job, const struct reference_rows *rows)
{
    double sum = 0;
    for (uint32_t t = 0; rows && t < job->model.tables; t++) {
        const struct job_table *table = &job->model.table[t];
        uint32_t floats = rows->keys->list[table->list].keys * table->dim;
        for (uint32_t i = 0; i < floats; i++) {
            double v = rows->w[t][i];
            sum += (double)table->init.l1 * fabs(v) + (double)table->init.l2 * v * v;
        }
    }
    return sum;
}

static double class_weight_of(const struct job_head *h, double label)
{
    for (uint32_t i = 0; i < h->class_weights; i++)
        if (h->class_weight[i].label == (uint32_t)label)
            return (double)h->class_weight[i].weight;
    return 1;
}

/* The weighted loss of a head over all rows. y, present: its first column of `columns`. */
static double head_loss(const struct job_head *h, struct plane *z, const float *y,
                        const uint8_t *present, uint32_t columns)
{
    double sum = 0;
    uint32_t cols = z->cols / h->labels;
    for (uint32_t r = 0; r < z->rows; r++)
        for (uint32_t k = 0; k < h->labels; k++) {
            double label = (double)y[r * columns + k];
            if (!h->masked || present[r * columns + k])
                sum += loss_of(h, z->v + r * z->cols + k * cols, cols, label) *
                       class_weight_of(h, label);
        }
    return sum * (double)h->weight / h->labels;
}

static double loss_of_heads(const struct job *job, const struct plane *plane, const float *y,
                            const uint8_t *present)
{
    double sum = 0;
    uint32_t columns = 0, first = 0;
    for (uint32_t i = 0; i < job->model.heads; i++)
        columns += job->model.head[i].labels;
    for (uint32_t i = 0; i < job->model.heads; i++) {
        const struct job_head *h = &job->model.head[i];
        const struct plane *in[JOB_INPUTS_MAX] = {&plane[job->model.layers]};
        static struct plane z;
        for (uint32_t k = 0; k < h->inputs; k++)
            in[k] = &plane[h->input[k]];
        z = *in[0];
        if (h->inputs > 1)
            concatenate(&z, in, h->inputs);
        sum += head_loss(h, &z, y + first, present + first, columns);
        first += h->labels;
    }
    return sum;
}

double reference_loss(const struct job *job, const struct layout *lay, const double *w,
                      const struct reference_rows *rows, const float *x, const float *y,
                      const uint8_t *present, uint32_t n)
{
    static struct plane plane[JOB_LAYERS_MAX + 1];
    uint32_t rank = job->model.rank, outer = 1;
    for (uint32_t i = 0; i + 1 < rank; i++)
        outer *= job->model.shape[i];
    plane[0] = (struct plane){.rows = n, .outer = outer, .cols = job->model.shape[rank - 1]};
    assert(n <= REFERENCE_ROWS_MAX && outer * plane[0].cols <= REFERENCE_WIDTH_MAX);
    for (uint32_t i = 0; i < n * outer * plane[0].cols; i++)
        plane[0].v[i] = (double)x[i];
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        const struct plane *in[JOB_INPUTS_MAX] = {&plane[i]};
        static struct plane selected[JOB_INPUTS_MAX];
        for (uint32_t k = 0; k < l->inputs; k++)
            if (l->input[k] >= JOB_INPUT_SELECTION) {
                selection(job, l->input[k] - JOB_INPUT_SELECTION, &selected[k], &plane[0]);
                in[k] = &selected[k];
            } else {
                in[k] = &plane[l->input[k]];
            }
        plane[i + 1].rows = n;
        if (l->lookups)
            lookups(job, l, lay, w, rows, &plane[i + 1]);
        else
            layer(l, lay, w, &plane[i + 1], side_by_side(l, in));
        assert(plane[i + 1].outer * plane[i + 1].cols <= REFERENCE_WIDTH_MAX);
    }
    double sum = loss_of_heads(job, plane, y, present);
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        if (!l->trainable)
            continue;
        sum += n * penalty_of(lay, w, l, "kernel", (double)l->kernel.l1, (double)l->kernel.l2);
        sum += n * penalty_of(lay, w, l, "bias", (double)l->bias.l1, (double)l->bias.l2);
    }
    return sum + n * penalty_of_rows(job, rows);
}
