/* How many rows the tables of a job will have: the different keys among the rows of a data set, list by list. Of a large
 * set some of its rows are counted, spread evenly over it, and of their keys how fast they still grow. Pure. */
#ifndef GRADWIRE_WORKER_DATA_CORE_KEY_GROWTH_H
#define GRADWIRE_WORKER_DATA_CORE_KEY_GROWTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/data/core/distinct.h"

enum { KEY_GROWTH_LISTS_MAX = 64 };

struct key_growth {
    uint64_t rows, counted; /* of the set; those whose keys were counted */
    uint32_t lists;         /* of the job; 0: nothing is known */
    double seen[KEY_GROWTH_LISTS_MAX],
        half[KEY_GROWTH_LISTS_MAX]; /* in all of these rows; in half */
};

/* One list, while its keys are counted. All zero: none was. */
struct key_count {
    struct distinct all, half;
};

/* Mixed keys of some rows. `half`: these rows are of the half, too. */
void key_count_add(struct key_count *c, const uint64_t *mixed, size_t n, bool half);
/* All were added; g->rows and g->counted are the caller's. count: (lists) */
void key_growth_finish(struct key_growth *g, const struct key_count *count, uint32_t lists);

/* Keys of a list in all rows. Where not all were counted: if keys go on to come as they came in the second half of those
 * that were (Heaps' law: rows to some power). Real logs grow slower and slower, so this is rather too many. */
double key_growth_keys(const struct key_growth *g, uint32_t list);

#endif
