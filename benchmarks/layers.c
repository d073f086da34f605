/* How fast each layer goes forward and backward, one thread, on 32 examples (a leaf of a batch of
 * 64), as a worker computes it. The yardstick: for layers with a kernel OpenBLAS's product of matrices
 * of the same shapes (forward one, backward one for the kernel and one for the input if that is
 * needed), ready in memory, without the work that makes them; for all others memcpy of the bytes that
 * the layer must read and write.
 *
 * layers --case NAME [--rounds R] [--milliseconds T]; layers --list
 *
 * A round is T milliseconds of each, one after the other, of the thread's own time: nothing here
 * waits, so what else the machine does takes as little part as may be. The check: the gradient is finite, not
 * all zeros, and has the same bits when it is computed again. */
#include <cblas.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/bench.h"
#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "model/layers.h"
#include "model/model.h"

enum { ROUNDS_MAX = 101, ROWS = 32, LABELS = 2 };

/* The layer that is measured is the last before the flatten and the dense one that end the model.
 * One with parameters before it makes its input's gradient wanted. */
static const struct {
    const char *name, *shape, *layers;
} CASES[] = {
    {"dense 784-128, first", "[784]", "dense: {units: 128, activation: relu}"},
    {"dense 400-400", "[400]", "dense: 400, dense: {units: 400, activation: relu}"},
    {"dense 5408-64", "[338, 1]", "dense: 16, flatten, dense: {units: 64, activation: relu}"},
    {"conv2d 28x28x1 3x3x32, first", "[28, 28, 1]",
     "conv2d: {filters: 32, kernel_size: 3, activation: relu}"},
    {"conv2d 28x28x1 3x3x32 pooled, first", "[28, 28, 1]",
     "conv2d: {filters: 32, kernel_size: 3, activation: relu}, max_pooling2d: 2"},
    {"conv2d 13x13x32 3x3x64", "[13, 13, 1]",
     "dense: 32, conv2d: {filters: 64, kernel_size: 3, activation: relu}"},
    {"conv2d 13x13x32 3x3x64 pooled", "[13, 13, 1]",
     "dense: 32, conv2d: {filters: 64, kernel_size: 3, activation: relu}, max_pooling2d: 2"},
    {"conv2d 32x32x3 3x3x32 same, first", "[32, 32, 3]",
     "conv2d: {filters: 32, kernel_size: 3, padding: same, activation: relu}"},
    {"conv2d 16x16x64 3x3x64 same", "[16, 16, 1]",
     "dense: 64, conv2d: {filters: 64, kernel_size: 3, padding: same, activation: relu}"},
    {"conv2d 16x16x64 1x1x128", "[16, 16, 1]", "dense: 64, conv2d: {filters: 128, kernel_size: 1}"},
    {"conv2d 16x16x64 3x3x64 strides 2", "[16, 16, 1]",
     "dense: 64, conv2d: {filters: 64, kernel_size: 3, strides: 2, activation: relu}"},
    {"conv2d 16x16x20 3x3x20, a matrix", "[16, 16, 1]",
     "dense: 20, conv2d: {filters: 20, kernel_size: 3, activation: relu}"},
    {"max_pooling2d 2, 26x26x32", "[26, 26, 1]", "dense: 32, max_pooling2d: 2"},
    {"average_pooling2d 2, 26x26x32", "[26, 26, 1]", "dense: 32, average_pooling2d: 2"},
    {"global_average_pooling2d, 8x8x64", "[8, 8, 1]", "dense: 64, global_average_pooling2d"},
    {"global_max_pooling2d, 8x8x64", "[8, 8, 1]", "dense: 64, global_max_pooling2d"},
    {"embedding 26 of 10000x16", "[26]", "embedding: {input_dim: 10000, output_dim: 16}"},
    {"add 16384", "[16, 16, 1]",
     "dense: {units: 64, name: a}, dense: {units: 64, name: b}, add: [a, b]"},
    {"concatenate 2 x 16384", "[16, 16, 1]",
     "dense: {units: 64, name: a}, dense: {units: 64, name: b}, concatenate: [a, b]"},
    {"batch_normalization, 16x16x64", "[16, 16, 1]", "dense: 64, batch_normalization"},
    {"layer_normalization, 16x16x64", "[16, 16, 1]", "dense: 64, layer_normalization"},
    {"relu 16384", "[16, 16, 1]", "dense: {units: 64, activation: tanh}, relu"},
    {"tanh 16384", "[16, 16, 1]", "dense: 64, tanh"},
    {"sigmoid 16384", "[16, 16, 1]", "dense: 64, sigmoid"},
    {"elu 16384", "[16, 16, 1]", "dense: 64, elu"},
    {"leaky_relu 16384", "[16, 16, 1]", "dense: 64, leaky_relu"},
    {"selu 16384", "[16, 16, 1]", "dense: 64, selu"},
    {"silu 16384", "[16, 16, 1]", "dense: 64, silu"},
    {"softplus 16384", "[16, 16, 1]", "dense: 64, softplus"},
    {"gelu 16384", "[16, 16, 1]", "dense: 64, gelu"},
    {"gelu approximate 16384", "[16, 16, 1]", "dense: 64, gelu: {approximate: true}"},
    {"softmax 256x64", "[16, 16, 1]", "dense: 64, softmax"},
    {"dropout 16384", "[16, 16, 1]", "dense: 64, dropout: 0.5"},
};
enum { N_CASES = sizeof CASES / sizeof *CASES };

