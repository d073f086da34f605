/* The squared and the absolute difference of output and label: losses, and the metrics of the same names. */
#include <math.h>

#include "model/loss.h"
#include "model/metric.h"

/* ---- losses ---- */

/* (z - y)^2; gradient 2 (z - y) */
static double add_squares(float *dz, const struct outputs *o)
{
    double loss = 0.0;
    for (size_t i = 0; i < o->n; i++) {
        float d = o->z[i] - o->y[i];
        dz[i] = 2.0f * d;
        loss += loss_weigh((double)d * (double)d, dz, o, i);
    }
    return loss;
}

/* |z - y|; gradient: its sign, 0 at 0 (and NaN for NaN) */
static double add_distances(float *dz, const struct outputs *o)
{
    double loss = 0.0;
    for (size_t i = 0; i < o->n; i++) {
        float d = o->z[i] - o->y[i];
        dz[i] = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : d;
        loss += loss_weigh((double)fabsf(d), dz, o, i);
    }
    return loss;
}

const struct loss_type loss_mean_squared_error = {ACT_LINEAR, add_squares};
const struct loss_type loss_mean_absolute_error = {ACT_LINEAR, add_distances};

/* ---- metrics ---- */

/* The model's outputs: of logits in scratch, otherwise where they are. */
static const float *outputs_of(const struct outputs *o)
{
    if (!o->head->fused)
        return o->z;
    loss_outputs(o->scratch, o);
    return o->scratch;
}

static void count_squares(double *sum, double *of, const struct outputs *o)
{
    const float *p = outputs_of(o);
    double squares = 0.0;
    (void)of;
    for (size_t i = 0; i < o->n; i++)
        squares += metric_weigh(o, i, (double)(p[i] - o->y[i]) * (double)(p[i] - o->y[i]));
    *sum += squares;
}

static void count_distances(double *sum, double *of, const struct outputs *o)
{
    const float *p = outputs_of(o);
    double distances = 0.0;
    (void)of;
    for (size_t i = 0; i < o->n; i++)
        distances += metric_weigh(o, i, (double)fabsf(p[i] - o->y[i]));
    *sum += distances;
}

const struct metric_type metric_mean_squared_error = {.check = metric_wants_one_output,
                                                      .add = count_squares};
const struct metric_type metric_mean_absolute_error = {.check = metric_wants_one_output,
                                                       .add = count_distances};
