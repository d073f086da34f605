/* Writes a shard's file: magic; for each block, each frame compressed (level 1); rows of tables; the head with the
 * frames' sizes and CRCs; the tail; commit.
 * Failures: if memory or space runs out, or fsync or rename fails, the temporary file is removed, and the error
 * names the path; other files and older checkpoints are unchanged. If the process is killed, a temporary file is
 * left for checkpoint_prune. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "proto/checkpoint.pb-c.h"

/* ---- a file while it is written: bytes, and zstd frames with content checksums ---- */

struct frame_file {
    struct place_writer file;
    void *zstd;
    uint8_t *packed; /* (packed_bytes): one compressed frame */
    size_t packed_bytes;
};

static enum err zstd_error(const char *path, size_t r, struct errmsg *e)
{
    if (ZSTD_getErrorCode(r) == ZSTD_error_memory_allocation)
        return err_memory_of(e, path);
    return err_set(e, ERR_IO, "%s: zstd: %s", path, ZSTD_getErrorName(r));
}

/* Starts a file; `largest` is the largest frame before compression, in bytes. The caller must call
 * frame_file_close, also after an error. Errors: ERR_IO, ERR_NOMEM. */
static enum err frame_file_open(struct frame_file *f, const struct place *place, const char *name,
                                size_t largest, struct errmsg *e)
{
    enum err err = place_begin(place, name, &f->file, e);
    if (err)
        return err;
    f->packed_bytes = ZSTD_compressBound(largest);
    f->zstd = ZSTD_createCCtx();
    f->packed = mem_resize(NULL, f->packed_bytes, 1);
    if (!f->zstd || !f->packed)
        return err_memory_of(e, f->file.path);
    size_t r = ZSTD_CCtx_setParameter(f->zstd, ZSTD_c_compressionLevel, 1);
    if (!ZSTD_isError(r))
        r = ZSTD_CCtx_setParameter(f->zstd, ZSTD_c_checksumFlag, 1);
    return ZSTD_isError(r) ? zstd_error(f->file.path, r, e) : ERR_OK;
}

/* Removes the file if it was not committed. */
static void frame_file_close(struct frame_file *f)
{
    place_abort(&f->file);
    ZSTD_freeCCtx(f->zstd);
    mem_free(f->packed);
}

/* Appends a frame. *stored and *crc are its bytes in the file and their CRC-32. Errors: as frame_file_open. */
static enum err frame_file_append(struct frame_file *f, const void *plain, size_t bytes,
                                  uint64_t *stored, uint32_t *crc, struct errmsg *e)
{
    size_t r = ZSTD_compress2(f->zstd, f->packed, f->packed_bytes, plain, bytes);
    if (ZSTD_isError(r))
        return zstd_error(f->file.path, r, e);
    *stored = r;
    *crc = (uint32_t)crc32_z(0, f->packed, r);
    return place_append(&f->file, f->packed, r, e);
}

/* ---- rows of tables: they fill a frame, which is compressed and appended when it is full. Meanwhile the digest of each
 * bucket is computed. Memory: one frame, plain and compressed, and 36 bytes for each bucket and table. ---- */

struct rows_writer {
    const struct checkpoint_rows *rows;
    struct frame_file *out;
    uint8_t *plain; /* (ROW_FRAME_BYTES) the frame being filled */
    size_t used;
    struct row_place at;
    struct sha256 *hash; /* of the bucket and table of `at` */
    Checkpoint__Rows head;
    Checkpoint__RowTable table[ROW_TABLES_MAX], *tables[ROW_TABLES_MAX];
};

static enum err rows_writer_init(struct rows_writer *w, const struct checkpoint_rows *rows,
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
    return there ? ERR_OK : err_memory_of(e, w->out->file.path);
}

static void rows_writer_close(struct rows_writer *w)
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

