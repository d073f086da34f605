#include "data/csv_header.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <xxhash.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/words.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"
#include "data/text/csv_scan.h"
#include "data/text/text_encoding.h"

enum { CSV_NEAREST_BYTES = WORDS_BYTES_MAX + 24 };

static enum err add_field(struct csv_file *file, struct meaning_field field, uint32_t kept_as,
                          struct errmsg *e)
{
    struct meaning_field *fields = mem_extend(file->field, file->fields, 1, sizeof *fields);
    if (!fields)
        return err_memory(e);
    file->field = fields;
    uint32_t *kept = mem_extend(file->kept_as, file->fields, 1, sizeof *kept);
    if (!kept)
        return err_memory(e);
    file->kept_as = kept;
    file->field[file->fields] = field;
    file->kept_as[file->fields++] = kept_as;
    return ERR_OK;
}

/* The number of the column whose text is kept, + 1; 0: none has this name. column: the job's. */
static uint32_t kept_as(const struct csv_format *f, const char *name, size_t bytes, uint32_t column)
{
    const struct csv_keep *keep = f->keep;
    for (uint32_t i = 0; keep && i < keep->columns; i++)
        if (keep->of ? keep->of[i] == column
                     : strlen(keep->name[i]) == bytes && memcmp(keep->name[i], name, bytes) == 0)
            return i + 1;
    return 0;
}

/* The number of fields whose text is kept as column i. */
static uint32_t fields_kept_as(const struct csv_file *file, uint32_t i)
{
    uint32_t fields = 0;
    for (uint32_t k = 0; k < file->fields; k++)
        fields += file->kept_as[k] == i + 1;
    return fields;
}

/* Find the columns that no field has the name of by their places: column_5 is the fifth. */
static void keep_by_place(struct csv_file *file, const struct csv_format *f)
{
    char numbered[32];
    for (uint32_t k = 0; f->keep && !f->keep->of && k < file->fields; k++) {
        (void)snprintf(numbered, sizeof numbered, "column_%u", k + 1);
        for (uint32_t i = 0; i < f->keep->columns && !file->kept_as[k]; i++)
            if (strcmp(f->keep->name[i], numbered) == 0 && fields_kept_as(file, i) == 0)
                file->kept_as[k] = i + 1;
    }
}

/* Not read, if the rows are unlabeled. */
static bool is_label(const struct job_column *c)
{
    return c->kind == COLUMN_LABEL || c->kind == COLUMN_WEIGHT;
}

/* absent: number of columns that the file lacks: the label, and then the weight. */
static enum err fields_by_order(struct csv_file *file, const struct csv_format *f, uint32_t absent,
                                struct errmsg *e)
{
    const struct job_csv *job = f->job;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->columns && !err; i++) {
        const struct job_column *c = &job->column[i];
        if (c->kind == COLUMN_CROSS || (absent > 0 && c->kind == COLUMN_LABEL) ||
            (absent > 1 && c->kind == COLUMN_WEIGHT))
            continue; /* a cross has no field */
        struct meaning_field field = f->field[i];
        if ((f->meaning.unlabeled || f->meaning.others != VOCABULARY_NONE) &&
            c->kind == COLUMN_LABEL)
            file->labels.field = file->fields + 1;
        if (f->meaning.unlabeled && is_label(c))
            field.kind = COLUMN_IGNORE;
        err = add_field(file, field, kept_as(f, c->name, strlen(c->name), i), e);
    }
    keep_by_place(file, f);
    return err;
}

/* The job's column of this name; job->columns: none. */
static uint32_t column_named(const struct job_csv *job, const char *name, size_t bytes)
{
    const uint32_t i = job_column_named(job, name, bytes);
    return i < job->columns && job->column[i].kind != COLUMN_CROSS ? i : job->columns;
}

/* No column of the job has this name. */
static void note_unread(struct csv_file *file, const char *name, size_t bytes)
{
    char shown[CSV_SHOWN_BYTES];
    size_t at = strlen(file->unread_names);
    if (file->unread++ && at)
        at += printable_format(file->unread_names + at, CSV_UNREAD_BYTES - at, ", ");
    (void)printable_format(file->unread_names + at, CSV_UNREAD_BYTES - at, "%s",
                           csv_hint_shown(shown, name, bytes));
}

