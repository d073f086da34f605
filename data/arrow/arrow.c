/* Types and values of Arrow's columns, by the layout of its C data interface. */
#include "data/arrow/arrow.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digits.h"

/* ---- types ---- */

struct simple_type {
    const char *format, *name;
    enum arrow_kind kind;
    uint8_t bytes;
};

static const struct simple_type simple[] = {
    {"n", "null", ARROW_NULL, 0},        {"b", "boolean", ARROW_BOOLEAN, 0},
    {"c", "integer", ARROW_INTEGER, 1},  {"C", "integer", ARROW_UNSIGNED, 1},
    {"s", "integer", ARROW_INTEGER, 2},  {"S", "integer", ARROW_UNSIGNED, 2},
    {"i", "integer", ARROW_INTEGER, 4},  {"I", "integer", ARROW_UNSIGNED, 4},
    {"l", "integer", ARROW_INTEGER, 8},  {"L", "integer", ARROW_UNSIGNED, 8},
    {"f", "float", ARROW_FLOAT, 4},      {"g", "double", ARROW_FLOAT, 8},
    {"u", "text", ARROW_TEXT, 4},        {"U", "text", ARROW_TEXT, 8},
    {"vu", "text", ARROW_TEXT, 0},       {"z", "text", ARROW_TEXT, 4},
    {"Z", "text", ARROW_TEXT, 8},        {"vz", "text", ARROW_TEXT, 0},
    {"tdD", "date", ARROW_DATE, 4},      {"+l", "list", ARROW_LIST, 4},
    {"+L", "list", ARROW_LIST, 8},       {"tdm", "date", ARROW_DATE, 8},
    {"e", "half float", ARROW_OTHER, 0}, {"+s", "struct", ARROW_OTHER, 0},
    {"+m", "map", ARROW_OTHER, 0},       {"tts", "time", ARROW_OTHER, 0},
    {"ttm", "time", ARROW_OTHER, 0},     {"ttu", "time", ARROW_OTHER, 0},
    {"ttn", "time", ARROW_OTHER, 0}};

static void set_name(struct arrow_type *t, const char *name)
{
    (void)snprintf(t->name, sizeof t->name, "%s", name);
}

/* "d:PRECISION,SCALE", with ",BITS" if these are not 128. */
static void read_decimal(struct arrow_type *t, const char *format)
{
    int digits, scale, bits = 128;
    const int n = sscanf(format, "d:%d,%d,%d", &digits, &scale, &bits);
    const bool is = n >= 2 && scale >= 0 && digits > 0 && scale <= digits && digits <= 38 &&
                    (bits == 128 || bits == 64 || bits == 32);
    (void)snprintf(t->name, sizeof t->name, "decimal%d(%d, %d)", n >= 2 ? bits : 0,
                   n >= 2 ? digits : 0, n >= 2 ? scale : 0);
    if (!is)
        return;
    t->kind = ARROW_DECIMAL;
    t->bytes = (uint8_t)(bits / 8);
    t->size = scale;
    (void)snprintf(t->name, sizeof t->name, "decimal of scale %d", scale);
}

