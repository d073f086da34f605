/* Synthetic text (data.synthetic: census, clicks) that is read like a csv file. */
#ifndef GRADWIRE_DATA_DRAWN_DRAWN_H
#define GRADWIRE_DATA_DRAWN_DRAWN_H

#include <stddef.h>
#include <stdint.h>

#include "job/job.h"
#include "data/drawn/census.h"
#include "data/drawn/clicks.h"

enum { DRAWN_LINE_BYTES = CLICKS_LINE_BYTES };
_Static_assert((int)DRAWN_LINE_BYTES >= (int)CENSUS_LINE_BYTES, "a line of the census has room");

struct drawn {
    int eval; /* the eval part, else the training part */
    enum synthetic_kind kind;
    struct clicks clicks;
    char delimiter;              /* for clicks; the census has a fixed one */
    uint64_t row, rows;          /* row: the next one; rows: in all */
    char line[DRAWN_LINE_BYTES]; /* the line that is being read, of the row before `row` */
    size_t line_bytes, at;
};

/* Begin with the part's first row. `delimiter`: the one that the csv reader expects. */
void drawn_init(struct drawn *d, const struct job *job, int eval, char delimiter);
/* Read the next `bytes` bytes of the text; returns less only at its end. */
size_t drawn_read(struct drawn *d, char *out, size_t bytes);

#endif
