#include "common/base/digits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool digits_read(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    size_t n = strlen(text);
    if (n == 0 || n > 9 || strspn(text, "0123456789") != n)
        return false;
    uint32_t value = (uint32_t)strtoul(text, NULL, 10);
    if (value < least || value > most)
        return false;
    *out = value;
    return true;
}

bool digits_ports(const char *text, uint16_t *low, uint16_t *high)
{
    char first[10] = "";
    uint32_t from, to;
    size_t n = strcspn(text, "-");
    if (n >= sizeof first || !text[n])
        return false;
    memcpy(first, text, n);
    if (!digits_read(first, 1, 65535, &from) || !digits_read(text + n + 1, from, 65535, &to))
        return false;
    *low = (uint16_t)from;
    *high = (uint16_t)to;
    return true;
}

/* Two digits, or eight, at a time: a division takes as long as many digits. */
char *digits_unsigned(uint64_t x, char *end)
{
    static const char pair[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    enum { EIGHT_DIGITS = 100000000 };
    for (; x >= EIGHT_DIGITS; x /= EIGHT_DIGITS) {
        uint32_t low = (uint32_t)(x % EIGHT_DIGITS);
        for (int i = 0; i < 4; i++, low /= 100)
            memcpy(end -= 2, pair + (size_t)2 * (low % 100), 2);
    }
    uint32_t rest = (uint32_t)x;
    for (; rest >= 100; rest /= 100)
        memcpy(end -= 2, pair + (size_t)2 * (rest % 100), 2);
    if (rest < 10)
        *--end = (char)('0' + rest);
    else
        memcpy(end -= 2, pair + (size_t)2 * rest, 2);
    return end;
}

char *digits_signed(int64_t x, char *end)
{
    char *at = digits_unsigned(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, end);
    if (x < 0)
        *--at = '-';
    return at;
}

double digits_printed(double x)
{
    return isnan(x) ? (double)NAN : x;
}

const char *digits_shown(double x, char out[DIGITS_SHOWN_BYTES])
{
    const bool small = x != 0 && fabs(x) < 0.5e-4;
    (void)snprintf(out, DIGITS_SHOWN_BYTES, small ? "%.3g" : "%.4f", digits_printed(x));
    return out;
}

const char *digits_float(double x, char out[DIGITS_REAL_BYTES])
{
    for (int n = 1; n <= DIGITS_FLOAT; n++) {
        (void)snprintf(out, DIGITS_REAL_BYTES, "%.*g", n, digits_printed(x));
        if (strtof(out, NULL) == (float)x)
            break;
    }
    return out;
}

const char *digits_double(double x, char out[DIGITS_REAL_BYTES])
{
    enum { DIGITS_DOUBLE = 17 };
    for (int n = 1; n <= DIGITS_DOUBLE; n++) {
        (void)snprintf(out, DIGITS_REAL_BYTES, "%.*g", n, digits_printed(x));
        if (strtod(out, NULL) == x)
            break;
    }
    return out;
}

const char *digits_list(char *out, size_t bytes, const uint32_t *number, uint32_t n)
{
    size_t at = 0;
    *out = '\0';
    for (uint32_t i = 0; i < n && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%" PRIu32, i ? ", " : "", number[i]);
    return out;
}
