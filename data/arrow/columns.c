/* A column has its numbers, or the ends of its texts and all of them one behind the other, and a byte for each row: whether it has a
 * value. The bytes become bits when all rows are there. */
#include "data/arrow/parquet.h"

#include <assert.h>
#include <string.h>

#include "common/base/mem.h"

/* A value is in its row's place; a text is at [end[row], end[row + 1]). */
struct columns_one {
    uint8_t *valid; /* (rows) a byte each, and once all rows are there a bit */
    union {
        double *number;
        int64_t *integer;
        int32_t *end; /* (rows + 1) of texts, which have less than 2 GiB */
    };
    char *text;
    size_t held; /* of the text */
};

static bool has_texts(const struct columns *c, uint32_t column)
{
    return c->types[column] == 's';
}

enum err columns_new(struct columns **out, uint32_t count, const char *types)
{
    struct columns *c = mem_zalloc(1, sizeof *c);
    struct columns_one *one = mem_zalloc(count, sizeof *one);
    if (!c || !one) {
        mem_free(c);
        mem_free(one);
        return ERR_NOMEM;
    }
    *c = (struct columns){.count = count, .types = types, .one = one};
    *out = c;
    return ERR_OK;
}

void columns_free(struct columns *c)
{
    for (uint32_t i = 0; c && i < c->count; i++) {
        mem_free(c->one[i].valid);
        mem_free(c->one[i].end);
        mem_free(c->one[i].text);
    }
    if (c)
        mem_free(c->one);
    mem_free(c);
}

void columns_clear(struct columns *c)
{
    c->rows = c->bytes = 0;
}

/* Room for so many rows, and for an end more of texts. */
static enum err hold_rows(struct columns *c, size_t rows)
{
    const size_t held = c->held ? 2 * rows : rows;
    for (uint32_t i = 0; i < c->count; i++) {
        struct columns_one *of = &c->one[i];
        uint8_t *valid = mem_resize(of->valid, held, 1);
        of->valid = valid ? valid : of->valid;
        void *values = has_texts(c, i) ? mem_resize(of->end, held + 1, sizeof *of->end)
                                       : mem_resize(of->integer, held, sizeof *of->integer);
        of->end = values ? values : of->end;
        if (!valid || !values)
            return ERR_NOMEM;
        if (has_texts(c, i) && !c->held)
            of->end[0] = 0;
    }
    c->held = held;
    return ERR_OK;
}

enum err columns_extend(struct columns *c, uint32_t rows)
{
    enum err err = c->rows + rows > c->held ? hold_rows(c, (size_t)c->rows + rows) : ERR_OK;
    for (uint32_t i = 0; i < c->count && !err; i++) {
        memset(c->one[i].valid + c->rows, 0, rows);
        if (!has_texts(c, i))
            memset(c->one[i].integer + c->rows, 0, rows * sizeof *c->one[i].integer);
    }
    if (!err) {
        c->rows += rows;
        c->bytes += (size_t)rows * c->count * sizeof(double);
    }
    return err;
}

void columns_set_double(struct columns *c, uint32_t column, uint64_t row, double v)
{
    c->one[column].number[row] = v;
    c->one[column].valid[row] = 1;
}

void columns_set_integer(struct columns *c, uint32_t column, uint64_t row, int64_t v)
{
    c->one[column].integer[row] = v;
    c->one[column].valid[row] = 1;
}

/* Room for more text. */
static enum err hold_text(struct columns_one *of, size_t at, size_t bytes)
{
    char *text = at + bytes > of->held ? mem_grow(of->text, &of->held, at + bytes, 1) : of->text;
    if (at + bytes > INT32_MAX || (!text && bytes))
        return ERR_NOMEM;
    of->text = text;
    return ERR_OK;
}

enum err columns_set_text(struct columns *c, uint32_t column, uint64_t row, const char *text,
                          size_t bytes)
{
    struct columns_one *of = &c->one[column];
    const size_t at = (size_t)of->end[row];
    enum err err = hold_text(of, at, bytes);
    if (err)
        return err;
    if (bytes)
        memcpy(of->text + at, text, bytes);
    of->end[row + 1] = (int32_t)(at + bytes);
    of->valid[row] = 1;
    c->bytes += bytes;
    return ERR_OK;
}

void columns_set_null_text(struct columns *c, uint32_t column, uint64_t row)
{
    struct columns_one *of = &c->one[column];
    of->end[row + 1] = of->end[row];
}

