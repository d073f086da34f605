/* The slots and rates of each optimizer. The formulas are in kernels_optimizers.h. */
#include "common/math/optimizer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"

/* FTRL divides by the rate and recomputes the weights from its slots. If a schedule has reached a rate of 0, the
 * weights stay as they are. */
#define FTRL_RATE_MIN 1e-20f

enum {
    AVERAGED_ELEMS = 4096
}; /* elements updated and averaged per pass: they fit the first-level cache */

/* ---- slots ---- */

static const char *const step_slots[OPTIMIZER_STEP_KINDS][OPTIMIZER_SLOTS_MAX] = {
#define STEP_SLOTS(NUMBER, name, slots, ...) [STEP_##NUMBER] = {__VA_ARGS__},
    OPTIMIZER_STEPS(STEP_SLOTS)};

static enum optimizer_step step_of(const struct optimizer *o)
{
    bool momentum = o->momentum > 0.0f;
    switch (o->kind) {
    case OPT_SGD:
        return !momentum ? STEP_SGD : o->nesterov ? STEP_NESTEROV : STEP_MOMENTUM;
    case OPT_ADAM:
    case OPT_ADAMW:
        return o->amsgrad ? STEP_AMSGRAD : STEP_ADAM;
    case OPT_ADAGRAD:
        return STEP_ADAGRAD;
    case OPT_RMSPROP:
        if (o->centered)
            return momentum ? STEP_RMSPROP_CENTERED_MOMENTUM : STEP_RMSPROP_CENTERED;
        return momentum ? STEP_RMSPROP_MOMENTUM : STEP_RMSPROP;
    case OPT_FTRL:
        return STEP_FTRL;
    case OPT_LAMB:
        return STEP_LAMB;
    }
    return STEP_SGD;
}

bool optimizer_is_trusted(const struct optimizer *o)
{
    return o->kind == OPT_LAMB;
}

bool optimizer_divides_zeros(const struct optimizer *o)
{
    switch (o->kind) {
    case OPT_SGD:
        return false;
    case OPT_FTRL:
        return o->initial_accumulator_value <= 0.0f;
    case OPT_ADAGRAD:
        return o->epsilon <= 0.0f && o->initial_accumulator_value <= 0.0f;
    default:
        return o->epsilon <= 0.0f;
    }
}

bool optimizer_is_linear(const struct optimizer *o)
{
    return o->kind == OPT_SGD;
}

/* Lists the slots that `o` keeps, in the order of its step, with NULL at the end. */
static void slot_names(const struct optimizer *o, const char *name[OPTIMIZER_SLOTS_MAX + 1])
{
    uint32_t n = 0;
    for (const char *const *slot = step_slots[step_of(o)]; *slot; slot++)
        name[n++] = *slot;
    if (o->use_ema)
        name[n++] = "average";
    if (o->accumulation_steps > 1)
        name[n++] = "gradient_sum"; /* always the last */
    assert(n <= OPTIMIZER_SLOTS_MAX);
    name[n] = NULL;
}

uint32_t optimizer_slots(const struct optimizer *o)
{
    const char *name[OPTIMIZER_SLOTS_MAX + 1];
    uint32_t n = 0;
    slot_names(o, name);
    while (name[n])
        n++;
    return n;
}

const char *optimizer_slot_name(const struct optimizer *o, uint32_t slot)
{
    const char *name[OPTIMIZER_SLOTS_MAX + 1];
    assert(slot < optimizer_slots(o));
    slot_names(o, name);
    return name[slot];
}

float optimizer_slot_initial(const struct optimizer *o, uint32_t slot)
{
    bool accumulator = (o->kind == OPT_ADAGRAD || o->kind == OPT_FTRL) && slot == 0;
    return accumulator ? o->initial_accumulator_value : 0.0f;
}

uint32_t optimizer_average_slot(const struct optimizer *o)
{
    return o->use_ema ? optimizer_slots(o) - 1 - (o->accumulation_steps > 1) : UINT32_MAX;
}

/* ---- rates ---- */

uint64_t optimizer_updates(const struct optimizer *o, uint64_t t)
{
    return o->accumulation_steps > 1 ? t / o->accumulation_steps : t;
}

double optimizer_rate(const struct optimizer *o, uint64_t t)
{
    double rate = schedule_rate(&o->schedule, o->learning_rate, t);
    return o->staleness > 1 ? rate / (double)o->staleness : rate;
}

/* beta^t by squaring: it uses only multiplications, so the bits do not depend on libm. */
static double power(double beta, uint64_t t)
{
    double result = 1.0;
    for (; t; t >>= 1) {
        if (t & 1)
            result *= beta;
        beta *= beta;
    }
    return result;
}

/* alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t) */
static float adam_alpha(const struct optimizer *o, double rate, uint64_t t)
{
    double correction_1 = 1.0 - power((double)o->beta_1, t);
    double correction_2 = 1.0 - power((double)o->beta_2, t);
    return (float)(rate * sqrt(correction_2) / correction_1);
}

/* Values shared by all elements of update t. */
static struct update_rates rates_of(const struct optimizer *o, uint64_t t, float inv_n)
{
#define COPY(member, ...) .member = o->member,
    double rate = optimizer_rate(o, t);
    float lr = (float)rate;
    bool adam = o->kind == OPT_ADAM || o->kind == OPT_ADAMW;
    return (struct update_rates){
        OPTIMIZER_NUMBERS(COPY, OPTIMIZER_NO_MEMBER, OPTIMIZER_NO_MEMBER) /* copied unchanged */
            .inv_n = inv_n,
        .decay = o->weight_decay * lr,
        .lr = adam ? adam_alpha(o, rate, t) : lr,
        .one_minus_beta_1 = 1.0f - o->beta_1,
        .one_minus_beta_2 = 1.0f - o->beta_2,
        .correction_1 = (float)(1.0 - power((double)o->beta_1, t)),
        .correction_2 = (float)(1.0 - power((double)o->beta_2, t)),
        .power = -o->learning_rate_power,
        .l2_added = 2.0f * (o->l2 + o->beta / (2.0f * lr)),
        .shrinkage = 2.0f * o->l2_shrinkage,
    };
}

/* ---- the update ---- */

void optimizer_direction(const struct optimizer *o, uint64_t t, float *u, float *decayed,
                         const float *w, float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                         float inv_n, size_t n)
{
    assert(t > 0 && optimizer_is_trusted(o));
    const struct update_rates r = rates_of(o, optimizer_updates(o, t), inv_n);
    kernels()->lamb_direction(u, decayed, w, slots, g, &r, n);
}

/* lamb.py: |w| / |u| */
float optimizer_ratio(double squares_of_decayed, double squares_of_u)
{
    if (!(squares_of_decayed > 0) || !(squares_of_u > 0))
        return 1.0f;
    return (float)(sqrt(squares_of_decayed) / sqrt(squares_of_u));
}

static void update(const struct optimizer *o, uint64_t t, struct optimizer_factors f, float *w_out,
                   const float *w, float *const *slots, const float *g, size_t n)
{
    struct update_rates r = rates_of(o, t, f.inv_n * f.scale);
    r.lr *= f.ratio;
    if (o->kind == OPT_FTRL && !(r.lr >= FTRL_RATE_MIN)) {
        memmove(w_out, w, n * sizeof *w);
        return;
    }
    kernels()->step[step_of(o)](w_out, w, slots, g, &r, n);
}

/* base_optimizer.py, gradient_accumulation_steps: the mean of that many gradients makes one update. */
static void accumulate(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                       float *w_out, const float *w, float *const *slots, const float *g, size_t n)
{
    uint32_t steps = o->accumulation_steps;
    float *sum = slots[optimizer_slots(o) - 1];
    kernels()->add_scaled(sum, g, f.inv_n, n);
    if (t % steps) {
        memmove(w_out, w, n * sizeof *w);
        return;
    }
    f.inv_n = 1.0f / (float)steps;
    update(o, t / steps, f, w_out, w, slots, sum, n);
    memset(sum, 0, n * sizeof *sum);
}

const float *optimizer_gradient(const struct optimizer *o, uint64_t t, float *room,
                                float *const slots[OPTIMIZER_SLOTS_MAX], const float *g,
                                float *inv_n, size_t n)
{
    uint32_t steps = o->accumulation_steps;
    if (steps <= 1)
        return g;
    if (t % steps)
        return NULL;
    memcpy(room, slots[optimizer_slots(o) - 1], n * sizeof *room);
    kernels()->add_scaled(room, g, *inv_n, n);
    *inv_n = 1.0f / (float)steps;
    return room;
}

static void apply(const struct optimizer *o, uint64_t t, struct optimizer_factors f, float *w_out,
                  const float *w, float *const *slots, const float *g, size_t n)
{
    if (o->accumulation_steps > 1)
        accumulate(o, t, f, w_out, w, slots, g, n);
    else
        update(o, t, f, w_out, w, slots, g, n);
}

/* base_optimizer.py, _update_model_variables_moving_average: after each gradient. Keras's `iterations` counts the
 * updates before this one. During the first update, the average is a copy of the weights. */
