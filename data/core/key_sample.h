/* A sample of the different keys of a set: those whose mixed key ends with a number of zero bits, and how many blocks of
 * rows have each. So all keys have the same chance to be in it, however often they come. When it is full, one more bit must
 * be zero (Wegman's adaptive sampling: Flajolet 1990, "On adaptive sampling"). It counts keys to about 1 % in 1 MiB. */
#ifndef GRADWIRE_DATA_CORE_KEY_SAMPLE_H
#define GRADWIRE_DATA_CORE_KEY_SAMPLE_H

#include <stdint.h>

#include "common/base/err.h"

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

#endif
