/* How fast the optimizers go through memory, compared with memcpy of the same traffic: optimizer_apply as
 * a shard calls it, from one weight block to the other, one thread. Traffic is what must be read
 * and written once: w, g and w_out, and each slot both ways. memcpy goes through blocks of the same
 * size in all, so that both meet the same cache.
 *
 * apply --optimizer NAME (as in `optimizers` below) --bytes N [--rounds R] [--milliseconds T]
 *
 * `bytes` is the size of the weights; a round is T milliseconds of each, one after the other. The
 * check: sampled weights and slots against a scalar reference in double, over the first three
 * updates. */
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"
#include "common/math/kernels.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"

enum { ROUNDS_MAX = 101, SAMPLES = 64, CHECKED_UPDATES = 3, SEED = 1, PIECE = 4096 };

struct apply {
    const char *name;
    struct optimizer optimizer;
    size_t elems, rounds;
    double seconds; /* of one side of a round */
    uint64_t t;
    float ratio;           /* lamb's, of the last update; else 1 */
    float *w, *w_next, *g; /* (elems); w and w_next change places */
    float *slot[OPTIMIZER_SLOTS_MAX];
    char *from, *to; /* memcpy's: together as large as all blocks above */
    size_t copy_bytes;
};

static uint64_t blocks_in_memory(const struct apply *a)
{
    return 3 + optimizer_slots(&a->optimizer);
}

static double traffic_bytes(const struct apply *a)
{
    return (double)((3 + 2 * optimizer_slots(&a->optimizer)) * a->elems * sizeof(float));
}

/* lamb goes through all twice: before the ratio is known, as a shard does, and behind it. */
static float ratio_of(const struct apply *a)
{
    static float u[PIECE], decayed[PIECE];
    double squares[2] = {0};
    for (size_t i = 0; i < a->elems; i += PIECE) {
        size_t n = a->elems - i < PIECE ? a->elems - i : PIECE;
        float *slot[OPTIMIZER_SLOTS_MAX] = {a->slot[0] + i, a->slot[1] + i};
        optimizer_direction(&a->optimizer, a->t, u, decayed, a->w + i, slot, a->g + i, 1.0F / 64,
                            n);
        squares[0] += kernels()->sum_squares(decayed, n);
        squares[1] += kernels()->sum_squares(u, n);
    }
    return optimizer_ratio(squares[0], squares[1]);
}

static void apply_once(struct apply *a)
{
    a->t++;
    if (a->optimizer.kind == OPT_LAMB)
        a->ratio = ratio_of(a);
    optimizer_apply(&a->optimizer, a->t, (struct optimizer_factors){1.0F / 64, 1, a->ratio},
                    a->w_next, a->w, a->slot, a->g, a->elems);
    float *w = a->w;
    a->w = a->w_next;
    a->w_next = w;
}

static void apply_init(struct apply *a)
{
    uint64_t key = rng_key(SEED, RNG_TEST, 0, 0);
    size_t bytes = a->elems * sizeof(float);
    a->w = bench_pages(bytes);
    a->w_next = bench_pages(bytes);
    a->g = bench_pages(bytes);
    for (uint32_t s = 0; s < optimizer_slots(&a->optimizer); s++)
        a->slot[s] = bench_pages(bytes);
    for (uint32_t s = 0; s < optimizer_slots(&a->optimizer); s++)
        for (size_t i = 0; i < a->elems; i++)
            a->slot[s][i] = optimizer_slot_initial(&a->optimizer, s);
    for (size_t i = 0; i < a->elems; i++) {
        a->w[i] = rng_unit(key, 2 * i) - .5F;
        a->g[i] = rng_unit(key, 2 * i + 1) - .5F;
    }
    a->copy_bytes = blocks_in_memory(a) * bytes / 2;
    a->from = bench_pages(a->copy_bytes);
    a->to = bench_pages(a->copy_bytes);
}

static void apply_close(struct apply *a)
{
    free(a->to);
    free(a->from);
    for (uint32_t s = 0; s < optimizer_slots(&a->optimizer); s++)
        free(a->slot[s]);
    free(a->g);
    free(a->w_next);
    free(a->w);
}

/* ---- the check ---- */

struct reference {
    double w, slot[OPTIMIZER_SLOTS_MAX];
};

