/* Most numbers have a few digits. Those are exact in a double, and so is their power of ten, so one division or
 * multiplication rounds correctly (Clinger, "How to Read Floating Point Numbers Accurately", 1990). All others go to
 * strtof or strtod. */
#include "data/text/csv_number.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_BYTES = 9, DIGITS_MAX = 19, POWER_MAX = 22, EXPONENT_MAX = 100000 };

static const double powers[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* The number as read: digits * 10^exponent; `digits` wraps if there are more than DIGITS_MAX. */
struct decimal {
    uint64_t digits;
    int count, exponent;
    bool negative;
};

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static const char *read_digits(struct decimal *d, const char *p, const char *end)
{
    for (; p < end && is_digit(*p); p++) {
        d->digits = d->digits * 10 + (uint64_t)(*p - '0');
        d->count++;
    }
    return p;
}

/* The exponent after an 'e'; NULL: no exponent follows. */
static const char *read_exponent(struct decimal *d, const char *p, const char *end)
{
    bool negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    if (p == end || !is_digit(*p))
        return NULL;
    int n = 0;
    for (; p < end && is_digit(*p); p++)
        n = n < EXPONENT_MAX ? n * 10 + (*p - '0') : n;
    d->exponent += negative ? -n : n;
    return p;
}

static bool read_decimal(struct decimal *d, const char *p, const char *end)
{
    d->negative = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+');
    p = read_digits(d, p, end);
    if (p < end && *p == '.') {
        const char *dot = p + 1;
        p = read_digits(d, dot, end);
        d->exponent = -(int)(p - dot);
    }
    if (d->count == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E'))
        p = read_exponent(d, p + 1, end);
    return p == end;
}

/* True for a double in the middle of two floats: its rounding hides which of them is nearest. */
static bool is_halfway(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x1FFFFFFF) == 0x10000000;
}

/* Few digits, with at most one point among them: the nearest double. It is in the middle of two floats only if the
 * number itself is exactly there, so it rounds to the nearest float, too. (The middle is m * 2^-e, with m of 25 bits;
 * digits * 2^e and m * 10^k are integers, so if they differ, they differ by 1 / (m * 10^k) >= 2^-52 of the value, more
 * than a double's rounding, 2^-53.) */
static inline bool short_number(const char *text, size_t bytes, double *out)
{
    uint32_t digits = 0;
    size_t behind = bytes; /* index after the point */
    if (bytes - 1 >= SHORT_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t digit = (unsigned char)text[i] - (uint32_t)'0';
        if (digit < 10)
            digits = digits * 10 + digit;
        else if (text[i] == '.' && behind == bytes)
            behind = i + 1;
        else
            return false;
    }
    if (behind == bytes) { /* "5." is accepted, but "." is not */
        *out = digits;
        return is_digit(text[0]);
    }
    *out = digits / powers[bytes - behind];
    return true;
}

/* Returns where the number begins, behind blanks; NULL: the text is not a number. */
static const char *read_text(struct decimal *d, const char *text, size_t bytes)
{
    const char *p = text, *end = text + bytes;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return read_decimal(d, p, end) ? p : NULL;
}

/* The nearest double; false: strtod finds it. */
static bool nearest(const struct decimal *d, double *out)
{
    bool exact = d->digits <= UINT64_C(1) << 53 && d->exponent >= -POWER_MAX &&
                 d->exponent <= POWER_MAX; /* both factors */
    if (d->count > DIGITS_MAX || (!exact && d->exponent != 0 && d->digits != 0))
        return false;
    double v = (double)d->digits;
    if (v > 0 && d->exponent)
        v = d->exponent < 0 ? v / powers[-d->exponent] : v * powers[d->exponent];
    *out = d->negative ? -v : v;
    return true;
}

static bool long_number(const char *text, size_t bytes, float *out)
{
    struct decimal d = {0};
    double v;
    const char *p = read_text(&d, text, bytes);
    if (!p)
        return false;
    bool exact = nearest(&d, &v) && d.digits <= UINT64_C(1) << 53;
    float f = exact ? (float)v : 0;
    if (exact && (v == 0 || (!is_halfway(v) && fabsf(f) >= 0x1p-126F && isfinite(f)))) {
        *out = f;
        return true;
    }
    f = strtof(p, NULL);
    if (!isfinite(f))
        return false;
    *out = f;
    return true;
}

bool csv_number(const char *text, size_t bytes, float *out)
{
    double v;
    if (!short_number(text, bytes, &v))
        return long_number(text, bytes, out);
    *out = (float)v;
    return true;
}

bool csv_number_wide(const char *text, size_t bytes, double *out)
{
    struct decimal d = {0};
    double v;
    if (short_number(text, bytes, out))
        return true;
    const char *p = read_text(&d, text, bytes);
    if (!p)
        return false;
    if (!nearest(&d, &v))
        v = strtod(p, NULL);
    if (!isfinite((float)v))
        return false;
    *out = v;
    return true;
}

bool csv_number_is_large(const char *text, size_t bytes)
{
    struct decimal d = {0};
    double wide;
    float v;
    return !(csv_number(text, bytes, &v) && csv_number_wide(text, bytes, &wide)) &&
           read_text(&d, text, bytes);
}
