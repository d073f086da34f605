/* Writing one shard's file.
 * Happy path: magic -> per block, per frame: compress (level 1), append -> head with the frames'
 * sizes and CRCs -> tail -> commit. Failure modes: no memory, no room, a failed fsync or rename:
 * the temporary file is removed, the error names the path; other files and older checkpoints are
 * not touched. Killed: a temporary file, for checkpoint_prune. */
#include "common/checkpoint/checkpoint_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "common/base/mem.h"
#include "proto/checkpoint.pb-c.h"

struct shard_writer {
    struct files_writer file;
    ZSTD_CCtx *zstd;
    uint8_t *packed; /* (packed_room): one compressed frame */
    size_t packed_room;
    uint64_t *frame_bytes; /* (frames) */
    uint32_t *frame_crc;   /* (frames) */
    size_t frames, frames_written;
};

static enum err out_of_memory(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

static void writer_close(struct shard_writer *w)
{
    files_abort(&w->file);
    ZSTD_freeCCtx(w->zstd);
    mem_free(w->packed);
    mem_free(w->frame_bytes);
    mem_free(w->frame_crc);
}

/* On error the caller closes all the same. */
static enum err writer_init(struct shard_writer *w, const char *path,
                            const struct checkpoint_shard *s, struct errmsg *e)
{
    *w = (struct shard_writer){.file.fd = -1};
    uint64_t largest = s->elems < CHECKPOINT_FRAME_ELEMS ? s->elems : CHECKPOINT_FRAME_ELEMS;
    w->frames =
        (s->elems + CHECKPOINT_FRAME_ELEMS - 1) / CHECKPOINT_FRAME_ELEMS * (1 + (size_t)s->slots);
    w->packed_room = ZSTD_compressBound(largest * sizeof(float));
    w->zstd = ZSTD_createCCtx();
    w->packed = mem_resize(NULL, w->packed_room, 1);
    w->frame_bytes = mem_zalloc(w->frames, sizeof *w->frame_bytes);
    w->frame_crc = mem_zalloc(w->frames, sizeof *w->frame_crc);
    if (!w->zstd || !w->packed || !w->frame_bytes || !w->frame_crc)
        return out_of_memory(path, e);
    size_t r = ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, 1);
    if (!ZSTD_isError(r))
        r = ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
    if (ZSTD_isError(r))
        return err_set(e, ERR_IO, "%s: zstd: %s", path, ZSTD_getErrorName(r));
    return files_begin(&w->file, path, e);
}

static enum err write_frame(struct shard_writer *w, const float *v, size_t n, struct errmsg *e)
{
    size_t bytes = ZSTD_compress2(w->zstd, w->packed, w->packed_room, v, n * sizeof *v);
    if (ZSTD_getErrorCode(bytes) == ZSTD_error_memory_allocation)
        return out_of_memory(w->file.path, e);
    if (ZSTD_isError(bytes))
        return err_set(e, ERR_IO, "%s: zstd: %s", w->file.path, ZSTD_getErrorName(bytes));
    assert(w->frames_written < w->frames);
    w->frame_bytes[w->frames_written] = bytes;
    w->frame_crc[w->frames_written] = (uint32_t)crc32_z(0, w->packed, bytes);
    w->frames_written++;
    return files_append(&w->file, w->packed, bytes, e);
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

    size_t bytes = checkpoint__shard_head__get_packed_size(&head);
    if (bytes > CHECKPOINT_HEAD_MAX)
        return err_set(e, ERR_TOOBIG, "%s: a head of %zu bytes", w->file.path, bytes);
    uint8_t *packed = mem_zalloc(bytes + CHECKPOINT_TAIL_BYTES, 1);
    if (!packed)
        return out_of_memory(w->file.path, e);
    checkpoint__shard_head__pack(&head, packed);
    *head_crc = checkpoint_tail_encode(packed + bytes, CHECKPOINT_SHARD_KIND, packed, bytes);
    enum err err = files_append(&w->file, packed, bytes + CHECKPOINT_TAIL_BYTES, e);
    mem_free(packed);
    return err;
}

static enum err write_all(struct shard_writer *w, uint64_t cut, const struct checkpoint_shard *s,
                          uint32_t *head_crc, struct errmsg *e)
{
    uint8_t magic[CHECKPOINT_MAGIC_BYTES];
    checkpoint_magic_encode(magic, CHECKPOINT_SHARD_KIND);
    enum err err = files_append(&w->file, magic, sizeof magic, e);
    if (!err)
        err = write_block(w, s->w, s->elems, e);
    for (uint32_t i = 0; i < s->slots && !err; i++)
        err = write_block(w, s->slot[i], s->elems, e);
    if (!err)
        err = write_head(w, cut, s, head_crc, e);
    return err;
}

/* DIR/cut-N, there to last. */
static enum err make_folder(const char *dir, uint64_t cut, struct errmsg *e)
{
    char folder[FILES_PATH_MAX];
    enum err err = checkpoint_path(folder, dir, cut, NULL, e);
    return err ? err : files_mkdirs(folder, e);
}

enum err checkpoint_write_shard(const char *dir, uint64_t cut, const struct checkpoint_shard *s,
                                struct checkpoint_file *f, struct errmsg *e)
{
    assert(s->slots <= OPTIMIZER_SLOTS_MAX && s->elems <= CHECKPOINT_ELEMS_MAX);
    struct checkpoint_file made = {.first_elem = s->first_elem, .elems = s->elems};
    (void)snprintf(made.name, sizeof made.name, "shard-%" PRIu32 ".gw", s->shard);
    char path[FILES_PATH_MAX];
    enum err err = make_folder(dir, cut, e);
    if (!err)
        err = checkpoint_path(path, dir, cut, made.name, e);
    if (err)
        return err;

    struct shard_writer w;
    err = writer_init(&w, path, s, e);
    if (!err)
        err = write_all(&w, cut, s, &made.head_crc, e);
    if (!err) {
        made.bytes = w.file.bytes;
        err = files_commit(&w.file, e);
    }
    writer_close(&w);
    if (!err)
        *f = made;
    return err;
}
