/* The drawn digits are hard enough, and not too hard: two models in a loop of their own, which
 * shares nothing with gradwire's training but BLAS and random numbers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { IN = 784, OUT = 10, BATCH = 64, WIDEST = 128, LAYERS_MAX = 2 };

/* Dense layers, relu and dropout between them, softmax at the end. One block each for parameters,
 * gradients and Adam's moments. */
struct net {
    int layers, width[LAYERS_MAX + 1]; /* width[0] = IN, the last = OUT */
    size_t w[LAYERS_MAX], b[LAYERS_MAX], params;
    float *p, *g, *m, *v;
    float *a[LAYERS_MAX + 1], *d[LAYERS_MAX + 1]; /* activations, their gradients: (BATCH, width) */
    float drop;
    uint64_t steps;
};

static void net_init(struct net *n, float drop)
{
    n->drop = drop;
    for (int i = 0; i < n->layers; i++) {
        n->w[i] = n->params;
        n->params += (size_t)n->width[i] * (size_t)n->width[i + 1];
        n->b[i] = n->params;
        n->params += (size_t)n->width[i + 1];
    }
    float **blocks[] = {&n->p, &n->g, &n->m, &n->v};
    for (size_t i = 0; i < 4; i++)
        assert_non_null(*blocks[i] = mem_floats(n->params));
    for (int i = 0; i <= n->layers; i++) {
        assert_non_null(n->a[i] = mem_floats((size_t)(BATCH * n->width[i])));
        assert_non_null(n->d[i] = mem_floats((size_t)(BATCH * n->width[i])));
    }
    for (int i = 0; i < n->layers; i++) {
        float limit = sqrtf(6.0F / (float)(n->width[i] + n->width[i + 1])); /* glorot_uniform */
        for (size_t k = n->w[i]; k < n->b[i]; k++)
            n->p[k] = limit * (2 * rng_unit(rng_key(1, RNG_TEST, 0, 0), k) - 1);
    }
}

static void net_close(struct net *n)
{
    float *blocks[] = {n->p, n->g, n->m, n->v};
    for (size_t i = 0; i < 4; i++)
        mem_free(blocks[i]);
    for (int i = 0; i <= n->layers; i++) {
        mem_free(n->a[i]);
        mem_free(n->d[i]);
    }
}

static void layer_forward(struct net *n, int i, int rows, int train)
{
    int in = n->width[i], out = n->width[i + 1], last = i + 1 == n->layers;
    float *y = n->a[i + 1];
    for (int r = 0; r < rows; r++)
        memcpy(y + r * out, n->p + n->b[i], (size_t)out * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, out, in, 1, n->a[i], in,
                n->p + n->w[i], out, 1, y, out);
    uint64_t key = rng_key(1, RNG_TEST, 1, n->steps);
    for (int k = 0; !last && k < rows * out; k++) {
        int kept = !train || rng_unit(key, (uint64_t)k) >= n->drop;
        y[k] = y[k] > 0 && kept ? y[k] / (train ? 1 - n->drop : 1) : 0;
    }
}

static void forward(struct net *n, int rows, int train)
{
    for (int i = 0; i < n->layers; i++)
        layer_forward(n, i, rows, train);
}

/* d of the logits = (softmax - one hot) / rows */
static void loss_backward(struct net *n, const float *y, int rows)
{
    const float *z = n->a[n->layers];
    float *d = n->d[n->layers];
    for (int r = 0; r < rows; r++, z += OUT, d += OUT) {
        float max = z[0], sum = 0;
        for (int c = 1; c < OUT; c++)
            max = fmaxf(max, z[c]);
        for (int c = 0; c < OUT; c++)
            sum += d[c] = expf(z[c] - max);
        for (int c = 0; c < OUT; c++)
            d[c] = (d[c] / sum - (c == (int)y[r])) / (float)rows;
    }
}

static void layer_backward(struct net *n, int i, int rows)
{
    int in = n->width[i], out = n->width[i + 1];
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, in, out, rows, 1, n->a[i], in, n->d[i + 1],
                out, 0, n->g + n->w[i], out);
    for (int c = 0; c < out; c++) {
        float sum = 0;
        for (int r = 0; r < rows; r++)
            sum += n->d[i + 1][r * out + c];
        n->g[n->b[i] + (size_t)c] = sum;
    }
    if (i == 0)
        return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, in, out, 1, n->d[i + 1], out,
                n->p + n->w[i], out, 0, n->d[i], in);
    for (int k = 0; k < rows * in; k++)
        n->d[i][k] = n->a[i][k] > 0 ? n->d[i][k] / (1 - n->drop) : 0;
}

