/* Writes a shard's file: magic; for each block, each frame compressed (level 1); rows of tables; the head with the
 * frames' sizes and CRCs; the tail; commit.
 * Failures: if memory or space runs out, or fsync or rename fails, the temporary file is removed, and the error
 * names the path; other files and older checkpoints are unchanged. If the process is killed, a temporary file is
 * left for checkpoint_prune. */
#include "common/checkpoint/checkpoint_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "common/checkpoint/rows_write.h"
#include "proto/checkpoint.pb-c.h"

struct shard_writer {
    struct frame_file out;
    uint64_t *frame_bytes; /* (frames) */
    uint32_t *frame_crc;   /* (frames) */
    size_t frames, frames_written;
    struct rows_writer rows; /* zeros if the job has no tables */
};

static enum err out_of_memory(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", path);
}

static void writer_close(struct shard_writer *w)
{
    frame_file_close(&w->out);
    rows_writer_close(&w->rows);
    mem_free(w->frame_bytes);
    mem_free(w->frame_crc);
}

/* The caller must call writer_close, also after an error. */
static enum err writer_init(struct shard_writer *w, const char *path,
                            const struct checkpoint_shard *s, struct errmsg *e)
{
    *w = (struct shard_writer){.out.file.fd = -1};
    uint64_t elems = s->elems < CHECKPOINT_FRAME_ELEMS ? s->elems : CHECKPOINT_FRAME_ELEMS;
    w->frames =
        (s->elems + CHECKPOINT_FRAME_ELEMS - 1) / CHECKPOINT_FRAME_ELEMS * (1 + (size_t)s->slots);
    w->frame_bytes = mem_zalloc(w->frames, sizeof *w->frame_bytes);
    w->frame_crc = mem_zalloc(w->frames, sizeof *w->frame_crc);
    if (!w->frame_bytes || !w->frame_crc)
        return out_of_memory(path, e);
    return frame_file_open(&w->out, path, s->rows ? ROW_FRAME_BYTES : elems * sizeof(float), e);
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

    size_t bytes = checkpoint__shard_head__get_packed_size(&head);
    if (bytes > CHECKPOINT_HEAD_MAX)
        return err_set(e, ERR_TOOBIG, "%s: its head would have %zu bytes, more than allowed",
                       w->out.file.path, bytes);
    uint8_t *packed = mem_zalloc(bytes + CHECKPOINT_TAIL_BYTES, 1);
    if (!packed)
        return out_of_memory(w->out.file.path, e);
    checkpoint__shard_head__pack(&head, packed);
    *head_crc =
        checkpoint_tail_encode(packed + bytes, CHECKPOINT_SHARD_KIND, format_of(s), packed, bytes);
    enum err err = files_append(&w->out.file, packed, bytes + CHECKPOINT_TAIL_BYTES, e);
    mem_free(packed);
    return err;
}

static enum err write_all(struct shard_writer *w, uint64_t cut, const struct checkpoint_shard *s,
                          uint32_t *head_crc, struct errmsg *e)
{
    uint8_t magic[CHECKPOINT_MAGIC_BYTES];
    checkpoint_magic_encode(magic, CHECKPOINT_SHARD_KIND, format_of(s));
    enum err err = files_append(&w->out.file, magic, sizeof magic, e);
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

/* Creates DIR/cut-N; it survives a power cut. */
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
    if (s->rows) {
        made.first_bucket = s->rows->buckets.first;
        made.end_bucket = s->rows->buckets.end;
        made.clock = s->rows->clock;
    }
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
        made.bytes = w.out.file.bytes;
        made.rows = s->rows ? rows_writer_rows(&w.rows) : 0;
        err = files_commit(&w.out.file, e);
    }
    writer_close(&w);
    if (!err)
        *f = made;
    return err;
}
