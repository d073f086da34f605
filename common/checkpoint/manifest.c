/* The manifest: conversion between struct, protobuf message and file. Its contents are checked in both directions,
 * because in a cluster the entries of its files come from other processes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/rows/key.h"
#include "proto/checkpoint.pb-c.h"

enum { UUID_CHARACTERS = 36 };

/* Members with the same name in the struct and in the protobuf message. */
#define MANIFEST_NUMBERS(X)                                                                        \
    X(cut)                                                                                         \
    X(generation)                                                                                  \
    X(final)                                                                                       \
    X(step)                                                                                        \
    X(t)                                                                                           \
    X(dealt)                                                                                       \
    X(duplicates)                                                                                  \
    X(lost)                                                                                        \
    X(clipped)                                                                                     \
    X(dropped)                                                                                     \
    X(total_elems)                                                                                 \
    X(slots)                                                                                       \
    X(microbatches)                                                                                \
    X(mark)                                                                                        \
    X(seconds)                                                                                     \
    X(restarts)                                                                                    \
    X(squeezed)                                                                                    \
    X(journal_lines)                                                                               \
    X(journal_crc)                                                                                 \
    X(tables)

void manifest_close(struct manifest *m)
{
    mem_free(m->window_bits);
    mem_free(m->identity_text);
    mem_free(m->file);
    mem_free(m->ps_threads);
    mem_free(m->redo.dropped);
    beginnings_close(&m->begun);
    *m = (struct manifest){0};
}

const struct epoch_sums *epochs_last(const struct epoch_sums sums[CHECKPOINT_EPOCHS], uint64_t most)
{
    const struct epoch_sums *last = NULL;
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        if (sums[i].batches && sums[i].epoch < most && (!last || sums[i].epoch > last->epoch))
            last = &sums[i];
    return last;
}

uint64_t epochs_learned(const struct epoch_sums sums[CHECKPOINT_EPOCHS])
{
    const struct epoch_sums *last = epochs_last(sums, UINT64_MAX);
    return last ? last->epoch + 1 : 0;
}

uint64_t manifest_epochs(const struct manifest *m, uint64_t per_epoch)
{
    return m->redo.there ? m->redo.epoch : m->step / per_epoch;
}

/* Checks that the files cover [0, total_elems) exactly once, in order; if not, `why` has the reason. */
static bool files_cover(const struct manifest *m, char why[128])
{
    uint64_t at = 0;
    if (m->total_elems > CHECKPOINT_ELEMS_MAX || m->files > CHECKPOINT_FILES_MAX) {
        (void)snprintf(why, 128, "%" PRIu32 " files of %" PRIu64 " elements", m->files,
                       m->total_elems);
        return false;
    }
    for (uint32_t i = 0; i < m->files; i++) {
        const struct checkpoint_file *f = &m->file[i];
        bool empty = f->elems == 0 && f->first_elem <= m->total_elems;
        if (!cut_file_is_shard(f->name)) { /* names become part of a path */
            (void)snprintf(why, 128, "\"%.31s\" is not the name of a shard's file", f->name);
            return false;
        }
        if (!empty && (f->first_elem != at || f->elems > m->total_elems - at)) {
            (void)snprintf(why, 128,
                           "%s begins at element %" PRIu64 " of %" PRIu64 ", not at %" PRIu64,
                           f->name, f->first_elem, m->total_elems, at);
            return false;
        }
        at += f->elems;
    }
    if (at != m->total_elems)
        (void)snprintf(why, 128, "its files hold %" PRIu64 " of %" PRIu64 " elements", at,
                       m->total_elems);
    return at == m->total_elems;
}

/* With tables: checks that the files cover all buckets exactly once, in order. Without: that they have none. */
static bool files_cover_buckets(const struct manifest *m, char why[128])
{
    uint32_t at = 0, all = m->tables ? ROW_BUCKETS : 0;
    for (uint32_t i = 0; i < m->files; i++) {
        const struct checkpoint_file *f = &m->file[i];
        if (f->first_bucket != at || f->end_bucket < at || f->end_bucket > all ||
            (f->rows && f->end_bucket == at)) {
            (void)snprintf(why, 128,
                           "%s has buckets %" PRIu32 " to %" PRIu32 " of %" PRIu32
                           ", not from %" PRIu32,
                           f->name, f->first_bucket, f->end_bucket, all, at);
            return false;
        }
        if (f->clock != m->file[0].clock) {
            (void)snprintf(why, 128, "the table clock of %s is %" PRIu64 ", that of %s is %" PRIu64,
                           f->name, f->clock, m->file[0].name, m->file[0].clock);
            return false;
        }
        at = f->end_bucket;
    }
    if (at != all)
        (void)snprintf(why, 128, "its files hold %" PRIu32 " of %" PRIu32 " buckets", at, all);
    return at == all;
}

