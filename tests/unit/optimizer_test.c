#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"
#include "tests/reference/optimizer_keras.h"

enum { N = 203, STEPS = 40 };

/* ---- the cases: those that Keras was asked for, by the same names ---- */

#define ADAM_NUMBERS .beta_1 = 0.9f, .beta_2 = 0.999f, .epsilon = 1e-7f

static const struct {
    const char *name;
    struct optimizer o;
} CASES[] = {
    {"sgd", {.kind = OPT_SGD, .learning_rate = 0.1f}},
    {"sgd_momentum", {.kind = OPT_SGD, .learning_rate = 0.1f, .momentum = 0.9f}},
    {"sgd_nesterov", {.kind = OPT_SGD, .learning_rate = 0.1f, .momentum = 0.9f, .nesterov = true}},
    {"sgd_decay", {.kind = OPT_SGD, .learning_rate = 0.1f, .weight_decay = 0.05f}},
    {"adam", {.kind = OPT_ADAM, .learning_rate = 0.01f, ADAM_NUMBERS}},
    {"adam_amsgrad",
     {.kind = OPT_ADAM,
      .learning_rate = 0.01f,
      .beta_1 = 0.9f,
      .beta_2 = 0.7f,
      .epsilon = 1e-7f,
      .amsgrad = true}},
    {"adamw", {.kind = OPT_ADAMW, .learning_rate = 0.01f, ADAM_NUMBERS, .weight_decay = 0.3f}},
    {"adagrad",
     {.kind = OPT_ADAGRAD,
      .learning_rate = 0.1f,
      .initial_accumulator_value = 0.1f,
      .epsilon = 1e-7f}},
    {"adagrad_epsilon",
     {.kind = OPT_ADAGRAD,
      .learning_rate = 0.1f,
      .initial_accumulator_value = 0.5f,
      .epsilon = 0.25f}},
    {"rmsprop", {.kind = OPT_RMSPROP, .learning_rate = 0.01f, .rho = 0.9f, .epsilon = 1e-7f}},
    {"rmsprop_momentum",
     {.kind = OPT_RMSPROP, .learning_rate = 0.01f, .rho = 0.8f, .momentum = 0.5f, .epsilon = 0.1f}},
    {"rmsprop_centered",
     {.kind = OPT_RMSPROP,
      .learning_rate = 0.01f,
      .rho = 0.9f,
      .epsilon = 1e-7f,
      .centered = true}},
    {"rmsprop_centered_momentum",
     {.kind = OPT_RMSPROP,
      .learning_rate = 0.01f,
      .rho = 0.9f,
      .momentum = 0.9f,
      .epsilon = 1e-7f,
      .centered = true}},
    {"ftrl",
     {.kind = OPT_FTRL,
      .learning_rate = 0.1f,
      .learning_rate_power = -0.5f,
      .initial_accumulator_value = 0.1f}},
    {"ftrl_l1_l2",
     {.kind = OPT_FTRL,
      .learning_rate = 0.1f,
      .learning_rate_power = -0.5f,
      .initial_accumulator_value = 0.1f,
      .l1 = 0.3f,
      .l2 = 0.2f,
      .l2_shrinkage = 0.1f,
      .beta = 0.5f}},
    {"accumulated",
     {.kind = OPT_ADAM, .learning_rate = 0.01f, ADAM_NUMBERS, .accumulation_steps = 2}},
    {"accumulated_decay",
     {.kind = OPT_SGD,
      .learning_rate = 0.1f,
      .momentum = 0.9f,
      .weight_decay = 0.2f,
      .accumulation_steps = 3}},
    {"lamb", {.kind = OPT_LAMB, .learning_rate = 0.1f, ADAM_NUMBERS}},
    {"lamb_decay",
     {.kind = OPT_LAMB,
      .learning_rate = 0.05f,
      .beta_1 = 0.8f,
      .beta_2 = 0.999f,
      .epsilon = 0.1f,
      .weight_decay = 0.3f}},
    {"ema",
     {.kind = OPT_SGD,
      .learning_rate = 0.1f,
      .momentum = 0.9f,
      .use_ema = true,
      .ema_momentum = 0.99f}},
    {"ema_overwrites",
     {.kind = OPT_ADAM,
      .learning_rate = 0.01f,
      ADAM_NUMBERS,
      .use_ema = true,
      .ema_momentum = 0.8f,
      .ema_overwrite_frequency = 3}},
    {"ema_accumulated",
     {.kind = OPT_SGD,
      .learning_rate = 0.1f,
      .momentum = 0.5f,
      .accumulation_steps = 3,
      .use_ema = true,
      .ema_momentum = 0.7f,
      .ema_overwrite_frequency = 2}},
    {"clipped", {.kind = OPT_SGD, .learning_rate = 0.1f, .momentum = 0.9f}},
    {"accumulated_clipped",
     {.kind = OPT_ADAM, .learning_rate = 0.01f, ADAM_NUMBERS, .accumulation_steps = 2}},
    {"lamb_clipped",
     {.kind = OPT_LAMB,
      .learning_rate = 0.05f,
      .beta_1 = 0.9f,
      .beta_2 = 0.999f,
      .epsilon = 0.1f,
      .weight_decay = 0.3f}},
    {"lamb_accumulated_clipped",
     {.kind = OPT_LAMB,
      .learning_rate = 0.05f,
      .beta_1 = 0.9f,
      .beta_2 = 0.999f,
      .epsilon = 0.1f,
      .accumulation_steps = 3}},
    {"ftrl_power",
     {.kind = OPT_FTRL,
      .learning_rate = 0.1f,
      .learning_rate_power = -0.7f,
      .initial_accumulator_value = 0.4f}},
};
enum { CASES_N = sizeof CASES / sizeof *CASES };

