/* The result of the programs: the digest of a job that one worker trains. */
#pragma once

#include <stddef.h>

enum { LEARNED_DIGEST_BYTES = 65 };

/* file: the job; sets: n "key=value". Exits are asserted; the processes' own words are shown only when they fail. */
void learned_by_processes(const char *file, const char *const *sets, size_t n,
                          char digest[LEARNED_DIGEST_BYTES]);
