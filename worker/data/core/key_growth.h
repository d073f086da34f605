/* Estimates how many rows the tables of a job will have: the number of different keys in the rows of a data set,
 * list by list. Of a large set some rows are counted, spread evenly over it, with the rate at which their keys still
 * grow. Pure. */
#ifndef GRADWIRE_WORKER_DATA_CORE_KEY_GROWTH_H
#define GRADWIRE_WORKER_DATA_CORE_KEY_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/core/distinct.h"

enum { KEY_GROWTH_LISTS_MAX = 64 };

struct key_growth {
    uint64_t rows, counted; /* rows: of the set; counted: rows whose keys were counted */
    uint32_t lists;         /* number of the job's lists; 0: nothing is known */
    /* in all counted rows; in half of them */
    double seen[KEY_GROWTH_LISTS_MAX], half[KEY_GROWTH_LISTS_MAX];
};

/* One list, while its keys are counted. All zero: none counted. */
struct key_count {
    struct distinct all, half;
};

/* Add the mixed keys of some rows. `half`: these rows belong to the half as well. */
void key_count_add(struct key_count *c, const uint64_t *mixed, size_t n, bool half);
/* All keys are added; the caller sets g->rows and g->counted. count: (lists) */
void key_growth_finish(struct key_growth *g, const struct key_count *count, uint32_t lists);

/* Number of keys of a list in all rows. If not all rows were counted, this assumes that keys continue to appear as
 * in the second half of the counted ones (Heaps' law: rows to some power). In real logs the growth slows down, so
 * the estimate tends to be too high. */
double key_growth_keys(const struct key_growth *g, uint32_t list);

#endif
