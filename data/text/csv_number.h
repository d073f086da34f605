/* Converts decimal text to a float or a double. */
#ifndef GRADWIRE_DATA_TEXT_CSV_NUMBER_H
#define GRADWIRE_DATA_TEXT_CSV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* [+-] digits [. digits] [e [+-] digits] with blanks around it; hexadecimal, nan and inf are not accepted. The
 * result is the nearest float, as strtof gives it. False: not a number, or too large for a float. text[bytes] must
 * be readable, and must not continue a number. Thread: any; the C locale. */
bool csv_number(const char *text, size_t bytes, float *out);
/* The nearest double, as strtod gives it, of the same texts: also false for a number that is too large for a float. */
bool csv_number_wide(const char *text, size_t bytes, double *out);

/* Returns whether csv_number, or csv_number_wide, has refused a number because it is too large for a float. */
bool csv_number_is_large(const char *text, size_t bytes);
#define CSV_NUMBER_LARGE "is too large for float32, which ends at 3.4e38"

#endif