/* keras/src/optimizers/{sgd,adam,adagrad,rmsprop,ftrl}.py, one element. */
static void reference_adam(struct reference *r, const struct optimizer *o, double g, double t)
{
    double beta_1 = (double)o->beta_1, beta_2 = (double)o->beta_2;
    r->slot[0] += (g - r->slot[0]) * (1 - beta_1);
    r->slot[1] += (g * g - r->slot[1]) * (1 - beta_2);
    r->slot[2] = fmax(r->slot[2], r->slot[1]);
    r->w -= (double)o->learning_rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t)) *
            r->slot[0] / (sqrt(r->slot[o->amsgrad ? 2 : 1]) + (double)o->epsilon);
}

static void reference_sgd(struct reference *r, const struct optimizer *o, double g)
{
    double rate = (double)o->learning_rate, momentum = (double)o->momentum;
    r->slot[0] = r->slot[0] * momentum - g * rate;
    r->w += o->nesterov ? r->slot[0] * momentum - g * rate : r->slot[0];
}

static void reference_rmsprop(struct reference *r, const struct optimizer *o, double g)
{
    double rho = (double)o->rho, variance;
    r->slot[0] = rho * r->slot[0] + (1 - rho) * g * g;
    variance = r->slot[0];
    if (o->centered) {
        r->slot[1] = rho * r->slot[1] + (1 - rho) * g;
        variance -= r->slot[1] * r->slot[1];
    }
    r->w -= (double)o->learning_rate * g / sqrt(variance + (double)o->epsilon);
}

static void reference_ftrl(struct reference *r, const struct optimizer *o, double g)
{
    double rate = (double)o->learning_rate, next = r->slot[0] + g * g, l1 = (double)o->l1;
    r->slot[1] += g - (sqrt(next) - sqrt(r->slot[0])) / rate * r->w;
    r->slot[0] = next;
    double clipped = fmin(fmax(r->slot[1], -l1), l1);
    r->w = (clipped - r->slot[1]) / (sqrt(next) / rate);
}

static void reference_lamb(struct reference *r, const struct apply *a, double g, double t)
{
    double beta_1 = (double)a->optimizer.beta_1, beta_2 = (double)a->optimizer.beta_2;
    r->slot[0] += (g - r->slot[0]) * (1 - beta_1);
    r->slot[1] += (g * g - r->slot[1]) * (1 - beta_2);
    double u = r->slot[0] / (1 - pow(beta_1, t)) /
               (sqrt(r->slot[1] / (1 - pow(beta_2, t))) + (double)a->optimizer.epsilon);
    r->w -= (double)a->ratio * (double)a->optimizer.learning_rate * u;
}

static void reference_update(struct reference *r, const struct apply *a, double g, double t)
{
    const struct optimizer *o = &a->optimizer;
    r->w -= r->w * (double)(o->weight_decay * o->learning_rate);
    switch (o->kind) {
    case OPT_SGD:
        reference_sgd(r, o, g);
        break;
    case OPT_ADAM:
    case OPT_ADAMW:
        reference_adam(r, o, g, t);
        break;
    case OPT_ADAGRAD:
        r->slot[0] += g * g;
        r->w -= (double)o->learning_rate * g / sqrt(r->slot[0] + (double)o->epsilon);
        break;
    case OPT_RMSPROP:
        reference_rmsprop(r, o, g);
        break;
    case OPT_FTRL:
        reference_ftrl(r, o, g);
        break;
    case OPT_LAMB:
        reference_lamb(r, a, g, t);
        break;
    }
}

/* FTRL's sums have differences of roots in them. */
static bool near(const struct apply *a, double value, double expected)
{
    double slack = a->optimizer.kind == OPT_FTRL ? 1e-3 : 1e-5;
    return fabs(value - expected) <= slack * (fabs(expected) + 1e-3);
}

static size_t sample(const struct apply *a, size_t i)
{
    return a->elems * i / SAMPLES;
}

/* The first updates, on sampled elements. */
static bool apply_check(struct apply *a)
{
    struct reference r[SAMPLES] = {{0}};
    bool valid = true;
    for (size_t i = 0; i < SAMPLES; i++) {
        r[i].w = (double)a->w[sample(a, i)];
        for (uint32_t s = 0; s < optimizer_slots(&a->optimizer); s++)
            r[i].slot[s] = (double)a->slot[s][sample(a, i)];
    }
    for (int t = 1; t <= CHECKED_UPDATES; t++) {
        apply_once(a);
        for (size_t i = 0; i < SAMPLES; i++)
            reference_update(&r[i], a, (double)a->g[sample(a, i)] / 64, t);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        valid = valid && near(a, (double)a->w[sample(a, i)], r[i].w);
        for (uint32_t s = 0; s < optimizer_slots(&a->optimizer); s++)
            valid = valid && near(a, (double)a->slot[s][sample(a, i)], r[i].slot[s]);
    }
    return valid;
}

