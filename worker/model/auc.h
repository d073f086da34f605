/* The area under the receiver operating characteristic. */
#ifndef GRADWIRE_WORKER_MODEL_AUC_H
#define GRADWIRE_WORKER_MODEL_AUC_H

#include <stdbool.h>
#include <stddef.h>

struct scored {
    float score, weight; /* neither is NaN; weight > 0 */
    bool positive;
};

/* For qsort: by score, and equal scores in an order of their own, so that sorted rows are the same bits however they were
 * sorted. Thread: any. */
int scored_compare(const void *a, const void *b);

/* Rows in ascending order, one by one. All zeros: none yet. */
struct auc {
    double positives, negatives, area;     /* of the rows with lower scores than the last */
    double tied_positives, tied_negatives; /* of those with the last score */
    float score;                           /* the last */
};
/* The next row by scored_compare. */
void auc_add(struct auc *a, const struct scored *row);
/* The share of pairs of a positive and a negative row in which the positive one scores higher, ties counting half (Mann
 * and Whitney 1947): exact, not by thresholds. A pair counts as much as the product of its weights. NAN: all rows are of
 * one class. */
double auc_value(const struct auc *a);

#endif
