/* Rows of tables in checkpoints. They are in the shards' files (format 2), after the blocks, so that a shard's part
 * of a cut stays a single file.
 * A file has the rows of a range of buckets in zstd frames of about 1 MiB, in ascending order of (bucket, table,
 * mixed key). The head lists the first bucket of each frame, so that a reader can skip buckets that it does not
 * need: a checkpoint loads into any number of ps. The head also has a SHA-256 of each bucket of each table; a
 * table's digest is computed from them. */
#pragma once

#include <stddef.h>

#include "common/base/sha256.h"
#include "common/checkpoint/checkpoint.h"
#include "common/rows/key.h"
#include "common/rows/row_layout.h"

struct checkpoint_table {
    char name[ROW_TABLE_NAME_MAX];
    uint32_t dim, slots;   /* floats of a row: its weights; its slots, at most 2^16 */
    uint32_t sketch_bytes; /* bytes of admission counts per bucket; 0: none */
};

enum { CHECKPOINT_ROW_SLOTS_MAX = 1 << 16, CHECKPOINT_SKETCH_BYTES_MAX = 1 << 18 };

/* Rows of one table and one bucket, in ascending order of their mixed keys; or the bucket's admission counts (its
 * sketch), which come before its rows. A bucket without counts has no sketch. */
struct row_group {
    uint32_t bucket, table, rows; /* table: index in the list of tables */
    const uint64_t *mixed;        /* (rows) */
    const uint64_t *stamp;        /* (rows) the table clock after the row's last update */
    const uint32_t *count;        /* (rows) number of updates */
    const float *values;          /* (rows, dim + slots): weights, then slots */
    const uint8_t *sketch;        /* (sketch_bytes) a sketch, and rows is 0; NULL: rows */
    uint32_t sketch_bytes;        /* must equal the table's */
};

/* Returns whether this is the end marker: no more groups. */
static inline bool row_group_ends(const struct row_group *g)
{
    return g->rows == 0 && !g->sketch;
}

/* The rows of a shard's part of a cut. */
struct checkpoint_rows {
    struct bucket_range buckets;
    uint64_t clock; /* the table clock, the same on all shards */
    uint32_t tables;
    const struct checkpoint_table *table; /* (tables) the same on all shards */
    /* Returns the next group, in ascending order of (bucket, table, mixed key); consecutive groups can share
     * bucket and table. Its memory is valid until the next call. row_group_ends is true for the last one. An error
     * stops the writing. */
    enum err (*next)(void *ctx, struct row_group *g, struct errmsg *e);
    void *ctx;
};

struct row_sink {
    /* Gets a group of rows, valid during the call. An error stops the reading. */
    enum err (*rows)(void *ctx, const struct row_group *g, struct errmsg *e);
    void *ctx;
    /* Gets a sketch; NULL: sketches are skipped. */
    enum err (*sketch)(void *ctx, const struct row_group *g, struct errmsg *e);
};

/* Passes the group to the right function of the sink. Errors: the sink's. */
enum err row_sink_pass(const struct row_sink *s, const struct row_group *g,
                       struct errmsg *e) MUST_CHECK;

/* The rows that a shard reads. */
struct checkpoint_rows_wanted {
    struct bucket_range buckets;
    uint32_t tables;
    const struct checkpoint_table *table; /* (tables) the checkpoint must have these tables */
    struct row_sink sink;
};

/* The tables of a checkpoint. */
struct checkpoint_tables {
    uint64_t clock;
    uint32_t tables; /* 0: the checkpoint has no tables */
    struct checkpoint_table table[ROW_TABLES_MAX];
    uint64_t rows[ROW_TABLES_MAX];
    /* SHA-256 over the digests of all buckets, in order. A bucket's digest is over the key (u64) and the weights
     * (f32) of each row, little-endian, in ascending order of the mixed key. */
    uint8_t digest[ROW_TABLES_MAX][SHA256_BYTES];
};

/* Reads the tables of a loaded checkpoint from the heads of its files. Errors: as checkpoint_load. */
enum err checkpoint_read_tables(const struct place *place, const struct manifest *m,
                                struct checkpoint_tables *t, struct errmsg *e) MUST_CHECK;

/* Passes the rows of these buckets to the sink, in ascending order of (bucket, table, mixed key), from all files
 * that contain them. Without tables there are none. Only frames with such rows are read. Checksums and order are
 * checked. Needs about 3 MiB of memory besides the heads. Errors: as checkpoint_read; the sink's. */
