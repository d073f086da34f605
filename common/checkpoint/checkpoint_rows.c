/* The rows of a complete checkpoint, over all its files. */
#include "common/checkpoint/checkpoint_rows.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/checkpoint/checkpoint_file.h"
#include "proto/checkpoint.pb-c.h"

/* ---- tables ---- */

struct digests {
    struct sha256 *of[ROW_TABLES_MAX];
    uint8_t empty[SHA256_BYTES]; /* digest of a bucket without rows */
};

static void digests_close(struct digests *d)
{
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        sha256_free(d->of[i]);
}

static bool digests_init(struct digests *d, uint32_t tables)
{
    *d = (struct digests){.of = {NULL}};
    struct sha256 *nothing = sha256_new();
    bool there = nothing && sha256_final(nothing, d->empty) == 0;
    sha256_free(nothing);
    for (uint32_t i = 0; i < tables; i++) {
        d->of[i] = sha256_new();
        there = there && d->of[i];
    }
    return there;
}

/* Adds the digests of the file's buckets of one table. */
static void digests_add(struct digests *d, uint32_t table, const Checkpoint__Rows *h)
{
    const Checkpoint__RowTable *t = h->table[table];
    size_t i = 0;
    for (uint32_t bucket = h->first_bucket; bucket < h->end_bucket; bucket++) {
        bool has = i < t->n_bucket && t->bucket[i] == bucket;
        sha256_add(d->of[table], has ? t->digest.data + i * SHA256_BYTES : d->empty, SHA256_BYTES);
        i += has;
    }
}

static enum err digests_end(struct digests *d, struct checkpoint_tables *t)
{
    for (uint32_t i = 0; i < t->tables; i++)
        if (sha256_final(d->of[i], t->digest[i]) != 0)
            return ERR_NOMEM;
    return ERR_OK;
}

static void begin_tables(struct checkpoint_tables *t, const Checkpoint__Rows *h)
{
    *t = (struct checkpoint_tables){.clock = h->clock, .tables = (uint32_t)h->n_table};
    for (uint32_t i = 0; i < t->tables; i++) {
        t->table[i].dim = h->table[i]->dim;
        t->table[i].slots = h->table[i]->slots;
        t->table[i].sketch_bytes = h->table[i]->sketch_bytes;
        memcpy(t->table[i].name, h->table[i]->name, strlen(h->table[i]->name));
    }
}

/* Checks that the file has the same tables as the files before it. */
static enum err tables_check(const struct checkpoint_tables *t, const struct shard_file *f,
                             struct errmsg *e)
{
    const Checkpoint__Rows *h = f->head->rows;
    bool same = h->n_table == t->tables;
    for (uint32_t i = 0; same && i < t->tables; i++)
        same = strcmp(h->table[i]->name, t->table[i].name) == 0 &&
               h->table[i]->dim == t->table[i].dim && h->table[i]->slots == t->table[i].slots;
    return same ? ERR_OK
                : checkpoint_corrupt(e, f->in.path, "its tables differ from the expected ones");
}

/* Opens file `i` of the checkpoint; the first one defines the tables. */
static enum err open_rows(struct shard_file *f, const struct place *place, const struct manifest *m,
                          uint32_t i, struct checkpoint_tables *t, struct errmsg *e)
{
    enum err err = shard_file_open_checked(f, place, m, &m->file[i], e);
    if (err)
        return err;
    if (t->tables == 0)
        begin_tables(t, f->head->rows);
    err = tables_check(t, f, e);
    if (err)
        shard_file_close(f);
    return err;
}

static enum err tables_add_file(const struct place *place, const struct manifest *m, uint32_t i,
                                struct checkpoint_tables *t, struct digests *d, struct errmsg *e)
{
    struct shard_file f;
    enum err err = open_rows(&f, place, m, i, t, e);
    if (err)
        return err;
    if (i == 0 && !digests_init(d, t->tables))
        err = err_memory_of(e, f.in.path);
    for (uint32_t j = 0; j < t->tables && !err; j++) {
        t->rows[j] += f.head->rows->table[j]->rows;
        digests_add(d, j, f.head->rows);
    }
    shard_file_close(&f);
    return err;
}