static bool is_whole(const struct manifest *m, char why[128])
{
    return files_cover(m, why) && files_cover_buckets(m, why);
}

/* A manifest as a protobuf message; it borrows all strings and arrays that are not members here. */
struct packed {
    Checkpoint__Manifest head;
    Checkpoint__Eval eval;
    Checkpoint__Redo redo;
    Checkpoint__Encoding encoding;
    Checkpoint__Epoch epoch[CHECKPOINT_EPOCHS], *epochs[CHECKPOINT_EPOCHS];
    Checkpoint__File *file, **files; /* heap: (m->files) each */
    Checkpoint__TableCounts table[ROW_TABLES_MAX], *tables[ROW_TABLES_MAX];
};

static enum err pack_files(struct packed *p, const struct manifest *m)
{
    p->file = mem_zalloc(m->files, sizeof *p->file);
    p->files = mem_zalloc(m->files, sizeof *p->files);
    if (!p->file || !p->files)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < m->files; i++) {
        struct checkpoint_file *f = &m->file[i];
        checkpoint__file__init(&p->file[i]);
        p->file[i].name = f->name;
        p->file[i].first_elem = f->first_elem;
        p->file[i].elems = f->elems;
        p->file[i].bytes = f->bytes;
        p->file[i].head_crc = f->head_crc;
        p->file[i].rows = f->rows;
        p->file[i].first_bucket = f->first_bucket;
        p->file[i].end_bucket = f->end_bucket;
        p->file[i].clock = f->clock;
        p->files[i] = &p->file[i];
    }
    p->head.n_file = m->files;
    p->head.file = p->files;
    return ERR_OK;
}

/* The arrays of doubles still belong to m. protobuf-c's structs have no const, but packing changes nothing. */
static void pack_sums(struct packed *p, struct manifest *m)
{
    for (size_t i = 0; i < CHECKPOINT_EPOCHS; i++) {
        checkpoint__epoch__init(&p->epoch[i]);
        p->epoch[i].epoch = m->epoch[i].epoch;
        p->epoch[i].batches = m->epoch[i].batches;
        p->epoch[i].examples = m->epoch[i].examples;
        p->epoch[i].loss = m->epoch[i].loss;
        p->epoch[i].n_metric = SUMS_MAX;
        p->epoch[i].metric = m->epoch[i].metric;
        p->epochs[i] = &p->epoch[i];
    }
    p->head.n_epoch = CHECKPOINT_EPOCHS;
    p->head.epoch = p->epochs;
    if (!m->eval.valid)
        return;
    checkpoint__eval__init(&p->eval);
    p->eval.loss = m->eval.loss;
    p->eval.n_metric = METRICS_MAX;
    p->eval.metric = m->eval.metric;
    p->eval.step = m->eval.step;
    p->head.eval = &p->eval;
}

static void pack_redo(struct packed *p, const struct manifest_redo *r)
{
    if (!r->there)
        return;
    checkpoint__redo__init(&p->redo);
    p->redo.epoch = r->epoch;
    p->redo.begin = r->begin;
    p->redo.redone = r->redone;
    p->redo.dropped.len = r->dropped_bytes;
    p->redo.dropped.data = r->dropped;
    p->head.redo = &p->redo;
}

static void pack_encoding(struct packed *p, const struct manifest_encoding *n)
{
    if (!n->bytes)
        return;
    checkpoint__encoding__init(&p->encoding);
    p->encoding.bytes = n->bytes;
    p->encoding.crc = n->crc;
    p->head.encoding = &p->encoding;
}

static void pack_counts(struct packed *p, const struct manifest *m)
{
    for (uint32_t i = 0; i < m->counted; i++) {
        checkpoint__table_counts__init(&p->table[i]);
#define X(name) p->table[i].name = m->table[i].name;
        ROW_COUNTS(X)
#undef X
        p->tables[i] = &p->table[i];
    }
    p->head.n_table = m->counted;
    p->head.table = p->tables;
}

