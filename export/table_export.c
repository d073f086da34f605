/* Sorted pieces, and their merge. A record is a key, a count and a row; in the spill it has a checksum, too. A heap has the pieces by
 * their next record, so a pass over all of them gives ascending keys. */
#include "export/table_export.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/formats/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they stand");

/* A row as a record: key, count, weights, and in the spill a CRC-32C, without gaps. */
enum {
    RECORD_KEY = 0,
    RECORD_COUNT = 8,
    RECORD_WEIGHTS = 12,
    RECORD_CRC_BYTES = 4,
    BLOCK_BYTES = 1 << 16
};

/* Sorted rows in the spill. */
struct piece {
    uint64_t at, rows;
};

struct order {
    uint64_t key;
    size_t row; /* index in memory */
};

/* The position of the merge in a piece. */
struct cursor {
    uint64_t next;     /* row of the piece that is read next */
    size_t have, used; /* rows in `records` */
    uint8_t *records;  /* (block_rows) */
};

struct table_export {
    uint32_t dim;
    size_t record_bytes, rows_max; /* rows that fit into memory */
    struct spill *spill;
    uint64_t rows, files; /* files: number of files to write */
    /* before the merge: */
    size_t n;
    uint8_t *records;    /* (rows_max) */
    struct order *order; /* (rows_max) */
    uint32_t pieces;
    struct piece *piece; /* (pieces) */
    /* in the merge: */
    size_t block_rows;
    struct cursor *cursor; /* (pieces) */
    uint32_t heap_n,
        /* (pieces) heap of the pieces that have rows; the one with the least key is first */
        *heap;
};

static enum err out_of_memory(struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "no memory to export a table");
}

static uint64_t record_key(const uint8_t *record)
{
    uint64_t key;
    memcpy(&key, record + RECORD_KEY, sizeof key);
    return key;
}

enum err table_export_new(struct table_export **x, uint32_t dim, uint64_t rows, size_t memory_bytes,
                          struct spill *spill, struct errmsg *e)
{
    struct table_export *made = mem_zalloc(1, sizeof *made);
    if (!made)
        return out_of_memory(e);
    made->dim = dim;
    made->spill = spill;
    made->record_bytes = RECORD_WEIGHTS + dim * sizeof(float) + RECORD_CRC_BYTES;
    made->rows_max = memory_bytes / (made->record_bytes + sizeof *made->order);
    made->rows_max = made->rows_max < rows ? made->rows_max : (size_t)rows;
    made->rows_max = made->rows_max ? made->rows_max : 1;
    made->records = mem_resize(NULL, made->rows_max, made->record_bytes);
    made->order = mem_resize(NULL, made->rows_max, sizeof *made->order);
    if (!made->records || !made->order) {
        table_export_free(made);
        return out_of_memory(e);
    }
    *x = made;
    return ERR_OK;
}

void table_export_free(struct table_export *x)
{
    if (!x)
        return;
    for (uint32_t i = 0; x->cursor && i < x->pieces; i++)
        mem_free(x->cursor[i].records);
    mem_free(x->cursor);
    mem_free(x->heap);
    mem_free(x->records);
    mem_free(x->order);
    mem_free(x->piece);
    mem_free(x);
}

/* ---- pieces ---- */

static int by_key(const void *a, const void *b)
{
    const struct order *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Of its place in the spill, too: the bytes of another record are damage. */
static uint32_t record_crc(const struct table_export *x, uint64_t at, const uint8_t *record)
{
    return crc32c(crc32c(0, &at, sizeof at), record, x->record_bytes - RECORD_CRC_BYTES);
}

static void put_crc(const struct table_export *x, uint64_t at, uint8_t *record)
{
    uint32_t crc = record_crc(x, at, record);
    memcpy(record + x->record_bytes - sizeof crc, &crc, sizeof crc);
}

static bool has_crc(const struct table_export *x, uint64_t at, const uint8_t *record)
{
    uint32_t crc;
    memcpy(&crc, record + x->record_bytes - sizeof crc, sizeof crc);
    return crc == record_crc(x, at, record);
}

static enum err write_piece(struct table_export *x, uint64_t at, struct errmsg *e)
{
    uint8_t block[BLOCK_BYTES];
    size_t used = 0;
    enum err err = ERR_OK;
    for (size_t i = 0; i < x->n && !err; i++) {
        const uint8_t *record = x->records + x->order[i].row * x->record_bytes;
        if (used + x->record_bytes > sizeof block) {
            err = spill_write(x->spill, at, block, used, e);
            at += used;
            used = 0;
        }
        memcpy(block + used, record, x->record_bytes);
        put_crc(x, at + used, block + used);
        used += x->record_bytes;
    }
    return err ? err : spill_write(x->spill, at, block, used, e);
}

/* Make a piece of the rows in memory. */
static enum err end_piece(struct table_export *x, struct errmsg *e)
{
    if (x->n == 0)
        return ERR_OK;
    struct piece *grown = mem_extend(x->piece, x->pieces, 1, sizeof *grown);
    if (!grown)
        return out_of_memory(e);
    x->piece = grown;
    struct piece piece = {.rows = x->n};
    qsort(x->order, x->n, sizeof *x->order, by_key);
    enum err err = spill_reserve(x->spill, x->n * x->record_bytes, &piece.at, e);
    if (!err)
        err = write_piece(x, piece.at, e);
    if (err)
        return err;
    x->piece[x->pieces++] = piece;
    x->n = 0;
    return ERR_OK;
}

enum err table_export_add(struct table_export *x, uint64_t key, uint32_t count, const float *w,
                          struct errmsg *e)
{
    enum err err = x->n == x->rows_max ? end_piece(x, e) : ERR_OK;
    if (err)
        return err;
    uint8_t *record = x->records + x->n * x->record_bytes;
    memcpy(record + RECORD_KEY, &key, sizeof key);
    memcpy(record + RECORD_COUNT, &count, sizeof count);
    memcpy(record + RECORD_WEIGHTS, w, x->dim * sizeof *w);
    x->order[x->n] = (struct order){key, x->n};
    x->n++;
    x->rows++;
    return ERR_OK;
}

/* ---- the merge ---- */

static const uint8_t *head_of(const struct table_export *x, uint32_t piece)
{
    const struct cursor *c = &x->cursor[piece];
    return c->records + c->used * x->record_bytes;
}

static bool is_before(const struct table_export *x, uint32_t a, uint32_t b)
{
    return record_key(head_of(x, a)) < record_key(head_of(x, b));
}

/* Restore the heap from the entry at `at` downwards. */
static void sink(struct table_export *x, uint32_t at)
{
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < x->heap_n; child++)
            if (is_before(x, x->heap[child], x->heap[least]))
                least = child;
        if (least == at)
            return;
        uint32_t was = x->heap[at];
        x->heap[at] = x->heap[least];
        x->heap[least] = was;
        at = least;
    }
}