/* ---- the rounds ---- */

static double measure_apply(struct apply *a)
{
    double start = clock_now_s(), took;
    uint64_t first = a->t;
    do {
        apply_once(a);
        took = clock_now_s() - start;
    } while (took < a->seconds);
    return (double)(a->t - first) * traffic_bytes(a) / took / 1e9;
}

static double measure_memcpy(struct apply *a)
{
    double start = clock_now_s(), took, bytes = 0;
    do {
        memcpy(a->to, a->from, a->copy_bytes);
        __asm__ volatile("" : : "r"(a->to) : "memory"); /* the copy is wanted */
        bytes += 2 * (double)a->copy_bytes;
        took = clock_now_s() - start;
    } while (took < a->seconds);
    return bytes / took / 1e9;
}

static void print_list(const char *name, const double *values, size_t n)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.4f", i ? "," : "", values[i]);
    printf("]");
}

static void apply_run(struct apply *a)
{
    double ours[ROUNDS_MAX], copy[ROUNDS_MAX];
    bool valid = apply_check(a);
    measure_memcpy(a);
    for (size_t r = 0; r < a->rounds; r++) {
        ours[r] = measure_apply(a);
        copy[r] = measure_memcpy(a);
    }
    printf("{\"optimizer\":\"%s\",\"bytes\":%zu,\"seed\":%d", a->name, a->elems * sizeof(float),
           SEED);
    print_list("gb_per_s", ours, a->rounds);
    print_list("memcpy_gb_per_s", copy, a->rounds);
    printf(",\"valid\":%s}\n", valid ? "true" : "false");
}

#define ADAM .learning_rate = 1e-3F, .beta_1 = .9F, .beta_2 = .999F, .epsilon = 1e-7F
#define RMSPROP .kind = OPT_RMSPROP, .learning_rate = 1e-3F, .rho = .9F, .epsilon = 1e-7F

static const struct {
    const char *name;
    struct optimizer o;
} optimizers[] = {
    {"sgd", {.kind = OPT_SGD, .learning_rate = .01F}},
    {"momentum", {.kind = OPT_SGD, .learning_rate = .01F, .momentum = .9F}},
    {"nesterov", {.kind = OPT_SGD, .learning_rate = .01F, .momentum = .9F, .nesterov = true}},
    {"adam", {.kind = OPT_ADAM, ADAM}},
    {"amsgrad", {.kind = OPT_ADAM, ADAM, .amsgrad = true}},
    {"adamw", {.kind = OPT_ADAMW, ADAM, .weight_decay = 4e-3F}},
    {"lamb", {.kind = OPT_LAMB, ADAM}},
    {"adagrad",
     {.kind = OPT_ADAGRAD,
      .learning_rate = 1e-3F,
      .initial_accumulator_value = .1F,
      .epsilon = 1e-7F}},
    {"rmsprop", {RMSPROP}},
    {"rmsprop_centered", {RMSPROP, .centered = true}},
    {"ftrl",
     {.kind = OPT_FTRL,
      .learning_rate = .1F,
      .learning_rate_power = -.5F,
      .initial_accumulator_value = .1F,
      .l1 = 1e-3F}},
};

static struct optimizer optimizer_named(const char *name)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp(name, optimizers[i].name))
            return optimizers[i].o;
    bench_die("--optimizer is not %s; see apply.c", name);
}

static struct apply options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"optimizer", 1, NULL, 'o'},
                                          {"bytes", 1, NULL, 'b'},
                                          {"rounds", 1, NULL, 'r'},
                                          {"milliseconds", 1, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    struct apply a = {.name = "adam", .elems = 1 << 20, .rounds = 9, .seconds = .1, .ratio = 1};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'o')
            a.name = optarg;
        else if (flag == 'b')
            a.elems = bench_number(optarg) / sizeof(float);
        else if (flag == 'r')
            a.rounds = bench_number(optarg);
        else if (flag == 't')
            a.seconds = (double)bench_number(optarg) / 1e3;
        else
            exit(1);
    }
    if (a.elems < SAMPLES || !a.rounds || a.rounds > ROUNDS_MAX)
        bench_die("--bytes is at least %d, --rounds 1 to %d", SAMPLES * 4, ROUNDS_MAX);
    a.optimizer = optimizer_named(a.name);
    return a;
}

int main(int argc, char **argv)
{
    struct apply a = options_parse(argc, argv);
    kernels_flush_denormals();
    apply_init(&a);
    apply_run(&a);
    apply_close(&a);
    return 0;
}
