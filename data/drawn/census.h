/* A synthetic census, as text in the format of UCI's "Adult": people, and whether each earns more than 50K. */
#ifndef GRADWIRE_DATA_DRAWN_CENSUS_H
#define GRADWIRE_DATA_DRAWN_CENSUS_H

#include <stddef.h>
#include <stdint.h>

enum { CENSUS_LINE_BYTES = 320 };

/* Write the line of a row, with its newline and a NUL; returns its bytes, without the NUL. It is a function of
 * (eval, row). out: (room), at least CENSUS_LINE_BYTES. */
size_t census_write(char *out, size_t room, int eval, uint64_t row);

#endif