/* over all tables */
static uint64_t rows_writer_rows(const struct rows_writer *w)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < w->rows->tables; i++)
        rows += w->table[i].rows;
    return rows;
}

/* Makes one of the arrays longer by one; returns false, with *array unchanged, if memory runs out. */
static bool grow_frames(void **array, size_t n, size_t size)
{
    void *p = mem_extend(*array, n, 1, size);
    if (p)
        *array = p;
    return p != NULL;
}

static enum err reserve_frame(struct rows_writer *w, struct errmsg *e)
{
    Checkpoint__Rows *h = &w->head;
    bool grown = grow_frames((void **)&h->frame_bytes, h->n_frame_bytes, sizeof *h->frame_bytes) &&
                 grow_frames((void **)&h->frame_crc, h->n_frame_bytes, sizeof *h->frame_crc) &&
                 grow_frames((void **)&h->frame_plain, h->n_frame_bytes, sizeof *h->frame_plain) &&
                 grow_frames((void **)&h->frame_bucket, h->n_frame_bytes, sizeof *h->frame_bucket);
    return grown ? ERR_OK : err_memory_of(e, w->out->file.path);
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
    enum err err = reserve_frame(w, e);
    if (!err)
        w->head.frame_bucket[w->head.n_frame_bytes] = bucket;
    return err;
}

/* Makes the frame fit at least one row of `width` floats of this bucket. *fits: how many rows fit. */
static enum err reserve_rows(struct rows_writer *w, uint32_t bucket, uint32_t width, uint32_t *fits,
                             struct errmsg *e)
{
    *fits = row_group_fits(ROW_FRAME_BYTES - w->used, width);
    enum err err = *fits ? ERR_OK : end_frame(w, e);
    if (!err && w->used == 0) {
        err = begin_frame(w, bucket, e);
        *fits = row_group_fits(ROW_FRAME_BYTES, width);
    }
    return err;
}

static enum err rows_writer_put_rows(struct rows_writer *w, const struct row_group *g,
                                     struct errmsg *e)
{
    const struct checkpoint_table *t = &w->rows->table[g->table];
    uint32_t width = t->dim + t->slots;
    for (uint32_t first = 0; first < g->rows;) {
        uint32_t fits, left = g->rows - first;
        enum err err = reserve_rows(w, g->bucket, width, &fits, e);
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

static enum err rows_writer_put_sketch(struct rows_writer *w, const struct row_group *g,
                                       struct errmsg *e)
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
        return err_memory_of(e, w->out->file.path);
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
        return err_memory_of(e, w->out->file.path);
    for (uint32_t i = 0; i < g->rows; i++) {
        uint64_t key = key_unmix(g->mixed[i]);
        sha256_add(w->hash, &key, sizeof key);
        sha256_add(w->hash, g->values + (size_t)i * (t->dim + t->slots), t->dim * sizeof(float));
    }
    return ERR_OK;
}

static enum err rows_writer_put(struct rows_writer *w, const struct row_group *g, struct errmsg *e)
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
        return rows_writer_put_sketch(w, g, e);
    err = hash_rows(w, g, e);
    return err ? err : rows_writer_put_rows(w, g, e);
}

/* Appends all rows to `out`. w->head then describes them for the file's head, valid until rows_writer_close, which
 * the caller must call also after an error. Errors: ERR_IO, ERR_NOMEM; ERR_STATE rows are out of order; errors of
 * rows->next. */
static enum err rows_writer_run(struct rows_writer *w, const struct checkpoint_rows *rows,
                                struct frame_file *out, struct errmsg *e)
{
    enum err err = rows_writer_init(w, rows, out, e);
    while (!err) {
        struct row_group g = {0};
        err = rows->next(rows->ctx, &g, e);
        if (err || row_group_ends(&g))
            break;
        err = rows_writer_put(w, &g, e);
    }
    if (!err)
        err = end_bucket(w, e);
    return err ? err : end_frame(w, e);
}