/* "tsu:ZONE" */
static void read_timestamp(struct arrow_type *t, const char *format)
{
    static const struct {
        char unit;
        int64_t per_second;
    } units[] = {{'s', 1}, {'m', 1000}, {'u', 1000000}, {'n', 1000000000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (format[2] == units[i].unit)
            t->per_second = units[i].per_second;
    if (!t->per_second || format[3] != ':')
        return;
    t->kind = ARROW_TIMESTAMP;
    t->bytes = 8;
    t->zone = format[4] != '\0';
    (void)snprintf(t->name, sizeof t->name, "timestamp[%c%s]%s", format[2],
                   format[2] == 's' ? "" : "s", t->zone ? " in UTC" : "");
}

static struct arrow_type type_of_format(const char *format)
{
    struct arrow_type t = {.kind = ARROW_OTHER};
    char *end = NULL;
    if (strncmp(format, "w:", 2) == 0)
        (void)snprintf(t.name, sizeof t.name, "fixed_size_binary[%.10s]", format + 2);
    else
        (void)snprintf(t.name, sizeof t.name, "of Arrow's type \"%.16s\"", format);
    for (size_t i = 0; i < sizeof simple / sizeof simple[0]; i++)
        if (strcmp(format, simple[i].format) == 0) {
            t.kind = simple[i].kind;
            t.bytes = simple[i].bytes;
            set_name(&t, simple[i].name);
        }
    t.per_second = t.kind == ARROW_DATE && t.bytes == 8 ? 1000 : 0;
    if (strncmp(format, "d:", 2) == 0)
        read_decimal(&t, format);
    else if (strncmp(format, "ts", 2) == 0 && format[2])
        read_timestamp(&t, format);
    else if (strncmp(format, "+w:", 3) == 0) {
        const long size = strtol(format + 3, &end, 10);
        t.kind = size >= 0 && size <= INT32_MAX && !*end ? ARROW_LIST : ARROW_OTHER;
        t.size = (int32_t)size;
        set_name(&t, "list");
    }
    return t;
}

struct arrow_type arrow_type_of(const struct ArrowSchema *s)
{
    if (!s->dictionary)
        return type_of_format(s->format);
    const struct arrow_type index = type_of_format(s->format);
    struct arrow_type t = type_of_format(s->dictionary->format);
    const bool is = index.kind == ARROW_INTEGER || index.kind == ARROW_UNSIGNED;
    if (!is || t.kind == ARROW_LIST || s->dictionary->dictionary) {
        t.kind = ARROW_OTHER;
        set_name(&t, "dictionary");
    }
    t.index_bytes = index.bytes;
    t.index_signed = index.kind == ARROW_INTEGER;
    return t;
}

/* ---- values ---- */

static bool is_null(const struct ArrowArray *a, int64_t at)
{
    const uint8_t *valid = a->n_buffers ? a->buffers[0] : NULL;
    return valid && !(valid[at / 8] >> at % 8 & 1);
}

/* An integer of so many bytes at a place. Unsigned ones of 8 bytes keep their bits. */
static int64_t integer_at(const void *values, uint8_t bytes, bool is_signed, int64_t at)
{
    const uint8_t *from = (const uint8_t *)values + at * bytes;
    int8_t i1;
    int16_t i2;
    int32_t i4;
    int64_t i8;
    switch (bytes) {
    case 1:
        memcpy(&i1, from, 1);
        return is_signed ? i1 : (uint8_t)i1;
    case 2:
        memcpy(&i2, from, 2);
        return is_signed ? i2 : (uint16_t)i2;
    case 4:
        memcpy(&i4, from, 4);
        return is_signed ? (int64_t)i4 : (int64_t)(uint32_t)i4;
    default:
        memcpy(&i8, from, 8);
        return i8;
    }
}

bool arrow_find(const struct arrow_type *t, const struct ArrowArray **a, int64_t i, int64_t *at)
{
    i += (*a)->offset;
    if (t->kind == ARROW_NULL || is_null(*a, i))
        return false;
    if (t->index_bytes) {
        const struct ArrowArray *of = (*a)->dictionary;
        i = integer_at((*a)->buffers[1], t->index_bytes, t->index_signed, i);
        if (i < 0 || i >= of->length || is_null(of, i + of->offset))
            return false;
        i += of->offset;
        *a = of;
    }
    *at = i;
    return true;
}

static int64_t arrow_integer(const struct arrow_type *t, const struct ArrowArray *a, int64_t at)
{
    if (t->kind == ARROW_BOOLEAN)
        return ((const uint8_t *)a->buffers[1])[at / 8] >> at % 8 & 1;
    return integer_at(a->buffers[1], t->bytes, t->kind != ARROW_UNSIGNED, at);
}

bool arrow_nulls(const struct ArrowArray *a, int64_t first, uint32_t rows, uint8_t *valid)
{
    const uint8_t *from = a->n_buffers ? a->buffers[0] : NULL;
    const int64_t at = a->offset + first;
    const uint32_t shift = (uint32_t)(at % 8);
    bool nulls = false;
    if (!from)
        return false;
    from += at / 8;
    for (uint32_t i = 0; i < rows; i += 8, from++) {
        const uint32_t n = rows - i < 8 ? rows - i : 8;
        const uint32_t next = shift + n > 8 ? from[1] : 0U;
        const uint8_t bits = (uint8_t)((from[0] | next << 8) >> shift | 0xFFU << n);
        valid[i / 8] &= bits;
        nulls |= bits != 0xFF;
    }
    return nulls;
}

/* The values as they are, also where one is null, in loops that a compiler vectorizes. */
#define COPY_EACH(type, as)                                                                        \
    do {                                                                                           \
        const type *from = (const type *)a->buffers[1] + a->offset + first;                        \
        for (uint32_t i = 0; i < rows; i++)                                                        \
            out[i] = (as)from[i];                                                                  \
    } while (0)
#define COPY_INTEGERS(as)                                                                          \
    if (t->bytes == 8 && t->kind == ARROW_INTEGER)                                                 \
        COPY_EACH(int64_t, as);                                                                    \
    else if (t->bytes == 8)                                                                        \
        COPY_EACH(uint64_t, as);                                                                   \
    else if (t->bytes == 4 && t->kind == ARROW_INTEGER)                                            \
        COPY_EACH(int32_t, as);                                                                    \
    else if (t->bytes == 4)                                                                        \
        COPY_EACH(uint32_t, as);                                                                   \
    else if (t->bytes == 2 && t->kind == ARROW_INTEGER)                                            \
        COPY_EACH(int16_t, as);                                                                    \
    else if (t->bytes == 2)                                                                        \
        COPY_EACH(uint16_t, as);                                                                   \
    else if (t->kind == ARROW_INTEGER)                                                             \
        COPY_EACH(int8_t, as);                                                                     \
    else                                                                                           \
        COPY_EACH(uint8_t, as)

static bool is_copied(const struct arrow_type *t)
{
    return !t->index_bytes &&
           (t->kind == ARROW_INTEGER || t->kind == ARROW_UNSIGNED || t->kind == ARROW_FLOAT);
}

bool arrow_integers(const struct arrow_type *t, const struct ArrowArray *a, int64_t first,
                    uint32_t rows, int64_t *out, uint8_t *valid)
{
    bool nulls = false;
    if (is_copied(t)) {
        COPY_INTEGERS(int64_t);
        return arrow_nulls(a, first, rows, valid);
    }
    for (uint32_t i = 0; i < rows; i++) {
        const struct ArrowArray *of = a;
        int64_t at;
        const bool is = arrow_find(t, &of, first + i, &at);
        out[i] = is ? arrow_integer(t, of, at) : 0;
        if (!is)
            batch_clear_bit(valid, i);
        nulls |= !is;
    }
    return nulls;
}

double arrow_double(const struct arrow_type *t, const struct ArrowArray *a, int64_t at)
{
    if (t->kind == ARROW_FLOAT)
        return t->bytes == 4 ? (double)((const float *)a->buffers[1])[at]
                             : ((const double *)a->buffers[1])[at];
    const int64_t v = arrow_integer(t, a, at);
    return t->kind == ARROW_UNSIGNED ? (double)(uint64_t)v : (double)v;
}

#define EXACT 9007199254740992.0 /* smaller integers are doubles */

/* Of integers as a float: the nearest, where the double is no integer any more. */
static double nearest_float(const struct arrow_type *t, const struct ArrowArray *a, int64_t at)
{
    const double v = arrow_double(t, a, at);
    if (t->kind == ARROW_FLOAT || fabs(v) < EXACT)
        return v;
    const int64_t i = arrow_integer(t, a, at);
    return (double)(t->kind == ARROW_UNSIGNED ? (float)(uint64_t)i : (float)i);
}

bool arrow_doubles(const struct arrow_type *t, const struct ArrowArray *a, int64_t first,
                   uint32_t rows, bool floats, double *out, uint8_t *valid)
{
    bool nulls = false;
    if (is_copied(t)) {
        if (t->kind == ARROW_FLOAT && t->bytes == 8)
            COPY_EACH(double, double);
        else if (t->kind == ARROW_FLOAT)
            COPY_EACH(float, double);
        else
            COPY_INTEGERS(double);
        for (uint32_t i = 0; i < rows && floats && t->bytes == 8; i++)
            if (fabs(out[i]) >= EXACT)
                out[i] = nearest_float(t, a, a->offset + first + i);
        return arrow_nulls(a, first, rows, valid);
    }
    for (uint32_t i = 0; i < rows; i++) {
        const struct ArrowArray *of = a;
        int64_t at;
        const bool is = arrow_find(t, &of, first + i, &at);
        out[i] = !is ? 0 : floats ? nearest_float(t, of, at) : arrow_double(t, of, at);
        if (!is)
            batch_clear_bit(valid, i);
        nulls |= !is;
    }
    return nulls;
}

size_t arrow_shortest(double v, char out[static ARROW_TEXT_BYTES])
{
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(out, ARROW_TEXT_BYTES, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            break;
    }
    return (size_t)n;
}

static struct batch_text decimal_text(const struct arrow_type *t, const struct ArrowArray *a,
                                      int64_t at, char *out)
{
    char *end = out + ARROW_TEXT_BYTES, *to = end;
    __extension__ __int128 v = 0;
    if (t->bytes == 16)
        memcpy(&v, (const uint8_t *)a->buffers[1] + at * 16, 16);
    else
        v = integer_at(a->buffers[1], t->bytes, true, at);
    const bool minus = v < 0;
    __extension__ unsigned __int128 left = (unsigned __int128)v;
    left = minus ? 0 - left : left;
    for (int digits = 0; left || digits <= t->size; digits++, left /= 10) {
        if (t->size && digits == t->size)
            *--to = '.';
        *--to = (char)('0' + (int)(left % 10));
    }
    if (minus)
        *--to = '-';
    return (struct batch_text){to, (size_t)(end - to)};
}

/* The day of the proleptic Gregorian calendar: Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
static size_t put_day(char *out, int64_t days)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const int64_t of_era = days - era * 146097;
    const int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const int64_t month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    const int64_t number = month < 10 ? month + 3 : month - 9;
    return (size_t)snprintf(out, ARROW_TEXT_BYTES, "%04" PRId64 "-%02d-%02d",
                            year + era * 400 + (number <= 2), (int)number, (int)day);
}

static int64_t divided_down(int64_t v, int64_t by)
{
    return v / by - (v % by < 0);
}

static struct batch_text date_text(const struct arrow_type *t, int64_t v, char *out)
{
    const int64_t days = t->per_second ? divided_down(v, t->per_second * 86400) : v;
    return (struct batch_text){out, put_day(out, days)};
}

static struct batch_text timestamp_text(const struct arrow_type *t, int64_t v, char *out)
{
    const int64_t seconds = divided_down(v, t->per_second), days = divided_down(seconds, 86400);
    const int of_day = (int)(seconds - days * 86400);
    size_t n = put_day(out, days);
    n += (size_t)snprintf(out + n, ARROW_TEXT_BYTES - n, " %02d:%02d:%02d", of_day / 3600,
                          of_day / 60 % 60, of_day % 60);
    if (t->per_second > 1) {
        int digits = 0;
        for (int64_t unit = t->per_second; unit > 1; unit /= 10)
            digits++;
        n += (size_t)snprintf(out + n, ARROW_TEXT_BYTES - n, ".%0*" PRId64, digits,
                              (v % t->per_second + t->per_second) % t->per_second);
    }
    if (t->zone)
        out[n++] = 'Z';
    return (struct batch_text){out, n};
}

/* Where a text or a list of offsets begins and ends. */
static void between_offsets(const struct arrow_type *t, const struct ArrowArray *a, int64_t at,
                            int64_t *begin, int64_t *end)
{
    *begin = integer_at(a->buffers[1], t->bytes, true, at);
    *end = integer_at(a->buffers[1], t->bytes, true, at + 1);
}

/* A view has its length, and up to 12 bytes, or else 4 bytes, the number of a buffer and the place in it. */
static struct batch_text text_of_view(const struct ArrowArray *a, int64_t at)
{
    enum { VIEW_BYTES = 16, WITHIN_BYTES = 12, VARIADIC = 2 };
    const char *view = (const char *)a->buffers[1] + at * VIEW_BYTES;
    int32_t bytes, buffer, place;
    memcpy(&bytes, view, 4);
    if (bytes <= WITHIN_BYTES)
        return (struct batch_text){view + 4, (size_t)bytes};
    memcpy(&buffer, view + 8, 4);
    memcpy(&place, view + 12, 4);
    return (struct batch_text){(const char *)a->buffers[VARIADIC + buffer] + place, (size_t)bytes};
}

static struct batch_text text_at(const struct arrow_type *t, const struct ArrowArray *a, int64_t at)
{
    int64_t begin, end;
    if (!t->bytes)
        return text_of_view(a, at);
    between_offsets(t, a, at, &begin, &end);
    const char *texts = a->buffers[2];
    return (struct batch_text){end > begin ? texts + begin : "", (size_t)(end - begin)};
}

struct batch_text arrow_text(const struct arrow_type *t, const struct ArrowArray *a, int64_t at,
                             char out[static ARROW_TEXT_BYTES])
{
    switch (t->kind) {
    case ARROW_TEXT:
        return text_at(t, a, at);
    case ARROW_FLOAT:
        return (struct batch_text){out, arrow_shortest(arrow_double(t, a, at), out)};
    case ARROW_DECIMAL:
        return decimal_text(t, a, at, out);
    case ARROW_DATE:
        return date_text(t, arrow_integer(t, a, at), out);
    case ARROW_TIMESTAMP:
        return timestamp_text(t, arrow_integer(t, a, at), out);
    default: {
        const int64_t v = arrow_integer(t, a, at);
        const char *begin = t->kind == ARROW_INTEGER
                                ? digits_signed(v, out + ARROW_TEXT_BYTES)
                                : digits_unsigned((uint64_t)v, out + ARROW_TEXT_BYTES);
        return (struct batch_text){begin, (size_t)(out + ARROW_TEXT_BYTES - begin)};
    }
    }
}

void arrow_list(const struct arrow_type *t, const struct ArrowArray *a, int64_t at, int64_t *begin,
                int64_t *end)
{
    if (t->bytes) {
        between_offsets(t, a, at, begin, end);
        return;
    }
    *begin = at * t->size;
    *end = *begin + t->size;
}