static void follow(const struct optimizer *o, uint64_t t, float *average, float *w, size_t n)
{
    uint64_t before = optimizer_updates(o, t - 1);
    assert(before <= optimizer_updates(o, t) && optimizer_updates(o, t) <= before + 1);
    if (before == 0)
        memcpy(average, w, n * sizeof *w);
    else
        kernels()->average(average, w, o->ema_momentum, n);
    if (o->ema_overwrite_frequency && (before + 1) % o->ema_overwrite_frequency == 0)
        memcpy(w, average, n * sizeof *w);
}

static void apply_averaged(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                           float *w_out, const float *w, float *const *slots, const float *g,
                           size_t n)
{
    float *average = slots[optimizer_average_slot(o)];
    uint32_t kept = optimizer_slots(o);
    for (size_t i = 0; i < n; i += AVERAGED_ELEMS) {
        size_t elems = n - i < AVERAGED_ELEMS ? n - i : AVERAGED_ELEMS;
        float *slot[OPTIMIZER_SLOTS_MAX] = {0};
        for (uint32_t k = 0; k < kept; k++)
            slot[k] = slots[k] + i;
        apply(o, t, f, w_out + i, w + i, slot, g + i, elems);
        follow(o, t, average + i, w_out + i, elems);
    }
}

void optimizer_apply(const struct optimizer *o, uint64_t t, struct optimizer_factors f,
                     float *w_out, const float *w, float *const slots[OPTIMIZER_SLOTS_MAX],
                     const float *g, size_t n)
{
    assert(t > 0);
    if (o->use_ema)
        apply_averaged(o, t, f, w_out, w, slots, g, n);
    else
        apply(o, t, f, w_out, w, slots, g, n);
}

/* ---- rows ---- */

static bool is_rowwise(const struct optimizer *o)
{
    return o->kind == OPT_ADAGRAD && o->rowwise;
}

uint32_t optimizer_row_slots(const struct optimizer *o, uint32_t dim)
{
    return is_rowwise(o) ? 1 : optimizer_slots(o) * dim;
}

void optimizer_row_initial(const struct optimizer *o, float *slots, uint32_t dim)
{
    uint32_t floats = optimizer_row_slots(o, dim);
    for (uint32_t i = 0; i < floats; i++)
        slots[i] = optimizer_slot_initial(o, i / dim);
}

bool optimizer_is_lazy(const struct optimizer *o)
{
    return !o->use_ema && o->accumulation_steps <= 1 && !optimizer_is_trusted(o);
}

struct optimizer_rows optimizer_rows_of(const struct optimizer *o, uint64_t t,
                                        struct optimizer_factors f)
{
    assert(t > 0 && optimizer_is_lazy(o));
    struct optimizer_rows r = {.o = o, .rate = optimizer_rate(o, t)};
    r.rates = rates_of(o, t, f.inv_n * f.scale);
    r.step = kernels()->step_rows[is_rowwise(o) ? STEP_SGD : step_of(o)];
    if (o->kind == OPT_ADAM || o->kind == OPT_ADAMW)
        r.rates_are = ROWS_BY_COUNT;
    else if (is_rowwise(o))
        r.rates_are = ROWS_BY_SQUARES;
    else if (o->kind == OPT_FTRL && !(r.rates.lr >= FTRL_RATE_MIN))
        r.rates_are = ROWS_STAND;
    return r;
}

/* rowwise_adagrad of fbgemm_gpu: the row has one mean of squares, and epsilon is outside the root. */
static float rowwise_rate(const struct optimizer_rows *r, float *accumulator, const float *g,
                          uint32_t dim)
{
    double inv_n = (double)r->rates.inv_n;
    *accumulator += (float)(kernels()->sum_squares(g, dim) * inv_n * inv_n / dim);
    return r->rates.lr / (sqrtf(*accumulator) + r->rates.epsilon);
}

float optimizer_own_rate(const struct optimizer_rows *r, uint64_t count, float *slot,
                         const float *g, uint32_t dim)
{
    assert(count > 0);
    if (r->rates_are == ROWS_BY_COUNT)
        return adam_alpha(r->o, r->rate, count);
    return r->rates_are == ROWS_BY_SQUARES ? rowwise_rate(r, slot, g, dim) : r->rates.lr;
}

void optimizer_apply_rows(const struct optimizer_rows *r, const struct kernel_row *row, size_t rows,
                          uint32_t dim)
{
    if (r->rates_are != ROWS_STAND)
        r->step(row, rows, &r->rates, dim);
}
