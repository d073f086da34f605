/* Formulas: keras/src/optimizers/schedules/learning_rate_schedule.py. `step` is Keras's: the number of updates
 * before this one. */
#include "common/math/schedule.h"

#include <math.h>

#include "common/base/real.h"

/* ExponentialDecay, InverseTimeDecay: how many times decay_steps have passed. */
static double decays(const struct schedule *s, double step)
{
    double p = step / s->decay_steps;
    return s->staircase ? floor(p) : p;
}

/* CosineDecay: from `from` down to alpha * from, along half a cosine. */
static double cosine(const struct schedule *s, double from, double step)
{
    double done = fmin(step, s->decay_steps) / s->decay_steps;
    double alpha = (double)s->alpha;
    return from * ((1.0 - alpha) * (0.5 * (1.0 + real_cos_pi(done))) + alpha);
}

/* CosineDecay with a warmup_target: linearly up to the target, then down from it. */
static double cosine_decay(const struct schedule *s, double rate, double step)
{
    double target = (double)s->warmup_target, steps = s->warmup_target_steps;
    if (target == 0)
        return cosine(s, rate, step);
    if (step < steps)
        return (target - rate) * (step / steps) + rate;
    return cosine(s, target, step - steps);
}

/* PolynomialDecay. cycle: decay_steps grow to their first multiple that is not below the step. */
static double polynomial_decay(const struct schedule *s, double rate, double step)
{
    double end = (double)s->end_learning_rate, steps = s->decay_steps;
    if (s->cycle)
        steps *= step == 0 ? 1.0 : ceil(step / steps);
    double left = 1.0 - fmin(step, steps) / steps;
    return (rate - end) * real_pow(left, (double)s->power) + end;
}

/* PiecewiseConstantDecay: value i up to and including boundary i. */
static double piecewise_constant_decay(const struct schedule *s, double step)
{
    uint32_t i = 0;
    while (i < s->boundaries.n && step > s->boundaries.value[i])
        i++;
    return (double)s->values.value[i];
}

static double without_warmup(const struct schedule *s, double rate, double step)
{
    switch (s->kind) {
    case SCHEDULE_CONSTANT:
        return rate;
    case SCHEDULE_EXPONENTIAL_DECAY:
        return rate * real_pow((double)s->decay_rate, decays(s, step));
    case SCHEDULE_COSINE_DECAY:
        return cosine_decay(s, rate, step);
    case SCHEDULE_POLYNOMIAL_DECAY:
        return polynomial_decay(s, rate, step);
    case SCHEDULE_PIECEWISE_CONSTANT_DECAY:
        return piecewise_constant_decay(s, step);
    case SCHEDULE_INVERSE_TIME_DECAY:
        return rate / (1.0 + (double)s->decay_rate * decays(s, step));
    }
    return rate;
}

/* Warm-up by Goyal et al. 2017, section 2.2: of the first n updates, update t has t/n of the rate. */
double schedule_rate(const struct schedule *s, float rate, uint64_t t)
{
    double at = without_warmup(s, (double)rate, (double)(t - 1));
    return t < s->warmup_steps ? at * ((double)t / s->warmup_steps) : at;
}
