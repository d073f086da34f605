#include "data/libsvm_rows.h"

#include <assert.h>
#include <string.h>

#include "data/csv_cell.h"
#include "data/meaning/word_key.h"
#include "data/text/csv_number.h"

/* ---- words of a line ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* The piece ends with a newline, so this stops in time. */
static const char *skip_blanks(const char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

static bool is_over(char c)
{
    return c == '\n' || c == '#';
}

static const char *word_end(const char *at)
{
    while (!is_blank(*at) && !is_over(*at))
        at++;
    return at;
}

/* ---- a line ---- */

struct line {
    struct csv_row *row;
    const struct table_key *key;
    uint32_t *values; /* their number, then the cells of each */
    uint64_t index;   /* of the pair before it */
    bool minus;       /* its label is -1 */
};

static const char *read_label(struct line *l, const char *at)
{
    const struct csv_format *f = l->row->format;
    const char *end = word_end(at);
    const bool pair = memchr(at, ':', (size_t)(end - at)) != NULL; /* a label has no colon */
    uint32_t cell = f->schema->inputs;
    char out[CSV_SHOWN_BYTES];
    float v;
    if (f->unlabeled)
        return pair ? at : end;
    if (pair) {
        csv_row_bad(l->row, "the line has no label, it begins with the pair \"%s\"",
                    csv_row_shown(out, at, (size_t)(end - at)));
        return end;
    }
    l->minus = f->signs && csv_number(at, (size_t)(end - at), &v) && v == -1;
    if (l->minus)
        l->row->cells[cell] = schema_bits(0);
    else
        csv_cell_label(l->row, cell, at, (size_t)(end - at));
    return end;
}

static void refuse_pair(struct line *l, const char *at, const char *what)
{
    char out[CSV_SHOWN_BYTES];
    csv_row_bad(l->row, "\"%s\" %s%s", csv_row_shown(out, at, (size_t)(word_end(at) - at)), what,
                l->row->hint ? l->row->hint : "");
}

/* Read decimal digits up to a ':'; NULL: other text, or a number beyond 2^64 - 1. */
static const char *read_index(const char *at, uint64_t *index)
{
    const char *p = at;
    uint64_t value = 0;
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return NULL;
    *index = value;
    return p > at && *p == ':' ? p + 1 : NULL;
}

static void put_value(struct line *l, uint64_t index, float weight)
{
    const struct job_key_column *c = &l->key->options;
    uint32_t *cells = l->values + 1 + (size_t)l->values[0]++ * (SCHEMA_KEY_CELLS + 1);
    csv_put_key(cells, word_key_fold(c, index));
    cells[SCHEMA_KEY_CELLS] = schema_bits(weight);
    l->index = index;
}

static const char *read_pair(struct line *l, const char *at)
{
    uint64_t index = 0;
    float weight;
    const char *value = read_index(at, &index), *end = word_end(value ? value : at);
    if (!value)
        refuse_pair(l, at, "is not index:value, an index being an integer from 0 to 2^64 - 1");
    else if (!csv_number(value, (size_t)(end - value), &weight))
        refuse_pair(l, at,
                    csv_number_is_large(value, (size_t)(end - value))
                        ? "has a value that " CSV_NUMBER_LARGE
                        : "has a value that is not a finite number");
    else if (l->values[0] && index <= l->index)
        refuse_pair(l, at,
                    index == l->index
                        ? "has the same index as the pair before it"
                        : "has a lower index than the pair before it: indices must ascend");
    else if (l->values[0] == l->key->options.max_values)
        csv_row_bad(l->row, "more than max_values: %u values", l->key->options.max_values);
    else
        put_value(l, index, weight);
    return end;
}

static const char *skip_qid(const char *at)
{
    return strncmp(at, "qid:", 4) == 0 ? skip_blanks(word_end(at)) : at;
}

static void note_first(uint64_t *first, uint64_t line)
{
    if (!*first)
        *first = line;
}

/* Read the pairs up to the line's end. */
static void read_pairs(struct line *l, const char *at)
{
    struct csv_row *r = l->row;
    l->values = r->cells + schema_keys_at(r->format->schema) + l->key->cell;
    l->values[0] = 0;
    at = skip_qid(skip_blanks(at));
    while (!is_over(*at) && !r->bad)
        at = skip_blanks(read_pair(l, at));
}

void libsvm_pairs(struct csv_row *r, const char *text)
{
    struct line l = {.row = r, .key = &r->format->schema->key[0]};
    read_pairs(&l, text);
}

/* True if a '\r' is neither at the end of the line nor before others there: with CR alone for line ends, all rows are
 * one line. */
static bool has_lone_return(const char *line, const char *end)
{
    while (end > line && end[-1] == '\r')
        end--;
    return memchr(line, '\r', (size_t)(end - line)) != NULL;
}

bool libsvm_is_no_row(const char *line, const char *stop)
{
    return is_over(*skip_blanks(line)) && !has_lone_return(line, stop);
}

static void read_line(struct line *l, const char *line, const char *stop)
{
    csv_row_look(l->row, line, (size_t)(stop - line));
    if (has_lone_return(line, stop))
        csv_row_bad(l->row, "%s", CSV_LONE_RETURN);
    else
        read_pairs(l, read_label(l, skip_blanks(line)));
}

void libsvm_row(struct csv_row *r, const char *line, const char *stop)
{
    struct line l = {.row = r, .key = &r->format->schema->key[0]};
    read_line(&l, line, stop);
}

static enum err read_row(struct csv_row *r, const char *line, const char *stop)
{
    struct line l = {.row = r, .key = &r->format->schema->key[0]};
    enum err err = csv_row_begin(r);
    if (err)
        return err;
    read_line(&l, line, stop);
    csv_row_end(r);
    if (!r->bad && l.minus)
        note_first(&r->piece->minus_line, r->line);
    else if (!r->bad && r->format->signs && table_float(r->cells[r->format->schema->inputs]) == 0)
        note_first(&r->piece->zero_line, r->line);
    return r->failed;
}

enum err libsvm_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    struct csv_row r = {.piece = p, .format = f, .line = p->line};
    const char *end = p->text + p->bytes;
    assert(f->schema->keys == 1 && f->schema->inputs == 0 && f->schema->key[0].options.weights);
    assert(p->bytes == 0 || end[-1] == '\n');
    p->rows = p->bad = 0;
    p->used = 0;
    p->zero_line = p->minus_line = 0;
    for (const char *at = p->text; at < end; r.line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        enum err err = libsvm_is_no_row(at, stop) ? ERR_OK : read_row(&r, at, stop);
        if (err)
            return err_set(e, err, "out of memory for %llu rows", (unsigned long long)p->rows);
        if (p->bad && f->job->bad_rows == BAD_ROWS_STOP)
            return ERR_OK;
        at = stop + 1;
    }
    assert(p->bad <= p->rows && p->used <= p->cell_room);
    p->bad_lines = p->bad;
    return ERR_OK;
}
