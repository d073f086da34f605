/* Joins the parts of an index, each from the state that the part before it has left, and finds rows by it. */
#include "data/core/text_index.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/mem.h"

enum err text_index_init(struct text_index *x, uint32_t files, uint64_t cell_bytes, bool headers,
                         struct errmsg *e)
{
    assert(cell_bytes && cell_bytes < TEXT_INDEX_NONE);
    struct text_index_file *file = mem_zalloc(files, sizeof *file);
    if (!file)
        return err_memory(e);
    *x = (struct text_index){
        .cell_bytes = cell_bytes, .headers = headers, .files = files, .file = file};
    return ERR_OK;
}

enum err text_index_size(struct text_index *x, uint32_t file, uint64_t bytes, int64_t modified_ns,
                         struct errmsg *e)
{
    struct text_index_file *f = &x->file[file];
    const uint64_t cells = bytes / x->cell_bytes + (bytes % x->cell_bytes != 0);
    assert(file < x->files && !f->entry);
    struct text_index_entry *entry = mem_zalloc(cells + !cells, sizeof *entry);
    if (!entry)
        return err_memory_for(e, "an index of %" PRIu64 " bytes", bytes);
    *f = (struct text_index_file){.bytes = bytes,
                                  .stored_bytes = bytes,
                                  .modified_ns = modified_ns,
                                  .cells = cells,
                                  .entry = entry,
                                  .capacity = cells + !cells};
    return ERR_OK;
}

enum err text_index_add(struct text_index *x, uint32_t file, uint32_t bytes, struct errmsg *e)
{
    struct text_index_file *f = &x->file[file];
    assert(file < x->files && bytes && bytes <= x->cell_bytes &&
           f->bytes == f->cells * x->cell_bytes);
    struct text_index_entry *entry = mem_grow(f->entry, &f->capacity, f->cells + 1, sizeof *entry);
    if (!entry)
        return err_memory_for(e, "an index of %" PRIu64 " bytes", f->bytes);
    entry[f->cells++] = (struct text_index_entry){0};
    f->entry = entry;
    f->bytes += bytes;
    return ERR_OK;
}

uint32_t text_index_cell_size(const struct text_index *x, uint32_t file, uint64_t cell)
{
    const struct text_index_file *f = &x->file[file];
    const uint64_t left = f->bytes - cell * x->cell_bytes;
    assert(file < x->files && cell < f->cells);
    return (uint32_t)(left < x->cell_bytes ? left : x->cell_bytes);
}

/* False: no scan of a cell of this size has counted so. */
static bool can_be_seen(const struct text_index_seen *seen, uint32_t bytes, uint32_t lines)
{
    if (seen->rows > bytes || lines > bytes)
        return false;
    return seen->first == TEXT_INDEX_NONE ||
           (seen->first < bytes && seen->rows_before <= seen->rows &&
            seen->rows_before <= seen->first && seen->lines_before <= lines &&
            seen->lines_before <= seen->first);
}

/* A file begins with a record, unless it has none. */
static bool can_begin(const struct text_index_file *f, const struct text_index_part *p)
{
    const struct text_index_seen *seen = &p->cell[0].seen[0];
    return seen->first != TEXT_INDEX_NONE ? seen->rows_before == 0
                                          : f->cells == 1 && seen->rows == 0 && p->end[0] == 0;
}

enum err text_index_check(const struct text_index *x, const struct text_index_part *p,
                          uint32_t states, struct errmsg *e)
{
    const struct text_index_file *f = p->file < x->files ? &x->file[p->file] : NULL;
    if (!f || !p->cells || p->cells > TEXT_INDEX_PART_CELLS || p->first_cell > f->cells ||
        p->cells > f->cells - p->first_cell)
        return err_set(e, ERR_PROTO, "it has cells that no file has");
    if (p->starts != (p->first_cell ? states : 1))
        return err_set(e, ERR_PROTO, "it is scanned from other states");
    if (!p->first_cell && !can_begin(f, p))
        return err_set(e, ERR_PROTO, "its file does not begin with a record");
    for (uint32_t state = 0; state < TEXT_INDEX_STATES; state++) {
        if (!(p->starts >> state & 1))
            continue;
        bool can = p->end[state] < TEXT_INDEX_STATES && states >> p->end[state] & 1;
        for (uint32_t i = 0; i < p->cells && can; i++)
            can =
                can_be_seen(&p->cell[i].seen[state],
                            text_index_cell_size(x, p->file, p->first_cell + i), p->cell[i].lines);
        if (!can)
            return err_set(e, ERR_PROTO, "it has impossible counts or states");
    }
    return ERR_OK;
}

