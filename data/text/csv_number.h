/* Converts decimal text to a float or a double. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* [+-] digits [. digits] [e [+-] digits] with blanks around it; hexadecimal, nan and inf are not accepted. The
 * result is the nearest float, as strtof gives it. False: not a number, or too large for a float. text[bytes] must
 * be readable, and must not continue a number. Thread: any; the C locale. */
bool csv_number(const char *text, size_t bytes, float *out);
/* The nearest double, as strtod gives it, of the same texts: also false for a number that is too large for a float. */
bool csv_number_wide(const char *text, size_t bytes, double *out);

/* The same of at most CSV_DIGITS_MAX digits and nothing else, without a loop; of none it is 0. False: another text. CSV_DIGITS_MAX
 * bytes must be readable from the text's beginning. The first digit is the lowest byte; each step joins neighbours. */
enum { CSV_DIGITS_MAX = 8 };
static inline bool csv_number_digits(const char *text, size_t bytes, double *out)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), pairs = UINT64_C(0x00FF00FF00FF00FF),
                   fours = UINT64_C(0x0000FFFF0000FFFF);
    uint64_t v;
    if (bytes > CSV_DIGITS_MAX)
        return false;
    memcpy(&v, text, sizeof v);
    v = (v ^ ones * '0') << (32 - 4 * bytes) << (32 - 4 * bytes); /* zeros come first */
    if (((v + ones * (0x80 - 10)) | v) & ones * 0x80)
        return false;
    v = (v * 10 + (v >> 8)) & pairs;
    v = (v * 100 + (v >> 16)) & fours;
    *out = (double)(uint32_t)(v * 10000 + (v >> 32));
    return true;
}

/* Returns whether csv_number, or csv_number_wide, has refused a number because it is too large for a float. */
bool csv_number_is_large(const char *text, size_t bytes);
#define CSV_NUMBER_LARGE "is too large for float32, which ends at 3.4e38"