/* The global norm of an update's mean gradient. */
static const struct {
    const char *name;
    float norm;
} CLIPPED[] = {{"clipped", 0.75f},
               {"accumulated_clipped", 0.5f},
               {"lamb_clipped", 0.75f},
               {"lamb_accumulated_clipped", 0.5f}};

static const struct optimizer *case_named(const char *name)
{
    for (int i = 0; i < CASES_N; i++)
        if (strcmp(CASES[i].name, name) == 0)
            return &CASES[i].o;
    fail_msg("no case %s", name);
    return NULL;
}

/* ---- blocks ---- */

struct block {
    float w[N], slot[OPTIMIZER_SLOTS_MAX][N];
};

static void fill(float *out, uint64_t key, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (2.0f * rng_unit(key, i) - 1.0f) * (i % 7 == 0 ? 1e-3f : 1.0f);
}

static void gradient(float *g, uint64_t step)
{
    fill(g, rng_key(11, RNG_TEST, step, 0), N);
}

static void block_init(struct block *b, const struct optimizer *o)
{
    memset(b, 0, sizeof *b);
    fill(b->w, 5, N);
    for (uint32_t j = 0; j < optimizer_slots(o); j++)
        for (int i = 0; i < N; i++)
            b->slot[j][i] = optimizer_slot_initial(o, j);
}

/* 0: it is not clipped. */
static float clip_of(const struct optimizer *o)
{
    for (size_t i = 0; i < sizeof CLIPPED / sizeof *CLIPPED; i++)
        if (case_named(CLIPPED[i].name) == o)
            return CLIPPED[i].norm;
    return 0;
}

static float norm_of(const float *x, float share, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return (float)(sqrt(squares) * (double)share);
}

static const struct optimizer_factors ALONE = {1, 1, 1};