enum err checkpoint_read_rows(const struct place *place, const struct manifest *m,
                              struct bucket_range of, const struct row_sink *sink,
                              struct errmsg *e) MUST_CHECK;
/* Same for the rows that a shard wants; the tables must be w->table. Errors: also ERR_STATE the checkpoint has no
 * tables; ERR_CORRUPT it has other tables. */
enum err checkpoint_read_wanted(const struct place *place, const struct manifest *m,
                                const struct checkpoint_rows_wanted *w,
                                struct errmsg *e) MUST_CHECK;

/* ---- values in a cut that are not finite: the shard's writer looks for them while it writes, so that training does not wait ---- */

/* The first one: an element of the flat block, or if the block is finite, a row. */
struct broken {
    enum { BROKEN_NONE, BROKEN_ELEM, BROKEN_ROW } kind;
    uint64_t elem;
    uint32_t table;
    uint64_t mixed; /* the row's mixed key */
};

/* Check the weights of a block or of rows, but not optimizer state. Start with *to zeroed: finite weights leave it
 * unchanged. Call broken_find first; broken_find_in_rows keeps an earlier finding. */
void broken_find(struct broken *to, const struct checkpoint_shard *blocks);
void broken_find_in_rows(struct broken *to, const struct row_group *g,
                         const struct checkpoint_table *of);

/* The contents of a frame of rows: consecutive groups. A group of rows is {u32 table, u32 bucket, u32 rows, u32
 * 0}, then of its rows the mixed keys (u64), the stamps (u64), the counts (u32) and the values (f32), padded with
 * zeros to a multiple of 8. A sketch is {u32 table, u32 bucket, u32 bytes, u32 1} and its bytes, a multiple of 8.
 * Everything is little-endian. Pure. */
enum {
    ROW_GROUP_HEAD_BYTES = 16,
    ROW_FRAME_BYTES = 1 << 20,     /* largest frame written */
    ROW_FRAME_BYTES_MAX = 4 << 20, /* largest frame accepted */
};

/* Returns the bytes of a group of rows; width: floats of a row. */
size_t row_group_bytes(uint64_t rows, uint32_t width);
/* Returns the bytes of a sketch's group. */
size_t row_sketch_group_bytes(uint32_t sketch_bytes);
/* Encodes the group's sketch. `out` has row_sketch_group_bytes bytes. */
void row_sketch_encode(void *out, const struct row_group *g);
/* Returns how many rows fit into `bytes` bytes. */
uint32_t row_group_fits(size_t bytes, uint32_t width);
/* Encodes rows [first, first + n) of the group. `out` has row_group_bytes bytes, aligned to 8. */
void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width);
/* Decodes the group at the start of `data`, which is aligned to 8; *g points into it. Returns the group's bytes,
 * or 0 if it is invalid for these tables or incomplete. */
size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g);

/* The position of a reader or writer in the order of rows. */
struct row_place {
    bool there;  /* a group came before */
    bool sketch; /* that group was a sketch */
    uint32_t bucket, table;
    uint64_t mixed;
};
/* Checks that the group is in its bucket and comes after `at`; then moves `at` to its last row, or to the sketch,
 * and returns true. */
bool row_place_advance(struct row_place *at, const struct row_group *g);

/* Rows of tables in memory, in a checkpoint's order. Pure. */

struct row_piece;

struct row_copy {
    struct checkpoint_rows head; /* its `next` returns the rows; its `ctx` is this copy */
    struct checkpoint_table table[ROW_TABLES_MAX];
    uint64_t rows;
    uint32_t pieces;
    struct row_piece *piece; /* (pieces) */
    uint32_t next_piece;
    size_t next_at;
};

/* Makes an empty copy. head.ctx points to *c, which must not move afterwards. Allocates nothing. */
void row_copy_init(struct row_copy *c, const struct checkpoint_table *table, uint32_t tables,
                   struct bucket_range buckets, uint64_t clock);
void row_copy_close(struct row_copy *c);
/* Appends a copy of the group, which must come in order (struct checkpoint_rows). Errors: ERR_NOMEM; then nothing
 * is added. */
enum err row_copy_add(struct row_copy *c, const struct row_group *g) MUST_CHECK;