struct layers {
    size_t number, rounds;
    double seconds; /* of one side of a round */
    struct model *model;
    struct model_run *run;
    const struct op *op; /* measured */
    uint32_t index;
    float *w, *dw, *x, *y;
    float *a, *b, *c; /* the yardstick's */
    size_t copy_bytes;
};

/* ---- the model ---- */

static void layers_init(struct layers *l)
{
    char text[1024];
    struct errmsg e = {""};
    struct job job;
    (void)snprintf(text, sizeof text,
                   "model: {input: {shape: %s}, layers: [%s, flatten, dense: %d],\n"
                   "  loss: {sparse_categorical_crossentropy: {from_logits: true}}}\n"
                   "data: {format: synthetic}\noptimizer: sgd\n",
                   CASES[l->number].shape, CASES[l->number].layers, LABELS);
    if (job_parse(&job, text, strlen(text), CASES[l->number].name, "/", NULL, 0, &e) ||
        model_new(&l->model, &job, &e) || model_run_new(&l->run, l->model, ROWS, &e))
        bench_die("%s", e.text);
    job_close(&job);
    l->index = l->model->ops - 2;
    l->op = &l->model->op[l->index];
    const struct layout *lay = model_layout(l->model);
    uint32_t features = model_features(l->model);
    l->w = mem_floats(lay->elems);
    l->dw = mem_floats(lay->elems);
    l->x = mem_floats((size_t)ROWS * features);
    l->y = mem_floats(ROWS);
    layout_init_values(lay, 1, 0, lay->elems, l->w);
    uint32_t ids = l->op->layer->kind == LAYER_EMBEDDING ? l->op->layer->embedding.input_dim
                                                         : 0; /* numbers of rows below it */
    for (size_t i = 0; i < (size_t)ROWS * features; i++)
        l->x[i] = ids ? floorf((float)ids * rng_unit(2, i)) : 2.0F * rng_unit(2, i) - 1.0F;
    for (int i = 0; i < ROWS; i++)
        l->y[i] = (float)(i % LABELS);
}

static bool layers_check(struct layers *l)
{
    uint64_t elems = model_layout(l->model)->elems;
    float *first = mem_floats(elems), most = 0;
    struct sums sums = {0};
    model_train(l->run, l->w, &(struct leaf){.n = ROWS, .x = l->x, .y = l->y}, 1, l->dw, &sums,
                NULL, NULL);
    memcpy(first, l->dw, elems * sizeof *first);
    model_train(l->run, l->w, &(struct leaf){.n = ROWS, .x = l->x, .y = l->y}, 1, l->dw, &sums,
                NULL, NULL);
    bool finite = isfinite(sums.loss);
    for (uint64_t i = 0; i < elems; i++) {
        finite = finite && isfinite(first[i]);
        most = fmaxf(most, fabsf(first[i]));
    }
    bool same = memcmp(first, l->dw, elems * sizeof *first) == 0;
    mem_free(first);
    return same && finite && most > 0;
}

/* ---- the yardstick ---- */

struct product { /* (m, k) (k, n) */
    int m, n, k;
};

static bool has_product(const struct op *op)
{
    return op->layer->kind == LAYER_DENSE || op->layer->kind == LAYER_CONV2D;
}

static bool wants_dx(const struct layers *l)
{
    return l->op->dx[0].slot != SLOT_NONE;
}

static struct product product_of(const struct op *op)
{
    if (op->layer->kind == LAYER_DENSE)
        return (struct product){ROWS * (int)op->outer, (int)op->out, (int)op->in};
    const struct window *w = &op->conv2d.window;
    return (struct product){(int)(ROWS * w->y.out * w->x.out), (int)op->conv2d.channels,
                            (int)(w->y.size * w->x.size * w->channels)};
}

/* The elements that it reads and writes for an example. */
static size_t moved_elems(const struct op *op)
{
    size_t in = (size_t)op->outer * op->in, out = op_out_elems(op);
    return op->layer->kind == LAYER_EMBEDDING ? 2 * out
           : op->layer->kind == LAYER_ADD     ? op->inputs * in + out
                                              : in + out;
}

static void yardstick_init(struct layers *l)
{
    size_t floats = ROWS * moved_elems(l->op);
    if (has_product(l->op)) {
        struct product p = product_of(l->op);
        size_t m = (size_t)p.m, n = (size_t)p.n, k = (size_t)p.k;
        l->a = bench_pages(m * k * sizeof(float));
        l->b = bench_pages(k * n * sizeof(float));
        l->c = bench_pages(m * n * sizeof(float));
        for (size_t i = 0; i < m * k; i++)
            l->a[i] = rng_unit(3, i);
        for (size_t i = 0; i < k * n; i++)
            l->b[i] = rng_unit(4, i);
        return;
    }
    l->copy_bytes = floats * sizeof(float) / 2; /* read once, written once */
    l->a = bench_pages(l->copy_bytes);
    l->c = bench_pages(l->copy_bytes);
}