static void keep_in(struct columns *c, uint32_t column, uint64_t first, uint32_t rows,
                    const uint8_t *bits)
{
    struct columns_one *of = &c->one[column];
    uint64_t to = first;
    for (uint32_t i = 0; i < rows; i++) {
        const uint64_t from = first + i;
        if (!batch_bit(bits, i))
            continue;
        of->valid[to] = of->valid[from];
        if (has_texts(c, column)) {
            const int32_t begin = of->end[from], bytes = of->end[from + 1] - begin,
                          at = of->end[to];
            if (bytes)
                memmove(of->text + at, of->text + begin, (size_t)bytes);
            of->end[to + 1] = at + bytes;
        } else {
            of->integer[to] = of->integer[from];
        }
        to++;
    }
}

void columns_keep(struct columns *c, uint32_t rows, const uint8_t *bits)
{
    assert(rows <= c->rows);
    uint64_t kept = c->rows - rows;
    for (uint32_t i = 0; i < c->count; i++)
        keep_in(c, i, c->rows - rows, rows, bits);
    for (uint32_t i = 0; i < rows; i++)
        kept += batch_bit(bits, i);
    c->rows = kept;
}

static enum err append_texts(struct columns *to, const struct columns *from, uint32_t column,
                             uint64_t at, uint64_t first, uint32_t rows)
{
    struct columns_one *of = &to->one[column];
    const struct columns_one *by = &from->one[column];
    const int32_t begin = by->end[first], own = of->end[at];
    const size_t bytes = (size_t)(by->end[first + rows] - begin);
    enum err err = hold_text(of, (size_t)own, bytes);
    if (err)
        return err;
    if (bytes)
        memcpy(of->text + own, by->text + begin, bytes);
    for (uint32_t i = 1; i <= rows; i++)
        of->end[at + i] = by->end[first + i] - begin + own;
    to->bytes += bytes;
    return ERR_OK;
}

enum err columns_append(struct columns *to, const struct columns *from, uint64_t first,
                        uint32_t rows)
{
    const uint64_t at = to->rows;
    enum err err = columns_extend(to, rows);
    for (uint32_t i = 0; i < to->count && !err; i++) {
        memcpy(to->one[i].valid + at, from->one[i].valid + first, rows);
        if (has_texts(to, i))
            err = append_texts(to, from, i, at, first, rows);
        else
            memcpy(to->one[i].integer + at, from->one[i].integer + first,
                   rows * sizeof *to->one[i].integer);
    }
    return err;
}

/* ---- writing ---- */

void columns_finish(struct columns *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint8_t *valid = c->one[i].valid;
        for (uint64_t row = 0; row < c->rows;
             row += 8) { /* a byte's bits come from it and those behind it */
            uint8_t bits = 0;
            for (uint64_t k = row; k < c->rows && k < row + 8; k++)
                bits |= (uint8_t)(valid[k] << (k - row));
            valid[row / 8] = bits;
        }
    }
}

static void release_none(struct ArrowArray *a)
{
    a->release = NULL; /* the columns have the memory */
}

enum err columns_write(struct columns *c, uint64_t first, uint64_t rows, struct parquet_writer *w,
                       const char **out, size_t *out_bytes, struct errmsg *e)
{
    enum { BUFFERS = 3 };
    static const void *none[1];
    struct ArrowArray *child = mem_zalloc(c->count, sizeof *child);
    struct ArrowArray **children = mem_zalloc(c->count, sizeof *children);
    const void *(*buffers)[BUFFERS] = mem_zalloc(c->count, sizeof *buffers);
    enum err err = child && children && buffers ? ERR_OK : err_memory(e);
    for (uint32_t i = 0; i < c->count && !err; i++) {
        const struct columns_one *of = &c->one[i];
        buffers[i][0] = of->valid;
        buffers[i][1] = of->end;
        buffers[i][2] = of->text ? of->text : "";
        child[i] = (struct ArrowArray){.length = (int64_t)rows,
                                       .null_count = -1,
                                       .offset = (int64_t)first,
                                       .n_buffers = has_texts(c, i) ? BUFFERS : BUFFERS - 1,
                                       .buffers = buffers[i],
                                       .release = release_none};
        children[i] = &child[i];
    }
    struct ArrowArray all = {.length = (int64_t)rows,
                             .n_buffers = 1,
                             .n_children = c->count,
                             .buffers = none,
                             .children = children,
                             .release = release_none};
    if (!err)
        err = parquet_write_group(w, &all, out, out_bytes, e);
    mem_free(child);
    mem_free(children);
    mem_free(buffers);
    return err;
}
