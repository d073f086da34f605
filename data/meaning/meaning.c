/* The markers of missing values and the classes of labels, from the job; and the messages about values that do not fit. */
#include "data/meaning/meaning.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"
#include "job/range.h"

enum { LISTED_BYTES = 160, HINT_BYTES = 60 + 3 * CSV_SHOWN_BYTES, LABEL_LIKE_A_CLASS = 1000 };

/* ---- construction ---- */

static enum err add_names(struct meaning *m, const char *begin, const char *end, uint32_t number)
{
    uint32_t at;
    if (end - begin == 1 && *begin == '*') {
        m->others = number;
        return ERR_OK;
    }
    double v;
    char *plain = mem_zalloc((size_t)(end - begin) + 1, 1);
    enum err err = plain ? ERR_OK : ERR_NOMEM;
    for (const char *p = begin; p <= end && !err;) {
        size_t n = job_class_name_bytes(p, (size_t)(end - p));
        const size_t plain_bytes = job_class_name_plain(plain, p, n);
        plain[plain_bytes] = '\0';
        m->numbers &= csv_number_wide(plain, plain_bytes, &v);
        err = vocabulary_add(&m->names, plain, plain_bytes, &at);
        uint32_t *grown = err ? NULL : mem_resize(m->class_of, m->names.count, sizeof *grown);
        err = !err && !grown ? ERR_NOMEM : err;
        if (grown) {
            m->class_of = grown;
            m->class_of[at] = number;
        }
        p += n + 1;
    }
    mem_free(plain);
    return err;
}

static enum err read_classes(struct meaning *m, const char *classes, struct errmsg *e)
{
    uint32_t count = 0;
    for (const char *p = classes, *next; p; p = next, count++) {
        size_t n;
        next = texts_next(p, &n);
        if (add_names(m, p, p + n, count))
            return err_set(e, ERR_NOMEM, "out of memory for the classes");
    }
    if (m->classes && count > m->classes)
        return err_set(e, ERR_INPUT, "the label column names %u classes, the model has %u", count,
                       m->classes);
    return ERR_OK;
}

