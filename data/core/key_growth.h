/* Estimates how many rows the tables of a job will have: the number of different keys in the rows of a data set, list
 * by list. Of a large set some blocks of rows are counted, and the keys of the others follow from how often keys came. Pure. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

/* A sample of the different keys of a set: those whose mixed key ends with a number of zero bits, and how many blocks of
 * rows have each. So all keys have the same chance to be in it, however often they come. When it is full, one more bit must
 * be zero (Wegman's adaptive sampling: Flajolet 1990, "On adaptive sampling"). It counts keys to about 1 % in 1 MiB. */
enum { KEY_SAMPLE_MAX = 1 << 15 };

struct sampled_key {
    uint64_t mixed;
    uint32_t blocks,
        last; /* number of blocks that have it, and the last one of them + 1; 0: a free slot */
};

/* All zero: no keys yet. */
struct key_sample {
    struct sampled_key *slot; /* (slots) a hash table */
    uint32_t slots, keys;     /* slots: 0, or a power of two, at least twice the keys */
    uint32_t bits;            /* number of zero bits */
};

/* Add a mixed key (common/rows/key.h), whose bits are as good as random, of a block of rows. A key that comes several
 * times in one block counts once: neighbors are often of one user, or of one moment. Blocks do not come again after a
 * later one. Errors: ERR_NOMEM. */
enum err key_sample_add(struct key_sample *s, uint64_t mixed, uint32_t block) MUST_CHECK;
/* The estimated number of different keys. */
double key_sample_keys(const struct key_sample *s);
/* The same by the number of blocks that have a key: in_blocks[i] came in i + 1, the last one in `n` or more. in_blocks: (n) */
void key_sample_spectrum(const struct key_sample *s, double *in_blocks, uint32_t n);
void key_sample_close(struct key_sample *s);

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