/* Read the next rows of a piece, from row c->next; none: the piece is finished. */
static enum err merge_fill(struct table_export *x, uint32_t piece, struct errmsg *e)
{
    struct cursor *c = &x->cursor[piece];
    const struct piece *p = &x->piece[piece];
    uint64_t left = p->rows - c->next;
    uint64_t at = p->at + c->next * x->record_bytes;
    c->have = left < x->block_rows ? (size_t)left : x->block_rows;
    c->used = 0;
    enum err err =
        c->have ? spill_read(x->spill, at, c->records, c->have * x->record_bytes, e) : ERR_OK;
    c->next += c->have;
    for (size_t i = 0; i < c->have && !err; i++)
        if (!has_crc(x, at + i * x->record_bytes, c->records + i * x->record_bytes))
            err = spill_changed(x->spill, e);
    return err;
}

/* Continue each piece i with row from[i]. */
static enum err merge_seek(struct table_export *x, const uint64_t *from, struct errmsg *e)
{
    x->heap_n = 0;
    for (uint32_t i = 0; i < x->pieces; i++) {
        x->cursor[i].next = from[i];
        enum err err = merge_fill(x, i, e);
        if (err)
            return err;
        if (x->cursor[i].have)
            x->heap[x->heap_n++] = i;
    }
    for (uint32_t i = x->heap_n; i-- > 0;)
        sink(x, i);
    return ERR_OK;
}

/* Set at[i] to the next row of each piece i. */
static void merge_positions(const struct table_export *x, uint64_t *at)
{
    for (uint32_t i = 0; i < x->pieces; i++)
        at[i] = x->cursor[i].next - (x->cursor[i].have - x->cursor[i].used);
}

/* Pass the row with the least key. */
static enum err advance(struct table_export *x, struct errmsg *e)
{
    uint32_t piece = x->heap[0];
    struct cursor *c = &x->cursor[piece];
    enum err err = ++c->used == c->have ? merge_fill(x, piece, e) : ERR_OK;
    if (c->have == 0)
        x->heap[0] = x->heap[--x->heap_n];
    if (!err)
        sink(x, 0);
    return err;
}

static enum err begin_merge(struct table_export *x, struct errmsg *e)
{
    size_t memory = x->rows_max * x->record_bytes;
    mem_free(x->records); /* the cursors use its memory now */
    x->records = NULL;
    x->cursor = mem_zalloc(x->pieces, sizeof *x->cursor);
    x->heap = mem_zalloc(x->pieces, sizeof *x->heap);
    bool there = x->cursor && x->heap;
    x->block_rows = memory / x->record_bytes / (x->pieces ? x->pieces : 1);
    x->block_rows = x->block_rows ? x->block_rows : 1;
    for (uint32_t i = 0; i < x->pieces && there; i++) {
        x->cursor[i].records = mem_resize(NULL, x->block_rows, x->record_bytes);
        there = x->cursor[i].records != NULL;
    }
    return there ? ERR_OK : out_of_memory(e);
}

/* ---- files ---- */

struct section {
    const char *name, *type;
    size_t from, bytes; /* of a record */
};

/* The meaning of the numbers in `counts`. */
static const char counts_are[] =
    "updates since the row was made: each step (in async and ssp: each batch) that changed the row "
    "counts once, however many rows of the data looked it up; a row that was evicted and made "
    "again, and a new run (checkpoint.run), begin with 0";

