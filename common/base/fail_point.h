/* Tests: one of a module's calls fails on purpose. Sweep: the n-th for n = 0, 1, 2, .. until none has. Thread: any. */
#ifndef GRADWIRE_COMMON_BASE_FAIL_POINT_H
#define GRADWIRE_COMMON_BASE_FAIL_POINT_H

#include <stdatomic.h>
#include <stdbool.h>

struct fail_point {
    atomic_long countdown; /* below 0: never */
    atomic_int error, fired;
};
#define FAIL_POINT_NEVER                                                                           \
    {                                                                                              \
        .countdown = -1                                                                            \
    }

/* The n-th call from now on fails with `error` (errno); -1: none does. */
void fail_point_set(struct fail_point *f, long n, int error);
/* Did it? */
int fail_point_fired(struct fail_point *f);
/* Is it this call's turn to fail? Sets errno. */
bool fail_point_hit(struct fail_point *f);

#endif