/* m: a shallow copy; its arrays are borrowed. */
static enum err manifest_pack(struct packed *p, struct manifest *m)
{
    *p = (struct packed){0};
    Checkpoint__Manifest *h = &p->head;
    checkpoint__manifest__init(h);
#define X(name) h->name = m->name;
    MANIFEST_NUMBERS(X)
#undef X
    h->uuid = m->uuid;
    h->run = m->run;
    h->window_bits.len = m->window_bits_bytes;
    h->window_bits.data = m->window_bits;
    if (m->identity_text)
        h->identity_text = m->identity_text;
    h->data_fingerprint.len = sizeof m->data_fingerprint;
    h->data_fingerprint.data = m->data_fingerprint;
    h->n_ps_threads = m->ps;
    h->ps_threads = m->ps_threads;
    pack_sums(p, m);
    pack_redo(p, &m->redo);
    pack_encoding(p, &m->encoding);
    pack_counts(p, m);
    h->n_begun_date = h->n_begun_clock = m->begun.runs;
    h->begun_date = m->begun.date;
    h->begun_clock = m->begun.clock;
    return pack_files(p, m);
}

static enum err manifest_file(const Checkpoint__Manifest *h, uint8_t **data, size_t *bytes,
                              struct errmsg *e)
{
    size_t head_bytes = checkpoint__manifest__get_packed_size(h);
    if (head_bytes > CHECKPOINT_HEAD_MAX)
        return err_set(e, ERR_TOOBIG, "the manifest would have %zu bytes, more than allowed",
                       head_bytes);
    uint8_t *p = mem_zalloc(CHECKPOINT_MAGIC_BYTES + head_bytes + CHECKPOINT_TAIL_BYTES, 1);
    if (!p)
        return err_memory_of(e, "manifest");
    uint8_t *head = p + CHECKPOINT_MAGIC_BYTES;
    uint32_t format = h->tables ? CHECKPOINT_FORMAT_TABLES : CHECKPOINT_FORMAT_FIRST;
    checkpoint_magic_encode(p, CHECKPOINT_MANIFEST_KIND, format);
    checkpoint__manifest__pack(h, head);
    (void)checkpoint_tail_encode(head + head_bytes, CHECKPOINT_MANIFEST_KIND, format, head,
                                 head_bytes);
    *data = p;
    *bytes = CHECKPOINT_MAGIC_BYTES + head_bytes + CHECKPOINT_TAIL_BYTES;
    return ERR_OK;
}

/* Returns what does not fit struct manifest, or NULL if everything fits. */
static const char *manifest_misfit(const Checkpoint__Manifest *h)
{
    if (strlen(h->uuid) > UUID_CHARACTERS)
        return "the job's id is too long";
    if (strlen(h->run) >= sizeof(((struct manifest *)0)->run))
        return "the run's name is too long";
    if (h->data_fingerprint.len != sizeof(((struct manifest *)0)->data_fingerprint))
        return "the data's fingerprint has a wrong size";
    if (h->cut > CHECKPOINT_NUMBER_MAX || h->generation > CHECKPOINT_NUMBER_MAX)
        return "the number of its checkpoint or generation is impossible";
    if (h->slots > OPTIMIZER_SLOTS_MAX)
        return "too many slots";
    if (h->n_epoch > CHECKPOINT_EPOCHS)
        return "too many epochs";
    for (size_t i = 0; i < h->n_epoch; i++)
        if (h->epoch[i]->n_metric > SUMS_MAX)
            return "too many metrics";
    if (h->eval && h->eval->n_metric > METRICS_MAX)
        return "too many metrics";
    if (h->n_table > ROW_TABLES_MAX || (h->n_table && !h->tables))
        return "its row counts do not match its tables";
    if (h->n_begun_date != h->n_begun_clock || h->n_begun_date > BEGINNINGS_MAX ||
        (h->n_begun_date && !h->tables))
        return "its list of earlier runs is invalid";
    if (h->encoding && (!h->encoding->bytes || h->encoding->bytes > CHECKPOINT_ENCODING_MAX))
        return "its encoding.json has an impossible size";
    if (h->n_file > CHECKPOINT_FILES_MAX)
        return "too many files";
    for (size_t i = 0; i < h->n_file; i++)
        if (!cut_file_is_shard(h->file[i]->name))
            return "a file's name is not that of a shard's file";
    return NULL;
}

enum err manifest_encode(const struct manifest *m, uint8_t **data, size_t *bytes, struct errmsg *e)
{
    char why[128];
    if (!is_whole(m, why))
        return err_set(e, ERR_STATE, "manifest of checkpoint %" PRIu64 ": %s", m->cut, why);
    struct manifest copy = *m;
    struct packed p;
    enum err err = manifest_pack(&p, &copy);
    const char *not_read = err ? NULL : manifest_misfit(&p.head);
    if (err)
        err_set(e, err, "manifest: out of memory");
    else if (not_read)
        err = err_set(e, ERR_STATE, "manifest of checkpoint %" PRIu64 ": %s", m->cut, not_read);
    else
        err = manifest_file(&p.head, data, bytes, e);
    mem_free(p.file);
    mem_free(p.files);
    return err;
}