/* Of the update that gradient t makes of the first n elements, which are one tensor: lamb's ratio, clipping's scale. */
static struct optimizer_factors factors_of(const struct optimizer *o, uint64_t t,
                                           const struct block *b, const float *g, float inv_n,
                                           size_t n)
{
    struct optimizer_factors f = {inv_n, 1, 1};
    float u[N], decayed[N], room[N], *slots[OPTIMIZER_SLOTS_MAX], clip = clip_of(o);
    struct block copy = *b;
    for (int j = 0; j < OPTIMIZER_SLOTS_MAX; j++)
        slots[j] = copy.slot[j];
    const float *all = optimizer_gradient(o, t, room, slots, g, &inv_n, n);
    if (!all)
        return f;
    if (clip > 0)
        f.scale = fminf(1, clip / norm_of(all, inv_n, n));
    if (o->kind != OPT_LAMB)
        return f;
    optimizer_direction(o, t, u, decayed, b->w, slots, all, inv_n * f.scale, n);
    assert_memory_equal(&copy, b, sizeof copy); /* it only looks */
    f.ratio = norm_of(decayed, 1, n) / norm_of(u, 1, n);
    return f;
}

/* Elements [at, at + n) of a block, by the same of g. */
static void apply_piece(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                        struct block *b, float *w_out, const float *g, size_t at, size_t n)
{
    float *slots[OPTIMIZER_SLOTS_MAX];
    for (int j = 0; j < OPTIMIZER_SLOTS_MAX; j++)
        slots[j] = b->slot[j] + at;
    optimizer_apply(o, t, f, w_out + at, b->w + at, slots, g + at, n);
}

/* The first n elements, as one tensor. */
static void apply_whole(const struct optimizer *o, uint64_t t, struct block *b, float *w_out,
                        const float *g, float inv_n, size_t n)
{
    apply_piece(o, t, factors_of(o, t, b, g, inv_n, n), b, w_out, g, 0, n);
}

static void step_at(const struct optimizer *o, uint64_t t, struct block *b, float inv_n)
{
    float g[N];
    gradient(g, t);
    apply_whole(o, t, b, b->w, g, inv_n, N);
}

/* ---- the reference: the published formulas in double, one scalar at a time ---- */

struct scalar {
    double w, s[OPTIMIZER_SLOTS_MAX];
};

/* Kingma and Ba 2015, the efficient order of section 2 (alpha_t), as Keras has it; amsgrad: Reddi et al. 2018. */
static void reference_adam(struct scalar *p, double g, const struct optimizer *o, double t)
{
    double b1 = (double)o->beta_1, b2 = (double)o->beta_2;
    p->s[0] = b1 * p->s[0] + (1 - b1) * g;
    p->s[1] = b2 * p->s[1] + (1 - b2) * g * g;
    if (o->amsgrad)
        p->s[2] = fmax(p->s[2], p->s[1]);
    double alpha = (double)o->learning_rate * sqrt(1 - pow(b2, t)) / (1 - pow(b1, t));
    p->w -= alpha * p->s[0] / (sqrt(p->s[o->amsgrad ? 2 : 1]) + (double)o->epsilon);
}

/* keras.io/api/optimizers/sgd */
static void reference_sgd(struct scalar *p, double g, const struct optimizer *o)
{
    double lr = (double)o->learning_rate, momentum = (double)o->momentum;
    p->s[0] = momentum * p->s[0] - lr * g;
    p->w += o->nesterov ? momentum * p->s[0] - lr * g : p->s[0];
}

/* Duchi et al. 2011 */
static void reference_adagrad(struct scalar *p, double g, const struct optimizer *o)
{
    p->s[0] += g * g;
    p->w -= (double)o->learning_rate * g / sqrt(p->s[0] + (double)o->epsilon);
}

/* Hinton's lecture 6e; centered: Graves 2013, with momentum */
static void reference_rmsprop(struct scalar *p, double g, const struct optimizer *o)
{
    double rho = (double)o->rho, *momentum = &p->s[o->centered ? 2 : 1];
    p->s[0] = rho * p->s[0] + (1 - rho) * g * g;
    double mean_square = p->s[0];
    if (o->centered) {
        p->s[1] = rho * p->s[1] + (1 - rho) * g;
        mean_square -= p->s[1] * p->s[1];
    }
    double step = (double)o->learning_rate * g / sqrt(mean_square + (double)o->epsilon);
    if (o->momentum > 0)
        step = *momentum = (double)o->momentum * *momentum + step;
    p->w -= step;
}

