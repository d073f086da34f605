/* Decimal numbers: whole ones from text, with digits only, no sign and no blanks; the shortest text of a real one; and
 * lists. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses a number of at most 9 digits from `least` to `most`. Returns false, with *out unchanged, for any other
 * text. */
bool digits_read(const char *text, uint32_t least, uint32_t most, uint32_t *out);
/* Parses "LOW-HIGH", two ports with LOW <= HIGH. Returns false, with the outputs unchanged, for any other text. */
bool digits_ports(const char *text, uint16_t *low, uint16_t *high);

/* Writes the digits of an integer up to `end`: at most 20, and with a sign 20, too. Returns where they begin. */
enum { DIGITS_INTEGER_BYTES = 20 };
char *digits_unsigned(uint64_t x, char *end);
char *digits_signed(int64_t x, char *end);

/* x for printf: a NaN that a processor computes can have a sign, and would be printed as "-nan". */
double digits_printed(double x);

/* Writes a loss or a metric for people: with 4 decimals, or 3 digits if these would all be 0. Returns `out`. */
enum { DIGITS_SHOWN_BYTES = 320 };
const char *digits_shown(double x, char out[DIGITS_SHOWN_BYTES]);

/* Writes the shortest decimal number that reads back as the float nearest to x, or as the double x. Returns `out`. */
enum { DIGITS_REAL_BYTES = 32, DIGITS_FLOAT = 9 /* the most that a float needs */ };
const char *digits_float(double x, char out[DIGITS_REAL_BYTES]);
const char *digits_double(double x, char out[DIGITS_REAL_BYTES]);

/* Writes "28, 28, 1"; what does not fit is cut off. Returns `out`. */
const char *digits_list(char *out, size_t bytes, const uint32_t *number, uint32_t n);