static enum err check_part(const struct text_index *x, const struct text_index_part *p,
                           struct errmsg *e)
{
    const struct text_index_file *f = p->file < x->files ? &x->file[p->file] : NULL;
    if (!f || p->first_cell != f->joined || p->cells > TEXT_INDEX_PART_CELLS ||
        p->cells > f->cells - f->joined)
        return err_set(e, ERR_PROTO, "cells %" PRIu64 " of file %" PRIu32 " are not the next ones",
                       p->first_cell, p->file);
    if (!(p->starts >> f->state & 1) || p->end[f->state] >= TEXT_INDEX_STATES)
        return err_set(e, ERR_PROTO, "file %" PRIu32 ": its next cells begin in another state",
                       p->file);
    for (uint32_t i = 0; i < p->cells; i++) {
        const uint32_t bytes = text_index_cell_size(x, p->file, f->joined + i);
        if (!can_be_seen(&p->cell[i].seen[f->state], bytes, p->cell[i].lines))
            return err_set(e, ERR_PROTO, "file %" PRIu32 ": impossible counts", p->file);
    }
    return ERR_OK;
}

enum err text_index_join(struct text_index *x, const struct text_index_part *p, struct errmsg *e)
{
    enum err err = check_part(x, p, e);
    if (err)
        return err;
    struct text_index_file *f = &x->file[p->file];
    for (uint32_t i = 0; i < p->cells; i++) {
        const struct text_index_seen *seen = &p->cell[i].seen[f->state];
        const bool none = seen->first == TEXT_INDEX_NONE;
        f->entry[f->joined++] = (struct text_index_entry){
            .row = f->rows + (none ? seen->rows : seen->rows_before),
            .line = f->lines + (none ? p->cell[i].lines : seen->lines_before) + 1,
            .sum = p->cell[i].sum,
            .first = seen->first,
            .zero = 0};
        f->rows += seen->rows;
        f->lines += p->cell[i].lines;
    }
    f->state = p->end[f->state];
    assert(f->joined <= f->cells);
    return ERR_OK;
}

uint64_t text_index_file_rows(const struct text_index *x, uint32_t file)
{
    const uint64_t rows = x->file[file].rows;
    return rows - (x->headers && rows);
}

uint64_t text_index_rows(const struct text_index *x)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < x->files; i++)
        rows += text_index_file_rows(x, i);
    return rows;
}

struct text_index_place text_index_find(const struct text_index *x, uint64_t row)
{
    uint32_t file = 0;
    for (; row >= text_index_file_rows(x, file); file++)
        row -= text_index_file_rows(x, file);
    const struct text_index_file *f = &x->file[file];
    row += x->headers;
    uint64_t low = 0, high = f->cells;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (f->entry[middle].row <= row)
            low = middle;
        else
            high = middle;
    }
    while (low && f->entry[low].first == TEXT_INDEX_NONE)
        low--;
    const struct text_index_entry *found = &f->entry[low];
    assert(file < x->files && found->first != TEXT_INDEX_NONE && found->row <= row);
    return (struct text_index_place){.file = file,
                                     .at = low * x->cell_bytes + found->first,
                                     .line = found->line,
                                     .skip = row - found->row,
                                     .left = f->rows - row};
}

void text_index_close(struct text_index *x)
{
    for (uint32_t i = 0; i < x->files; i++) {
        mem_free(x->file[i].entry);
        mem_free(x->file[i].points);
    }
    mem_free(x->file);
    *x = (struct text_index){0};
}

/* ---- as bytes ---- */

/* All numbers are little-endian, as on all supported machines. Behind the head are `files` heads of files, and behind them, of
 * each file, its entries and, if it is compressed, a struct packed_points and the points. */
struct packed_head {
    char magic[8];
    uint64_t sum; /* XXH3 of all bytes behind it */
    uint64_t of, names, cell_bytes;
    uint32_t headers, files;
};
struct packed_file {
    uint64_t bytes, rows, lines;
    int64_t modified_ns;
    uint32_t state,
        compressed; /* earlier releases have a state of 64 bits: they refuse an index of compressed files */
};
struct packed_points {
    uint64_t stored_bytes, points_bytes;
};
static const char magic[8] = "GWINDEX1";
enum { SUMMED = offsetof(struct packed_head, of) };

enum err text_index_pack(const struct text_index *x, uint64_t of, uint8_t **out, size_t *bytes,
                         struct errmsg *e)
{
    struct packed_head head = {.of = of,
                               .names = x->names,
                               .cell_bytes = x->cell_bytes,
                               .headers = x->headers,
                               .files = x->files};
    size_t all = sizeof head + x->files * sizeof(struct packed_file);
    memcpy(head.magic, magic, sizeof magic);
    for (uint32_t i = 0; i < x->files; i++) {
        const struct text_index_file *f = &x->file[i];
        all += (size_t)f->cells * sizeof *f->entry;
        all += f->compressed ? sizeof(struct packed_points) + f->points_bytes : 0;
    }
    uint8_t *made = mem_zalloc(all, 1), *at = made ? made + sizeof head : NULL;
    if (!made)
        return err_memory_for(e, "an index of %zu bytes", all);
    for (uint32_t i = 0; i < x->files; i++, at += sizeof(struct packed_file)) {
        const struct text_index_file *f = &x->file[i];
        const struct packed_file p = {.bytes = f->bytes,
                                      .rows = f->rows,
                                      .lines = f->lines,
                                      .modified_ns = f->modified_ns,
                                      .state = f->state,
                                      .compressed = f->compressed};
        assert(f->joined == f->cells);
        memcpy(at, &p, sizeof p);
    }
    for (uint32_t i = 0; i < x->files; i++) {
        const struct text_index_file *f = &x->file[i];
        const struct packed_points p = {f->stored_bytes, f->points_bytes};
        const size_t n = (size_t)f->cells * sizeof *f->entry;
        memcpy(at, f->entry, n);
        at += n;
        if (!f->compressed)
            continue;
        memcpy(at, &p, sizeof p);
        if (p.points_bytes)
            memcpy(at + sizeof p, f->points, f->points_bytes);
        at += sizeof p + f->points_bytes;
    }
    memcpy(made, &head, sizeof head);
    head.sum = XXH3_64bits(made + SUMMED, all - SUMMED);
    memcpy(made, &head, sizeof head);
    assert(at == made + all);
    *out = made;
    *bytes = all;
    return ERR_OK;
}