/* McMahan et al. 2013, algorithm 1, with the shrinkage and the power that TensorFlow added */
static void reference_ftrl(struct scalar *p, double g, const struct optimizer *o)
{
    double lr = (double)o->learning_rate, power = -(double)o->learning_rate_power;
    double n = p->s[0] + g * g, l1 = (double)o->l1;
    double sigma = (pow(n, power) - pow(p->s[0], power)) / lr;
    p->s[1] += g + 2 * (double)o->l2_shrinkage * p->w - sigma * p->w;
    p->s[0] = n;
    double strength = ((double)o->beta + pow(n, power)) / lr + 2 * (double)o->l2;
    double z = p->s[1];
    p->w = fabs(z) <= l1 ? 0 : -(z - copysign(l1, z)) / strength;
}

/* You et al. 2020, algorithm 2 with phi(z) = z, over one tensor; the decay is Keras's. */
static void reference_lamb(struct scalar *p, const double *g, size_t n, const struct optimizer *o,
                           double t)
{
    double b1 = (double)o->beta_1, b2 = (double)o->beta_2, u[N], weights = 0, moves = 0;
    for (size_t i = 0; i < n; i++) {
        p[i].s[0] = b1 * p[i].s[0] + (1 - b1) * g[i];
        p[i].s[1] = b2 * p[i].s[1] + (1 - b2) * g[i] * g[i];
        double m = p[i].s[0] / (1 - pow(b1, t)), v = p[i].s[1] / (1 - pow(b2, t));
        u[i] = m / (sqrt(v) + (double)o->epsilon);
        weights += p[i].w * p[i].w;
        moves += u[i] * u[i];
    }
    for (size_t i = 0; i < n; i++)
        p[i].w -= sqrt(weights / moves) * (double)o->learning_rate * u[i];
}

static void reference_scalar(const struct optimizer *o, uint64_t t, struct scalar *p, double g)
{
    switch (o->kind) {
    case OPT_SGD:
        reference_sgd(p, g, o);
        break;
    case OPT_ADAM:
    case OPT_ADAMW:
        reference_adam(p, g, o, (double)t);
        break;
    case OPT_ADAGRAD:
        reference_adagrad(p, g, o);
        break;
    case OPT_RMSPROP:
        reference_rmsprop(p, g, o);
        break;
    case OPT_FTRL:
        reference_ftrl(p, g, o);
        break;
    case OPT_LAMB:
        fail_msg("lamb is of a tensor, not of a scalar");
    }
}

static void reference_update(const struct optimizer *o, uint64_t t, struct scalar *p,
                             const double *g, size_t n)
{
    uint32_t last = optimizer_slots(o) - 1;
    double mean[N];
    if (o->accumulation_steps > 1) {
        for (size_t i = 0; i < n; i++)
            p[i].s[last] += g[i];
        if (t % o->accumulation_steps)
            return;
        t /= o->accumulation_steps;
        for (size_t i = 0; i < n; i++) {
            mean[i] = p[i].s[last] / o->accumulation_steps;
            p[i].s[last] = 0;
        }
        g = mean;
    }
    double clipped[N], squares = 0, clip = (double)clip_of(o);
    for (size_t i = 0; i < n; i++)
        squares += g[i] * g[i];
    for (size_t i = 0; i < n; i++)
        clipped[i] = clip > 0 ? g[i] * fmin(1, clip / sqrt(squares)) : g[i];
    g = clipped;
    for (size_t i = 0; i < n; i++)
        p[i].w -= p[i].w * (double)o->weight_decay * (double)o->learning_rate;
    if (o->kind == OPT_LAMB)
        reference_lamb(p, g, n, o, (double)t);
    for (size_t i = 0; o->kind != OPT_LAMB && i < n; i++)
        reference_scalar(o, t, &p[i], g[i]);
}