/* ---- a shard's file ---- */

struct shard_writer {
    struct frame_file out;
    uint64_t *frame_bytes; /* (frames) */
    uint32_t *frame_crc;   /* (frames) */
    size_t frames, frames_written;
    struct rows_writer rows; /* zeros if the job has no tables */
};

static void shard_writer_close(struct shard_writer *w)
{
    frame_file_close(&w->out);
    rows_writer_close(&w->rows);
    mem_free(w->frame_bytes);
    mem_free(w->frame_crc);
}

/* The caller must call shard_writer_close, also after an error. */
static enum err shard_writer_init(struct shard_writer *w, const struct place *place,
                                  const char *name, const struct checkpoint_shard *s,
                                  struct errmsg *e)
{
    memset(w, 0, sizeof *w);
    uint64_t elems = s->elems < CHECKPOINT_FRAME_ELEMS ? s->elems : CHECKPOINT_FRAME_ELEMS;
    enum err err =
        frame_file_open(&w->out, place, name, s->rows ? ROW_FRAME_BYTES : elems * sizeof(float), e);
    if (err)
        return err;
    w->frames =
        (s->elems + CHECKPOINT_FRAME_ELEMS - 1) / CHECKPOINT_FRAME_ELEMS * (1 + (size_t)s->slots);
    w->frame_bytes = mem_zalloc(w->frames, sizeof *w->frame_bytes);
    w->frame_crc = mem_zalloc(w->frames, sizeof *w->frame_crc);
    return w->frame_bytes && w->frame_crc ? ERR_OK : err_memory_of(e, w->out.file.path);
}

static enum err write_frame(struct shard_writer *w, const float *v, size_t n, struct errmsg *e)
{
    assert(w->frames_written < w->frames);
    size_t i = w->frames_written++;
    return frame_file_append(&w->out, v, n * sizeof *v, &w->frame_bytes[i], &w->frame_crc[i], e);
}

/* v: (elems) */
static enum err write_block(struct shard_writer *w, const float *v, uint64_t elems,
                            struct errmsg *e)
{
    for (uint64_t at = 0; at < elems; at += CHECKPOINT_FRAME_ELEMS) {
        uint64_t n = elems - at < CHECKPOINT_FRAME_ELEMS ? elems - at : CHECKPOINT_FRAME_ELEMS;
        enum err err = write_frame(w, v + at, n, e);
        if (err)
            return err;
    }
    return ERR_OK;
}

static uint32_t format_of(const struct checkpoint_shard *s)
{
    return s->rows ? CHECKPOINT_FORMAT_TABLES : CHECKPOINT_FORMAT_FIRST;
}

struct bins_heads {
    Checkpoint__Bins of[CHECKPOINT_EPOCHS], *list[CHECKPOINT_EPOCHS];
};

/* Adds those that have rows to the head. The caller frees their counts. Errors: ERR_NOMEM: nothing is added. */
static enum err list_bins(struct bins_heads *h, const struct bins *bins,
                          Checkpoint__ShardHead *head)
{
    for (int i = 0; bins && i < CHECKPOINT_EPOCHS; i++) {
        if (!bins[i].rows)
            continue;
        Checkpoint__Bins *to = h->list[head->n_bins] = &h->of[head->n_bins];
        checkpoint__bins__init(to);
        to->epoch = bins[i].epoch;
        to->slices = bins[i].slices;
        to->n_counts = bins_pack(&bins[i], NULL);
        to->counts = mem_zalloc(to->n_counts, sizeof *to->counts);
        if (!to->counts) {
            while (head->n_bins)
                mem_free(h->of[--head->n_bins].counts);
            return ERR_NOMEM;
        }
        (void)bins_pack(&bins[i], to->counts);
        head->n_bins++;
    }
    head->bins = h->list;
    return ERR_OK;
}