/* Copies strings and arrays from the protobuf message. On error the caller must close m. */
static enum err unpack_arrays(const Checkpoint__Manifest *h, struct manifest *m)
{
    m->identity_text = mem_strdup(h->identity_text);
    m->window_bits = mem_zalloc(h->window_bits.len, 1);
    m->ps_threads = mem_zalloc(h->n_ps_threads, sizeof *m->ps_threads);
    m->file = mem_zalloc(h->n_file, sizeof *m->file);
    if (!m->identity_text || !m->window_bits || !m->ps_threads || !m->file)
        return ERR_NOMEM;
    m->window_bits_bytes = (uint32_t)h->window_bits.len; /* at most CHECKPOINT_HEAD_MAX */
    if (h->window_bits.len)
        memcpy(m->window_bits, h->window_bits.data, h->window_bits.len);
    if (h->redo) {
        m->redo.dropped = mem_zalloc(h->redo->dropped.len + 1, 1);
        if (!m->redo.dropped)
            return ERR_NOMEM;
        m->redo.there = true;
        m->redo.epoch = h->redo->epoch;
        m->redo.begin = h->redo->begin;
        m->redo.redone = h->redo->redone;
        m->redo.dropped_bytes = (uint32_t)h->redo->dropped.len;
        if (h->redo->dropped.len)
            memcpy(m->redo.dropped, h->redo->dropped.data, h->redo->dropped.len);
    }
    if (beginnings_copy(&m->begun, (uint32_t)h->n_begun_date, h->begun_date, h->begun_clock))
        return ERR_NOMEM;
    m->ps = (uint32_t)h->n_ps_threads;
    if (h->n_ps_threads)
        memcpy(m->ps_threads, h->ps_threads, h->n_ps_threads * sizeof *m->ps_threads);
    m->files = (uint32_t)h->n_file;
    for (uint32_t i = 0; i < m->files; i++) {
        const Checkpoint__File *f = h->file[i];
        (void)snprintf(m->file[i].name, sizeof m->file[i].name, "%s", f->name);
        m->file[i].first_elem = f->first_elem;
        m->file[i].elems = f->elems;
        m->file[i].bytes = f->bytes;
        m->file[i].head_crc = f->head_crc;
        m->file[i].rows = f->rows;
        m->file[i].first_bucket = f->first_bucket;
        m->file[i].end_bucket = f->end_bucket;
        m->file[i].clock = f->clock;
    }
    return ERR_OK;
}

static void unpack_sums(const Checkpoint__Manifest *h, struct manifest *m)
{
    for (size_t i = 0; i < h->n_epoch; i++) {
        const Checkpoint__Epoch *s = h->epoch[i];
        struct epoch_sums *d = &m->epoch[i];
        d->epoch = s->epoch;
        d->batches = s->batches;
        d->examples = s->examples;
        d->loss = s->loss;
        for (size_t j = 0; j < s->n_metric; j++)
            d->metric[j] = s->metric[j];
    }
    if (!h->eval)
        return;
    m->eval.valid = true;
    m->eval.loss = h->eval->loss;
    m->eval.step = h->eval->step;
    for (size_t j = 0; j < h->eval->n_metric; j++)
        m->eval.metric[j] = h->eval->metric[j];
}

static void unpack_counts(const Checkpoint__Manifest *h, struct manifest *m)
{
    m->counted = (uint32_t)h->n_table;
    for (uint32_t i = 0; i < m->counted; i++) {
#define X(name) m->table[i].name = h->table[i]->name;
        ROW_COUNTS(X)
#undef X
    }
}

static enum err manifest_unpack(const Checkpoint__Manifest *h, const char *path, struct manifest *m,
                                struct errmsg *e)
{
    const char *why = manifest_misfit(h);
    if (why)
        return checkpoint_corrupt(e, path, "%s", why);
#define X(name) .name = h->name,
    struct manifest made = {MANIFEST_NUMBERS(X)};
#undef X
    memcpy(made.uuid, h->uuid, strlen(h->uuid));
    memcpy(made.run, h->run, strlen(h->run));
    memcpy(made.data_fingerprint, h->data_fingerprint.data, sizeof made.data_fingerprint);
    unpack_sums(h, &made);
    unpack_counts(h, &made);
    if (h->encoding)
        made.encoding = (struct manifest_encoding){h->encoding->bytes, h->encoding->crc};
    char text[128];
    enum err err = unpack_arrays(h, &made);
    if (err)
        err_set(e, err, "%s: out of memory", path);
    else if (!is_whole(&made, text))
        err = checkpoint_corrupt(e, path, "%s", text);
    if (err)
        manifest_close(&made);
    else
        *m = made;
    return err;
}

