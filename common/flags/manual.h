/* The manual pages: from the tables of flags and of the job file's keys. */
#ifndef GRADWIRE_COMMON_FLAGS_MANUAL_H
#define GRADWIRE_COMMON_FLAGS_MANUAL_H

#include <stdio.h>

/* Writes a page in mdoc(7): "gradwire", "gradwire-ps" or "gradwire-worker" of section 1, "gradwire-job" of section 5. */
void manual_write(FILE *out, const char *page);

#endif
