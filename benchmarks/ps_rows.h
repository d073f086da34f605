/* Counts of the rows that the ps of one_ps.h has read and updated, from its /metrics. */
#pragma once

#include "benchmarks/one_ps.h"

struct ps_rows {
    uint64_t asked, read, read_bytes, touched, touched_bytes;
};

/* The counts when `asked` rows were asked for and `touched` touched: all is answered. The ps's page is up to a second old,
 * so this blocks until it has them; exit 1 after 10 s. */
struct ps_rows ps_rows_of(const struct one_ps *ps, uint64_t asked, uint64_t touched);
/* Of each of n steps in between. */
struct ps_rows ps_rows_a_step(const struct ps_rows *now, const struct ps_rows *was, uint64_t n);