static enum err write_head(struct shard_writer *w, uint64_t cut, const struct checkpoint_shard *s,
                           uint32_t *head_crc, struct errmsg *e)
{
    Checkpoint__ShardHead head = CHECKPOINT__SHARD_HEAD__INIT;
    head.cut = cut;
    head.generation = s->generation;
    head.shard = s->shard;
    head.first_elem = s->first_elem;
    head.elems = s->elems;
    head.slots = s->slots;
    head.frame_elems = CHECKPOINT_FRAME_ELEMS;
    head.n_frame_bytes = head.n_frame_crc = w->frames;
    head.frame_bytes = w->frame_bytes;
    head.frame_crc = w->frame_crc;
    head.rows = s->rows ? &w->rows.head : NULL;
    struct bins_heads bins;
    enum err err = list_bins(&bins, s->bins, &head);
    if (err)
        return err_memory_of(e, w->out.file.path);

    size_t bytes = checkpoint__shard_head__get_packed_size(&head);
    uint8_t *packed = NULL;
    if (bytes > CHECKPOINT_HEAD_MAX)
        err = err_set(e, ERR_TOOBIG, "%s: its head would have %zu bytes, more than allowed",
                      w->out.file.path, bytes);
    else if (!(packed = mem_zalloc(bytes + CHECKPOINT_TAIL_BYTES, 1)))
        err = err_memory_of(e, w->out.file.path);
    if (!err) {
        checkpoint__shard_head__pack(&head, packed);
        *head_crc = checkpoint_tail_encode(packed + bytes, CHECKPOINT_SHARD_KIND, format_of(s),
                                           packed, bytes);
        err = place_append(&w->out.file, packed, bytes + CHECKPOINT_TAIL_BYTES, e);
    }
    mem_free(packed);
    for (size_t i = 0; i < head.n_bins; i++)
        mem_free(bins.of[i].counts);
    return err;
}

static enum err shard_writer_run(struct shard_writer *w, uint64_t cut,
                                 const struct checkpoint_shard *s, uint32_t *head_crc,
                                 struct errmsg *e)
{
    uint8_t magic[CHECKPOINT_MAGIC_BYTES];
    checkpoint_magic_encode(magic, CHECKPOINT_SHARD_KIND, format_of(s));
    enum err err = place_append(&w->out.file, magic, sizeof magic, e);
    if (!err)
        err = write_block(w, s->w, s->elems, e);
    for (uint32_t i = 0; i < s->slots && !err; i++)
        err = write_block(w, s->slot[i], s->elems, e);
    if (!err && s->rows)
        err = rows_writer_run(&w->rows, s->rows, &w->out, e);
    if (!err)
        err = write_head(w, cut, s, head_crc, e);
    return err;
}

enum err checkpoint_write_shard(struct cut c, const struct checkpoint_shard *s,
                                struct checkpoint_file *f, struct errmsg *e)
{
    assert(s->slots <= OPTIMIZER_SLOTS_MAX && s->elems <= CHECKPOINT_ELEMS_MAX);
    struct checkpoint_file made = {.first_elem = s->first_elem, .elems = s->elems};
    if (s->rows) {
        made.first_bucket = s->rows->buckets.first;
        made.end_bucket = s->rows->buckets.end;
        made.clock = s->rows->clock;
    }
    (void)snprintf(made.name, sizeof made.name, "shard-%" PRIu32 ".gw", s->shard);
    char name[PLACE_NAME_MAX];
    cut_object(name, c.id, made.name);
    struct shard_writer w;
    enum err err = shard_writer_init(&w, c.at, name, s, e);
    if (!err)
        err = shard_writer_run(&w, c.id, s, &made.head_crc, e);
    if (!err) {
        made.bytes = w.out.file.bytes;
        made.rows = s->rows ? rows_writer_rows(&w.rows) : 0;
        err = place_commit(&w.out.file, e);
    }
    shard_writer_close(&w);
    if (!err)
        *f = made;
    return err;
}
