/* Whole numbers as people write them: digits alone. */
#ifndef GRADWIRE_COMMON_BASE_DIGITS_H
#define GRADWIRE_COMMON_BASE_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

/* A number within least .. most, of 9 digits at most. False: it is none; *out is unchanged. */
bool digits_read(const char *text, uint32_t least, uint32_t most, uint32_t *out);
/* "LOW-HIGH", two ports of which the first is not above the second. False as above. */
bool digits_ports(const char *text, uint16_t *low, uint16_t *high);

#endif
