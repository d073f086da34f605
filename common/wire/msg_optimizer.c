/* The optimizer in the chief's settings. */
#include "common/wire/msg.h"

#include <math.h>

static void schedule_set(Gradwire__Settings *m, const struct schedule *s)
{
    m->schedule = (uint32_t)s->kind;
    m->warmup_steps = s->warmup_steps;
    m->decay_steps = s->decay_steps;
    m->decay_rate = s->decay_rate;
    m->staircase = s->staircase;
    m->alpha = s->alpha;
    m->warmup_target = s->warmup_target;
    m->warmup_target_steps = s->warmup_target_steps;
    m->end_learning_rate = s->end_learning_rate;
    m->power = s->power;
    m->cycle = s->cycle;
    m->n_boundaries = s->boundaries.n;
    m->boundaries = (uint32_t *)s->boundaries.value;
    m->n_values = s->values.n;
    m->values = (float *)s->values.value;
}

void msg_optimizer_set(Gradwire__Settings *m, const struct optimizer *o)
{
    m->optimizer = (uint32_t)o->kind;
    m->learning_rate = o->learning_rate;
    m->momentum = o->momentum;
    m->nesterov = o->nesterov;
    m->beta_1 = o->beta_1;
    m->beta_2 = o->beta_2;
    m->epsilon = o->epsilon;
    m->amsgrad = o->amsgrad;
    m->rho = o->rho;
    m->centered = o->centered;
    m->initial_accumulator_value = o->initial_accumulator_value;
    m->learning_rate_power = o->learning_rate_power;
    m->beta = o->beta;
    m->l1_regularization_strength = o->l1;
    m->l2_regularization_strength = o->l2;
    m->l2_shrinkage_regularization_strength = o->l2_shrinkage;
    m->weight_decay = o->weight_decay;
    m->gradient_accumulation_steps = o->accumulation_steps;
    m->use_ema = o->use_ema;
    m->ema_momentum = o->ema_momentum;
    m->ema_overwrite_frequency = o->ema_overwrite_frequency;
    schedule_set(m, &o->schedule);
}

/* A share of what was: below 1, so that something of the new comes in. */
static bool is_share(float x)
{
    return x >= 0.0f && x < 1.0f;
}

static bool is_amount(float x)
{
    return x >= 0.0f && isfinite(x);
}

static bool in_range(const struct optimizer *o)
{
    return is_amount(o->learning_rate) && o->momentum >= 0.0f && o->momentum <= 1.0f &&
           is_share(o->beta_1) && is_share(o->beta_2) && is_amount(o->epsilon) &&
           o->ema_momentum >= 0.0f && o->ema_momentum <= 1.0f && is_share(o->rho) &&
           is_amount(o->initial_accumulator_value) && is_amount(-o->learning_rate_power) &&
           is_amount(o->beta) && is_amount(o->l1) && is_amount(o->l2) &&
           is_amount(o->l2_shrinkage) && is_amount(o->weight_decay);
}

static enum err schedule_get(const Gradwire__Settings *m, struct schedule *s, struct errmsg *e)
{
    if (m->schedule >= SCHEDULE_KINDS)
        return err_set(e, ERR_PROTO, "the chief's schedule, number %u, is not known here",
                       m->schedule);
    bool piecewise = m->schedule == SCHEDULE_PIECEWISE_CONSTANT_DECAY;
    bool decays = m->schedule != SCHEDULE_CONSTANT && !piecewise;
    if (m->n_boundaries >= SCHEDULE_LIST_MAX || (piecewise && m->n_values != m->n_boundaries + 1) ||
        m->n_values > SCHEDULE_LIST_MAX || (decays && m->decay_steps == 0) ||
        !is_amount(m->decay_rate) || !is_amount(m->alpha) || !is_amount(m->warmup_target) ||
        !is_amount(m->end_learning_rate) || !is_amount(m->power))
        return err_set(e, ERR_PROTO, "a number of the chief's schedule is out of range");
    *s = (struct schedule){
        .kind = (enum schedule_kind)m->schedule,
        .warmup_steps = m->warmup_steps,
        .decay_steps = m->decay_steps,
        .decay_rate = m->decay_rate,
        .staircase = m->staircase,
        .alpha = m->alpha,
        .warmup_target = m->warmup_target,
        .warmup_target_steps = m->warmup_target_steps,
        .end_learning_rate = m->end_learning_rate,
        .power = m->power,
        .cycle = m->cycle,
        .boundaries.n = (uint32_t)m->n_boundaries,
        .values.n = (uint32_t)m->n_values,
    };
    for (uint32_t i = 0; i < s->boundaries.n; i++)
        s->boundaries.value[i] = m->boundaries[i];
    for (uint32_t i = 0; i < s->values.n; i++) {
        s->values.value[i] = m->values[i];
        if (!is_amount(m->values[i]))
            return err_set(e, ERR_PROTO, "a rate of the chief's schedule is out of range");
    }
    return ERR_OK;
}

enum err msg_optimizer_get(const Gradwire__Settings *m, struct optimizer *o, struct errmsg *e)
{
    if (m->optimizer >= OPTIMIZER_KINDS)
        return err_set(e, ERR_PROTO, "the chief's optimizer, number %u, is not known here",
                       m->optimizer);
    struct optimizer made = {
        .kind = (enum optimizer_kind)m->optimizer,
        .learning_rate = m->learning_rate,
        .momentum = m->momentum,
        .nesterov = m->nesterov,
        .beta_1 = m->beta_1,
        .beta_2 = m->beta_2,
        .epsilon = m->epsilon,
        .amsgrad = m->amsgrad,
        .rho = m->rho,
        .centered = m->centered,
        .initial_accumulator_value = m->initial_accumulator_value,
        .learning_rate_power = m->learning_rate_power,
        .beta = m->beta,
        .l1 = m->l1_regularization_strength,
        .l2 = m->l2_regularization_strength,
        .l2_shrinkage = m->l2_shrinkage_regularization_strength,
        .weight_decay = m->weight_decay,
        .accumulation_steps = m->gradient_accumulation_steps,
        .use_ema = m->use_ema,
        .ema_momentum = m->ema_momentum,
        .ema_overwrite_frequency = m->ema_overwrite_frequency,
    };
    if (!in_range(&made))
        return err_set(e, ERR_PROTO, "a number of the chief's optimizer is out of range");
    enum err err = schedule_get(m, &made.schedule, e);
    if (err)
        return err;
    *o = made;
    return ERR_OK;
}