/* Note the fields that nothing reads. number: (fields) of their names. */
static void note_unread_fields(struct csv_file *file, const struct csv_format *f,
                               const struct vocabulary *names, const uint32_t *number)
{
    for (uint32_t k = 0; f->meaning.unlabeled && k < file->fields; k++) {
        size_t bytes;
        const char *name = vocabulary_text(names, number[k], &bytes);
        if (!file->kept_as[k] && column_named(f->job, name, bytes) == f->job->columns)
            note_unread(file, name, bytes);
    }
}

/* Fields are about to be added by their names. */
static enum err begin_names(struct csv_file *file, const struct csv_format *f, struct errmsg *e)
{
    mem_free(file->field_of);
    file->field_of = mem_zalloc((size_t)f->job->columns + 1, sizeof *file->field_of);
    return file->field_of ? ERR_OK : err_memory(e);
}

static enum err add_named_field(struct csv_file *file, const struct csv_format *f, const char *name,
                                size_t bytes, struct errmsg *e)
{
    const struct job_csv *job = f->job;
    uint32_t i = column_named(job, name, bytes), kept = kept_as(f, name, bytes, i);
    if (i == job->columns || (f->meaning.unlabeled && is_label(&job->column[i])))
        return add_field(file, (struct meaning_field){.kind = COLUMN_IGNORE}, kept, e);
    if (file->field_of[i] && job->column[i].kind != COLUMN_IGNORE)
        return err_set(e, ERR_INPUT, "%s \"%s\" twice",
                       f->parquet ? "it has the column" : "its header names",
                       SHOWN(job->column[i].name));
    file->field_of[i] = file->fields + 1;
    return add_field(file, f->field[i], kept, e);
}

/* The first column that the job names but the file lacks; NULL: none. */
static const char *unnamed_column(const struct csv_file *file, const struct csv_format *f)
{
    const struct job_csv *job = f->job;
    for (uint32_t i = 0; i < job->columns; i++) {
        const bool there = job->column[i].kind == COLUMN_IGNORE ||
                           job->column[i].kind == COLUMN_CROSS || file->field_of[i] ||
                           (f->meaning.unlabeled && is_label(&job->column[i]));
        if (!there)
            return job->column[i].name;
    }
    return NULL;
}

/* True if one of the header's names equals `name` without the blanks around it. */
static bool has_blanked(const struct vocabulary *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        size_t n;
        const char *text = vocabulary_text(names, i, &n);
        if (!csv_hint_trim(&text, &n))
            continue;
        csv_hint_strip(&text, &n, true); /* a quote behind a blank is text */
        if (n == strlen(name) && memcmp(text, name, n) == 0)
            return true;
    }
    return false;
}

/* True if the job has a column of this name, so it is no other column's with a typing error. */
static bool is_used(const struct csv_format *f, const char *name)
{
    return column_named(f->job, name, strlen(name)) < f->job->columns;
}

/* The rest of a name without letters with accents, composed or not, blanks, and characters that cannot be seen: equal for names
 * that look the same. out: (bytes). *unseen becomes true if it has such a character. */
static size_t bones(char *out, const char *text, size_t bytes, bool *unseen)
{
    size_t to = 0, last = 0;
    for (size_t at = 0, n; at < bytes; at += n) {
        uint32_t code = 0;
        n = printable_character(text + at, bytes - at, &code);
        const bool combines = n && code >= 0x300 && code < 0x370,
                   is = n && printable_is_unseen(code),
                   accent = (code >= 0xC0 && code < 0x250) || (code >= 0x1E00 && code < 0x1F00);
        n = n ? n : 1;
        *unseen |= is;
        if (combines)
            to = last;
        if (is || accent || text[at] == ' ')
            continue;
        last = to;
        memcpy(out + to, text + at, n);
        to += n;
    }
    return to;
}

/* The header's name that looks as `name` does, with other bytes. Returns whether there is one. */
static bool find_alike(const struct vocabulary *names, const char *name, const char **alike,
                       size_t *alike_bytes)
{
    char *own = mem_zalloc(2 * JOB_TEXT_MAX + 2, 1), *other = own ? own + JOB_TEXT_MAX + 1 : NULL;
    bool found = false;
    for (uint32_t i = 0; i < names->count && own && !found; i++) {
        bool unseen = false;
        *alike = vocabulary_text(names, i, alike_bytes);
        const size_t n = bones(own, name, strlen(name), &unseen);
        found = *alike_bytes <= JOB_TEXT_MAX && bones(other, *alike, *alike_bytes, &unseen) == n &&
                unseen && memcmp(own, other, n) == 0;
    }
    mem_free(own);
    return found;
}