/* base_optimizer.py: the average behind each gradient. */
static void reference(const struct optimizer *o, uint64_t t, struct scalar *p, const double *g,
                      size_t n)
{
    uint64_t before = optimizer_updates(o, t - 1);
    double momentum = before ? (double)o->ema_momentum : 0;
    uint32_t frequency = o->ema_overwrite_frequency;
    reference_update(o, t, p, g, n);
    for (size_t i = 0; o->use_ema && i < n; i++) {
        double *average = &p[i].s[optimizer_average_slot(o)];
        *average = momentum * *average + (1 - momentum) * p[i].w;
        if (frequency && (before + 1) % frequency == 0)
            p[i].w = *average;
    }
}

/* One rounding of w a step, and a few of the step itself. FTRL computes w from sums in each step; a variance is a difference;
 * lamb's ratio is large if the weights are. */
static double slack(const struct optimizer *o, double t, double w)
{
    double of_step = o->kind == OPT_FTRL || o->kind == OPT_LAMB || o->centered ? 1e-5 : 1e-6;
    return t * (6e-8 * fabs(w) + of_step * (double)o->learning_rate);
}

static void assert_follows_reference(const char *name, const struct optimizer *o)
{
    const float inv_n = 1.0f / 64.0f;
    static struct block b;
    static struct scalar p[N];
    float g[N];
    block_init(&b, o);
    for (int i = 0; i < N; i++) {
        p[i] = (struct scalar){.w = (double)b.w[i]};
        for (uint32_t j = 0; j < optimizer_slots(o); j++)
            p[i].s[j] = (double)b.slot[j][i];
    }
    for (uint64_t t = 1; t <= STEPS; t++) {
        double mean[N], before[N];
        step_at(o, t, &b, inv_n);
        gradient(g, t);
        for (int i = 0; i < N; i++) {
            mean[i] = (double)g[i] / 64.0;
            before[i] = p[i].w;
        }
        reference(o, t, p, mean, N);
        for (int i = 0; i < N; i++) {
            if (!(fabs((double)b.w[i] - p[i].w) <= slack(o, (double)t, before[i])))
                fail_msg("%s, step %d, element %d: %.9g, not %.9g", name, (int)t, i, (double)b.w[i],
                         p[i].w);
        }
    }
}

static void every_optimizer_follows_its_formula_in_double(void **state)
{
    (void)state;
    for (int i = 0; i < CASES_N; i++)
        assert_follows_reference(CASES[i].name, &CASES[i].o);
}

/* ---- Keras itself ---- */

static void keras_gives_the_same_weights(void **state)
{
    (void)state;
    assert_int_equal(sizeof KERAS / sizeof *KERAS, CASES_N);
    for (int c = 0; c < CASES_N; c++) {
        const struct optimizer *o = case_named(KERAS[c].name);
        static struct block b;
        block_init(&b, o);
        for (int i = 0; i < KERAS_N; i++)
            b.w[i] = (float)(i % 7 - 3) / 4.0f;
        for (int t = 1; t <= KERAS_STEPS; t++) {
            float g[KERAS_N];
            for (int i = 0; i < KERAS_N; i++)
                g[i] = (float)((7 * t + 5 * i) % 11 - 5) / 8.0f;
            apply_whole(o, (uint64_t)t, &b, b.w, g, 1.0f, KERAS_N);
        }
        const float *learned = o->use_ema ? b.slot[optimizer_average_slot(o)] : b.w;
        for (int i = 0; i < KERAS_N; i++)
            if (!(fabs((double)learned[i] - KERAS[c].w[i]) <= 3e-7))
                fail_msg("%s, element %d: %.9g, Keras has %.9g", KERAS[c].name, i,
                         (double)learned[i], KERAS[c].w[i]);
    }
}

