/* The yardsticks of a wide & deep step in Criteo's shape, each alone, with what the step cannot do without:
 *
 * gemm   the matrix products of `layers` dense layers of `units`, forward, and backward for kernel and input; each
 *        thread has its own rows and calls OpenBLAS single-threaded
 * gather `fields` rows of DIM floats an example from a block of the step's distinct rows into the input, and the
 *        gradient's way back; each thread has its own rows
 * apply  adagrad on the step's distinct rows, of 16 floats, in a table of `keys` rows (raw_rows.h); one thread
 *
 * raw_clicks --case gemm|gather|apply --rows N [--threads T] [--units U] [--layers L] [--fields F] [--numbers M]
 *            [--distinct D] [--keys K] [--milliseconds T]
 *
 * `rows` is a step's. Printed: steps a second, and the core-seconds of one. The check: sums of what was computed. */
#include <cblas.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/raw_rows.h"
#include "common/base/clock.h"

enum { THREADS_MAX = 64, LAYERS_MAX = 16, DIM = 10 /* of a row that is gathered */ };

extern void openblas_set_num_threads(int n);

struct options {
    const char *which;
    uint64_t rows, threads, units, layers, fields, numbers, distinct, keys, milliseconds;
};

struct share {
    const struct options *o;
    size_t rows; /* of a step, this thread's */
    pthread_t id;
    uint64_t steps;
    double seconds, sum;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(float *to, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        to[i] = value * (float)(i % 7 + 1);
}

static double deadline(const struct options *o)
{
    return clock_now_s() + (double)o->milliseconds / 1000;
}

/* ---- gemm ---- */

struct dense {
    int in, out;
    float *w, *dw, *x, *dx; /* (in, out) twice; (rows, in) twice */
};

static void product(int trans_a, int trans_b, size_t m, int n, int k, const float *a, int lda,
                    const float *b, int ldb, float *c)
{
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, (int)m, n, k, 1, a, lda, b, ldb, 0, c, n);
}

static void step_gemm(struct dense *d, const struct share *s, float *top)
{
    size_t layers = s->o->layers;
    for (size_t l = 0; l < layers; l++)
        product(0, 0, s->rows, d[l].out, d[l].in, d[l].x, d[l].in, d[l].w, d[l].out,
                l + 1 < layers ? d[l + 1].x : top);
    for (size_t l = layers; l-- > 0;) {
        const float *dy = l + 1 < layers ? d[l + 1].dx : top;
        product(1, 0, (size_t)d[l].in, d[l].out, (int)s->rows, d[l].x, d[l].in, dy, d[l].out,
                d[l].dw);
        product(0, 1, s->rows, d[l].in, d[l].out, dy, d[l].out, d[l].w, d[l].out, d[l].dx);
    }
}

static void run_gemm(struct share *s)
{
    const struct options *o = s->o;
    struct dense d[LAYERS_MAX];
    float *top = bench_pages(s->rows * o->units * sizeof *top);
    for (size_t l = 0; l < o->layers; l++) {
        size_t in = l ? o->units : o->fields * DIM + o->numbers;
        d[l] = (struct dense){.in = (int)in,
                              .out = (int)o->units,
                              .w = bench_pages(in * o->units * sizeof(float)),
                              .dw = bench_pages(in * o->units * sizeof(float)),
                              .x = bench_pages(s->rows * in * sizeof(float)),
                              .dx = bench_pages(s->rows * in * sizeof(float))};
        fill(d[l].w, in * o->units, 1e-3F);
    }
    fill(d[0].x, s->rows * (size_t)d[0].in, 1e-2F);
    step_gemm(d, s, top);
    double begin = clock_now_s(), end = deadline(o);
    do {
        step_gemm(d, s, top);
        s->steps++;
        s->seconds = clock_now_s() - begin;
    } while (begin + s->seconds < end);
    s->sum = (double)d[0].dw[0];
    for (size_t l = 0; l < o->layers; l++) {
        free(d[l].w);
        free(d[l].dw);
        free(d[l].x);
        free(d[l].dx);
    }
    free(top);
}

/* ---- gather ---- */

static void step_gather(const struct share *s, const uint32_t *place, const float *block,
                        float *gradient, float *x)
{
    size_t fields = s->o->fields, width = fields * DIM + s->o->numbers;
    for (size_t r = 0; r < s->rows; r++)
        for (size_t f = 0; f < fields; f++)
            memcpy(x + r * width + f * DIM, block + (size_t)place[r * fields + f] * DIM,
                   DIM * sizeof *x);
    memset(gradient, 0, s->o->distinct * DIM * sizeof *gradient);
    for (size_t r = 0; r < s->rows; r++)
        for (size_t f = 0; f < fields; f++)
            for (size_t i = 0; i < DIM; i++)
                gradient[(size_t)place[r * fields + f] * DIM + i] += x[r * width + f * DIM + i];
}

