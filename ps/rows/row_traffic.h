/* Counters of the rows of a shard's tables that are read and updated. */
#ifndef GRADWIRE_PS_ROWS_ROW_TRAFFIC_H
#define GRADWIRE_PS_ROWS_ROW_TRAFFIC_H

#include <stdint.h>

/* Since the process started. Bytes count, for a row that is read, its weights; for a row that is touched, its weights, slots
 * and gradient. */
struct row_traffic {
    uint64_t asked; /* rows that readers requested, existing or not */
    uint64_t read;  /* requested rows that existed */
    uint64_t read_bytes;
    uint64_t touched; /* rows that steps updated */
    uint64_t touched_bytes;
};

#endif
