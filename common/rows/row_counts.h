/* What has become of a table's rows: on one shard, or on all of them. A rejected step and a duplicate count nothing. */
#ifndef GRADWIRE_COMMON_ROWS_ROW_COUNTS_H
#define GRADWIRE_COMMON_ROWS_ROW_COUNTS_H

#include <stdint.h>

struct row_counts {
    uint64_t rows; /* there now */
    /* since the job began: */
    uint64_t admitted; /* rows made */
    uint64_t
        refused; /* gradients of touches that would have made a row, where memory for it was refused */
    uint64_t dropped; /* gradients of touches that admission made no row for */
    uint64_t evicted; /* rows gone */
};

/* The fields, under the names that messages and files have for them. */
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