static void yardstick_forward(struct layers *l)
{
    if (!has_product(l->op)) {
        memcpy(l->c, l->a, l->copy_bytes);
        return;
    }
    struct product p = product_of(l->op);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p.m, p.n, p.k, 1, l->a, p.k, l->b, p.n,
                0, l->c, p.n);
}

static void yardstick_backward(struct layers *l)
{
    if (!has_product(l->op)) {
        memcpy(l->a, l->c, l->copy_bytes);
        return;
    }
    struct product p = product_of(l->op);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p.k, p.n, p.m, 1, l->a, p.k, l->c, p.n, 0,
                l->b, p.n);
    if (wants_dx(l))
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p.m, p.k, p.n, 1, l->c, p.n, l->b, p.n,
                    0, l->a, p.k);
}

/* The work of one pass, in 1e9 operations or bytes. */
static double work_of(const struct layers *l, bool backward)
{
    if (!has_product(l->op))
        return 2e-9 * (double)l->copy_bytes;
    struct product p = product_of(l->op);
    return 2e-9 * p.m * p.n * p.k * (backward && wants_dx(l) ? 2 : 1);
}

/* ---- rounds ---- */

static void ours_forward(struct layers *l)
{
    run_op_forward(l->run, l->index, l->w, ROWS);
}

static void ours_backward(struct layers *l)
{
    run_op_backward(l->run, l->index, l->w, ROWS, l->dw);
}

static double thread_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rate(struct layers *l, void (*pass)(struct layers *), bool backward)
{
    size_t passes = 0;
    double start = thread_s(), now;
    do {
        pass(l);
        passes++;
        now = thread_s();
    } while (now - start < l->seconds);
    return work_of(l, backward) * (double)passes / (now - start);
}

static void print_list(const char *name, const double *value, size_t n)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.5g", i ? "," : "", value[i]);
    printf("]");
}

static void layers_run(struct layers *l)
{
    double ours[2][ROUNDS_MAX], yardstick[2][ROUNDS_MAX];
    for (size_t r = 0; r < l->rounds; r++) {
        ours[0][r] = rate(l, ours_forward, false);
        yardstick[0][r] = rate(l, yardstick_forward, false);
        ours[1][r] = rate(l, ours_backward, true);
        yardstick[1][r] = rate(l, yardstick_backward, true);
    }
    printf("{\"case\":\"%s\",\"yardstick\":\"%s\",\"unit\":\"%s\"", CASES[l->number].name,
           has_product(l->op) ? "OpenBLAS" : "memcpy", has_product(l->op) ? "GFLOP/s" : "GB/s");
    print_list("forward", ours[0], l->rounds);
    print_list("forward_yardstick", yardstick[0], l->rounds);
    print_list("backward", ours[1], l->rounds);
    print_list("backward_yardstick", yardstick[1], l->rounds);
}

static void layers_close(struct layers *l)
{
    free(l->a);
    free(l->b);
    free(l->c);
    mem_free(l->w);
    mem_free(l->dw);
    mem_free(l->x);
    mem_free(l->y);
    model_run_free(l->run);
    model_free(l->model);
}

static void print_cases(void)
{
    for (size_t i = 0; i < N_CASES; i++)
        printf("%s\n", CASES[i].name);
    exit(0);
}

static size_t case_named(const char *name)
{
    for (size_t i = 0; i < N_CASES; i++)
        if (!strcmp(CASES[i].name, name))
            return i;
    bench_die("no case is called %s: --list", name);
}

static struct layers options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"case", 1, NULL, 'c'},
                                          {"list", 0, NULL, 'l'},
                                          {"rounds", 1, NULL, 'r'},
                                          {"milliseconds", 1, NULL, 'm'},
                                          {NULL, 0, NULL, 0}};
    struct layers l = {.number = N_CASES, .rounds = 9, .seconds = .02};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'c')
            l.number = case_named(optarg);
        else if (flag == 'l')
            print_cases();
        else if (flag == 'r')
            l.rounds = bench_number(optarg);
        else if (flag == 'm')
            l.seconds = 1e-3 * (double)bench_number(optarg);
        else
            exit(1);
    }
    if (l.number == N_CASES || l.rounds < 1 || l.rounds > ROUNDS_MAX)
        bench_die("--case is needed (--list: which), --rounds is 1 to %d", ROUNDS_MAX);
    return l;
}

int main(int argc, char **argv)
{
    struct layers l = options_parse(argc, argv);
    openblas_set_num_threads(1);
    kernels_flush_denormals();
    layers_init(&l);
    yardstick_init(&l);
    bool valid = layers_check(&l);
    layers_run(&l);
    printf(",\"valid\":%s}\n", valid ? "true" : "false");
    layers_close(&l);
    return 0;
}
