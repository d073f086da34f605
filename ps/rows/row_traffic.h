/* Counters of the rows of a shard's tables that are read and updated. */
#ifndef GRADWIRE_PS_ROWS_ROW_TRAFFIC_H
#define GRADWIRE_PS_ROWS_ROW_TRAFFIC_H

#include <stdint.h>

/* Since the tables were created (row_tables_init). read_bytes: the weights of these rows. touched_bytes: their weights,
 * slots and gradients. */
struct row_traffic {
    uint64_t asked; /* rows that readers requested, existing or not */
    uint64_t read;  /* requested rows that existed */
    uint64_t read_bytes;
    uint64_t touched; /* rows that steps updated */
    uint64_t touched_bytes;
};

#endif
