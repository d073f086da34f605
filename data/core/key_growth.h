/* Estimates how many rows the tables of a job will have: the number of different keys in the rows of a data set, list
 * by list. Of a large set some blocks of rows are counted, and the keys of the others follow from how often keys came. Pure. */
#ifndef GRADWIRE_DATA_CORE_KEY_GROWTH_H
#define GRADWIRE_DATA_CORE_KEY_GROWTH_H

#include <stdint.h>

#include "data/core/key_sample.h"

enum { KEY_GROWTH_LISTS_MAX = 64 };

struct key_growth {
    uint64_t rows, counted; /* rows: of the set; counted: rows whose keys were counted */
    uint32_t lists;         /* number of the job's lists; 0: nothing is known */
    /* keys in the counted rows, and the estimate for all rows */
    double seen[KEY_GROWTH_LISTS_MAX], all[KEY_GROWTH_LISTS_MAX];
};

/* All keys are added; the caller has set g->rows and g->counted. sample: (lists)
 *
 * A key of rate r comes in a Poisson number, of mean r, of the counted blocks. The rates can have any distribution: the one
 * under which the counts are likely is found by expectation maximization (Norris and Pollock 1998, "Non-parametric MLE
 * for Poisson species abundance models allowing for heterogeneity between species"; Böhning and Schön 2005,
 * "Nonparametric maximum likelihood estimation of population size based on the counting distribution"). It tells how many
 * of the keys that did not come will come in the other blocks. */
void key_growth_finish(struct key_growth *g, const struct key_sample *sample, uint32_t lists);

#endif
