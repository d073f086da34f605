/* The area under the receiver operating characteristic. */
#ifndef GRADWIRE_WORKER_MODEL_AUC_H
#define GRADWIRE_WORKER_MODEL_AUC_H

#include <stdbool.h>
#include <stddef.h>

struct scored {
    float score;
    bool positive;
};

/* The share of pairs of a positive and a negative row in which the positive one scores higher, ties
 * counting half (Mann and Whitney 1947): exact, not by thresholds. Sorts `rows`. NAN where a score
 * is, or where all rows are of one kind. Thread: any. */
double auc_exact(struct scored *rows, size_t n);

#endif
