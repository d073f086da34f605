#include "data/csv_row.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"
#include "common/base/mem.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"
#include "data/text/text_encoding.h"

enum { CSV_LISTED_BYTES = 160, LABEL_LIKE_A_CLASS = 1000 };

/* ---- the line ---- */

static void find_odd(struct csv_row *r, enum csv_odd odd, const char *hint)
{
    r->odd = odd;
    r->hint = hint;
}

void csv_row_look(struct csv_row *r, const char *text, size_t bytes)
{
    const struct csv_text *header = &r->piece->header;
    size_t mark = bytes && *text == '\xEF' ? text_encoding_mark_bytes(text, bytes) : 0;
    r->hint = NULL;
    if (mark)
        find_odd(r, CSV_ODD_MARK,
                 "; a byte order mark (U+FEFF) begins the line: if files were joined, remove it");
    if (header->bytes && bytes - mark >= header->bytes &&
        csv_without_return(&r->piece->grammar, text + mark, bytes - mark) == header->bytes &&
        memcmp(text + mark, header->at, header->bytes) == 0)
        find_odd(r, CSV_ODD_HEADER,
                 "; the line is the header again: if files were joined, remove it");
}

/* An error of the row has its hint. */
static void note_odd(const struct csv_row *r)
{
    uint64_t *line = &r->piece->odd_line[r->odd];
    if (r->hint && !r->bad && !*line)
        *line = r->line;
}

/* ---- bad rows ---- */

const char *csv_row_shown(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes)
{
    size_t most = CSV_SHOWN_BYTES - 8, n = bytes < most ? bytes : most;
    size_t shown = printable_copy(out, most + 1, text, n);
    (void)snprintf(out + shown, 8, "%s", bytes > n ? "..." : "");
    return out;
}

/* `column "age": `, or for a column without a name `column 3: ` */
static void name_column(const struct csv_row *r, char *out, size_t bytes)
{
    const struct csv_field *field = &r->piece->field[r->field];
    const char *name = r->format->job->column[field->column].name;
    if (*name && field->kind != COLUMN_IGNORE)
        (void)snprintf(out, bytes, "column \"%s\": ", SHOWN(name));
    else
        (void)snprintf(out, bytes, "column %u: ", r->field + 1);
}

void csv_row_bad(struct csv_row *r, const char *fmt, ...)
{
    struct csv_piece *p = r->piece;
    char why[300], which[PRINTABLE_NAME_BYTES + 64] = "";
    if (r->bad)
        return;
    r->bad = true;
    r->wrong = r->field;
    if (p->bad++)
        return;
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(why, sizeof why, fmt, args);
    va_end(args);
    if (r->field != CSV_NO_FIELD)
        name_column(r, which, sizeof which);
    p->first_bad_line = r->line;
    (void)err_set(&p->first_bad, ERR_INPUT, "%s%s", which, why);
}

static bool is_first_of_file(const struct csv_row *r)
{
    return r->piece->begins_file && r->piece->rows == 0 && !r->format->libsvm;
}

const char *csv_row_names_hint(const struct csv_row *r, const char *line, size_t bytes)
{
    enum csv_header header = r->format->job->header;
    if (header == HEADER_SKIP && is_first_of_file(r))
        return "data.header: names finds columns by the header, and leaves the others out";
    if (header == HEADER_NONE && is_first_of_file(r) && csv_hint_is_name(line, bytes))
        return "if this line is a header, data.header: names finds columns by it, and leaves the "
               "others out";
    return NULL;
}

const char *csv_row_hint(const struct csv_row *r, const char *text, size_t bytes,
                         const struct vocabulary *known, const char *usual)
{
    const struct job_csv *job = r->format->job;
    if (r->hint)
        return r->hint;
    if (memchr(text, '\0', bytes))
        return "; it has a NUL byte: is it text of UTF-16?";
    if (job->header == HEADER_NONE && is_first_of_file(r) && csv_hint_is_name(text, bytes))
        return "; if this line is a header, use data.header: skip, or names";
    if (!job->trim && csv_hint_trim(&text, &bytes) &&
        (!known || csv_is_missing(r->format, text, bytes) ||
         vocabulary_find(known, text, bytes) != VOCABULARY_NONE))
        return "; blanks around it count: use data.trim: true";
    return usual;
}

