/* How many rows of a shard's tables are read and updated. */
#ifndef GRADWIRE_PS_ROWS_ROW_TRAFFIC_H
#define GRADWIRE_PS_ROWS_ROW_TRAFFIC_H

#include <stdint.h>

/* Of this process. Bytes: of a row that is read its weights; of one that is touched its weights, slots and gradient. */
struct row_traffic {
    uint64_t asked; /* rows that readers asked for, there or not */
    uint64_t read;  /* those that were there */
    uint64_t read_bytes;
    uint64_t touched; /* rows that steps updated */
    uint64_t touched_bytes;
};

#endif
