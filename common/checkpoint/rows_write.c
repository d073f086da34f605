/* Each group's rows fill the frame; a full frame is compressed and appended. Meanwhile the digest of each bucket
 * is computed. Memory: one frame, plain and compressed, and 36 bytes for each bucket and table. */
#include "common/checkpoint/rows_write.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/mem.h"

static enum err out_of_memory(const struct rows_writer *w, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", w->out->file.path);
}

static enum err init(struct rows_writer *w, const struct checkpoint_rows *rows,
                     struct frame_file *out, struct errmsg *e)
{
    assert(rows->tables > 0 && rows->tables <= ROW_TABLES_MAX);
    *w = (struct rows_writer){.rows = rows, .out = out};
    checkpoint__rows__init(&w->head);
    w->head.first_bucket = rows->buckets.first;
    w->head.end_bucket = rows->buckets.end;
    w->head.clock = rows->clock;
    w->head.n_table = rows->tables;
    w->head.table = w->tables;
    uint32_t buckets = rows->buckets.end - rows->buckets.first;
    bool there = (w->plain = mem_zalloc(ROW_FRAME_BYTES, 1)) != NULL;
    for (uint32_t i = 0; i < rows->tables; i++) {
        Checkpoint__RowTable *t = w->tables[i] = &w->table[i];
        checkpoint__row_table__init(t);
        t->name = (char *)rows->table[i].name;
        t->dim = rows->table[i].dim;
        t->slots = rows->table[i].slots;
        t->sketch_bytes = rows->table[i].sketch_bytes;
        t->bucket = mem_zalloc(buckets, sizeof *t->bucket);
        t->digest.data = mem_zalloc(buckets, SHA256_BYTES);
        there = there && t->bucket && t->digest.data;
    }
    return there ? ERR_OK : out_of_memory(w, e);
}

void rows_writer_close(struct rows_writer *w)
{
    mem_free(w->plain);
    sha256_free(w->hash);
    mem_free(w->head.frame_bytes);
    mem_free(w->head.frame_crc);
    mem_free(w->head.frame_plain);
    mem_free(w->head.frame_bucket);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++) {
        mem_free(w->table[i].bucket);
        mem_free(w->table[i].digest.data);
    }
    *w = (struct rows_writer){0};
}

uint64_t rows_writer_rows(const struct rows_writer *w)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < w->rows->tables; i++)
        rows += w->table[i].rows;
    return rows;
}

/* Makes one of the arrays longer by one; returns false, with *array unchanged, if memory runs out. */
static bool grow(void **array, size_t n, size_t size)
{
    void *p = mem_extend(*array, n, 1, size);
    if (p)
        *array = p;
    return p != NULL;
}

static enum err room_for_a_frame(struct rows_writer *w, struct errmsg *e)
{
    Checkpoint__Rows *h = &w->head;
    bool grown = grow((void **)&h->frame_bytes, h->n_frame_bytes, sizeof *h->frame_bytes) &&
                 grow((void **)&h->frame_crc, h->n_frame_bytes, sizeof *h->frame_crc) &&
                 grow((void **)&h->frame_plain, h->n_frame_bytes, sizeof *h->frame_plain) &&
                 grow((void **)&h->frame_bucket, h->n_frame_bytes, sizeof *h->frame_bucket);
    return grown ? ERR_OK : out_of_memory(w, e);
}

/* Writes the frame if it is not empty. */
static enum err end_frame(struct rows_writer *w, struct errmsg *e)
{
    if (w->used == 0)
        return ERR_OK;
    Checkpoint__Rows *h = &w->head;
    size_t i = h->n_frame_bytes;
    enum err err =
        frame_file_append(w->out, w->plain, w->used, &h->frame_bytes[i], &h->frame_crc[i], e);
    if (err)
        return err;
    h->frame_plain[i] = (uint32_t)w->used;
    h->n_frame_bytes = h->n_frame_crc = h->n_frame_plain = h->n_frame_bucket = i + 1;
    w->used = 0;
    return ERR_OK;
}

/* Starts an empty frame with this bucket. */
static enum err begin_frame(struct rows_writer *w, uint32_t bucket, struct errmsg *e)
{
    enum err err = room_for_a_frame(w, e);
    if (!err)
        w->head.frame_bucket[w->head.n_frame_bytes] = bucket;
    return err;
}

