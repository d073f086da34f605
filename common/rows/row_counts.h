/* Statistics of a table's rows, for one shard or for all. Rejected steps and duplicates are not counted. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_COUNTS_H
#define GRADWIRE_COMMON_ROWS_ROW_COUNTS_H

#include <stdint.h>

struct row_counts {
    uint64_t rows; /* present rows */
    /* since the job's start, or that of its last new run (checkpoint.run): */
    uint64_t admitted; /* rows created */
    uint64_t refused;  /* gradients for new rows that could not be created for lack of memory */
    uint64_t dropped;  /* gradients for keys that admission did not admit */
    uint64_t evicted;  /* rows removed */
};

/* The members, with their names in messages and files. */
#define ROW_COUNTS(X)                                                                              \
    X(rows)                                                                                        \
    X(admitted)                                                                                    \
    X(refused)                                                                                     \
    X(dropped)                                                                                     \
    X(evicted)

static inline void row_counts_add(struct row_counts *to, const struct row_counts *from)
{
#define X(name) to->name += from->name;
    ROW_COUNTS(X)
#undef X
}

#endif