static void run_gather(struct share *s)
{
    const struct options *o = s->o;
    size_t floats = o->distinct * DIM, places = s->rows * o->fields;
    float *block = bench_pages(floats * sizeof *block), *gradient = bench_pages(floats * 4);
    float *x = bench_pages(s->rows * (o->fields * DIM + o->numbers) * sizeof *x);
    uint32_t *place = bench_pages(places * sizeof *place);
    uint64_t random = 88172645463325252U;
    fill(block, floats, 1e-3F);
    for (size_t i = 0; i < places; i++)
        place[i] = (uint32_t)(next_random(&random) % o->distinct);
    step_gather(s, place, block, gradient, x);
    double begin = clock_now_s(), end = deadline(o);
    do {
        step_gather(s, place, block, gradient, x);
        s->steps++;
        s->seconds = clock_now_s() - begin;
    } while (begin + s->seconds < end);
    for (size_t i = 0; i < floats; i++)
        s->sum += (double)gradient[i];
    free(block);
    free(gradient);
    free(x);
    free(place);
}

/* ---- apply ---- */

static void run_apply(struct share *s)
{
    const struct options *o = s->o;
    struct raw_rows t;
    uint64_t random = 88172645463325252U, *key = bench_pages(o->keys * sizeof *key),
             *of = bench_pages(o->distinct * sizeof *of);
    float *g = bench_pages(o->distinct * RAW_DIM * sizeof *g);
    raw_rows_init(&t, (uint32_t)o->keys);
    for (size_t i = 0; i < o->keys; i++) {
        key[i] = next_random(&random) | 1;
        memset(raw_rows_add(&t, key[i], 0.1F), 0, RAW_DIM * sizeof(float));
    }
    fill(g, o->distinct * RAW_DIM, 1e-3F);
    double begin = clock_now_s(), end = begin + (double)o->milliseconds / 1000, drawing = 0;
    do {
        double from = clock_now_s();
        for (size_t i = 0; i < o->distinct; i++)
            of[i] = key[next_random(&random) % o->keys];
        drawing += clock_now_s() - from;
        raw_rows_update(&t, of, o->distinct, g, 0.01F);
        s->steps++;
    } while (clock_now_s() < end);
    s->seconds = clock_now_s() - begin - drawing;
    float w[RAW_DIM];
    raw_rows_lookup(&t, of, 1, w);
    s->sum = (double)w[0];
    raw_rows_close(&t);
    free(key);
    free(of);
    free(g);
}

/* ---- all of it ---- */

static void *share_run(void *arg)
{
    struct share *s = arg;
    if (strcmp(s->o->which, "gemm") == 0)
        run_gemm(s);
    else if (strcmp(s->o->which, "gather") == 0)
        run_gather(s);
    else
        run_apply(s);
    return NULL;
}

static void options_parse(struct options *o, int argc, char **argv)
{
    static const struct option flags[] = {
        {"case", 1, NULL, 'c'},         {"rows", 1, NULL, 'r'},   {"threads", 1, NULL, 't'},
        {"units", 1, NULL, 'u'},        {"layers", 1, NULL, 'l'}, {"fields", 1, NULL, 'f'},
        {"numbers", 1, NULL, 'n'},      {"keys", 1, NULL, 'k'},   {"distinct", 1, NULL, 'd'},
        {"milliseconds", 1, NULL, 'm'}, {NULL, 0, NULL, 0}};
    uint64_t *const number[] = {
        ['r'] = &o->rows,     ['t'] = &o->threads, ['u'] = &o->units,
        ['l'] = &o->layers,   ['f'] = &o->fields,  ['n'] = &o->numbers,
        ['d'] = &o->distinct, ['k'] = &o->keys,    ['m'] = &o->milliseconds};
    int flag;
    while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (flag == '?')
            exit(1);
        if (flag == 'c')
            o->which = optarg;
        else
            *number[flag] = bench_number(optarg);
    }
    if (!o->which || (strcmp(o->which, "gemm") != 0 && strcmp(o->which, "gather") != 0 &&
                      strcmp(o->which, "apply") != 0))
        bench_die("--case is gemm, gather or apply");
    if (o->threads < 1 || o->threads > THREADS_MAX || o->rows < o->threads || o->layers < 1 ||
        o->layers > LAYERS_MAX || o->distinct < 1 || o->keys < 1)
        bench_die("threads 1 to %d, layers 1 to %d; rows, keys and distinct at least 1",
                  THREADS_MAX, LAYERS_MAX);
}

/* By its bits: isfinite is always true under -ffast-math. */
static bool finite_and_not_0(double sum)
{
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits << 1 && (bits >> 52 & 0x7ff) != 0x7ff;
}

int main(int argc, char **argv)
{
    struct options o = {.threads = 1,
                        .rows = 2000,
                        .units = 400,
                        .layers = 3,
                        .fields = 26,
                        .numbers = 13,
                        .distinct = 20000,
                        .keys = 1200000,
                        .milliseconds = 1000};
    struct share share[THREADS_MAX];
    double core_s = 0, rate = 0, sum = 0;
    options_parse(&o, argc, argv);
    openblas_set_num_threads(1);
    for (size_t i = 0; i < o.threads; i++) {
        share[i] = (struct share){.o = &o, .rows = o.rows / o.threads};
        if (pthread_create(&share[i].id, NULL, share_run, &share[i]))
            bench_die("no thread");
    }
    for (size_t i = 0; i < o.threads; i++) {
        (void)pthread_join(share[i].id, NULL);
        core_s += share[i].seconds / (double)share[i].steps;
        sum += share[i].sum;
    }
    rate = (double)o.threads / core_s;
    printf("{\"valid\": %s, \"steps_per_s\": %.6g, \"core_s\": %.6g}\n",
           finite_and_not_0(sum) ? "true" : "false", rate, core_s);
    return 0;
}
