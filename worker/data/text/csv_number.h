/* Decimal text to a float. */
#ifndef GRADWIRE_WORKER_DATA_TEXT_CSV_NUMBER_H
#define GRADWIRE_WORKER_DATA_TEXT_CSV_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* [+-] digits [. digits] [e [+-] digits] with blanks around it, so neither hexadecimal, nan nor inf:
 * the float nearest to it, as strtof has it. False: it is no number, or too large for a float.
 * text[bytes] is readable and goes on no number. Thread: any; the C locale. */
bool csv_number(const char *text, size_t bytes, float *out);

#endif