enum err manifest_decode(const uint8_t *data, size_t bytes, const char *path, struct manifest *m,
                         struct errmsg *e)
{
    if (bytes < CHECKPOINT_MAGIC_BYTES + CHECKPOINT_TAIL_BYTES)
        return checkpoint_corrupt(e, path, "it ends early (%zu bytes)", bytes);
    size_t most = bytes - CHECKPOINT_MAGIC_BYTES - CHECKPOINT_TAIL_BYTES;
    const uint8_t *head = data + CHECKPOINT_MAGIC_BYTES;
    uint32_t format, head_bytes, head_crc;
    enum err err =
        checkpoint_magic_decode(data, head + most, CHECKPOINT_MANIFEST_KIND, path, &format, e);
    if (!err)
        err = checkpoint_tail_decode(head + most, most, &head_bytes, &head_crc, path, e);
    if (err)
        return err;
    if (head_bytes != most)
        return checkpoint_corrupt(e, path, "it has %zu bytes for a head of %" PRIu32, most,
                                  head_bytes);
    if ((uint32_t)crc32_z(0, head, head_bytes) != head_crc)
        return checkpoint_corrupt(e, path, "the head's checksum differs");
    bool failed = false;
    ProtobufCAllocator allocator = checkpoint_allocator(&failed);
    Checkpoint__Manifest *h = checkpoint__manifest__unpack(&allocator, head_bytes, head);
    if (!h && failed)
        return err_memory_of(e, path);
    if (!h)
        return checkpoint_corrupt(e, path, "its head cannot be parsed");
    if (h->tables != (format == CHECKPOINT_FORMAT_TABLES))
        err = checkpoint_corrupt(e, path, "its tables do not match format %" PRIu32, format);
    else
        err = manifest_unpack(h, path, m, e);
    if (!err) {
        m->format = format;
        m->crc = head_crc;
    }
    checkpoint__manifest__free_unpacked(h, &allocator);
    return err;
}

/* ---- when the job's runs began ---- */

enum { DAY_S = 24 * 60 * 60 };

void beginnings_close(struct beginnings *b)
{
    mem_free(b->date);
    mem_free(b->clock);
    *b = (struct beginnings){.runs = 0};
}

static enum err beginnings_make(struct beginnings *b, uint32_t runs_max)
{
    *b = (struct beginnings){.date = mem_zalloc(runs_max + 1, sizeof *b->date),
                             .clock = mem_zalloc(runs_max + 1, sizeof *b->clock)};
    if (b->date && b->clock)
        return ERR_OK;
    beginnings_close(b);
    return ERR_NOMEM;
}

static void beginnings_put(struct beginnings *b, uint64_t date, uint64_t clock)
{
    b->date[b->runs] = date;
    b->clock[b->runs++] = clock;
}

enum err beginnings_copy(struct beginnings *to, uint32_t runs, const uint64_t *date,
                         const uint64_t *clock)
{
    struct beginnings b;
    enum err err = beginnings_make(&b, runs);
    for (uint32_t i = 0; i < runs && !err; i++)
        beginnings_put(&b, date[i], clock[i]);
    if (!err)
        *to = b;
    return err;
}

enum err beginnings_after(struct beginnings *to, const struct beginnings *from, uint64_t date,
                          uint64_t clock)
{
    struct beginnings b;
    uint32_t step = from->runs < BEGINNINGS_MAX ? 1 : 2;
    enum err err = beginnings_make(&b, from->runs / step + 2);
    for (uint32_t i = 0; i < from->runs && !err; i += step)
        beginnings_put(&b, from->date[i], from->clock[i]);
    if (err)
        return err;
    beginnings_put(&b, date, clock);
    *to = b;
    return ERR_OK;
}

uint32_t beginnings_find(const struct beginnings *b, uint64_t now, uint32_t days)
{
    uint64_t span = (uint64_t)days * DAY_S;
    for (uint32_t i = b->runs; i-- > 0;)
        if (now >= span && b->date[i] <= now - span)
            return i;
    return b->runs;
}

/* A manifest has what its file has, and nothing else. */
enum err manifest_copy(struct manifest *to, const struct manifest *from, struct errmsg *e)
{
    uint8_t *data;
    size_t bytes;
    enum err err = manifest_encode(from, &data, &bytes, e);
    if (err)
        return err;
    err = manifest_decode(data, bytes, "a copy of a manifest", to, e);
    mem_free(data);
    return err;
}