enum err checkpoint_read_tables(const struct place *place, const struct manifest *m,
                                struct checkpoint_tables *t, struct errmsg *e)
{
    struct checkpoint_tables made = {0};
    struct digests d = {.of = {NULL}};
    enum err err = ERR_OK;
    for (uint32_t i = 0; m->tables && i < m->files && !err; i++)
        err = tables_add_file(place, m, i, &made, &d, e);
    if (!err && digests_end(&d, &made))
        err = err_memory_of(e, place->where);
    digests_close(&d);
    if (!err)
        *t = made;
    return err;
}

/* ---- rows ---- */

enum err row_sink_pass(const struct row_sink *s, const struct row_group *g, struct errmsg *e)
{
    if (g->sketch)
        return s->sketch ? s->sketch(s->ctx, g, e) : ERR_OK;
    return s->rows(s->ctx, g, e);
}

/* t: the tables that the files must have; if empty, those of the first file. */
static enum err read_rows_of_files(const struct place *place, const struct manifest *m,
                                   struct bucket_range of, const struct row_sink *sink,
                                   struct checkpoint_tables *t, struct errmsg *e)
{
    struct row_place at = {0};
    enum err err = ERR_OK;
    for (uint32_t i = 0; m->tables && i < m->files && !err; i++) {
        if (m->file[i].first_bucket >= of.end || m->file[i].end_bucket <= of.first)
            continue;
        struct shard_file f;
        err = open_rows(&f, place, m, i, t, e);
        if (err)
            break;
        err = shard_file_read_rows(&f, of, &at, sink, e);
        shard_file_close(&f);
    }
    return err;
}

enum err checkpoint_read_rows(const struct place *place, const struct manifest *m,
                              struct bucket_range of, const struct row_sink *sink, struct errmsg *e)
{
    struct checkpoint_tables t = {0};
    return read_rows_of_files(place, m, of, sink, &t, e);
}

enum err checkpoint_read_wanted(const struct place *place, const struct manifest *m,
                                const struct checkpoint_rows_wanted *w, struct errmsg *e)
{
    struct checkpoint_tables t = {.tables = w->tables};
    memcpy(t.table, w->table, w->tables * sizeof *w->table);
    if (!m->tables)
        return err_set(e, ERR_STATE, "checkpoint %" PRIu64 " has no tables", m->cut);
    return read_rows_of_files(place, m, w->buckets, &w->sink, &t, e);
}

/* ---- values that are not finite ---- */

/* Elements checked at a time: they fit the first-level cache. */
enum { CHECKED_ELEMS = 4096 };

static bool is_finite(const float *w, uint64_t n)
{
    /* the sum of squares of floats cannot overflow a double */
    return isfinite(kernels()->sum_squares(w, (size_t)n));
}

void broken_find(struct broken *to, const struct checkpoint_shard *blocks)
{
    for (uint64_t at = 0; at < blocks->elems; at += CHECKED_ELEMS) {
        uint64_t n = blocks->elems - at < CHECKED_ELEMS ? blocks->elems - at : CHECKED_ELEMS;
        if (is_finite(blocks->w + at, n))
            continue;
        while (isfinite(blocks->w[at]))
            at++;
        *to = (struct broken){.kind = BROKEN_ELEM, .elem = blocks->first_elem + at};
        return;
    }
}

void broken_find_in_rows(struct broken *to, const struct row_group *g,
                         const struct checkpoint_table *of)
{
    const float *w = g->values;
    if (is_finite(w, (uint64_t)g->rows * (of->dim + of->slots)))
        return; /* one check for all rows, including their slots */
    for (uint32_t i = 0; i < g->rows && to->kind == BROKEN_NONE; i++, w += of->dim + of->slots)
        if (!is_finite(w, of->dim))
            *to = (struct broken){.kind = BROKEN_ROW, .table = g->table, .mixed = g->mixed[i]};
}
