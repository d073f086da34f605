/* When the runs of a job in DIR began that went on from the one before them (checkpoint.run): by the calendar and by the
 * table clock. A row that was not touched since has a stamp up to that clock. The first run is not listed: it began
 * without rows. Pure. */
#ifndef GRADWIRE_COMMON_CHECKPOINT_BEGINNINGS_H
#define GRADWIRE_COMMON_CHECKPOINT_BEGINNINGS_H

#include <stdint.h>

#include "common/base/err.h"

enum { BEGINNINGS_MAX = 4096 };

struct beginnings {
    uint32_t runs;
    /* (runs) seconds since 1970, by the clock of the chief's host, which may have been set back */
    uint64_t *date;
    uint64_t *clock; /* (runs) of the tables, ascending; several runs may have begun at one */
};

void beginnings_close(struct beginnings *b);
/* *to = a copy of `runs` of them. Errors: ERR_NOMEM, *to is unchanged. */
enum err beginnings_copy(struct beginnings *to, uint32_t runs, const uint64_t *date,
                         const uint64_t *clock) MUST_CHECK;
/* *to = those of `from`, and one more. Of a list that is full every second one is left out, so a row may stay for longer,
 * and none goes too early. Errors: as beginnings_copy. */
enum err beginnings_after(struct beginnings *to, const struct beginnings *from, uint64_t date,
                          uint64_t clock) MUST_CHECK;
/* The place of the newest one that is at least so many days old at `now` (seconds since 1970); b->runs: there is none. */
uint32_t beginnings_find(const struct beginnings *b, uint64_t now, uint32_t days);

#endif
