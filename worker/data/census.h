/* A census drawn by code, as text in the format of UCI's "Adult": people, and who of them earns more
 * than 50K. */
#ifndef GRADWIRE_WORKER_DATA_CENSUS_H
#define GRADWIRE_WORKER_DATA_CENSUS_H

#include <stddef.h>
#include <stdint.h>

struct census {
    int eval;           /* the part */
    uint64_t row, rows; /* the next; in all */
    char line[320];     /* the row before it */
    size_t line_bytes, at;
};

/* The next `bytes` bytes of the text; less only at its end. A row is a function of (eval, row). */
size_t census_read(struct census *c, char *out, size_t bytes);

#endif
