#include "data/drawn/planted.h"

#include <math.h>

#include "common/base/mem.h"
#include "common/base/real.h"
#include "data/drawn/clicks.h"

/* Rows are counted by their logit in steps of 1 / 2048, so nothing needs sorting. Rows of one step count as ties. */
enum { STEPS = 1 << 16, STEPS_PER_UNIT = 2048 };

struct counts {
    uint32_t clicked[STEPS], others[STEPS];
};

static uint32_t step_of(double logit)
{
    double at = (logit + (double)(STEPS / 2) / STEPS_PER_UNIT) * STEPS_PER_UNIT;
    return at < 0 ? 0 : at >= STEPS ? STEPS - 1 : (uint32_t)at;
}

/* -log of the probability of the outcome. */
static double loss_of(const struct click *row)
{
    return series_log(1 + series_exp(row->clicked ? -row->logit : row->logit));
}

/* The share of pairs of a click and another row in which the click has the higher logit, ties counting half. */
static double auc_of(const struct counts *c)
{
    double clicks = 0, others = 0, area = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        area += (double)c->clicked[i] * (others + 0.5 * (double)c->others[i]);
        clicks += (double)c->clicked[i];
        others += (double)c->others[i];
    }
    return clicks > 0 && others > 0 ? area / (clicks * others) : NAN;
}

enum err planted_measure(const struct job *job, double *auc, double *logloss, struct errmsg *e)
{
    struct clicks model;
    struct click row;
    uint32_t rows = job->data.synthetic_eval_rows;
    struct counts *counts = mem_zalloc(1, sizeof *counts);
    double loss = 0;
    if (!counts)
        return err_set(e, ERR_NOMEM, "out of memory for the planted model's counts");
    clicks_init(&model, job);
    for (uint32_t i = 0; i < rows; i++) {
        clicks_draw(&model, 1, i, &row);
        (row.clicked ? counts->clicked : counts->others)[step_of(row.logit)]++;
        loss += loss_of(&row);
    }
    *auc = auc_of(counts);
    *logloss = loss / rows;
    mem_free(counts);
    return ERR_OK;
}
