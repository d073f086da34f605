/* Fault injection for tests: one call of a module fails on purpose. A test repeats the same run with n = 0, 1, 2, ...,
 * where call n fails, until a run ends without a failed call. Thread: any. */
#ifndef GRADWIRE_COMMON_BASE_FAIL_POINT_H
#define GRADWIRE_COMMON_BASE_FAIL_POINT_H

#include <stdatomic.h>
#include <stdbool.h>

struct fail_point {
    atomic_long countdown; /* calls left before the failure; negative: never */
    atomic_int error, fired;
};
#define FAIL_POINT_NEVER                                                                           \
    {                                                                                              \
        .countdown = -1                                                                            \
    }

/* The n-th call from now (0 = the next) fails with `error` (an errno value). n = -1: no call fails. */
void fail_point_set(struct fail_point *f, long n, int error);
/* Nonzero if the call that fail_point_set chose has failed. */
int fail_point_fired(struct fail_point *f);
/* Counts a call. Returns true, with errno set, if this call must fail. */
bool fail_point_hit(struct fail_point *f);

#endif
