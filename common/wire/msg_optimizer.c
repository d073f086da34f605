/* The chief's settings and the optimizer in them. */
#include "common/wire/msg.h"

#include <math.h>

Gradwire__Settings msg_settings(const Gradwire__Settings *m)
{
    Gradwire__Settings plain = *m;
    plain.n_boundaries = plain.n_values = 0;
    plain.boundaries = NULL;
    plain.values = NULL;
    return plain;
}

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

#define SET(member, field, ...) m->field = o->member;
void msg_optimizer_set(Gradwire__Settings *m, const struct optimizer *o)
{
    m->optimizer = (uint32_t)o->kind;
    OPTIMIZER_NUMBERS(SET, SET, SET)
    schedule_set(m, &o->schedule);
}

static bool is_amount(float x)
{
    return x >= 0.0f && isfinite(x);
}

#define IN_RANGE(member, field, least, most) &&o->member >= least && o->member <= most
static bool in_range(const struct optimizer *o)
{
    return true OPTIMIZER_NUMBERS(IN_RANGE, OPTIMIZER_NO_MEMBER, OPTIMIZER_NO_MEMBER);
}

static enum err schedule_get(const Gradwire__Settings *m, struct schedule *s, struct errmsg *e)
{
    if (m->schedule >= SCHEDULE_KINDS)
        return err_set(e, ERR_PROTO,
                       "the chief's learning-rate schedule, number %u, is unknown here: all "
                       "processes must run the same release",
                       m->schedule);
    bool piecewise = m->schedule == SCHEDULE_PIECEWISE_CONSTANT_DECAY;
    bool decays = m->schedule != SCHEDULE_CONSTANT && !piecewise;
    if (m->n_boundaries >= SCHEDULE_LIST_MAX || (piecewise && m->n_values != m->n_boundaries + 1) ||
        m->n_values > SCHEDULE_LIST_MAX || (decays && m->decay_steps == 0) ||
        !is_amount(m->decay_rate) || !is_amount(m->alpha) || !is_amount(m->warmup_target) ||
        !is_amount(m->end_learning_rate) || !is_amount(m->power))
        return err_set(e, ERR_PROTO,
                       "a value of the chief's learning-rate schedule is out of range");
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
            return err_set(e, ERR_PROTO,
                           "a rate of the chief's learning-rate schedule is out of range");
    }
    return ERR_OK;
}

#define GET(member, field, ...) .member = m->field,
enum err msg_optimizer_get(const Gradwire__Settings *m, struct optimizer *o, struct errmsg *e)
{
    if (m->optimizer >= OPTIMIZER_KINDS)
        return err_set(e, ERR_PROTO,
                       "the chief's optimizer, number %u, is unknown here: all processes must run "
                       "the same release",
                       m->optimizer);
    struct optimizer made = {.kind = (enum optimizer_kind)m->optimizer,
                             OPTIMIZER_NUMBERS(GET, GET, GET)};
    if (!in_range(&made))
        return err_set(e, ERR_PROTO, "a value of the chief's optimizer is out of range");
    enum err err = schedule_get(m, &made.schedule, e);
    if (err)
        return err;
    *o = made;
    return ERR_OK;
}