/* "did you mean "age"?" with the nearest of the header's names; used: also names of the job's columns. Returns out; NULL: none
 * is near. */
static const char *nearest_name(char out[static CSV_NEAREST_BYTES], const struct vocabulary *names,
                                const struct csv_format *f, bool used, const char *name)
{
    char word[WORDS_BYTES_MAX + 1], best[WORDS_BYTES_MAX + 1], shown[PRINTABLE_NAME_BYTES];
    const char *alike;
    size_t alike_bytes;
    struct words near;
    if (find_alike(names, name, &alike, &alike_bytes)) {
        (void)snprintf(out, CSV_NEAREST_BYTES, "did you mean \"%s\"?",
                       printable_name(shown, alike, alike_bytes));
        return out;
    }
    words_init_name(&near, name);
    for (uint32_t i = 0; i < names->count; i++) {
        size_t n;
        const char *text = vocabulary_text(names, i, &n);
        (void)snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : 0), text);
        if (used || !is_used(f, word))
            words_try(&near, word);
        if (near.best == word)
            near.best = strcpy(best, word);
    }
    if (near.best)
        (void)snprintf(out, CSV_NEAREST_BYTES, "did you mean \"%s\"?", SHOWN(near.best));
    return near.best ? out : NULL;
}

/* True if the line has a text that a header does not have: none, or a number. */
static bool reads_like_data(const struct vocabulary *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        size_t n;
        float v;
        const char *text = vocabulary_text(names, i, &n);
        (void)csv_hint_trim(&text, &n);
        if (n == 0 || csv_number(text, n, &v))
            return true;
    }
    return false;
}

/* The end of the first row from `from` on that is neither empty nor a comment; `bytes`: it does not end; *begin == bytes: no such
 * row. Moves *begin to the row. */
static size_t find_row(const struct csv_format *f, const struct csv_piece *p, size_t from,
                       size_t *begin)
{
    size_t n = csv_scan(p->mark, p->text + from, p->bytes - from, &p->grammar);
    *begin = from;
    for (size_t i = 0; i < n; i++) {
        const size_t end = from + p->mark[i];
        if (p->text[end] != '\n')
            continue;
        if (!csv_is_no_row(f, p->text + *begin, p->text + end))
            return end;
        *begin = end + 1;
    }
    return p->bytes;
}

