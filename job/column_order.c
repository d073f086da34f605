/* Columns and classes have names in an identity text, a line each. Each comparison goes through the lines of one text, and looks up
 * the place, the scale or the number of the same name in the other. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/base/digits.h"
#include "common/base/printable.h"
#include "job/job.h"
#include "job/range.h"

struct name {
    const char *text; /* not terminated */
    size_t bytes;
};

static bool name_is(const struct name *a, const struct name *b)
{
    return a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

/* Takes the value of a column's line that begins with "data.columns[3]" and then `key`. A value can look like a key. */
static bool takes_value(const char *line, size_t bytes, const char *key, struct name *out)
{
    static const char begin[] = "data.columns[", equals[] = " = ";
    const char *end = memmem(line, bytes, equals, sizeof equals - 1);
    size_t n = strlen(key);
    if (!end || (size_t)(end - line) < sizeof begin + n ||
        memcmp(line, begin, sizeof begin - 1) != 0 || memcmp(end - n, key, n) != 0)
        return false;
    out->text = end + sizeof equals - 1;
    out->bytes = (size_t)(line + bytes - out->text);
    return true;
}

/* Parses "data.columns[3].number.name = age", or the same for a category. */
static bool takes_name(const char *line, size_t bytes, struct name *out)
{
    return takes_value(line, bytes, "].number.name", out) ||
           takes_value(line, bytes, "].category.name", out);
}

/* Finds the next input column from *at on; returns false if none is left. */
static bool name_next(const char **at, struct name *out)
{
    bool found = false;
    while (!found && **at) {
        size_t n = job_identity_line_bytes(*at);
        found = takes_name(*at, n, out);
        *at += n + ((*at)[n] == '\n');
    }
    return found;
}

/* Returns the position, from 1; 0 if no column has this name. */
static unsigned name_place(const char *text, const struct name *name)
{
    struct name one;
    for (unsigned place = 1; name_next(&text, &one); place++)
        if (name_is(&one, name))
            return place;
    return 0;
}

enum err column_order_compare(const char *was, const char *is, struct errmsg *e)
{
    struct name name;
    char shown[PRINTABLE_NAME_BYTES];
    for (unsigned place = 1; name_next(&was, &name); place++) {
        /* a column without a name can only be identified by its position */
        unsigned now = name.bytes ? name_place(is, &name) : 0;
        if (now && now != place)
            return err_set(e, ERR_INPUT,
                           "column %s was input column %u, is now input column %u, and would get "
                           "another column's weights; restore the order of the columns",
                           printable_name(shown, name.text, name.bytes), place, now);
    }
    return ERR_OK;
}

/* ---- scales ---- */

/* The scale of the column with this name; a line that is missing has the key's default. */
static struct name scale_of(const char *text, const struct name *name)
{
    static const char option[] = "name = ", scale[] = "scale = ", none[] = "none";
    const char *key = name->text - (sizeof option - 1); /* after "data.columns[3].number." */
    size_t stem = 0;
    while (key - stem > text && key[-1 - (ptrdiff_t)stem] != '\n')
        stem++;
    for (const char *at = text; *at;) {
        size_t n = job_identity_line_bytes(at);
        if (n >= stem + sizeof scale - 1 && memcmp(at, key - stem, stem) == 0 &&
            memcmp(at + stem, scale, sizeof scale - 1) == 0)
            return (struct name){at + stem + sizeof scale - 1, n - stem - (sizeof scale - 1)};
        at += n + (at[n] == '\n');
    }
    return (struct name){none, sizeof none - 1};
}

enum err column_scale_compare(const char *was, const char *is, struct errmsg *e)
{
    char shown[PRINTABLE_NAME_BYTES];
    struct name before, now;
    for (const char *old = was, *new = is; name_next(&old, &before) && name_next(&new, &now);) {
        struct name from = scale_of(was, &before), to = scale_of(is, &now);
        if (name_is(&before, &now) && !name_is(&from, &to))
            return err_set(e, ERR_INPUT, "column %s had scale %.*s, has %.*s now",
                           printable_name(shown, before.text, before.bytes), (int)from.bytes,
                           from.text, (int)to.bytes, to.text);
    }
    return ERR_OK;
}

/* ---- classes ---- */

/* The names of classes in their order: `"no", "yes"`; none: no bytes. */
static struct name classes_of(const char *text)
{
    struct name classes = {"", 0};
    for (bool found = false; !found && *text;) {
        size_t n = job_identity_line_bytes(text);
        found = takes_value(text, n, "].label.classes", &classes);
        text += n + (text[n] == '\n');
    }
    return classes;
}

/* True if the quote belongs to a name. */
static bool is_of_name(const char *begin, const char *quote)
{
    const char *at = quote;
    while (at > begin && at[-1] == JOB_TEXTS_ESCAPE)
        at--;
    return (quote - at) % 2;
}

/* Takes the first of the list's names, without its quotes. */
static bool next_class(struct name *list, struct name *out)
{
    static const char between[] = "\", \"";
    const char *begin = list->text + 1, *stop = list->text + list->bytes;
    if (list->bytes < 2)
        return false;
    const char *end = memmem(begin, (size_t)(stop - begin), between, sizeof between - 1);
    while (end && is_of_name(begin, end))
        end = memmem(end + 1, (size_t)(stop - end - 1), between, sizeof between - 1);
    size_t n = end ? (size_t)(end - list->text) : list->bytes - 1;
    *out = (struct name){list->text + 1, n - 1};
    n += end ? sizeof between - 2 : 1;
    *list = (struct name){list->text + n, list->bytes - n};
    return true;
}

/* The names of a label's classes, one after the other: a class can have several. */
struct class_names {
    struct name list, rest; /* the classes that follow; the names of this one that follow */
    unsigned next;          /* number of the class that follows */
};

static struct class_names class_names_of(const char *text)
{
    return (struct class_names){.list = classes_of(text)};
}

static bool next_name(struct class_names *c, struct name *out, unsigned *number)
{
    if (c->rest.bytes == 0) {
        if (!next_class(&c->list, &c->rest))
            return false;
        c->next++;
    }
    size_t n = job_class_name_bytes(c->rest.text, c->rest.bytes);
    *out = (struct name){c->rest.text, n};
    n += n < c->rest.bytes; /* the '|' */
    c->rest = (struct name){c->rest.text + n, c->rest.bytes - n};
    *number = c->next - 1;
    return true;
}

/* "12" is 12, as a label without names of classes is read. */
static bool is_number(const struct name *name, unsigned *number)
{
    char text[10];
    uint32_t value;
    if (name->bytes >= sizeof text || (name->bytes > 1 && name->text[0] == '0'))
        return false;
    memcpy(text, name->text, name->bytes);
    text[name->bytes] = '\0';
    if (!digits_read(text, 0, UINT32_MAX, &value))
        return false;
    *number = value;
    return true;
}

/* The number of the class of this name. False: the job does not have it. */
static bool class_number(const char *text, const struct name *name, unsigned *number)
{
    struct class_names c = class_names_of(text);
    struct name one;
    if (c.list.bytes == 0)
        return is_number(name, number);
    while (next_name(&c, &one, number))
        if (name_is(&one, name))
            return true;
    return false;
}

static const char *shown_class(char out[static PRINTABLE_NAME_BYTES], const struct name *name)
{
    char plain[2 * PRINTABLE_NAME_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < name->bytes && n < sizeof plain; i++) {
        i += name->text[i] == JOB_TEXTS_ESCAPE && i + 1 < name->bytes;
        plain[n++] = name->text[i];
    }
    return printable_name(out, plain, n);
}

/* Each name of `names` that both jobs have must be one number in them. */
static enum err compare_names(const char *names, const char *was, const char *is, struct errmsg *e)
{
    char shown[PRINTABLE_NAME_BYTES];
    struct class_names c = class_names_of(names);
    struct name name;
    unsigned number, before, now;
    while (next_name(&c, &name, &number))
        if (class_number(was, &name, &before) && class_number(is, &name, &now) && before != now)
            return err_set(e, ERR_INPUT,
                           "class \"%s\" was class %u, is class %u now, and would get another "
                           "class's weights; restore the order of the label's classes",
                           shown_class(shown, &name), before, now);
    return ERR_OK;
}

enum err class_order_compare(const char *was, const char *is, struct errmsg *e)
{
    enum err err = compare_names(was, was, is, e);
    return err ? err : compare_names(is, was, is, e);
}
