/* The rows of a complete checkpoint, over all its files. */
#include "common/checkpoint/checkpoint_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/math/kernels.h"
#include "common/checkpoint/checkpoint_file.h"
#include "proto/checkpoint.pb-c.h"
#include "common/base/mem.h"

/* Groups of rows as bytes: the contents of a checkpoint's frames of rows, and of a copy in memory, which has them in pieces
 * that grow. */

enum { ROW_FIXED_BYTES = 8 + 8 + 4 }; /* key, stamp, count */
enum { GROUP_OF_ROWS = 0, GROUP_OF_A_SKETCH = 1 };

size_t row_group_bytes(uint64_t rows, uint32_t width)
{
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return ROW_GROUP_HEAD_BYTES + (rows * row + 7) / 8 * 8;
}

uint32_t row_group_fits(size_t bytes, uint32_t width)
{
    if (bytes <= ROW_GROUP_HEAD_BYTES)
        return 0;
    uint64_t row = ROW_FIXED_BYTES + (uint64_t)width * sizeof(float);
    return (uint32_t)((bytes - ROW_GROUP_HEAD_BYTES) / 8 * 8 / row);
}

static uint8_t *frame_put(uint8_t *at, const void *from, size_t bytes)
{
    memcpy(at, from, bytes);
    return at + bytes;
}

void row_group_encode(void *out, const struct row_group *g, uint32_t first, uint32_t n,
                      uint32_t width)
{
    uint8_t *at = out, *end = at + row_group_bytes(n, width);
    uint32_t head[4] = {g->table, g->bucket, n, GROUP_OF_ROWS};
    at = frame_put(at, head, sizeof head);
    at = frame_put(at, g->mixed + first, n * sizeof *g->mixed);
    at = frame_put(at, g->stamp + first, n * sizeof *g->stamp);
    at = frame_put(at, g->count + first, n * sizeof *g->count);
    at = frame_put(at, g->values + (size_t)first * width, (size_t)n * width * sizeof *g->values);
    memset(at, 0, (size_t)(end - at));
}

size_t row_sketch_group_bytes(uint32_t sketch_bytes)
{
    return ROW_GROUP_HEAD_BYTES + (size_t)sketch_bytes;
}

void row_sketch_encode(void *out, const struct row_group *g)
{
    uint32_t head[4] = {g->table, g->bucket, g->sketch_bytes, GROUP_OF_A_SKETCH};
    (void)frame_put(frame_put(out, head, sizeof head), g->sketch, g->sketch_bytes);
}

/* `head` is the group's; `bytes` is all that can belong to it. */
static size_t decode_sketch(const void *data, size_t bytes, const uint32_t head[4],
                            const struct checkpoint_table *table, struct row_group *g)
{
    uint32_t sketch_bytes = table[head[0]].sketch_bytes;
    if (sketch_bytes == 0 || head[2] != sketch_bytes ||
        row_sketch_group_bytes(sketch_bytes) > bytes)
        return 0;
    *g = (struct row_group){.table = head[0],
                            .bucket = head[1],
                            .sketch = (const uint8_t *)data + ROW_GROUP_HEAD_BYTES,
                            .sketch_bytes = sketch_bytes};
    return row_sketch_group_bytes(sketch_bytes);
}

size_t row_group_decode(const void *data, size_t bytes, const struct checkpoint_table *table,
                        uint32_t tables, struct row_group *g)
{
    uint32_t head[4];
    if (bytes < sizeof head)
        return 0;
    memcpy(head, data, sizeof head);
    uint32_t rows = head[2];
    if (head[0] >= tables || head[1] >= ROW_BUCKETS || rows == 0)
        return 0;
    if (head[3] == GROUP_OF_A_SKETCH)
        return decode_sketch(data, bytes, head, table, g);
    size_t all = row_group_bytes(rows, table[head[0]].dim + table[head[0]].slots);
    if (all > bytes)
        return 0;
    const uint64_t *mixed = (const uint64_t *)data + ROW_GROUP_HEAD_BYTES / 8;
    const uint32_t *count = (const uint32_t *)(mixed + 2 * (size_t)rows);
    *g = (struct row_group){.table = head[0],
                            .bucket = head[1],
                            .rows = rows,
                            .mixed = mixed,
                            .stamp = mixed + rows,
                            .count = count,
                            .values = (const float *)(count + rows)};
    return all;
}