/* True if the line has the names of all columns. */
static bool has_all_names(const struct csv_format *f, const char *line, size_t bytes)
{
    struct vocabulary names = {0};
    uint32_t number;
    bool all = true;
    bytes = csv_without_return(&f->grammar, line, bytes);
    for (const char *at = line, *end = line + bytes; at && all;) {
        const char *stop = memchr(at, f->grammar.delimiter, (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        csv_hint_strip(&at, &n, f->grammar.quotes);
        all = vocabulary_add(&names, at, n, &number) == ERR_OK;
        at = stop ? stop + 1 : NULL;
    }
    for (uint32_t i = 0; i < f->job->columns && all; i++) {
        const struct job_column *c = &f->job->column[i];
        all = c->kind == COLUMN_IGNORE || c->kind == COLUMN_CROSS ||
              (f->meaning.unlabeled && is_label(c)) ||
              vocabulary_find(&names, c->name, strlen(c->name)) != VOCABULARY_NONE;
    }
    vocabulary_close(&names);
    return all;
}

/* The advice if the header is the row after `end`, or a comment before `begin`; NULL: neither. */
static const char *other_header(const struct csv_format *f, const struct csv_piece *p, size_t begin,
                                size_t end)
{
    const size_t comment = f->grammar.comment_bytes;
    size_t row, row_end = find_row(f, p, end + 1, &row);
    if (row < p->bytes && has_all_names(f, p->text + row, row_end - row))
        return "the line after it has these names: remove the lines before that";
    for (size_t at = 0, next; comment && at < begin; at = next) {
        next = (size_t)((char *)memchr(p->text + at, '\n', begin - at) - p->text) + 1;
        if (next - at > comment && memcmp(p->text + at, f->grammar.comment, comment) == 0 &&
            has_all_names(f, p->text + at + comment, next - 1 - at - comment))
            return "a line before it has these names, but begins with data.comment: remove that "
                   "text from it";
    }
    return NULL;
}

enum { UNNAMED_BYTES = 120 };

/* pandas shows the name of a field that has none as "Unnamed: 0", by the number of the field. */
static const char *unnamed_hint(char out[static UNNAMED_BYTES], const struct csv_format *f,
                                const char *name, const char *line, size_t bytes)
{
    const char *end = line + csv_without_return(&f->grammar, line, bytes), *at = line;
    unsigned field;
    int n = 0;
    if (sscanf(name, "Unnamed: %4u%n", &field, &n) != 1 || name[n])
        return NULL;
    for (unsigned i = 0; i < field && at; i++) {
        at = memchr(at, f->grammar.delimiter, (size_t)(end - at));
        at += at != NULL;
    }
    if (!at || (at < end && *at != f->grammar.delimiter))
        return NULL;
    (void)snprintf(
        out, UNNAMED_BYTES,
        "its field %u has no name, which pandas shows as \"Unnamed: %u\": give it a name "
        "in the file",
        field + 1, field);
    return out;
}

static enum err refuse_names(const char *name, const struct csv_format *f,
                             const struct vocabulary *names, const char *line, size_t bytes,
                             const char *other, struct errmsg *e)
{
    char out[CSV_HINT_BYTES], near[CSV_NEAREST_BYTES], shown[CSV_SHOWN_BYTES];
    char unnamed[UNNAMED_BYTES];
    if (f->parquet) {
        const char *likely = nearest_name(near, names, f, false, name);
        return err_set(e, ERR_INPUT, "it has no column \"%s\", which data.columns lists; %s",
                       SHOWN(name),
                       likely ? likely : "give the file this column, or do not list it");
    }
    const char *hint = text_encoding_mark_bytes(line, bytes)
                           ? "a second byte order mark is before its first name: remove it"
                           : csv_hint_excel(line, bytes);
    if (!hint)
        hint = other;
    if (!hint)
        hint = unnamed_hint(unnamed, f, name, line, bytes);
    if (!hint)
        hint = csv_hint_delimiter(out, f->job, line, bytes, 0);
    if (!hint && !f->job->trim && has_blanked(names, name))
        hint = "blanks around a name count: use data.trim: true";
    if (!hint)
        hint = nearest_name(near, names, f, false, name);
    if (!hint)
        hint = reads_like_data(names)
                   ? f->meaning.unlabeled ? "without a header in the file, write the columns' "
                                            "names into a line before it"
                                          : "without a header in the file, leave data.header out"
                   : "the file needs this column, or data.columns must not list it";
    return err_set(e, ERR_INPUT,
                   "its header does not name \"%s\" of data.columns, it is \"%s\"; %s", SHOWN(name),
                   csv_hint_shown(shown, line, bytes), hint);
}

/* The first column whose text is wanted but that the file lacks; NULL: none. */
static const char *unkept_column(const struct csv_file *file, const struct csv_format *f)
{
    for (uint32_t i = 0; f->keep && i < f->keep->columns; i++)
        if (fields_kept_as(file, i) == 0)
            return f->keep->name[i];
    return NULL;
}

/* A name that two fields have, of those whose text is wanted; NULL: none. */
static const char *twice_kept(const struct csv_file *file, const struct csv_format *f)
{
    for (uint32_t i = 0; f->keep && i < f->keep->columns; i++)
        if (fields_kept_as(file, i) > 1)
            return f->keep->name[i];
    return NULL;
}

static enum err refuse_twice(const struct csv_format *f, const char *name, struct errmsg *e)
{
    return err_set(
        e, ERR_INPUT,
        "%s: two columns have the name \"%s\"; name one by its place: column_5 is the fifth",
        f->keep->key, SHOWN(name));
}

/* The other name of the column that `name` has by its place, if its text is wanted; NULL: none. */
static const char *other_name(const struct csv_file *file, const struct csv_format *f,
                              const char *name)
{
    char numbered[32];
    for (uint32_t k = 0; k < file->fields; k++) {
        (void)snprintf(numbered, sizeof numbered, "column_%u", k + 1);
        if (file->kept_as[k] && strcmp(name, numbered) == 0)
            return f->keep->name[file->kept_as[k] - 1];
    }
    return NULL;
}

/* hint NULL: none */
static enum err refuse_kept(const struct csv_file *file, const struct csv_format *f,
                            const char *name, const char *hint, struct errmsg *e)
{
    const char *other = other_name(file, f, name);
    if (other)
        return err_set(e, ERR_INPUT, "%s: \"%s\" and \"%s\" are one column: name it once",
                       f->keep->key, SHOWN(other), SHOWN(name));
    return err_set(e, ERR_INPUT, "%s: no column has the name \"%s\"; %s", f->keep->key, SHOWN(name),
                   hint ? hint : "the fifth column, for example, can be named column_5");
}

/* The same if the job's order of columns gives the names. */
static enum err check_kept(const struct csv_file *file, const struct csv_format *f,
                           struct errmsg *e)
{
    const char *name = unkept_column(file, f), *twice = twice_kept(file, f);
    char hint[CSV_NEAREST_BYTES];
    struct words near;
    if (twice)
        return refuse_twice(f, twice, e);
    if (!name)
        return ERR_OK;
    words_init_name(&near, name);
    for (uint32_t i = 0; i < f->job->columns; i++)
        if (strcmp(f->job->column[i].name, name) != 0) /* a label that the file lacks */
            words_try(&near, f->job->column[i].name);
    if (near.best)
        (void)snprintf(hint, sizeof hint, "did you mean \"%s\"?", SHOWN(near.best));
    return refuse_kept(file, f, name, near.best ? hint : NULL, e);
}

/* Add the fields of the header, and their names; each one's number replaces its mark. */
static enum err add_named_fields(struct csv_file *file, const struct csv_format *f,
                                 const struct csv_grammar *g, char *text, size_t bytes,
                                 uint32_t *mark, struct vocabulary *names, struct errmsg *e)
{
    size_t n = csv_scan(mark, text, bytes, g);
    enum err err = begin_names(file, f, e);
    mark[n] = (uint32_t)bytes;
    for (size_t i = 0, begin = 0; i <= n && !err; i++) {
        char *from = text + begin, *to = text + mark[i];
        begin = mark[i] + (size_t)1;
        if (!csv_field_text(&from, &to, g))
            return err_set(e, ERR_INPUT, "text follows the quotes of a name in its header");
        if (vocabulary_add(names, from, (size_t)(to - from), &mark[i]))
            return err_memory(e);
        err = add_named_field(file, f, from, (size_t)(to - from), e);
    }
    return err;
}

/* All fields are added. number: (fields) of their names. Returns a column that has none; NULL: there is no such column. */
static const char *finish_fields(struct csv_file *file, const struct csv_format *f,
                                 const struct vocabulary *names, const uint32_t *number)
{
    keep_by_place(file, f);
    note_unread_fields(file, f, names, number);
    return unnamed_column(file, f);
}

/* Of columns that have names. */
static enum err check_kept_names(const struct csv_file *file, const struct csv_format *f,
                                 const struct vocabulary *names, struct errmsg *e)
{
    char near[CSV_NEAREST_BYTES];
    const char *kept = unkept_column(file, f), *twice = twice_kept(file, f);
    if (kept)
        return refuse_kept(file, f, kept, nearest_name(near, names, f, true, kept), e);
    return twice ? refuse_twice(f, twice, e) : ERR_OK;
}

/* Read the header's names from `bytes` of text, without its line end. */
static enum err fields_by_header(struct csv_file *file, const struct csv_format *f,
                                 const struct csv_piece *p, size_t begin, size_t end, size_t bytes,
                                 struct errmsg *e)
{
    char *text = p->text + begin;
    struct vocabulary names = {0};
    enum err err = add_named_fields(file, f, &p->grammar, text, bytes, p->mark, &names, e);
    const char *name = err ? NULL : finish_fields(file, f, &names, p->mark);
    if (name)
        err = refuse_names(name, f, &names, text, bytes, other_header(f, p, begin, end), e);
    else if (!err)
        err = check_kept_names(file, f, &names, e);
    vocabulary_close(&names);
    return err;
}

enum err csv_file_columns(struct csv_file *file, const struct csv_format *f,
                          const char *const *name, uint32_t columns, struct errmsg *e)
{
    struct vocabulary names = {0};
    uint32_t *number = mem_zalloc(columns, sizeof *number);
    enum err err = number ? begin_names(file, f, e) : err_memory(e);
    for (uint32_t i = 0; i < columns && !err; i++) {
        err = vocabulary_add(&names, name[i], strlen(name[i]), &number[i])
                  ? err_memory(e)
                  : add_named_field(file, f, name[i], strlen(name[i]), e);
    }
    const char *unnamed = err ? NULL : finish_fields(file, f, &names, number);
    if (unnamed)
        err = refuse_names(unnamed, f, &names, "", 0, NULL, e);
    else if (!err)
        err = check_kept_names(file, f, &names, e);
    vocabulary_close(&names);
    mem_free(number);
    return err;
}

/* The number of columns that the first row lacks: the label, and the weight. A header that is skipped is no row: R writes it without a
 * name of the rows. [begin, end): the first line. */
static uint32_t absent_columns(const struct csv_format *f, const struct csv_piece *p, size_t begin,
                               size_t end)
{
    uint32_t fields = 0, labels = 0;
    if (!f->meaning.unlabeled)
        return 0;
    if (f->job->header == HEADER_SKIP && end < p->bytes) {
        size_t row, row_end = find_row(f, p, end + 1, &row);
        end = row < p->bytes ? row_end : end;
        begin = row < p->bytes ? row : begin;
    }
    for (uint32_t i = 0; i < f->job->columns; i++) {
        fields += f->job->column[i].kind != COLUMN_CROSS;
        labels += is_label(&f->job->column[i]);
    }
    size_t there = csv_scan(p->mark, p->text + begin, end - begin, &p->grammar) + 1;
    return there < fields && fields - there <= labels ? fields - (uint32_t)there : 0;
}

/* More columns than the absent ones are not read, and each of these could be absent. */
static bool is_guess(const struct csv_format *f, uint32_t absent)
{
    uint32_t unread = 0;
    for (uint32_t i = 0; i < f->job->columns; i++)
        unread += is_label(&f->job->column[i]) || f->job->column[i].kind == COLUMN_IGNORE;
    return absent > 0 && absent < unread;
}

static void drop_text(struct csv_piece *p, size_t bytes)
{
    p->line += csv_count(p->text, bytes, '\n');
    p->bytes -= bytes;
    p->text += bytes;
}

/* A line as fields without blanks and quotes. */
struct csv_line {
    struct csv_text *text; /* (fields + 1) */
    uint32_t fields;
    bool sorted;
    const struct csv_text **by_text; /* (fields) once it is sorted */
};

/* Views of the line. False: it has not `fields` fields. */
static bool strip_fields(struct csv_line *l, const struct csv_grammar *g, const char *line,
                         size_t bytes, uint32_t *mark)
{
    size_t n = csv_scan(mark, line, bytes, g), from = 0;
    mark[n] = (uint32_t)bytes;
    for (size_t i = 0; i <= n && n + 1 == l->fields; i++) {
        const char *text = line + from;
        size_t length = mark[i] - from;
        csv_hint_strip(&text, &length, g->quotes);
        l->text[i] = (struct csv_text){text, (uint32_t)length};
        from = mark[i] + (size_t)1;
    }
    return n + 1 == l->fields;
}

/* Their order, without regard to case. */
static int compare_texts(const struct csv_text *a, const struct csv_text *b)
{
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strncasecmp(a->at, b->at, a->bytes);
}

static int compare_fields(const void *a, const void *b)
{
    const struct csv_text *const *x = a, *const *y = b;
    int order = compare_texts(*x, *y);
    return order ? order : (*x > *y) - (*x < *y);
}

/* 2: the text is the name; 1: it is, except for case; 0: it is not. */
static int likeness(const struct csv_text *t, const struct csv_text *name)
{
    if (compare_texts(t, name) != 0)
        return 0;
    return memcmp(t->at, name->at, name->bytes) == 0 ? 2 : 1;
}

static void sort_fields(struct csv_line *l)
{
    for (uint32_t i = 0; i < l->fields; i++)
        l->by_text[i] = &l->text[i];
    qsort(l->by_text, l->fields, sizeof *l->by_text, compare_fields);
    l->sorted = true;
}

/* The first field whose likeness to the name is more than `own`, from 1; 0: none. A line has thousands of fields, so not each name
 * is compared with each text. */
static uint32_t field_like(struct csv_line *l, const struct csv_text *name, int own)
{
    uint32_t low = 0, high = l->fields;
    if (!l->sorted)
        sort_fields(l);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (compare_texts(l->by_text[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (int is = 1; low < l->fields && is > 0; low++) {
        is = likeness(l->by_text[low], name);
        if (is > own)
            return (uint32_t)(l->by_text[low] - l->text) + 1;
    }
    return 0;
}

/* See where the name of the column of field i is. */
static void see_name(struct csv_names *names, struct csv_line *l, uint32_t i, uint32_t column,
                     const struct csv_text *name)
{
    int own = likeness(&l->text[i], name);
    uint32_t at = own < 2 ? field_like(l, name, own) : 0;
    if (at && !names->moved)
        *names = (struct csv_names){names->all, column + 1, at, i + 1, names->hash, ""};
    names->all &= own > 0 || at > 0;
}

/* The same of all fields. A line that is no header lacks the first name, and then the others do not matter. */
static void see_fields(struct csv_names *names, const struct csv_file *file,
                       const struct csv_format *f, struct csv_line *l)
{
    bool named = false;
    names->all = true;
    for (uint32_t i = 0; i < l->fields && (names->all || f->job->header == HEADER_SKIP); i++) {
        const char *name = f->job->column[file->field[i].column].name;
        const struct csv_text of = {name, (uint32_t)strlen(name)};
        names->hash = XXH3_64bits_withSeed(l->text[i].at, l->text[i].bytes, names->hash + 1);
        if (file->field[i].kind == COLUMN_IGNORE || !*name)
            continue;
        see_name(names, l, i, file->field[i].column, &of);
        named = true;
    }
    names->all &= named;
}

/* See which of the columns' names the line has, and where. Changes no text. */
static enum err see_names(struct csv_names *names, const struct csv_file *file,
                          const struct csv_format *f, const struct csv_piece *p, size_t begin,
                          size_t end, struct errmsg *e)
{
    const char *line = p->text + begin;
    size_t bytes = csv_without_return(&p->grammar, line, end - begin);
    struct csv_line l = {.text = mem_zalloc((size_t)file->fields + 1, sizeof *l.text),
                         .by_text = mem_zalloc((size_t)file->fields + 1, sizeof(void *)),
                         .fields = file->fields};
    enum err err = l.text && l.by_text ? ERR_OK : err_memory(e);
    if (!err && strip_fields(&l, &p->grammar, line, bytes, p->mark))
        see_fields(names, file, f, &l);
    mem_free(l.by_text);
    mem_free(l.text);
    return err;
}

static void show_line(struct csv_names *names, const struct csv_piece *p, size_t begin, size_t end)
{
    size_t bytes = csv_without_return(&p->grammar, p->text + begin, end - begin);
    (void)printable_copy(names->shown, sizeof names->shown, p->text + begin,
                         bytes < sizeof names->shown ? bytes : sizeof names->shown - 1);
}

static void add_header_name(struct csv_header_line *h, const char *name, size_t bytes)
{
    if (h->names < CSV_HEADER_NAMES)
        h->name[h->names] = (struct csv_text){name, (uint32_t)bytes};
    h->names++;
    h->named += bytes > 0;
    h->words += csv_hint_is_name(name, bytes);
    if (bytes) {
        batch_set_bit(h->begins, (unsigned char)tolower((unsigned char)*name));
        batch_set_bit(h->begins, (unsigned char)toupper((unsigned char)*name));
    } else {
        memset(h->begins, 0xFF, sizeof h->begins);
    }
}

static void keep_header(struct csv_header_line *h, const struct csv_grammar *g, const char *line,
                        size_t bytes)
{
    *h = (struct csv_header_line){.at = line, .bytes = (uint32_t)bytes};
    for (const char *at = line, *end = line + bytes; at;) {
        const char *stop = memchr(at, g->delimiter, (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        csv_hint_strip(&at, &n, g->quotes);
        add_header_name(h, at, n);
        at = stop ? stop + 1 : NULL;
    }
}

/* The names that a header would have, if the file had one. Columns that are not read can have others there. */
static void name_columns(struct csv_file *file, const struct job_csv *job)
{
    for (uint32_t i = 0; i < file->fields; i++) {
        const char *name = job->column[file->field[i].column].name;
        add_header_name(&file->header, name,
                        file->field[i].kind == COLUMN_IGNORE ? 0 : strlen(name));
    }
}

/* The header is [begin, end) of the text. */
static enum err read_header(struct csv_file *file, const struct csv_format *f,
                            const struct csv_piece *p, size_t begin, size_t end, uint64_t line,
                            struct errmsg *e)
{
    char *text = p->text + begin;
    size_t bytes = csv_without_return(&p->grammar, text, end - begin);
    const char *wrong = csv_lone_return(&p->grammar, text, bytes);
    if (wrong)
        return err_set(e, ERR_INPUT, "%s", wrong);
    char *copy = bytes ? mem_zalloc(bytes, 1) : NULL; /* quotes are removed from the text */
    if (bytes && !copy)
        return err_memory(e);
    if (copy)
        keep_header(&file->header, &p->grammar, memcpy(copy, text, bytes), bytes);
    if (f->job->header == HEADER_SKIP) {
        file->skipped_line = line;
        file->skipped_row =
            csv_reads_like_row(f, file->field, file->fields, &p->grammar, text, bytes, p->mark);
        if (file->skipped_row) /* a later row can be equal to it */
            file->header.named = 0;
        return ERR_OK;
    }
    return fields_by_header(file, f, p, begin, end, bytes, e);
}

/* See whether the header follows what is skipped, as behind a title. end: of the skipped line. */
static enum err see_second_line(struct csv_file *file, const struct csv_format *f,
                                const struct csv_piece *p, size_t end, struct errmsg *e)
{
    struct csv_names names = {.all = false};
    size_t row, row_end = find_row(f, p, end + 1, &row);
    enum err err = row < p->bytes ? see_names(&names, file, f, p, row, row_end, e) : ERR_OK;
    if (names.all && !file->names.all)
        file->names_line = p->line + csv_count(p->text, row, '\n');
    return err;
}

enum err csv_file_skip_mark(struct csv_piece *p, size_t *mark_bytes, struct errmsg *e)
{
    const char *encoding = text_encoding(p->text, p->bytes), *advice, *changed;
    const size_t change = text_encoding_change(p->text, p->bytes, &changed);
    const char *format = text_of_other_format(p->text, p->bytes, &advice);
    if (format)
        return err_set(e, ERR_INPUT, "it is %s, and only text is read here; %s", format, advice);
    if (change && changed)
        encoding = NULL; /* the line is named when it is read */
    else if (!encoding && text_is_binary(p->text, p->bytes))
        return err_set(e, ERR_INPUT,
                       "it is not text, as it has many control characters: is it compressed, or "
                       "another file? only text is read here");
    if (encoding)
        return err_set(
            e, ERR_INPUT,
            "it is %s, and only UTF-8 is read; convert it: iconv -f %s -t UTF-8 FILE > NEW",
            encoding, encoding);
    *mark_bytes = text_encoding_mark_bytes(p->text, p->bytes);
    p->text += *mark_bytes;
    p->bytes -= *mark_bytes;
    return ERR_OK;
}

enum err csv_file_begin(struct csv_file *file, struct csv_piece *p, const struct csv_format *f,
                        struct errmsg *e)
{
    enum csv_header header = f->job->header;
    size_t begin, end = find_row(f, p, 0, &begin);
    enum err err = ERR_OK;
    file->begun = begin < p->bytes;
    p->marks = 0; /* the text changes */
    if (!file->begun) {
        drop_text(p, p->bytes);
        return ERR_OK;
    }
    if (header != HEADER_NAMES) {
        uint32_t absent = absent_columns(f, p, begin, end);
        file->guessed = is_guess(f, absent) ? absent : 0;
        err = fields_by_order(file, f, absent, e);
    }
    if (!err && header != HEADER_NAMES)
        err = check_kept(file, f, e);
    if (err)
        return err_wrap(e, err, "%s: ", file->path);
    uint64_t line = p->line + csv_count(p->text, begin, '\n');
    if (header != HEADER_NAMES && !f->libsvm)
        err = see_names(&file->names, file, f, p, begin, end, e);
    show_line(&file->names, p, begin, end);
    if (!err && header == HEADER_SKIP && !f->libsvm && end < p->bytes)
        err = see_second_line(file, f, p, end, e);
    if (err)
        return err_wrap(e, err, "%s: ", file->path);
    if (header == HEADER_NONE) {
        if (!f->libsvm)
            name_columns(file, f->job);
        file->names_line = file->names.all ? line : 0;
        return ERR_OK;
    }
    if (end == p->bytes) {
        err = csv_refuse_open(e, p->text + begin, end - begin, line, &p->grammar);
        return err_wrap(e, err, "%s:", file->path);
    }
    err = read_header(file, f, p, begin, end, line, e);
    if (err == ERR_INPUT)
        return err_wrap(e, err, "%s:%llu: ", file->path, (unsigned long long)line);
    drop_text(p, end + 1);
    return err;
}

void csv_file_close(struct csv_file *file)
{
    mem_free(file->field);
    mem_free(file->kept_as);
    mem_free(file->field_of);
    mem_free((char *)(uintptr_t)file->header.at);
    *file = (struct csv_file){0};
}