/* ---- the label ---- */

/* "low, normal": all classes, or the first ones and their number. Returns out. */
static const char *list_classes(const struct csv_format *f, char out[static CSV_LISTED_BYTES])
{
    char word[CSV_SHOWN_BYTES];
    size_t at = 0;
    for (uint32_t i = 0; i < f->names.count; i++) {
        size_t bytes;
        const char *text = vocabulary_text(&f->names, i, &bytes);
        if (i && at + bytes > CSV_LISTED_BYTES / 2) {
            (void)snprintf(out + at, CSV_LISTED_BYTES - at, " .. (%u)", f->names.count);
            return out;
        }
        at += (size_t)snprintf(out + at, CSV_LISTED_BYTES - at, "%s%s", i ? ", " : "",
                               csv_row_shown(word, text, bytes));
    }
    return out;
}

/* U+0300 to U+036F, which decomposed letters (NFD) have. */
static bool has_combining_mark(const char *text, size_t bytes)
{
    for (size_t i = 0; i + 1 < bytes; i++) {
        const unsigned char first = (unsigned char)text[i], second = (unsigned char)text[i + 1];
        if ((first == 0xCC && second >= 0x80) || (first == 0xCD && second >= 0x80 && second < 0xB0))
            return true;
    }
    return false;
}

/* Of a name that is no class. The same letters can be other bytes. */
static const char *hint_of_class(const struct csv_format *f, const char *text, size_t bytes)
{
    bool ascii = true, mark = has_combining_mark(text, bytes), listed = false;
    for (size_t i = 0; i < bytes; i++)
        ascii &= (unsigned char)text[i] < 0x80;
    for (uint32_t i = 0; i < f->names.count && !ascii && !listed; i++) {
        size_t n;
        const char *name = vocabulary_text(&f->names, i, &n);
        listed = has_combining_mark(name, n);
    }
    if (mark == listed)
        return "; if it is a class, add it to classes";
    return mark ? "; it has combining marks, such as U+0301, and no class has one: normalize the "
                  "file (NFC), or add it to classes"
                : "; a class has combining marks, such as U+0301, but it has none: normalize the "
                  "classes (NFC), or add it to them";
}

static void read_class(struct csv_row *r, const char *text, size_t bytes, float *label)
{
    const struct csv_format *f = r->format;
    char out[CSV_SHOWN_BYTES], known[CSV_LISTED_BYTES];
    uint32_t name = vocabulary_find(&f->names, text, bytes);
    uint32_t number = name == VOCABULARY_NONE ? f->others : f->class_of[name];
    if (number == VOCABULARY_NONE) {
        csv_row_bad(r, "\"%s\" is not one of the label's classes: %s%s",
                    csv_row_shown(out, text, bytes), list_classes(f, known),
                    csv_row_hint(r, text, bytes, &f->names, hint_of_class(f, text, bytes)));
        return;
    }
    *label = (float)number;
}

/* Labels -1 and +1 are common for two classes; names are compared as text. */
static void refuse_class(struct csv_row *r, const char *shown, float label)
{
    uint32_t classes = r->format->classes;
    if (label == -1 && *shown == '-')
        csv_row_bad(r,
                    "label %s, the model has %u classes (labels 0 to %u); name the labels as "
                    "they are in the file: - label: {classes: [\"%s\", \"%s\"]}",
                    shown, classes, classes - 1, shown, shown + 1);
    else if (label == (float)classes)
        csv_row_bad(r,
                    "label %s, the model has %u classes (labels 0 to %u); if the labels start at "
                    "1, list them: - label: {classes: [\"1\", \"2\"]}",
                    shown, classes, classes - 1);
    else
        csv_row_bad(r, "label %s, the model has %u classes (labels 0 to %u)%s", shown, classes,
                    classes - 1,
                    label == floorf(label) && fabsf(label) < LABEL_LIKE_A_CLASS
                        ? ""
                        : "; if the answer is a number, use loss: mean_squared_error and a last "
                          "layer of 1 unit");
}

