/* Joins the parts of an index, each from the state that the part before it has left, and finds rows by it. */
#include "data/core/text_index.h"

#include <assert.h>
#include <inttypes.h>

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
    *f = (struct text_index_file){
        .bytes = bytes, .modified_ns = modified_ns, .cells = cells, .entry = entry};
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
            .first = seen->first};
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
    for (uint32_t i = 0; i < x->files; i++)
        mem_free(x->file[i].entry);
    mem_free(x->file);
    *x = (struct text_index){0};
}
