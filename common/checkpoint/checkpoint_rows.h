/* Rows of tables in checkpoints. They stand in the shards' files (format 2), behind the blocks, so that a shard's part of a
 * cut stays one file: it is there whole or not at all, and is moved, pruned and discarded as ever.
 *
 * A file has the rows of a range of buckets in zstd frames of about 1 MiB, in ascending order of (bucket, table, mixed
 * key). The head says where each frame begins, so that a reader of some buckets skips the others: a checkpoint loads into
 * any number of ps. It also has a SHA-256 of each bucket of each table, of which a table's digest is made. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_ROWS_H
#define GRADWIRE_COMMON_CHECKPOINT_CHECKPOINT_ROWS_H

#include "common/base/sha256.h"
#include "common/checkpoint/checkpoint.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

struct checkpoint_table {
    char name[ROW_TABLE_NAME_MAX];
    uint32_t dim, slots;   /* floats of a row: its weights; its slots, at most 2^16 */
    uint32_t sketch_bytes; /* counts of admission that a bucket has; 0: none are kept */
};

enum { CHECKPOINT_ROW_SLOTS_MAX = 1 << 16, CHECKPOINT_SKETCH_BYTES_MAX = 1 << 18 };

/* Rows of one table and one bucket, in ascending order of their mixed keys; or the bucket's counts of admission, before its
 * rows. A bucket that has counted nothing has none. */
struct row_group {
    uint32_t bucket, table, rows; /* the table's place in the list of tables */
    const uint64_t *mixed;        /* (rows) */
    const uint64_t *stamp;        /* (rows) the table clock after the last update */
    const uint32_t *count;        /* (rows) updates */
    const float *values;          /* (rows, dim + slots): weights, then slots */
    const uint8_t *sketch;        /* (sketch_bytes) rows is 0; NULL: they are rows */
    uint32_t sketch_bytes;        /* as the table has it */
};

/* What stands for "there are no more". */
static inline bool row_group_ends(const struct row_group *g)
{
    return g->rows == 0 && !g->sketch;
}

/* What a shard gives to a cut. */
struct checkpoint_rows {
    struct bucket_range buckets;
    uint64_t clock; /* of the tables; the same on all shards */
    uint32_t tables;
    const struct checkpoint_table *table; /* (tables) the same on all shards */
    /* The next group, in ascending order of (bucket, table, mixed key); several in a row may be of one bucket and table.
     * Its memory is valid until the next call. row_group_ends: there are no more. An error ends the writing with it. */
    enum err (*next)(void *ctx, struct row_group *g, struct errmsg *e);
    void *ctx;
};

struct row_sink {
    /* A group of rows, valid during the call. An error ends the reading with it. */
    enum err (*take)(void *ctx, const struct row_group *g, struct errmsg *e);
    void *ctx;
    /* The same of a sketch; NULL: sketches are passed over. */
    enum err (*take_sketch)(void *ctx, const struct row_group *g, struct errmsg *e);
};

/* Hand the group to whom it is for. Errors: the sink's. */
enum err row_sink_take(const struct row_sink *s, const struct row_group *g,
                       struct errmsg *e) MUST_CHECK;

/* What a shard reads. */
struct checkpoint_rows_wanted {
    struct bucket_range buckets;
    uint32_t tables;
    const struct checkpoint_table *table; /* (tables) what the checkpoint must have */
    struct row_sink sink;
};

/* The tables of a checkpoint. */
struct checkpoint_tables {
    uint64_t clock;
    uint32_t tables; /* 0: it has none */
    struct checkpoint_table table[ROW_TABLES_MAX];
    uint64_t rows[ROW_TABLES_MAX];
    /* SHA-256 over the digests of all buckets, from the first. A bucket's is over key (u64) and weights (f32) of each row,
     * little-endian, in ascending order of the mixed key. */
    uint8_t digest[ROW_TABLES_MAX][SHA256_BYTES];
};

/* Of a loaded checkpoint, from the heads of its files. Errors: as checkpoint_load. */
enum err checkpoint_read_tables(const char *dir, const struct manifest *m,
                                struct checkpoint_tables *t, struct errmsg *e) MUST_CHECK;

/* The rows of these buckets, in ascending order of (bucket, table, mixed key), from however many files hold them; only
 * frames that have some are read. Checksums and order are checked. Errors: as checkpoint_read; those of the sink.
 * Memory: about 3 MiB beside the heads. */
enum err checkpoint_read_rows(const char *dir, const struct manifest *m, struct bucket_range of,
                              const struct row_sink *sink, struct errmsg *e) MUST_CHECK;
/* The same of what a shard wants. Errors: also ERR_STATE: it has no tables; ERR_CORRUPT: it has others. */
enum err checkpoint_read_wanted(const char *dir, const struct manifest *m,
                                const struct checkpoint_rows_wanted *w,
                                struct errmsg *e) MUST_CHECK;

#endif