/* Adam, the algorithm of Kingma and Ba 2015 with the rate corrected as in its section 2; Keras's
 * defaults. */
static void adam(struct net *n)
{
    double t = (double)++n->steps;
    float rate = (float)(1e-3 * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t)));
    for (size_t k = 0; k < n->params; k++) {
        n->m[k] += 0.1F * (n->g[k] - n->m[k]);
        n->v[k] += 0.001F * (n->g[k] * n->g[k] - n->v[k]);
        n->p[k] -= rate * n->m[k] / (sqrtf(n->v[k]) + 1e-7F);
    }
}

static void train_epoch(struct net *n, const struct dataset *d, uint64_t epoch)
{
    struct order o = {.rows = d->rows, .batch_size = BATCH, .seed = 1, .microbatches = 1};
    uint64_t rows[BATCH + 1];
    float y[BATCH];
    for (uint64_t b = 0; b < order_batches(&o); b++) {
        int count = (int)order_leaf(&o, epoch * order_batches(&o) + b, 0, rows);
        uint32_t there;
        assert_int_equal(gathered_rows(d, rows, (uint32_t)count, n->a[0], y, &there, NULL), ERR_OK);
        forward(n, count, 1);
        loss_backward(n, y, count);
        for (int i = n->layers - 1; i >= 0; i--)
            layer_backward(n, i, count);
        adam(n);
    }
}

static int largest(const float *z)
{
    int best = 0;
    for (int c = 1; c < OUT; c++)
        best = z[c] > z[best] ? c : best;
    return best;
}

static double accuracy(struct net *n, const struct dataset *d)
{
    uint64_t right = 0, rows[BATCH];
    float y[BATCH];
    for (uint64_t at = 0; at < d->rows; at += BATCH) {
        int count = d->rows - at < BATCH ? (int)(d->rows - at) : BATCH;
        for (int r = 0; r < count; r++)
            rows[r] = at + (uint64_t)r;
        uint32_t there;
        assert_int_equal(gathered_rows(d, rows, (uint32_t)count, n->a[0], y, &there, NULL), ERR_OK);
        forward(n, count, 0);
        for (int r = 0; r < count; r++)
            right += largest(n->a[n->layers] + r * OUT) == (int)y[r];
    }
    return (double)right / (double)d->rows;
}

/* The best accuracy on the eval part over `epochs`; *last: the final one. */
static double train(struct net *n, float drop, uint64_t epochs, double *last)
{
    struct job job = idx_job(28, 28, NULL);
    job.data.format = DATA_SYNTHETIC;
    job.data.synthetic_train_rows = 60000;
    job.data.synthetic_eval_rows = 10000;
    struct dataset t, v;
    struct errmsg e;
    assert_int_equal(dataset_load(&t, &job, 0, OUT, &e), ERR_OK);
    assert_int_equal(dataset_load(&v, &job, 1, OUT, &e), ERR_OK);
    openblas_set_num_threads(1);
    net_init(n, drop);
    double best = 0;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        train_epoch(n, &t, epoch);
        *last = accuracy(n, &v);
        best = fmax(best, *last);
    }
    print_message("accuracy %.4f after %d epochs, best %.4f\n", *last, (int)epochs, best);
    net_close(n);
    dataset_close(&t);
    dataset_close(&v);
    return best;
}

static void synthetic_keeps_logistic_regression_below_0_94(void **state)
{
    (void)state;
    struct net n = {.layers = 1, .width = {IN, OUT}};
    double last;
    assert_true(train(&n, 0, 10, &last) < 0.94);
    assert_true(last > 0.75); /* it did learn */
}

static void synthetic_lets_the_mlp_pass_0_975_in_10_epochs(void **state)
{
    (void)state;
    struct net n = {.layers = 2, .width = {IN, WIDEST, OUT}};
    double last;
    (void)train(&n, 0.2F, 10, &last);
    assert_true(last > 0.975);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_keeps_logistic_regression_below_0_94),
        cmocka_unit_test(synthetic_lets_the_mlp_pass_0_975_in_10_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