/* Makes room in the frame for at least one row of `width` floats of this bucket. *fits: how many rows fit. */
static enum err room_for_rows(struct rows_writer *w, uint32_t bucket, uint32_t width,
                              uint32_t *fits, struct errmsg *e)
{
    *fits = row_group_fits(ROW_FRAME_BYTES - w->used, width);
    enum err err = *fits ? ERR_OK : end_frame(w, e);
    if (!err && w->used == 0) {
        err = begin_frame(w, bucket, e);
        *fits = row_group_fits(ROW_FRAME_BYTES, width);
    }
    return err;
}

static enum err put_rows(struct rows_writer *w, const struct row_group *g, struct errmsg *e)
{
    const struct checkpoint_table *t = &w->rows->table[g->table];
    uint32_t width = t->dim + t->slots;
    for (uint32_t first = 0; first < g->rows;) {
        uint32_t fits, left = g->rows - first;
        enum err err = room_for_rows(w, g->bucket, width, &fits, e);
        if (err)
            return err;
        uint32_t n = left < fits ? left : fits;
        row_group_encode(w->plain + w->used, g, first, n, width);
        w->used += row_group_bytes(n, width);
        first += n;
    }
    w->table[g->table].rows += g->rows;
    return ERR_OK;
}

static enum err put_sketch(struct rows_writer *w, const struct row_group *g, struct errmsg *e)
{
    size_t bytes = row_sketch_group_bytes(g->sketch_bytes);
    assert(g->sketch_bytes == w->rows->table[g->table].sketch_bytes && bytes <= ROW_FRAME_BYTES);
    enum err err = bytes > ROW_FRAME_BYTES - w->used ? end_frame(w, e) : ERR_OK;
    if (!err && w->used == 0)
        err = begin_frame(w, g->bucket, e);
    if (err)
        return err;
    row_sketch_encode(w->plain + w->used, g);
    w->used += bytes;
    return ERR_OK;
}

/* Finishes the digest of the bucket that has ended. */
static enum err end_bucket(struct rows_writer *w, struct errmsg *e)
{
    if (!w->hash)
        return ERR_OK;
    Checkpoint__RowTable *t = &w->table[w->at.table];
    int failed = sha256_final(w->hash, t->digest.data + t->digest.len);
    sha256_free(w->hash);
    w->hash = NULL;
    if (failed)
        return out_of_memory(w, e);
    t->bucket[t->n_bucket++] = w->at.bucket;
    t->digest.len += SHA256_BYTES;
    return ERR_OK;
}

static enum err hash_rows(struct rows_writer *w, const struct row_group *g, struct errmsg *e)
{
    const struct checkpoint_table *t = &w->rows->table[g->table];
    if (!w->hash)
        w->hash = sha256_new();
    if (!w->hash)
        return out_of_memory(w, e);
    for (uint32_t i = 0; i < g->rows; i++) {
        uint64_t key = key_unmix(g->mixed[i]);
        sha256_add(w->hash, &key, sizeof key);
        sha256_add(w->hash, g->values + (size_t)i * (t->dim + t->slots), t->dim * sizeof(float));
    }
    return ERR_OK;
}

static enum err put_group(struct rows_writer *w, const struct row_group *g, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (w->at.there && (g->bucket != w->at.bucket || g->table != w->at.table))
        err = end_bucket(w, e);
    if (err)
        return err;
    if (g->table >= w->rows->tables || g->bucket < w->rows->buckets.first ||
        g->bucket >= w->rows->buckets.end || !row_place_advance(&w->at, g))
        return err_set(e, ERR_STATE,
                       "%s: rows of table %" PRIu32 ", bucket %" PRIu32 " are out of order",
                       w->out->file.path, g->table, g->bucket);
    if (g->sketch)
        return put_sketch(w, g, e);
    err = hash_rows(w, g, e);
    return err ? err : put_rows(w, g, e);
}

enum err rows_writer_run(struct rows_writer *w, const struct checkpoint_rows *rows,
                         struct frame_file *out, struct errmsg *e)
{
    enum err err = init(w, rows, out, e);
    while (!err) {
        struct row_group g = {0};
        err = rows->next(rows->ctx, &g, e);
        if (err || row_group_ends(&g))
            break;
        err = put_group(w, &g, e);
    }
    if (!err)
        err = end_bucket(w, e);
    return err ? err : end_frame(w, e);
}
