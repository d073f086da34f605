#include "worker/model/auc.h"

#include <math.h>
#include <stdlib.h>

static int by_score(const void *a, const void *b)
{
    float x = ((const struct scored *)a)->score, y = ((const struct scored *)b)->score;
    return (x > y) - (x < y);
}

double auc_exact(struct scored *rows, size_t n)
{
    double positives = 0.0, ranks = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(rows[i].score)) /* has no place in an order */
            return NAN;
        positives += rows[i].positive;
    }
    double negatives = (double)n - positives;
    if (positives == 0.0 || negatives == 0.0)
        return NAN;
    qsort(rows, n, sizeof *rows, by_score);
    for (size_t first = 0, next; first < n; first = next) {
        double tied = 0.0; /* positives among equal scores, which share their mean rank */
        for (next = first; next < n && rows[next].score == rows[first].score; next++)
            tied += rows[next].positive;
        ranks += tied * ((double)(first + 1 + next) / 2.0);
    }
    return (ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives);
}
