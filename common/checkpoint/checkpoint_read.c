/* Reads a shard's file: tail, head, then the frames that a range of elements or of buckets needs. The head lists which
 * frames have the requested buckets; others are skipped. Everything is checked before it is used: sizes before memory is
 * allocated, CRCs before protobuf-c or zstd gets the bytes, a frame's buckets and order before its rows are passed on. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "proto/checkpoint.pb-c.h"

static enum err shard_file_read_at(struct shard_file *f, uint64_t at, void *out, size_t bytes,
                                   struct errmsg *e)
{
    size_t got;
    enum err err = place_read(&f->in, at, out, bytes, &got, e);
    return !err && got < bytes ? checkpoint_corrupt(e, f->in.path, "it ends early") : err;
}

static uint64_t frames_per_block(const Checkpoint__ShardHead *h)
{
    return (h->elems + h->frame_elems - 1) / h->frame_elems;
}

/* The elements of frame `i` of a block. */
static size_t frame_elems(const Checkpoint__ShardHead *h, uint64_t i)
{
    uint64_t left = h->elems - i * h->frame_elems;
    return left < h->frame_elems ? left : h->frame_elems;
}

/* ---- the head: opening a file ---- */

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

static const char *rows_misfit(const Checkpoint__Rows *h)
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

/* Checks that the head's numbers about rows are possible. *bytes: the size of their frames in the file. Errors:
 * ERR_CORRUPT. */
static enum err shard_file_check_rows(const struct shard_file *f, uint64_t *bytes, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    *bytes = 0;
    if (!h)
        return ERR_OK;
    const char *why = rows_misfit(h);
    if (why)
        return checkpoint_corrupt(e, f->in.path, "%s", why);
    for (size_t i = 0; i < h->n_frame_bytes; i++)
        *bytes += h->frame_bytes[i];
    return ERR_OK;
}

/* over all tables */
static uint64_t shard_file_rows(const struct shard_file *f)
{
    uint64_t rows = 0;
    for (size_t i = 0; f->head->rows && i < f->head->rows->n_table; i++)
        rows += f->head->rows->table[i]->rows;
    return rows;
}

/* Checks that the head's numbers are consistent with each other and with the file's size. */
static enum err check_head(const struct shard_file *f, uint64_t frames_bytes, struct errmsg *e)
{
    const Checkpoint__ShardHead *h = f->head;
    if (h->frame_elems == 0 || h->frame_elems > CHECKPOINT_FRAME_ELEMS_MAX)
        return checkpoint_corrupt(e, f->in.path, "it has frames of %" PRIu32 " elements",
                                  h->frame_elems);
    if (h->elems > CHECKPOINT_ELEMS_MAX || h->first_elem > CHECKPOINT_ELEMS_MAX)
        return checkpoint_corrupt(e, f->in.path, "%" PRIu64 " elements from %" PRIu64, h->elems,
                                  h->first_elem);
    if (h->slots > OPTIMIZER_SLOTS_MAX)
        return checkpoint_corrupt(e, f->in.path, "%" PRIu32 " slots", h->slots);
    uint64_t per_block = frames_per_block(h);
    if (h->n_frame_bytes != per_block * (1 + (uint64_t)h->slots) ||
        h->n_frame_crc != h->n_frame_bytes)
        return checkpoint_corrupt(e, f->in.path, "its %zu frames do not match its blocks",
                                  h->n_frame_bytes);
    uint64_t sum = 0;
    for (size_t i = 0; i < h->n_frame_bytes; i++) {
        uint64_t bytes = h->frame_bytes[i];
        if (bytes > ZSTD_compressBound(frame_elems(h, i % per_block) * sizeof(float)))
            return checkpoint_corrupt(e, f->in.path, "frame %zu of %" PRIu64 " bytes", i, bytes);
        sum += bytes; /* no overflow: each is below 2^23, and there are at most 2^24 */
    }
    uint64_t rows_bytes;
    enum err err = shard_file_check_rows(f, &rows_bytes, e);
    if (err)
        return err;
    sum += rows_bytes;
    if (sum != frames_bytes)
        return checkpoint_corrupt(e, f->in.path,
                                  "its frames have %" PRIu64 " bytes, its head says %" PRIu64,
                                  frames_bytes, sum);
    return ERR_OK;
}

