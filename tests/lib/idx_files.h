/* A folder of small data files for one test, and a job that reads them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

enum packing { PACK_PLAIN, PACK_GZIP, PACK_ZSTD, PACK_COUNT };

struct bytes {
    uint8_t *data;
    size_t count;
};

struct idx_files {
    char dir[256];
    char path[512]; /* of idx_files_path, a view */
};

/* A fresh folder; close removes it and what is in it. They abort the test where the machine fails.
 */
void idx_files_init(struct idx_files *f);
void idx_files_close(struct idx_files *f);
/* DIR/name, valid until the next call. */
const char *idx_files_path(struct idx_files *f, const char *name);
void idx_files_write(struct idx_files *f, const char *name, struct bytes b);

/* An idx file of bytes: rank and dims, elements i -> (first + i * step) % modulus. Freed by
 * bytes_free. */
struct bytes idx_bytes(uint32_t rank, const uint32_t *dim, unsigned first, unsigned step,
                       unsigned modulus);
struct bytes bytes_pack(struct bytes plain, enum packing packing); /* `plain` stays the caller's */
void bytes_free(struct bytes *b);

/* A job with input (rows, cols), scale 255, reading `patterns` as its training part; it owns
 * nothing. */
struct job idx_job(uint32_t rows, uint32_t cols, char *patterns);
