#include "model/auc.h"

#include <assert.h>
#include <math.h>

static int compare(float x, float y)
{
    return (x > y) - (x < y);
}

int scored_compare(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    int order = compare(x->score, y->score);
    if (order == 0)
        order = x->positive - y->positive;
    return order ? order : compare(x->weight, y->weight);
}

/* A positive row of this tie ranks above all lower rows, and above half of the tie's own. */
static void end_tie(struct auc *a)
{
    a->area += a->tied_positives * (a->negatives + a->tied_negatives / 2.0);
    a->positives += a->tied_positives;
    a->negatives += a->tied_negatives;
    a->tied_positives = a->tied_negatives = 0.0;
}

void auc_add(struct auc *a, const struct scored *row)
{
    assert(!isnan(row->score) && row->weight > 0.0f);
    if (row->score != a->score)
        end_tie(a);
    a->score = row->score;
    if (row->positive)
        a->tied_positives += (double)row->weight;
    else
        a->tied_negatives += (double)row->weight;
}

double auc_value(const struct auc *a)
{
    struct auc all = *a;
    end_tie(&all);
    double pairs = all.positives * all.negatives;
    return pairs > 0.0 ? all.area / pairs : NAN;
}
