/* Reads rows from shards' files. The head lists which frames have the requested buckets; others are skipped. A
 * frame's sizes, buckets and order are checked before its rows are passed on. */
#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "proto/checkpoint.pb-c.h"

/* ---- the head ---- */

static const char *table_misfit(const Checkpoint__RowTable *t, const Checkpoint__Rows *h)
{
    if (!t->name[0] || strlen(t->name) >= ROW_TABLE_NAME_MAX)
        return "a table's name is empty or too long";
    if (t->dim == 0 || t->dim > ROW_DIM_MAX || t->slots > CHECKPOINT_ROW_SLOTS_MAX)
        return "a table's rows have too many floats, or none";
    if (t->sketch_bytes > CHECKPOINT_SKETCH_BYTES_MAX || t->sketch_bytes % 8)
        return "a table's sketch has an invalid size";
    if (t->digest.len != t->n_bucket * SHA256_BYTES)
        return "a table has more buckets than digests, or fewer";
    for (size_t i = 0; i < t->n_bucket; i++)
        if (t->bucket[i] < (i ? t->bucket[i - 1] + 1 : h->first_bucket) ||
            t->bucket[i] >= h->end_bucket)
            return "a table's buckets are out of order";
    return NULL;
}

/* Checks frame `i` of the rows. */
static const char *frame_misfit(const Checkpoint__Rows *h, size_t i)
{
    if (h->frame_plain[i] == 0 || h->frame_plain[i] > ROW_FRAME_BYTES_MAX)
        return "a frame of rows is empty, or too large";
    if (h->frame_bytes[i] > ZSTD_compressBound(h->frame_plain[i]))
        return "a frame of rows is larger than its rows";
    if (h->frame_bucket[i] < (i ? h->frame_bucket[i - 1] : h->first_bucket) ||
        h->frame_bucket[i] >= h->end_bucket)
        return "the frames of rows are out of order";
    return NULL;
}

static const char *misfit(const Checkpoint__Rows *h)
{
    if (h->first_bucket > h->end_bucket || h->end_bucket > ROW_BUCKETS)
        return "its range of buckets is invalid";
    if (h->n_table == 0 || h->n_table > ROW_TABLES_MAX)
        return "it has too many tables, or none";
    if (h->n_frame_crc != h->n_frame_bytes || h->n_frame_plain != h->n_frame_bytes ||
        h->n_frame_bucket != h->n_frame_bytes)
        return "its lists about row frames differ in length";
    const char *why = NULL;
    for (size_t i = 0; i < h->n_table && !why; i++)
        why = table_misfit(h->table[i], h);
    for (size_t i = 0; i < h->n_frame_bytes && !why; i++)
        why = frame_misfit(h, i);
    return why;
}

enum err shard_file_check_rows(const struct shard_file *f, uint64_t *bytes, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    *bytes = 0;
    if (!h)
        return ERR_OK;
    const char *why = misfit(h);
    if (why)
        return checkpoint_corrupt(e, f->path, "%s", why);
    for (size_t i = 0; i < h->n_frame_bytes; i++)
        *bytes += h->frame_bytes[i];
    return ERR_OK;
}

uint64_t shard_file_rows(const struct shard_file *f)
{
    uint64_t rows = 0;
    for (size_t i = 0; f->head->rows && i < f->head->rows->n_table; i++)
        rows += f->head->rows->table[i]->rows;
    return rows;
}

/* ---- frames ---- */

static enum err make_rows_room(struct shard_file *f, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    uint32_t largest = 0;
    for (size_t i = 0; i < h->n_frame_plain; i++)
        largest = h->frame_plain[i] > largest ? h->frame_plain[i] : largest;
    if (!f->rows_plain)
        f->rows_plain = mem_zalloc(largest, 1);
    if (!f->rows_plain)
        return err_set(e, ERR_NOMEM, "%s: out of memory", f->path);
    return shard_file_make_room(f, e);
}

static void list_tables(const Checkpoint__Rows *h, struct checkpoint_table *table)
{
    for (size_t i = 0; i < h->n_table; i++) {
        table[i] = (struct checkpoint_table){.dim = h->table[i]->dim,
                                             .slots = h->table[i]->slots,
                                             .sketch_bytes = h->table[i]->sketch_bytes};
        /* fits: table_misfit has checked it */
        memcpy(table[i].name, h->table[i]->name, strlen(h->table[i]->name));
    }
}

/* Passes the groups of the frame in f->rows_plain that are in these buckets to the sink. */
static enum err hand_on(const struct shard_file *f, size_t frame, struct bucket_range of,
                        const struct checkpoint_table *table, struct row_place *at,
                        const struct row_sink *sink, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    size_t bytes = h->frame_plain[frame], used;
    for (size_t from = 0; from < bytes; from += used) {
        struct row_group g;
        used =
            row_group_decode(f->rows_plain + from, bytes - from, table, (uint32_t)h->n_table, &g);
        if (!used || g.bucket < h->first_bucket || g.bucket >= h->end_bucket ||
            (from == 0 && g.bucket != h->frame_bucket[frame]) || !row_place_advance(at, &g))
            return checkpoint_corrupt(e, f->path, "the rows of frame %zu are out of order",
                                      f->head->n_frame_bytes + frame);
        enum err err =
            g.bucket >= of.first && g.bucket < of.end ? row_sink_take(sink, &g, e) : ERR_OK;
        if (err)
            return err;
    }
    return ERR_OK;
}

/* Can frame `i` have rows of these buckets? Its last bucket is at most the next frame's first one. */
static bool is_wanted(const Checkpoint__Rows *h, size_t i, struct bucket_range of)
{
    uint32_t last = i + 1 < h->n_frame_bucket ? h->frame_bucket[i + 1] : h->end_bucket - 1;
    return h->frame_bucket[i] < of.end && last >= of.first;
}

enum err shard_file_read_rows(struct shard_file *f, struct bucket_range of, struct row_place *at,
                              const struct row_sink *sink, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    struct checkpoint_table table[ROW_TABLES_MAX];
    list_tables(h, table);
    enum err err = make_rows_room(f, e);
    uint64_t from = CHECKPOINT_MAGIC_BYTES;
    size_t blocks = f->head->n_frame_bytes;
    for (size_t i = 0; i < blocks; i++)
        from += f->head->frame_bytes[i];
    for (size_t i = 0; i < h->n_frame_bytes && !err; i++) {
        size_t stored = h->frame_bytes[i];
        if (is_wanted(h, i, of)) {
            err = shard_file_fetch(f, blocks + i, from, stored, h->frame_crc[i], e);
            if (!err)
                err = shard_file_unpack(f, blocks + i, stored, f->rows_plain, h->frame_plain[i], e);
            if (!err)
                err = hand_on(f, i, of, table, at, sink, e);
        }
        from += stored;
    }
    return err;
}