static enum err write_header(struct place_writer *w, const struct section s[3], const char *table,
                             uint64_t rows, uint32_t dim, struct errmsg *e)
{
    const uint64_t shape[2] = {rows, dim};
    uint64_t at = 0;
    size_t bytes = 0;
    json_t *header =
        json_pack("{s:{s:s, s:s}}", "__metadata__", "table", table, "counts", counts_are);
    enum err err = ERR_OK;
    for (int i = 0; i < 3 && !err; i++)
        err = safetensors_add(header, s[i].name, s[i].type, i == 1 ? 2 : 1, shape,
                              rows * s[i].bytes, &at);
    char *begin = err ? NULL : safetensors_begin(header, &bytes);
    json_decref(header);
    err = begin ? place_append(w, begin, bytes, e) : out_of_memory(e);
    mem_free(begin);
    return err;
}

/* Write one field of the next `rows` rows. */
static enum err write_section(struct table_export *x, struct place_writer *w,
                              const struct section *s, uint64_t rows, struct errmsg *e)
{
    uint8_t block[BLOCK_BYTES];
    size_t used = 0;
    enum err err = ERR_OK;
    for (uint64_t i = 0; i < rows && !err; i++) {
        if (used + s->bytes > sizeof block) {
            err = place_append(w, block, used, e);
            used = 0;
        }
        memcpy(block + used, head_of(x, x->heap[0]) + s->from, s->bytes);
        used += s->bytes;
        if (!err)
            err = advance(x, e);
    }
    return err ? err : place_append(w, block, used, e);
}

/* at (pieces): the position of the merge; afterwards the position after the file's last row. */
static enum err write_file(struct table_export *x, const struct place *model, const char *file,
                           const char *table, uint64_t rows, uint64_t *at, struct errmsg *e)
{
    const struct section s[3] = {
        {"keys", "U64", RECORD_KEY, sizeof(uint64_t)},
        {"rows", "F32", RECORD_WEIGHTS, x->dim * sizeof(float)},
        {"counts", "U32", RECORD_COUNT, sizeof(uint32_t)},
    };
    struct place_writer w;
    enum err err = place_begin(model, file, &w, e);
    if (err)
        return err;
    err = write_header(&w, s, table, rows, x->dim, e);
    for (int i = 0; i < 3 && !err; i++) {
        err = merge_seek(x, at, e);
        if (!err)
            err = write_section(x, &w, &s[i], rows, e);
    }
    merge_positions(x, at);
    if (!err)
        return place_commit(&w, e);
    place_abort(&w);
    return err;
}

static void escape(const char *table, char *at)
{
    for (const char *c = table; *c; c++) {
        bool plain =
            isalnum((unsigned char)*c) || *c == '_' || *c == '-' || (*c == '.' && c > table);
        at += sprintf(at, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    *at = '\0';
}

void table_export_file(const char *name, uint64_t i, uint64_t files,
                       char out[static TABLE_EXPORT_NAME_MAX])
{
    char escaped[3 * ROW_TABLE_NAME_MAX];
    escape(name, escaped);
    if (files == 1)
        (void)snprintf(out, TABLE_EXPORT_NAME_MAX, "%s.safetensors", escaped);
    else
        (void)snprintf(out, TABLE_EXPORT_NAME_MAX, "%s-%05" PRIu64 "-of-%05" PRIu64 ".safetensors",
                       escaped, i + 1, files);
}

static enum err write_files(struct table_export *x, const struct place *model, const char *name,
                            uint64_t per_file, uint64_t *at, struct errmsg *e)
{
    x->files = x->rows ? (x->rows + per_file - 1) / per_file : 1;
    enum err err = ERR_OK;
    for (uint64_t i = 0; i < x->files && !err; i++) {
        char file[TABLE_EXPORT_NAME_MAX], object[PLACE_NAME_MAX];
        uint64_t left = x->rows - i * per_file;
        table_export_file(name, i, x->files, file);
        (void)snprintf(object, sizeof object, "tables/%s", file);
        err = write_file(x, model, object, name, left < per_file ? left : per_file, at, e);
    }
    return err;
}

enum err table_export_write(struct table_export *x, const struct place *model, const char *name,
                            uint64_t file_bytes, struct errmsg *e)
{
    uint64_t per_file = file_bytes / (x->record_bytes - RECORD_CRC_BYTES);
    assert(!x->cursor && per_file > 0);
    enum err err = end_piece(x, e);
    if (!err)
        err = begin_merge(x, e);
    if (err)
        return err;
    uint64_t *at = mem_zalloc(x->pieces, sizeof *at);
    err = at ? write_files(x, model, name, per_file, at, e) : out_of_memory(e);
    mem_free(at);
    return err;
}

bool table_export_wrote(const struct table_export *x, const char *name, const char *file)
{
    char own[TABLE_EXPORT_NAME_MAX];
    bool found = false;
    for (uint64_t i = 0; i < x->files && !found; i++) {
        table_export_file(name, i, x->files, own);
        found = strcmp(own, file) == 0;
    }
    return found;
}
