/* auc: the area under the receiver operating characteristic (ROC) curve, of examples in the order of their scores. It is the
 * share of pairs of a positive and a negative row in which the positive one scores higher, ties counting half (Mann and
 * Whitney 1947): exact, not by thresholds. A pair's weight is the product of its rows' weights. */
#include <assert.h>
#include <math.h>

#include "model/metric.h"

struct auc {
    double positives, negatives, area;     /* of the rows with lower scores than the last one */
    double tied_positives, tied_negatives; /* of the rows with the last score */
    float score;                           /* the last row's */
};
_Static_assert(sizeof(struct auc) <= METRIC_RANKED_BYTES, "METRIC_RANKED_BYTES is too small");

/* A positive row of this tie ranks above all lower rows, and above half of the tie's own. */
static void end_tie(struct auc *a)
{
    a->area += a->tied_positives * (a->negatives + a->tied_negatives / 2.0);
    a->positives += a->tied_positives;
    a->negatives += a->tied_negatives;
    a->tied_positives = a->tied_negatives = 0.0;
}

static void auc_add(void *ranked, const struct scored *row)
{
    struct auc *a = ranked;
    assert(!isnan(row->score) && row->weight > 0.0f);
    if (row->score != a->score)
        end_tie(a);
    a->score = row->score;
    if (row->positive)
        a->tied_positives += (double)row->weight;
    else
        a->tied_negatives += (double)row->weight;
}

static double auc_value(const void *ranked)
{
    struct auc all = *(const struct auc *)ranked;
    end_tie(&all);
    double pairs = all.positives * all.negatives;
    return pairs > 0.0 ? all.area / pairs : NAN;
}

const struct metric_type metric_auc = {
    .needs = METRIC_SCORES,
    .check = metric_wants_two_classes,
    .add_scored = auc_add,
    .value_of_scored = auc_value,
    .undefined = METRIC_ONE_CLASS,
};