static enum err unpack_head(struct shard_file *f, uint64_t at, uint32_t bytes, struct errmsg *e)
{
    uint8_t *packed = mem_resize(NULL, bytes, 1);
    if (!packed)
        return err_memory_of(e, f->in.path);
    enum err err = shard_file_read_at(f, at, packed, bytes, e);
    if (!err && (uint32_t)crc32_z(0, packed, bytes) != f->head_crc)
        err = checkpoint_corrupt(e, f->in.path, "the head's checksum differs");
    if (!err) {
        bool failed = false;
        ProtobufCAllocator allocator = checkpoint_allocator(&failed);
        f->head = checkpoint__shard_head__unpack(&allocator, bytes, packed);
        if (!f->head)
            err = failed ? err_memory_of(e, f->in.path)
                         : checkpoint_corrupt(e, f->in.path, "its head cannot be parsed");
    }
    mem_free(packed);
    return err;
}

static enum err read_head(struct shard_file *f, struct errmsg *e)
{
    if (f->in.bytes < CHECKPOINT_MAGIC_BYTES + CHECKPOINT_TAIL_BYTES)
        return checkpoint_corrupt(e, f->in.path, "it ends early (%" PRIu64 " bytes)", f->in.bytes);
    uint8_t magic[CHECKPOINT_MAGIC_BYTES], tail[CHECKPOINT_TAIL_BYTES];
    uint32_t format;
    enum err err = shard_file_read_at(f, 0, magic, sizeof magic, e);
    if (!err)
        err = shard_file_read_at(f, f->in.bytes - sizeof tail, tail, sizeof tail, e);
    if (!err)
        err = checkpoint_magic_decode(magic, tail, CHECKPOINT_SHARD_KIND, f->in.path, &format, e);
    uint64_t contents = f->in.bytes - sizeof magic - sizeof tail;
    uint32_t head_bytes = 0;
    if (!err)
        err = checkpoint_tail_decode(tail, contents, &head_bytes, &f->head_crc, f->in.path, e);
    if (!err)
        err = unpack_head(f, f->in.bytes - sizeof tail - head_bytes, head_bytes, e);
    if (!err && (f->head->rows != NULL) != (format == CHECKPOINT_FORMAT_TABLES))
        err = checkpoint_corrupt(e, f->in.path, "its rows of tables do not match format %" PRIu32,
                                 format);
    if (!err)
        err = check_head(f, contents - head_bytes, e);
    return err;
}

enum err shard_file_open(struct shard_file *f, struct cut c, const char *file, struct errmsg *e)
{
    char name[PLACE_NAME_MAX];
    memset(f, 0, sizeof *f);
    cut_object(name, c.id, file);
    enum err err = place_open(c.at, name, &f->in, e);
    if (err)
        return err;
    err = read_head(f, e);
    if (err)
        shard_file_close(f);
    return err;
}

void shard_file_close(struct shard_file *f)
{
    ProtobufCAllocator allocator = checkpoint_allocator(NULL);
    if (f->head)
        checkpoint__shard_head__free_unpacked(f->head, &allocator);
    mem_free(f->stored);
    mem_free(f->plain);
    mem_free(f->rows_plain);
    ZSTD_freeDCtx(f->zstd);
    place_close(&f->in);
}

/* Checks that it is the file that the manifest lists. Errors: ERR_CORRUPT, naming the difference. */
static enum err shard_file_check(const struct shard_file *f, const struct manifest *m,
                                 const struct checkpoint_file *want, struct errmsg *e)
{
    const Checkpoint__ShardHead *h = f->head;
    struct {
        const char *what;
        uint64_t is, must;
    } const facts[] = {
        {"cut", h->cut, m->cut},
        {"generation", h->generation, m->generation},
        {"first element", h->first_elem, want->first_elem},
        {"number of elements", h->elems, want->elems},
        {"number of slots", h->slots, m->slots},
        {"first bucket", h->rows ? h->rows->first_bucket : 0, want->first_bucket},
        {"last bucket + 1", h->rows ? h->rows->end_bucket : 0, want->end_bucket},
        {"number of rows", shard_file_rows(f), want->rows},
        {"table clock", h->rows ? h->rows->clock : 0, want->clock},
        {"size", f->in.bytes, want->bytes},
        {"head's checksum", f->head_crc, want->head_crc},
    };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].is != facts[i].must)
            return checkpoint_corrupt(e, f->in.path,
                                      "its %s is %" PRIu64 ", the manifest says %" PRIu64,
                                      facts[i].what, facts[i].is, facts[i].must);
    return ERR_OK;
}

enum err shard_file_open_checked(struct shard_file *f, const struct place *place,
                                 const struct manifest *m, const struct checkpoint_file *want,
                                 struct errmsg *e)
{
    enum err err = shard_file_open(f, (struct cut){place, m->cut}, want->name, e);
    if (err == ERR_NOTFOUND)
        return checkpoint_corrupt(e, f->in.path, "it is missing");
    if (err)
        return err;
    err = shard_file_check(f, m, want, e);
    if (err)
        shard_file_close(f);
    return err;
}

/* ---- frames ---- */

