/* The yardstick of rows.c: the least that a table of rows of 16 floats needs in memory. Keys and row numbers in one array,
 * open addressing, weights and adagrad's accumulators in two more; it cannot grow, forget or count. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { RAW_DIM = 16 };

struct raw_place {
    uint64_t key; /* 0: free */
    uint32_t row;
};

struct raw_rows {
    uint32_t rows;
    uint64_t mask; /* places - 1; of 10 million rows 60 % are in use */
    struct raw_place *place;
    float *w, *accumulator; /* (rows, RAW_DIM) */
};

/* Room for so many rows; exit 1 if there is no memory. */
void raw_rows_init(struct raw_rows *t, uint32_t rows);
void raw_rows_close(struct raw_rows *t);

/* Rows come one after the other; the key is not there and not 0. */
float *raw_rows_add(struct raw_rows *t, uint64_t key, float accumulator);

/* out (n, RAW_DIM) = the weights of keys that are there. */
void raw_rows_lookup(const struct raw_rows *t, const uint64_t *key, size_t n, float *out);

/* Adagrad by g (n, RAW_DIM). */
void raw_rows_update(struct raw_rows *t, const uint64_t *key, size_t n, const float *g, float rate);
