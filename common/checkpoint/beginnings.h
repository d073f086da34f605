/* The start of each run of a job (checkpoint.run) that continued from an earlier run: the date and the table
 * clock. A row that was not touched since then has a stamp of at most that clock. The first run is not listed: it
 * began without rows. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_BEGINNINGS_H
#define GRADWIRE_COMMON_CHECKPOINT_BEGINNINGS_H

#include <stdint.h>

#include "common/base/err.h"

enum { BEGINNINGS_MAX = 4096 };

struct beginnings {
    uint32_t runs;
    /* (runs) seconds since 1970; not always ascending, because the clock of the chief's host can be set back */
    uint64_t *date;
    uint64_t *clock; /* (runs) table clock, ascending; several runs can begin at the same clock */
};

void beginnings_close(struct beginnings *b);
/* Makes *to a copy of `runs` entries. The caller owns *to: beginnings_close. *to is unchanged on error. Errors:
 * ERR_NOMEM. */
enum err beginnings_copy(struct beginnings *to, uint32_t runs, const uint64_t *date,
                         const uint64_t *clock) MUST_CHECK;
/* Makes *to the entries of `from` and one more. If `from` has BEGINNINGS_MAX entries, every second one is dropped: a
 * row can then stay longer, but is never evicted too early. Ownership and errors as beginnings_copy. */
enum err beginnings_after(struct beginnings *to, const struct beginnings *from, uint64_t date,
                          uint64_t clock) MUST_CHECK;
/* Returns the index of the newest run that began at least `days` days before `now` (seconds since 1970); b->runs
 * if there is none. */
uint32_t beginnings_find(const struct beginnings *b, uint64_t now, uint32_t days);

#endif
