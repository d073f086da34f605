/* Parsers for whole numbers: decimal digits only, no sign and no blanks. */
#ifndef GRADWIRE_COMMON_BASE_DIGITS_H
#define GRADWIRE_COMMON_BASE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

/* Parses a number of at most 9 digits from `least` to `most`. Returns false, with *out unchanged, for any other
 * text. */
bool digits_read(const char *text, uint32_t least, uint32_t most, uint32_t *out);
/* Parses "LOW-HIGH", two ports with LOW <= HIGH. Returns false, with the outputs unchanged, for any other text. */
bool digits_ports(const char *text, uint16_t *low, uint16_t *high);

#endif