/* Note a marker that is a number. No number goes on behind the text. */
static enum err note_marker(struct meaning *m, const char *text, size_t bytes, uint32_t number)
{
    double value;
    if (!csv_number_wide(text, bytes, &value))
        return ERR_OK;
    struct meaning_marker *grown = mem_resize(m->marker, (size_t)m->markers + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    m->marker = grown;
    m->marker[m->markers++] = (struct meaning_marker){value, number};
    return ERR_OK;
}

static enum err read_missing(struct meaning *m, const char *markers, struct errmsg *e)
{
    uint32_t number;
    for (const char *p = markers, *next; p; p = next) {
        size_t n;
        next = texts_next(p, &n);
        if (vocabulary_add(&m->missing, p, n, &number) || note_marker(m, p, n, number))
            return err_memory(e);
        m->missing_lengths |= UINT64_C(1) << (n < 63 ? n : 63);
    }
    return ERR_OK;
}

enum err meaning_init(struct meaning *out, const struct job_csv *job,
                      const struct table_schema *schema, bool learning, uint32_t classes,
                      struct errmsg *e)
{
    struct meaning m = {.schema = schema,
                        .learning = learning,
                        .classes = classes,
                        .others = VOCABULARY_NONE,
                        .numbers = true};
    enum err err = read_missing(&m, job->missing, e);
    const char *names = job_class_names(job);
    if (!err && names)
        err = read_classes(&m, names, e);
    if (err)
        meaning_close(&m);
    else
        *out = m;
    return err;
}

void meaning_close(struct meaning *m)
{
    vocabulary_close(&m->names);
    vocabulary_close(&m->missing);
    mem_free(m->class_of);
    mem_free(m->marker);
    *m = (struct meaning){0};
}

struct meaning_field *meaning_fields_new(const struct job_csv *job)
{
    uint32_t inputs = 0, keys = 0;
    struct meaning_field *field = mem_zalloc((size_t)job->columns + 1, sizeof *field);
    for (uint32_t i = 0; i < job->columns && field; i++) {
        const enum column_kind kind = job->column[i].kind;
        const bool looks_up = kind == COLUMN_KEY || kind == COLUMN_KEYS;
        field[i] =
            (struct meaning_field){.kind = kind, .cell = looks_up ? keys : inputs, .column = i};
        inputs += kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY;
        keys += job_column_has_keys(&job->column[i]);
    }
    for (uint32_t i = 0; i < job->columns && field; i++)
        if (field[i].kind == COLUMN_LABEL || field[i].kind == COLUMN_WEIGHT)
            field[i].cell = inputs + (field[i].kind == COLUMN_WEIGHT);
    return field;
}

bool meaning_is_label(const struct meaning *m, struct batch_text t)
{
    double v;
    if (meaning_has_names(m) && vocabulary_find(&m->names, t.at, t.bytes) != VOCABULARY_NONE)
        return true;
    if (meaning_has_names(m))
        return m->others != VOCABULARY_NONE && (!m->numbers || csv_number_wide(t.at, t.bytes, &v));
    return csv_number_wide(t.at, t.bytes, &v) &&
           (!m->classes || (v >= 0 && v < m->classes && v == trunc(v)));
}

/* ---- messages ---- */

bool meaning_takes_hint(const struct meaning *m, const struct meaning_fault *f,
                        const struct vocabulary **known)
{
    const bool number =
        f->cause == CAUSE_NUMBER || f->cause == CAUSE_WEIGHT ||
        (f->cause == CAUSE_LABEL && !csv_number_is_large(f->text.at, f->text.bytes));
    *known = f->cause == CAUSE_CLASS_NAME ? &m->names : number ? &m->missing : NULL;
    return *known || f->cause == CAUSE_KEY;
}

/* The text of a message on its way. */
struct why {
    char *out;
    const char *shown; /* the beginning of the value */
    const char *hint;  /* NULL: the usual one */
};

PRINTF_LIKE(2, 3) static void say(const struct why *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(w->out, MEANING_WHY_BYTES, fmt, args);
    va_end(args);
}

static const char *hint_or(const struct why *w, const char *usual)
{
    return w->hint ? w->hint : usual;
}

/* "low, normal": all classes, or the first ones and their number. Returns out. */
static const char *list_classes(const struct meaning *m, char out[static LISTED_BYTES])
{
    char word[CSV_SHOWN_BYTES];
    size_t at = 0;
    for (uint32_t i = 0; i < m->names.count; i++) {
        size_t bytes;
        const char *text = vocabulary_text(&m->names, i, &bytes);
        if (i && at + bytes > LISTED_BYTES / 2) {
            (void)snprintf(out + at, LISTED_BYTES - at, " .. (%u)", m->names.count);
            return out;
        }
        at += (size_t)snprintf(out + at, LISTED_BYTES - at, "%s%s", i ? ", " : "",
                               csv_hint_shown(word, text, bytes));
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

/* The class that has the name in another case. NULL: none. */
static const char *class_in_other_case(const struct meaning *m, const char *text, size_t bytes)
{
    for (uint32_t i = 0; i < m->names.count; i++) {
        size_t n;
        const char *name = vocabulary_text(&m->names, i, &n);
        if (n == bytes && strncasecmp(name, text, n) == 0)
            return name;
    }
    return NULL;
}

/* 0 or 1, of classes that are named false and true. */
static bool is_truth(const struct meaning *m, const char *text, size_t bytes)
{
    return bytes == 1 && (*text == '0' || *text == '1') && m->names.count == 2 &&
           class_in_other_case(m, "false", 5) && class_in_other_case(m, "true", 4);
}

/* Of a name that is no class. The same letters can be other bytes, and "a|b" in the job is two names. */
static const char *hint_of_class(const struct meaning *m, const char *text, size_t bytes,
                                 char out[static HINT_BYTES])
{
    const char *pipe = memchr(text, '|', bytes), *other = class_in_other_case(m, text, bytes);
    char shown[CSV_SHOWN_BYTES], shown_other[CSV_SHOWN_BYTES];
    if (other) {
        (void)csv_hint_shown(shown, text, bytes);
        (void)csv_hint_shown(shown_other, other, bytes);
        (void)snprintf(out, HINT_BYTES, "; if it is the class \"%s\", list both: \"%s|%s\"",
                       shown_other, shown_other, shown);
        return out;
    }
    if (pipe && vocabulary_find(&m->names, text, (size_t)(pipe - text)) != VOCABULARY_NONE &&
        vocabulary_find(&m->names, pipe + 1, bytes - (size_t)(pipe + 1 - text)) != VOCABULARY_NONE)
        return "; a | in classes divides two names: write it as \\|, as in 'a\\|b'";
    if (is_truth(m, text, bytes))
        return "; 0 and 1, as bools of Parquet are read, are false and true if both are listed, as "
               "in [\"False|0\", \"True|1\"]";
    bool ascii = true, mark = has_combining_mark(text, bytes), listed = false;
    for (size_t i = 0; i < bytes; i++)
        ascii &= (unsigned char)text[i] < 0x80;
    for (uint32_t i = 0; i < m->names.count && !ascii && !listed; i++) {
        size_t n;
        const char *name = vocabulary_text(&m->names, i, &n);
        listed = has_combining_mark(name, n);
    }
    if (mark == listed)
        return "; if it is a class, add it to classes";
    return mark ? "; it has combining marks, such as U+0301, and no class has one: normalize the "
                  "file (NFC), or add it to classes"
                : "; a class has combining marks, such as U+0301, but it has none: normalize the "
                  "classes (NFC), or add it to them";
}

/* Labels -1 and +1 are common for two classes; names are compared as text. */
static void say_class(const struct meaning *m, const struct why *w, float label)
{
    if (label == -1 && *w->shown == '-')
        say(w,
            "label %s, the model has %u classes (labels 0 to %u); name the labels as they are in "
            "the file: - label: {classes: [\"%s\", \"%s\"]}",
            w->shown, m->classes, m->classes - 1, w->shown, w->shown + 1);
    else if (label == (float)m->classes)
        say(w, "label %s, the model has %u classes (labels 0 to %u)%s", w->shown, m->classes,
            m->classes - 1,
            hint_or(w,
                    "; if the labels start at 1, list them: - label: {classes: [\"1\", \"2\"]}"));
    else
        say(w, "label %s, the model has %u classes (labels 0 to %u)%s", w->shown, m->classes,
            m->classes - 1,
            hint_or(w, label == floorf(label) && fabsf(label) < LABEL_LIKE_A_CLASS
                           ? ""
                           : "; if the answer is a number, use loss: mean_squared_error and a last "
                             "layer of 1 unit"));
}

static bool is_large(const struct meaning_fault *f)
{
    return csv_number_is_large(f->text.at, f->text.bytes);
}

static void say_number(const struct why *w, const struct meaning_fault *f)
{
    say(w, "\"%s\" %s%s", w->shown, is_large(f) ? CSV_NUMBER_LARGE : "is not a number",
        hint_or(w, csv_hint_number(f->text.at, f->text.bytes,
                                   "; use data.missing if it marks a missing value")));
}

static void say_weight(const struct why *w, const struct meaning_fault *f)
{
    say(w, "the weight \"%s\" %s%s", w->shown,
        is_large(f) ? CSV_NUMBER_LARGE : "is not a finite number of at least 0",
        hint_or(w, csv_hint_number(f->text.at, f->text.bytes, "")));
}

static void say_missing(const struct why *w, const char *what)
{
    if (*w->shown && !w->hint)
        say(w, "the %s is missing: \"%s\" is in data.missing", what, w->shown);
    else
        say(w, "the %s is missing%s", what, hint_or(w, ""));
}

static void say_label(const struct why *w, const struct meaning_fault *f)
{
    const bool marker = csv_hint_is_marker(f->text.at, f->text.bytes);
    if (is_large(f))
        say(w, "the label \"%s\" " CSV_NUMBER_LARGE, w->shown);
    else
        say(w, "the label \"%s\" is not a number%s", w->shown,
            hint_or(w, csv_hint_number(
                           f->text.at, f->text.bytes,
                           marker ? "; if it marks a missing label, data.bad_rows: skip leaves "
                                    "such rows out"
                                  : "; name the values of the label by its classes: [...]")));
}

static void say_id(const struct meaning *m, const struct why *w, const struct meaning_fault *f)
{
    static const char rest[] = "is not an id: the embedding that reads it has rows 0 to";
    const uint32_t last = m->schema->input[f->cell].ids - 1;
    if (f->text.at)
        say(w, "%s %s %u", w->shown, rest, last);
    else
        say(w, "%.17g %s %u", digits_printed(f->number), rest, last);
}

/* A field is trimmed as a whole, so each of several values keeps its blanks, and no hint is of use. */
static void say_key(const struct why *w)
{
    say(w, "\"%s\" is not an integer from 0 to 2^64 - 1%s", w->shown,
        hint_or(w, "; use data.missing if it marks a missing value, or hash: true, which takes any "
                   "word"));
}

void meaning_why(const struct meaning *m, const struct meaning_fault *f, const char *hint,
                 char why[static MEANING_WHY_BYTES])
{
    char shown[CSV_SHOWN_BYTES] = "", known[LISTED_BYTES] = "", of_class[HINT_BYTES];
    const struct why w = {why, f->text.at ? csv_hint_shown(shown, f->text.at, f->text.bytes) : "",
                          hint};
    switch (f->cause) {
    case CAUSE_UNREADABLE:
        say(&w, "the value cannot be read");
        break;
    case CAUSE_NUMBER_MISSING:
        say(&w, m->schema->input[f->cell].ids
                    ? "the id is missing; name one for such rows: missing: {value: ID}"
                    : "the number is missing");
        break;
    case CAUSE_NUMBER:
        say_number(&w, f);
        break;
    case CAUSE_NUMBER_INFINITE:
        say(&w, "the number is not finite");
        break;
    case CAUSE_NUMBER_LARGE:
        say(&w, "the number " CSV_NUMBER_LARGE);
        break;
    case CAUSE_ID:
        say_id(m, &w, f);
        break;
    case CAUSE_WEIGHT_MISSING:
        say_missing(&w, "weight");
        break;
    case CAUSE_WEIGHT:
        say_weight(&w, f);
        break;
    case CAUSE_LABEL_MISSING:
        say_missing(&w, "label");
        break;
    case CAUSE_LABEL:
        say_label(&w, f);
        break;
    case CAUSE_CLASS_NAME:
        say(&w, "\"%s\" is not one of the label's classes: %s%s", w.shown, list_classes(m, known),
            hint_or(&w, hint_of_class(m, f->text.at, f->text.bytes, of_class)));
        break;
    case CAUSE_CLASS_WHOLE: /* the number of classes is not known yet */
        say(&w, "label %s is not a class, which is a whole number from 0", w.shown);
        break;
    case CAUSE_CLASS_NUMBER:
        say_class(m, &w, (float)f->number);
        break;
    case CAUSE_KEY:
    case CAUSE_KEY_OF_LIST:
        say_key(&w);
        break;
    case CAUSE_KEYS_MANY:
        say(&w, "more than max_values: %u values", m->schema->key[f->cell].options.max_values);
        break;
    case CAUSE_KEYS_WEIGHT:
        say(&w, "the weight of \"%s\" %s", w.shown,
            f->number != 0 ? CSV_NUMBER_LARGE : "is not a number");
        break;
    }
}