static void refuse_label(struct csv_row *r, const char *text, size_t bytes)
{
    char out[CSV_SHOWN_BYTES];
    if (csv_number_is_large(text, bytes))
        csv_row_bad(r, "the label \"%s\" " CSV_NUMBER_LARGE, csv_row_shown(out, text, bytes));
    else
        csv_row_bad(r, "the label \"%s\" is not a number%s", csv_row_shown(out, text, bytes),
                    csv_row_hint(r, text, bytes, &r->format->missing,
                                 csv_hint_number(text, bytes,
                                                 "; name the values of the label by its classes: "
                                                 "[...]")));
}

void csv_row_label(struct csv_row *r, uint32_t cell, const char *text, size_t bytes)
{
    const struct csv_format *f = r->format;
    char out[CSV_SHOWN_BYTES];
    float v = 0;
    double number; /* that is no class can become one as a float */
    if (csv_is_missing(f, text, bytes))
        csv_row_bad(r, "the label is missing");
    else if (f->names.count || f->others != VOCABULARY_NONE)
        read_class(r, text, bytes, &v);
    else if (!csv_number(text, bytes, &v) || !csv_number_wide(text, bytes, &number))
        refuse_label(r, text, bytes);
    else if (!f->classes && f->whole && number != trunc(number) && v == truncf(v))
        csv_row_bad(r, "label %s is not a class, which is a whole number from 0",
                    csv_row_shown(out, text, bytes)); /* the number of classes is not known yet */
    else if (f->classes && (number < 0 || number >= f->classes || number != trunc(number)))
        refuse_class(r, csv_row_shown(out, text, bytes), v);
    r->cells[cell] = schema_bits(v);
}

/* ---- the row's cells ---- */

static uint32_t row_cells(const struct csv_format *f)
{
    return schema_raw_cells(f->schema);
}

static enum err reserve_cells(struct csv_piece *p, size_t wanted)
{
    if (wanted <= p->cell_room)
        return ERR_OK;
    uint32_t *cells = mem_resize(p->cells, 2 * wanted, sizeof *cells);
    if (!cells)
        return ERR_NOMEM;
    p->cells = cells;
    p->cell_room = 2 * wanted;
    return ERR_OK;
}

static enum err reserve_kept(struct csv_piece *p, const struct csv_format *f)
{
    if (!f->keep || p->rows < p->kept_room)
        return ERR_OK;
    uint64_t room = p->kept_room ? 2 * p->kept_room : 1024;
    struct csv_text *kept = mem_resize(p->kept, room * f->keep->columns, sizeof *kept);
    if (!kept)
        return ERR_NOMEM;
    p->kept = kept;
    p->kept_room = room;
    return ERR_OK;
}

/* Make room for one more row that is not packed. */
static enum err reserve(struct csv_piece *p, const struct csv_format *f)
{
    enum err err = reserve_cells(p, p->used + row_cells(f));
    return err ? err : reserve_kept(p, f);
}

/* The cells and texts of a row for which the file has none. */
static void begin_unlabeled(struct csv_row *r)
{
    const struct csv_format *f = r->format;
    struct csv_piece *p = r->piece;
    r->cells[f->schema->inputs] = schema_bits(0);
    if (f->schema->weighted)
        r->cells[f->schema->inputs + 1] = schema_bits(1);
    for (uint32_t i = 0; f->keep && i < f->keep->columns; i++)
        p->kept[p->rows * f->keep->columns + i] = (struct csv_text){p->text, 0};
}

enum err csv_row_begin(struct csv_row *r)
{
    if (reserve(r->piece, r->format))
        return ERR_NOMEM;
    r->cells = r->piece->cells + r->piece->used;
    if (r->format->unlabeled)
        begin_unlabeled(r);
    r->field = CSV_NO_FIELD;
    r->added = 0;
    r->bad = false;
    return ERR_OK;
}

void csv_row_end(struct csv_row *r)
{
    struct csv_piece *p = r->piece;
    if (r->bad) {
        while (r->added)
            vocabulary_drop_last(&p->words[p->added[--r->added]]);
        memset(r->cells, 0, row_cells(r->format) * sizeof *r->cells);
        r->cells[r->format->schema->inputs] = schema_bits(NAN);
    }
    assert(!r->bad || (r->added == 0 && p->bad > 0));
    note_odd(r);
    if (!r->failed)
        p->used += schema_pack(r->format->schema, r->cells);
    p->rows++;
}