/* Does the group start after `at`? */
static bool row_place_is_before(const struct row_place *at, const struct row_group *g)
{
    if (!at->there || g->bucket > at->bucket)
        return true;
    if (g->bucket < at->bucket || g->table < at->table)
        return false;
    if (g->table > at->table)
        return true;
    return !g->sketch && (at->sketch || g->mixed[0] > at->mixed);
}

bool row_place_advance(struct row_place *at, const struct row_group *g)
{
    if (!row_place_is_before(at, g))
        return false;
    if (g->sketch) {
        *at = (struct row_place){true, true, g->bucket, g->table, 0};
        return true;
    }
    uint32_t last = g->rows - 1;
    for (uint32_t i = 1; i < g->rows; i++)
        if (g->mixed[i] <= g->mixed[i - 1])
            return false;
    if (key_bucket(g->mixed[0]) != g->bucket || key_bucket(g->mixed[last]) != g->bucket)
        return false;
    *at = (struct row_place){true, false, g->bucket, g->table, g->mixed[last]};
    return true;
}

/* ---- a copy in memory ---- */

enum { PIECE_BYTES_MIN = 1 << 12, PIECE_BYTES_MAX = 1 << 20 };

/* Groups in the format of a frame. */
struct row_piece {
    uint8_t *data; /* (bytes) */
    size_t bytes, used;
};

static enum err row_copy_next(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct row_copy *c = ctx;
    (void)e;
    *g = (struct row_group){0};
    if (c->next_piece < c->pieces && c->next_at == c->piece[c->next_piece].used) {
        c->next_piece++;
        c->next_at = 0;
    }
    if (c->next_piece == c->pieces)
        return ERR_OK;
    const struct row_piece *p = &c->piece[c->next_piece];
    size_t used =
        row_group_decode(p->data + c->next_at, p->used - c->next_at, c->table, c->head.tables, g);
    assert(used > 0);
    c->next_at += used;
    return ERR_OK;
}

void row_copy_init(struct row_copy *c, const struct checkpoint_table *table, uint32_t tables,
                   struct bucket_range buckets, uint64_t clock)
{
    assert(tables <= ROW_TABLES_MAX);
    *c = (struct row_copy){.head = {.buckets = buckets, .clock = clock, .tables = tables}};
    memcpy(c->table, table, tables * sizeof *table);
    c->head.table = c->table;
    c->head.next = row_copy_next;
    c->head.ctx = c;
}

void row_copy_close(struct row_copy *c)
{
    for (uint32_t i = 0; i < c->pieces; i++)
        mem_free(c->piece[i].data);
    mem_free(c->piece);
    *c = (struct row_copy){.pieces = 0};
}

/* Adds a piece of at least `least` bytes. The first pieces are small. */
static enum err row_copy_grow(struct row_copy *c, size_t least)
{
    struct row_piece *p = mem_extend(c->piece, c->pieces, 1, sizeof *p);
    if (!p)
        return ERR_NOMEM;
    c->piece = p;
    size_t size = (size_t)PIECE_BYTES_MIN << (c->pieces < 8 ? c->pieces : 8);
    assert(size <= PIECE_BYTES_MAX);
    size = size < least ? least : size;
    uint8_t *data = mem_resize(NULL, size, 1);
    if (!data)
        return ERR_NOMEM;
    c->piece[c->pieces++] = (struct row_piece){.data = data, .bytes = size};
    return ERR_OK;
}

enum err row_copy_add(struct row_copy *c, const struct row_group *g)
{
    assert(g->table < c->head.tables && !row_group_ends(g));
    const struct checkpoint_table *t = &c->table[g->table];
    uint32_t width = t->dim + t->slots;
    size_t bytes =
        g->sketch ? row_sketch_group_bytes(g->sketch_bytes) : row_group_bytes(g->rows, width);
    const struct row_piece *last = c->pieces ? &c->piece[c->pieces - 1] : NULL;
    if (!last || last->bytes - last->used < bytes) {
        enum err err = row_copy_grow(c, bytes);
        if (err)
            return err;
    }
    struct row_piece *p = &c->piece[c->pieces - 1];
    if (g->sketch)
        row_sketch_encode(p->data + p->used, g);
    else
        row_group_encode(p->data + p->used, g, 0, g->rows, width);
    p->used += bytes;
    c->rows += g->rows;
    return ERR_OK;
}

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
