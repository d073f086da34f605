/* Files of rows and of labels that are in pairs by their order: do their names agree? Pure. */
#ifndef GRADWIRE_DATA_PAIR_NAMES_H
#define GRADWIRE_DATA_PAIR_NAMES_H

#include <stddef.h>

/* The part of a name between the beginning and the end that all names of its list have: a view. */
struct pair_name {
    const char *text;
    size_t bytes;
};

/* The first pair whose names have different numbers or words between what is common to their lists, as x_10 and y_02; n: none.
 * Numbers are compared by value, and words without case. Names that have nothing in common say nothing: then it is n, too. The
 * pair's are in *row and *label. */
size_t pair_names_differ(const char *const *rows, const char *const *labels, size_t n,
                         struct pair_name *row, struct pair_name *label);

#endif
