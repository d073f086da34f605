/* The area under the receiver operating characteristic (ROC) curve. */
#ifndef GRADWIRE_MODEL_AUC_H
#define GRADWIRE_MODEL_AUC_H

#include <stdbool.h>
#include <stddef.h>

struct scored {
    float score, weight; /* neither is NaN; weight > 0 */
    bool positive;
};

/* For qsort: by score; equal scores are ordered further, so that sorted rows are the same to the bit however they
 * were sorted. Thread: any. */
int scored_compare(const void *a, const void *b);

/* The sum over rows in ascending order. All zero: no rows yet. */
struct auc {
    double positives, negatives, area;     /* of the rows with lower scores than the last one */
    double tied_positives, tied_negatives; /* of the rows with the last score */
    float score;                           /* the last row's */
};
/* Add the next row in the order of scored_compare. */
void auc_add(struct auc *a, const struct scored *row);
/* The share of pairs of a positive and a negative row in which the positive one scores higher, ties counting half
 * (Mann and Whitney 1947): exact, not by thresholds. A pair's weight is the product of its rows' weights. NAN: all
 * rows have one class. */
double auc_value(const struct auc *a);

#endif
