/* Libsvm text, as rows of a batch: a label, and a list of keys with weights. */
#include "data/csv_rows.h"

#include <assert.h>
#include <string.h>

#include "data/csv_batch.h"
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
    struct csv_piece *p;
    const struct csv_format *f;
    uint32_t row;
    const char *hint; /* of the line as a whole; NULL: none */
    uint64_t index;   /* of the pair before it */
    bool bad;
};

static const struct job_key_column *pairs_of(const struct line *l)
{
    return &l->f->meaning.schema->key[0].options;
}

/* With signs, which labels were 0 and -1. */
static void note_label(struct line *l, const char *at, size_t bytes)
{
    float v;
    const bool number = l->f->meaning.signs && csv_number(at, bytes, &v);
    l->p->batch->sign[l->row] = number && v == -1  ? SIGN_MINUS
                                : number && v == 0 ? SIGN_ZERO
                                                   : SIGN_OTHER;
}

static const char *read_label(struct line *l, const char *at)
{
    const char *end = word_end(at);
    const bool pair = memchr(at, ':', (size_t)(end - at)) != NULL; /* a label has no colon */
    char out[CSV_SHOWN_BYTES];
    if (l->f->meaning.unlabeled) {
        l->p->unlabeled |= pair;
        return pair ? at : end;
    }
    if (pair) {
        l->bad = true;
        csv_batch_refuse(l->p, CSV_NO_FIELD,
                         "the line has no label, it begins with the pair \"%s\"",
                         csv_hint_shown(out, at, (size_t)(end - at)));
        return end;
    }
    l->p->batch->view[l->row] =
        (struct batch_view){(uint32_t)(at - l->p->text), (uint32_t)(end - at)};
    note_label(l, at, (size_t)(end - at));
    return end;
}

static void refuse_pair(struct line *l, const char *at, const char *what)
{
    char out[CSV_SHOWN_BYTES];
    l->bad = true;
    csv_batch_refuse(l->p, LIBSVM_PAIRS, "\"%s\" %s%s",
                     csv_hint_shown(out, at, (size_t)(word_end(at) - at)), what,
                     l->hint ? l->hint : "");
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

/* The end of the row's list. */
static int32_t *list_end(const struct line *l)
{
    return &l->p->batch->list[l->row + 1];
}

static uint32_t pairs_there(const struct line *l)
{
    return (uint32_t)(*list_end(l) - l->p->batch->list[l->row]);
}

static const char *read_pair(struct line *l, const char *at)
{
    struct csv_batch *b = l->p->batch;
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
    else if (pairs_there(l) && index <= l->index)
        refuse_pair(l, at,
                    index == l->index
                        ? "has the same index as the pair before it"
                        : "has a lower index than the pair before it: indices must ascend");
    else {
        b->key[*list_end(l)] = l->index = index;
        b->weight[(*list_end(l))++] = weight;
    }
    return end;
}

static const char *skip_qid(const char *at)
{
    return strncmp(at, "qid:", 4) == 0 ? skip_blanks(word_end(at)) : at;
}

/* Read the pairs up to the line's end, or to the first one beyond max_values, which will be a fault. */
static void read_pairs(struct line *l, const char *at)
{
    at = skip_qid(skip_blanks(at));
    while (!is_over(*at) && !l->bad && pairs_there(l) <= pairs_of(l)->max_values)
        at = skip_blanks(read_pair(l, at));
    l->p->pairs += pairs_there(l);
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

/* ---- a batch ---- */

enum err libsvm_begin(struct csv_piece *p, const struct csv_format *f)
{
    enum err err = csv_batch_begin(p, f);
    if (err)
        return err;
    struct csv_batch *b = p->batch;
    b->pair_field[LIBSVM_LABEL] =
        (struct meaning_field){.kind = f->meaning.unlabeled ? COLUMN_IGNORE : COLUMN_LABEL,
                               .cell = f->meaning.schema->inputs};
    b->pair_field[LIBSVM_PAIRS] = (struct meaning_field){.kind = COLUMN_KEYS};
    b->field = b->pair_field;
    b->column[LIBSVM_PAIRS] = (struct batch_column){
        .type = BATCH_KEYS, .values = b->key, .list = b->list, .weight = b->weight};
    return ERR_OK;
}

static struct line add_line(struct csv_piece *p, const struct csv_format *f, const char *text,
                            const char *stop, uint64_t number)
{
    struct line l = {.p = p, .f = f};
    l.row = csv_batch_add(p, f, text, (size_t)(stop - text), number, 1);
    l.hint = csv_batch_odd_hint(p->batch, l.row);
    *list_end(&l) = p->batch->list[l.row];
    return l;
}

void libsvm_pairs(struct csv_piece *p, const struct csv_format *f, const char *text)
{
    struct line l = add_line(p, f, text, text, 0);
    read_pairs(&l, text);
}

/* Neither a class, nor a number or a list of them, nor a text that stands for a missing value. */
static bool is_no_label(const struct meaning *m, const char *text, size_t bytes)
{
    float v;
    const struct batch_text t = {text, bytes};
    const char *comma = memchr(text, ',', bytes);
    return meaning_tells_label(m, t) && !meaning_is_label(m, t) &&
           !csv_number(text, comma ? (size_t)(comma - text) : bytes, &v);
}

void libsvm_row(struct csv_piece *p, const struct csv_format *f, const char *line, const char *stop,
                uint64_t number)
{
    struct line l = add_line(p, f, line, stop, number);
    if (has_lone_return(line, stop)) {
        csv_batch_refuse(p, CSV_NO_FIELD, "%s", CSV_LONE_RETURN);
        return;
    }
    const char *word = skip_blanks(line), *end = read_label(&l, word);
    read_pairs(&l, end);
    if (!f->meaning.unlabeled || l.bad || !is_no_label(&f->meaning, word, (size_t)(end - word)))
        return;
    if (pairs_there(&l))
        p->worded = true;
    else if (!p->odd_line[CSV_ODD_LABEL])
        p->odd_line[CSV_ODD_LABEL] = number;
}

enum err libsvm_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e)
{
    const struct table_schema *s = f->meaning.schema;
    const char *end = p->text + p->bytes;
    uint64_t line = p->line;
    (void)s; /* for assertions */
    assert(s->keys == 1 && s->inputs == 0 && s->key[0].options.weights);
    assert(p->bytes == 0 || end[-1] == '\n');
    p->rows = p->bad = p->bad_lines = 0;
    p->used = 0;
    p->zero_line = p->minus_line = p->pairs = 0;
    p->between = p->behind = (struct csv_empty){0};
    p->unlabeled = p->worded = false;
    enum err err = libsvm_begin(p, f);
    for (const char *at = p->text; at < end && !err; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!libsvm_is_no_row(at, stop)) {
            csv_empty_move(&p->between, &p->behind);
            libsvm_row(p, f, at, stop, line);
        } else if (*skip_blanks(at) == '\n') {
            csv_empty_move(&p->behind, &(struct csv_empty){1, line});
        }
        at = stop + 1;
        if (p->batch->of.rows == p->batch->rows_max || at == end)
            err = csv_batch_finish(p, f);
        if (p->bad && f->job->bad_rows == BAD_ROWS_STOP)
            break;
    }
    if (!p->unlabeled) /* a row of zeros has a label, and its line is not empty */
        p->between = p->behind = (struct csv_empty){0};
    assert(p->bad <= p->rows && p->used <= p->cell_room);
    return err ? err_set(e, err, "out of memory for %llu rows", (unsigned long long)p->rows)
               : ERR_OK;
}