/* At t = 1 the corrections cancel: alpha m / sqrt(v) = lr g / |g|, whatever the betas. */
static void adams_first_step_is_the_rate_and_its_t_counts(void **state)
{
    (void)state;
    const struct optimizer adam = {.kind = OPT_ADAM, .learning_rate = 0.001f, ADAM_NUMBERS};
    float w[2] = {1.0f, 1.0f}, m[2] = {0}, v[2] = {0}, g[2] = {0.5f, -0.25f};
    float *slots[OPTIMIZER_SLOTS_MAX] = {m, v};
    optimizer_apply(&adam, 1, ALONE, w, w, slots, g, 2);
    assert_true(fabsf(w[0] - 0.999f) < 2e-7f && fabsf(w[1] - 1.001f) < 2e-7f);

    float late[2] = {1.0f, 1.0f}, m0[2] = {0}, v0[2] = {0};
    float *fresh[OPTIMIZER_SLOTS_MAX] = {m0, v0};
    optimizer_apply(&adam, 1000000, ALONE, late, late, fresh, g, 2);
    /* no correction is left: lr (1 - b1) / sqrt(1 - b2) */
    assert_true(fabsf(late[0] - (1.0f - 0.001f * 0.1f / 0.0316228f)) < 1e-6f);
}

/* Gradients that do not change have no variance, and rounding must not make it negative: no NaN. */
static void a_centered_variance_is_never_negative(void **state)
{
    (void)state;
    struct optimizer o = *case_named("rmsprop_centered");
    o.rho = 0.3f;
    o.epsilon = 1e-12f;
    static struct block b;
    float g[N];
    block_init(&b, &o);
    for (int i = 0; i < N; i++)
        g[i] = 100.0f + (float)i * 0.37f;
    for (uint64_t t = 1; t <= 200; t++)
        apply_whole(&o, t, &b, b.w, g, 1.0f, N);
    for (int i = 0; i < N; i++)
        assert_true(isfinite(b.w[i]));
}

/* Where a round is on, the sum of the gradient stands where the weights are to be. */
static void the_gradient_may_stand_where_the_weights_go(void **state)
{
    (void)state;
    for (int c = 0; c < CASES_N; c++) {
        static struct block a, b;
        float g[N], in_place[N], apart[N];
        block_init(&a, &CASES[c].o);
        b = a;
        for (uint64_t t = 1; t <= 4; t++) {
            gradient(g, t);
            memcpy(in_place, g, sizeof g);
            apply_piece(&CASES[c].o, t, ALONE, &a, apart, g, 0, N);
            apply_piece(&CASES[c].o, t, ALONE, &b, in_place, in_place, 0, N);
            assert_memory_equal(apart, in_place, sizeof apart);
            memcpy(a.w, apart, sizeof apart);
            memcpy(b.w, apart, sizeof apart);
        }
        assert_memory_equal(&a, &b, sizeof a);
    }
}

static void a_ratio_of_nothing_is_1(void **state)
{
    (void)state;
    assert_true(optimizer_ratio(0, 4) == 1.0f && optimizer_ratio(4, 0) == 1.0f);
    assert_true(optimizer_ratio(4, 16) == 0.5f);
}

/* ---- bits ---- */

static void the_same_bits_at_every_level_in_place_or_not(void **state)
{
    (void)state;
    for (int c = 0; c < CASES_N; c++) {
        const struct optimizer *o = &CASES[c].o;
        static struct block expected;
        block_init(&expected, o);
        assert_non_null(kernels_use(KERNELS_BASE));
        for (uint64_t t = 1; t <= STEPS; t++)
            step_at(o, t, &expected, 1.0f / 48.0f);
        for (int level = KERNELS_BASE; level <= KERNELS_AVX512; level++) {
            if (!kernels_use((enum kernels_level)level))
                continue;
            static struct block b;
            static float other[N], g[N];
            block_init(&b, o);
            for (uint64_t t = 1; t <= STEPS; t++) {
                gradient(g, t);
                apply_whole(o, t, &b, other, g, 1.0f / 48.0f, N);
                memcpy(b.w, other, sizeof other);
            }
            assert_memory_equal(&b, &expected, sizeof b);
        }
    }
}

