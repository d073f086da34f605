/* Several names in one text. Ranges: "C{1..26}" means C1, C2, ... C26, and "C\{1..26}" is the name C{1..26}. Names of a
 * class of a label are separated by '|', and "\|" is a '|' within a name. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { JOB_RANGE_MAX = 99999 };

/* Borrows the text. A name without a range is a range of one name. */
struct job_range {
    const char *text, *tail;
    size_t head_bytes;
    uint32_t first, last; /* first <= last */
    bool many;            /* the text contains a range */
    bool has_braces;      /* it could be taken for one: "\{" is a '{' */
};

/* Finds the range in a name. Errors: ERR_INPUT if the text contains '{' and, after it, "..", but no valid range:
 * ascending numbers without leading zeros, up to JOB_RANGE_MAX, and one range per name. */
enum err job_range_parse(struct job_range *r, const char *text) MUST_CHECK;
static inline uint32_t job_range_count(const struct job_range *r)
{
    return r->last - r->first + 1;
}
/* Writes the name with `number`, r->first to r->last; without a range, the name. Errors: ERR_TOOBIG it does not fit. */
enum err job_range_name(const struct job_range *r, uint32_t number, char *out,
                        size_t bytes) MUST_CHECK;

/* Write a name so that it is read as one name: a '\' before each '{' of a name that could be taken for a range. `out` has
 * room for twice the name and a NUL. */
void job_range_write(char *out, const char *name);

/* The bytes of the first name of a text of `bytes` bytes, as written: up to the '|' that ends it, or to the end. */
size_t job_class_name_bytes(const char *text, size_t bytes);

/* Copy a name of `bytes` bytes without the '\' before each '|'; `out` has room for `bytes`. Returns the bytes of the copy. */
size_t job_class_name_plain(char *out, const char *name, size_t bytes);
