#include "worker/control/eta.h"

#include <math.h>

/* A window has a twentieth of the time so far, within these bounds, and at least so many steps. The first one counts from
 * first_s on. */
static const double part = 0.05, first_s = 0.2, shortest_s = 1, longest_s = 60, least_steps = 10;
static const double differs = 1.5; /* times the mean */

static uint64_t position_of(const struct eta_place *at)
{
    return (at->epoch - 1) * at->steps + at->step;
}

static double per_step(const struct eta_span *s)
{
    return s->seconds / s->steps;
}

static void span_add(struct eta_span *to, struct eta_span s)
{
    to->steps += s.steps;
    to->seconds += s.seconds;
}

/* Add what was measured until trained_s. */
static void mean_add(struct eta_span *to, struct eta_span s, double trained_s)
{
    double weight = trained_s * trained_s;
    span_add(to, (struct eta_span){weight * s.steps, weight * s.seconds});
}

/* The last windows all differ from the mean in the same direction: begin again with them. */
static void turn(struct eta *t)
{
    t->mean = (struct eta_span){0, 0};
    for (uint32_t i = 0; i < t->turns; i++)
        mean_add(&t->mean, t->turned[i], t->trained_s);
    t->turns = 0;
}

static void look_for_turn(struct eta *t, double ratio)
{
    bool slower = ratio > differs;
    if (!slower && ratio >= 1 / differs) {
        t->turns = 0;
        return;
    }
    if (t->turns && slower != t->slower)
        t->turns = 0;
    t->slower = slower;
    t->turned[t->turns++] = t->window;
}

/* The open window as it counts. */
static struct eta_span clipped(const struct eta *t)
{
    struct eta_span s = t->window;
    if (t->mean.steps > 0)
        s.seconds = fmin(s.seconds, ETA_CLIP * per_step(&t->mean) * s.steps);
    return s;
}

static void close_window(struct eta *t)
{
    struct eta_span counts = clipped(t);
    if (t->mean.steps > 0)
        look_for_turn(t, per_step(&t->window) / per_step(&t->mean));
    t->trained_s += counts.seconds;
    mean_add(&t->mean, counts, t->trained_s);
    if (t->turns == ETA_TURN)
        turn(t);
    t->window = (struct eta_span){0, 0};
}

/* The wait at the end of an epoch. One that is much longer than those before had another reason; but with a second one in
 * a row, the mean begins again. */
static void note_pause(struct eta *t, double seconds)
{
    bool first = t->pauses++ == 0, longer = !first && seconds > ETA_CLIP * t->pause_s;
    if (first)
        t->pause_s = seconds;
    else if (longer && t->long_s > 0)
        t->pause_s = (t->long_s + seconds) / 2;
    else
        t->pause_s = (t->pause_s + fmin(seconds, ETA_CLIP * t->pause_s)) / 2;
    t->long_s = longer ? seconds : 0;
}

void eta_step(struct eta *t, const struct eta_place *at, double now_s)
{
    uint64_t position = position_of(at);
    bool later = t->began && position > t->position;
    if (t->began && !later && !t->all_wait)
        return; /* batches end in another order than they were dealt; or a rollback */
    if (later && t->all_wait && at->epoch > t->epoch)
        note_pause(t, now_s - t->now_s);
    else if (later)
        span_add(&t->window, (struct eta_span){(double)(position - t->position), now_s - t->now_s});
    if (!t->began || position <= t->first)
        t->first = position - 1;
    t->began = true;
    t->position = position;
    t->epoch = at->epoch;
    t->now_s = now_s;
    if (t->window.steps >= least_steps &&
        t->window.seconds >= fmin(fmax(part * t->trained_s, shortest_s), longest_s))
        close_window(t);
}

double eta_left_s(const struct eta *t, const struct eta_place *at)
{
    uint64_t total = at->epochs * at->steps, position = position_of(at);
    struct eta_span mean = t->mean, open = clipped(t);
    if (t->trained_s + open.seconds >= first_s)
        mean_add(&mean, open, t->trained_s + open.seconds);
    double steps = total > position ? (double)(total - position) : 0;
    double ends = at->epochs >= at->epoch ? (double)(at->epochs - at->epoch + 1) : 0;
    double step_s = mean.steps > 0 ? per_step(&mean) : (double)NAN;
    if (isnan(step_s) && at->steps == 1 && t->pauses)
        return steps * t->pause_s; /* each step is an epoch */
    return steps * step_s + (t->pauses ? ends * fmax(t->pause_s - step_s, 0) : 0);
}

bool eta_is_early(const struct eta *t, const struct eta_place *at)
{
    double total = (double)(at->epochs * at->steps), first = (double)t->first;
    /* in async, a batch before the first one can end after it */
    return (double)position_of(at) - first < part * (total - first);
}