/* Allocates the buffers on first use. Errors: ERR_NOMEM. */
static enum err shard_file_reserve(struct shard_file *f, struct errmsg *e)
{
    const Checkpoint__ShardHead *h = f->head;
    uint64_t largest = 0;
    for (size_t i = 0; i < h->n_frame_bytes; i++)
        largest = h->frame_bytes[i] > largest ? h->frame_bytes[i] : largest;
    for (size_t i = 0; h->rows && i < h->rows->n_frame_bytes; i++)
        largest = h->rows->frame_bytes[i] > largest ? h->rows->frame_bytes[i] : largest;
    if (!f->stored)
        f->stored = mem_resize(NULL, largest, 1);
    if (!f->plain)
        f->plain = mem_floats(frames_per_block(h) ? frame_elems(h, 0) : 0);
    if (!f->zstd)
        f->zstd = ZSTD_createDCtx();
    return f->stored && f->plain && f->zstd ? ERR_OK : err_memory_of(e, f->in.path);
}

/* Reads frame `i`, at offset `at` of the file, into f->stored and checks its CRC. Errors: ERR_CORRUPT, ERR_IO. */
static enum err shard_file_fetch(struct shard_file *f, size_t i, uint64_t at, size_t bytes,
                                 uint32_t crc, struct errmsg *e)
{
    enum err err = shard_file_read_at(f, at, f->stored, bytes, e);
    if (!err && (uint32_t)crc32_z(0, f->stored, bytes) != crc)
        err = checkpoint_corrupt(e, f->in.path, "the checksum of frame %zu differs", i);
    return err;
}

/* Decompresses the frame in f->stored, which must give exactly `bytes` bytes. Errors: ERR_CORRUPT, ERR_NOMEM. */
static enum err shard_file_unpack(struct shard_file *f, size_t i, size_t stored, void *out,
                                  size_t bytes, struct errmsg *e)
{
    if (ZSTD_getFrameContentSize(f->stored, stored) != bytes)
        return checkpoint_corrupt(e, f->in.path, "frame %zu does not hold %zu bytes", i, bytes);
    size_t r = ZSTD_decompressDCtx(f->zstd, out, bytes, f->stored, stored);
    if (ZSTD_getErrorCode(r) == ZSTD_error_memory_allocation)
        return err_memory_of(e, f->in.path);
    if (ZSTD_isError(r))
        return checkpoint_corrupt(e, f->in.path, "frame %zu: %s", i, ZSTD_getErrorName(r));
    if (r != bytes)
        return checkpoint_corrupt(e, f->in.path, "frame %zu does not hold %zu bytes", i, bytes);
    return ERR_OK;
}

/* ---- blocks ---- */

/* Reads frame `i` of the blocks, at offset `at` of the file, into f->stored. */
static enum err read_frame(struct shard_file *f, size_t i, uint64_t at, struct errmsg *e)
{
    return shard_file_fetch(f, i, at, f->head->frame_bytes[i], f->head->frame_crc[i], e);
}

/* Decompresses the frame in f->stored into exactly n floats. */
static enum err unpack_frame(struct shard_file *f, size_t i, float *out, size_t n, struct errmsg *e)
{
    return shard_file_unpack(f, i, f->head->frame_bytes[i], out, n * sizeof *out, e);
}

/* Copies the part of a frame that lies in [first, first + n) of its block to its position in out: (n). */
static enum err place_frame(struct shard_file *f, size_t i, uint64_t frame_first, size_t elems,
                            uint64_t first, uint64_t n, float *out, struct errmsg *e)
{
    if (frame_first >= first && frame_first + elems <= first + n)
        return unpack_frame(f, i, out + (frame_first - first), elems, e);
    enum err err = unpack_frame(f, i, f->plain, elems, e);
    if (err)
        return err;
    uint64_t from = frame_first > first ? frame_first : first;
    uint64_t to = frame_first + elems < first + n ? frame_first + elems : first + n;
    memcpy(out + (from - first), f->plain + (from - frame_first), (to - from) * sizeof *out);
    return ERR_OK;
}

enum err shard_file_read(struct shard_file *f, uint32_t block, uint64_t first, uint64_t n,
                         float *out, struct errmsg *e)
{
    const Checkpoint__ShardHead *h = f->head;
    assert(block <= h->slots && first <= h->elems && n <= h->elems - first);
    if (n == 0)
        return ERR_OK;
    enum err err = shard_file_reserve(f, e);
    uint64_t per_block = frames_per_block(h), at = CHECKPOINT_MAGIC_BYTES, frame_first = 0;
    size_t start = block * per_block;
    for (size_t i = 0; i < start; i++)
        at += h->frame_bytes[i];
    for (uint64_t i = 0; i < per_block && frame_first < first + n && !err; i++) {
        size_t elems = frame_elems(h, i);
        if (frame_first + elems > first) {
            err = read_frame(f, start + i, at, e);
            if (!err)
                err = place_frame(f, start + i, frame_first, elems, first, n, out, e);
        }
        at += h->frame_bytes[start + i];
        frame_first += elems;
    }
    return err;
}

