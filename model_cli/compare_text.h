/* The result of `gradwire compare` as a table for people. */
#ifndef GRADWIRE_MODEL_CLI_COMPARE_TEXT_H
#define GRADWIRE_MODEL_CLI_COMPARE_TEXT_H

#include <jansson.h>

enum { COMPARE_JOBS_MAX = 16 };

/* Print {"jobs": [..], "differ": [..]} (compare.c) on stdout, as wide as the terminal, or as 100 columns. If the jobs, at most
 * COMPARE_JOBS_MAX, do not fit side by side, they are printed a few at a time. */
void compare_text(const json_t *all);

#endif