/* Any cut of the block, into chunks or shards, gives the same. */
static void pieces_give_what_the_whole_gives(void **state)
{
    (void)state;
    for (int c = 0; c < CASES_N; c++) {
        static struct block whole, pieces;
        float g[N];
        block_init(&whole, &CASES[c].o);
        pieces = whole;
        for (uint64_t t = 1; t <= 5; t++) {
            gradient(g, t);
            struct optimizer_factors f = factors_of(&CASES[c].o, t, &whole, g, 1.0f, N);
            step_at(&CASES[c].o, t, &whole, 1.0f);
            for (size_t at = 0, n; at < N; at += n) {
                n = at % 19 + 1 < N - at ? at % 19 + 1 : N - at;
                apply_piece(&CASES[c].o, t, f, &pieces, pieces.w, g, at, n);
            }
        }
        assert_memory_equal(&whole, &pieces, sizeof whole);
    }
}

static void slots_are_counted_and_named(void **state)
{
    static const struct {
        const char *name, *slot[OPTIMIZER_SLOTS_MAX];
    } expected[] = {
        {"sgd", {NULL}},
        {"sgd_momentum", {"momentum"}},
        {"adam", {"m", "v"}},
        {"adam_amsgrad", {"m", "v", "v_hat"}},
        {"adamw", {"m", "v"}},
        {"accumulated", {"m", "v", "gradient_sum"}},
        {"accumulated_decay", {"momentum", "gradient_sum"}},
        {"lamb", {"m", "v"}},
        {"ema", {"momentum", "average"}},
        {"ema_accumulated", {"momentum", "average", "gradient_sum"}},
        {"adagrad", {"accumulator"}},
        {"rmsprop", {"velocity"}},
        {"rmsprop_momentum", {"velocity", "momentum"}},
        {"rmsprop_centered", {"velocity", "average_gradient"}},
        {"rmsprop_centered_momentum", {"velocity", "average_gradient", "momentum"}},
        {"ftrl", {"accumulator", "linear"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct optimizer *o = case_named(expected[i].name);
        uint32_t n = 0;
        for (; n < OPTIMIZER_SLOTS_MAX && expected[i].slot[n]; n++)
            assert_string_equal(optimizer_slot_name(o, n), expected[i].slot[n]);
        assert_int_equal(optimizer_slots(o), n);
    }
    assert_true(optimizer_slot_initial(case_named("adagrad_epsilon"), 0) == 0.5f);
    assert_true(optimizer_slot_initial(case_named("ftrl"), 0) == 0.1f);
    assert_true(optimizer_slot_initial(case_named("ftrl"), 1) == 0.0f);
    assert_true(optimizer_slot_initial(case_named("rmsprop"), 0) == 0.0f);
    assert_int_equal(optimizer_average_slot(case_named("ema_overwrites")), 2);
    assert_int_equal(optimizer_average_slot(case_named("ema_accumulated")), 1);
    assert_int_equal(optimizer_average_slot(case_named("rmsprop")), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_follows_its_formula_in_double),
        cmocka_unit_test(keras_gives_the_same_weights),
        cmocka_unit_test(adams_first_step_is_the_rate_and_its_t_counts),
        cmocka_unit_test(a_centered_variance_is_never_negative),
        cmocka_unit_test(the_gradient_may_stand_where_the_weights_go),
        cmocka_unit_test(a_ratio_of_nothing_is_1),
        cmocka_unit_test(the_same_bits_at_every_level_in_place_or_not),
        cmocka_unit_test(pieces_give_what_the_whole_gives),
        cmocka_unit_test(slots_are_counted_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