/* Whether text_index_find can rely on it: rows ascend, and a file with rows begins with a record. */
static bool is_sound(const struct text_index *x, uint32_t file)
{
    const struct text_index_file *f = &x->file[file];
    uint64_t row = 0;
    bool sound = f->state < TEXT_INDEX_STATES && f->rows <= f->bytes && f->lines <= f->bytes;
    for (uint64_t i = 0; i < f->cells && sound; i++) {
        const struct text_index_entry *n = &f->entry[i];
        const bool none = n->first == TEXT_INDEX_NONE;
        sound = none ? i > 0 || f->rows == 0 : n->first < text_index_cell_size(x, file, i);
        sound = sound && n->row >= row && n->row <= f->rows && (i > 0 || none || n->row == 0);
        row = n->row;
    }
    return sound && (f->cells > 0 || f->rows == 0);
}

/* The places of a compressed file, which are behind its entries, at *at. */
static bool unpack_points(struct text_index_file *f, const uint8_t **at, const uint8_t *end,
                          enum err *err, struct errmsg *e)
{
    struct packed_points p = {0};
    const size_t left = (size_t)(end - *at);
    if (left >= sizeof p)
        memcpy(&p, *at, sizeof p);
    if (left < sizeof p || !p.points_bytes || p.points_bytes > left - sizeof p)
        return false;
    f->points = mem_zalloc(p.points_bytes, 1);
    if (!f->points) {
        *err = err_memory_for(e, "an index of %" PRIu64 " bytes", p.points_bytes);
        return true;
    }
    memcpy(f->points, *at + sizeof p, p.points_bytes);
    f->points_bytes = p.points_bytes;
    f->stored_bytes = p.stored_bytes;
    f->compressed = true;
    *at += sizeof p + p.points_bytes;
    return true;
}

/* The heads of the files, and what is behind them. */
static bool unpack_files(struct text_index *x, const uint8_t *at, const uint8_t *end, enum err *err,
                         struct errmsg *e)
{
    const uint8_t *entry = at + x->files * sizeof(struct packed_file);
    for (uint32_t i = 0; i < x->files; i++, at += sizeof(struct packed_file)) {
        struct packed_file p;
        struct text_index_file *f = &x->file[i];
        memcpy(&p, at, sizeof p);
        const uint64_t cells = p.bytes / x->cell_bytes + (p.bytes % x->cell_bytes != 0);
        if (cells > (size_t)(end - entry) / sizeof *f->entry || p.state >= TEXT_INDEX_STATES ||
            p.compressed > 1)
            return false;
        *err = text_index_size(x, i, p.bytes, p.modified_ns, e);
        if (*err)
            return true;
        memcpy(f->entry, entry, (size_t)cells * sizeof *f->entry);
        entry += cells * sizeof *f->entry;
        f->joined = f->cells;
        f->rows = p.rows;
        f->lines = p.lines;
        f->state = (uint8_t)p.state;
        if (!is_sound(x, i) || (p.compressed && !unpack_points(f, &entry, end, err, e)))
            return false;
        if (*err)
            return true;
    }
    return entry == end;
}

enum err text_index_unpack(struct text_index *x, uint64_t of, const uint8_t *in, size_t bytes,
                           struct errmsg *e)
{
    struct packed_head head;
    struct text_index made = {.files = 0};
    const bool there = bytes >= sizeof head;
    if (there)
        memcpy(&head, in, sizeof head);
    if (!there || memcmp(head.magic, magic, sizeof magic) != 0 ||
        head.sum != XXH3_64bits(in + SUMMED, bytes - SUMMED) || !head.cell_bytes ||
        head.cell_bytes >= TEXT_INDEX_NONE || head.headers > 1 ||
        head.files > (bytes - sizeof head) / sizeof(struct packed_file))
        return err_set(e, ERR_CORRUPT, "the index of the data is damaged");
    if (head.of != of)
        return err_set(e, ERR_NOTFOUND, "the index is of a job with other keys of data");
    enum err err = text_index_init(&made, head.files, head.cell_bytes, head.headers, e);
    if (!err && !unpack_files(&made, in + sizeof head, in + bytes, &err, e))
        err = err_set(e, ERR_CORRUPT, "the index of the data is damaged");
    made.names = head.names;
    if (err)
        text_index_close(&made);
    else
        *x = made;
    return err;
}