/* ---- rows of tables ---- */

static enum err shard_file_reserve_rows(struct shard_file *f, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    uint32_t largest = 0;
    for (size_t i = 0; i < h->n_frame_plain; i++)
        largest = h->frame_plain[i] > largest ? h->frame_plain[i] : largest;
    if (!f->rows_plain)
        f->rows_plain = mem_zalloc(largest, 1);
    if (!f->rows_plain)
        return err_memory_of(e, f->in.path);
    return shard_file_reserve(f, e);
}

static void rows_tables(const Checkpoint__Rows *h, struct checkpoint_table *table)
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
static enum err pass_groups(const struct shard_file *f, size_t frame, struct bucket_range of,
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
            return checkpoint_corrupt(e, f->in.path, "the rows of frame %zu are out of order",
                                      f->head->n_frame_bytes + frame);
        enum err err =
            g.bucket >= of.first && g.bucket < of.end ? row_sink_pass(sink, &g, e) : ERR_OK;
        if (err)
            return err;
    }
    return ERR_OK;
}

/* Can frame `i` have rows of these buckets? Its last bucket is at most the next frame's first one. */
static bool frame_is_wanted(const Checkpoint__Rows *h, size_t i, struct bucket_range of)
{
    uint32_t last = i + 1 < h->n_frame_bucket ? h->frame_bucket[i + 1] : h->end_bucket - 1;
    return h->frame_bucket[i] < of.end && last >= of.first;
}

enum err shard_file_read_rows(struct shard_file *f, struct bucket_range of, struct row_place *at,
                              const struct row_sink *sink, struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    struct checkpoint_table table[ROW_TABLES_MAX];
    rows_tables(h, table);
    enum err err = shard_file_reserve_rows(f, e);
    uint64_t from = CHECKPOINT_MAGIC_BYTES;
    size_t blocks = f->head->n_frame_bytes;
    for (size_t i = 0; i < blocks; i++)
        from += f->head->frame_bytes[i];
    for (size_t i = 0; i < h->n_frame_bytes && !err; i++) {
        size_t stored = h->frame_bytes[i];
        if (frame_is_wanted(h, i, of)) {
            err = shard_file_fetch(f, blocks + i, from, stored, h->frame_crc[i], e);
            if (!err)
                err = shard_file_unpack(f, blocks + i, stored, f->rows_plain, h->frame_plain[i], e);
            if (!err)
                err = pass_groups(f, i, of, table, at, sink, e);
        }
        from += stored;
    }
    return err;
}

/* ---- counts of scores ---- */

enum err checkpoint_read_bins(const struct place *place, const struct manifest *m,
                              struct bins bins[CHECKPOINT_EPOCHS], struct errmsg *e)
{
    struct shard_file f;
    uint32_t first = 0;
    while (first < m->files && (m->file[first].first_elem || !m->file[first].elems))
        first++;
    if (first == m->files)
        return ERR_OK;
    enum err err = shard_file_open_checked(&f, place, m, &m->file[first], e);
    if (err)
        return err;
    for (size_t i = 0; i < f.head->n_bins && !err; i++) {
        const Checkpoint__Bins *from = f.head->bins[i];
        struct bins *to = &bins[from->epoch % CHECKPOINT_EPOCHS];
        if (from->slices == to->slices && !bins_unpack(to, from->counts, from->n_counts))
            err = checkpoint_corrupt(e, f.in.path, "its counts of scores are too many");
        to->epoch = from->epoch;
    }
    shard_file_close(&f);
    return err;
}

/* ---- all frames ---- */

enum err shard_file_verify(struct shard_file *f, struct errmsg *e)
{
    const Checkpoint__ShardHead *h = f->head;
    enum err err = shard_file_reserve(f, e);
    uint64_t at = CHECKPOINT_MAGIC_BYTES;
    for (size_t i = 0; i < h->n_frame_bytes && !err; i++) {
        err = read_frame(f, i, at, e);
        at += h->frame_bytes[i];
    }
    for (size_t i = 0; h->rows && i < h->rows->n_frame_bytes && !err; i++) {
        err = shard_file_fetch(f, h->n_frame_bytes + i, at, h->rows->frame_bytes[i],
                               h->rows->frame_crc[i], e);
        at += h->rows->frame_bytes[i];
    }
    return err;
}
