/* Text that code draws (data.synthetic: census, clicks), read as a csv file is. */
#ifndef GRADWIRE_WORKER_DATA_DRAWN_DRAWN_H
#define GRADWIRE_WORKER_DATA_DRAWN_DRAWN_H

#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"
#include "worker/data/drawn/census.h"
#include "worker/data/drawn/clicks.h"

enum { DRAWN_LINE_BYTES = CLICKS_LINE_BYTES };
_Static_assert((int)DRAWN_LINE_BYTES >= (int)CENSUS_LINE_BYTES, "a line of the census has room");

struct drawn {
    int eval; /* the part */
    enum synthetic_kind kind;
    struct clicks clicks;
    char delimiter;              /* of clicks; the census has its own */
    uint64_t row, rows;          /* the next; in all */
    char line[DRAWN_LINE_BYTES]; /* the row before it */
    size_t line_bytes, at;
};

/* From the part's first row. `delimiter`: what the csv reader wants between fields. */
void drawn_init(struct drawn *d, const struct job *job, int eval, char delimiter);
/* The next `bytes` bytes of the text; less only at its end. */
size_t drawn_read(struct drawn *d, char *out, size_t bytes);

#endif
