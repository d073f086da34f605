#include "common/base/fail_point.h"

#include <errno.h>

void fail_point_set(struct fail_point *f, long n, int error)
{
    atomic_store(&f->fired, 0);
    atomic_store(&f->error, error);
    atomic_store(&f->countdown, n);
}

int fail_point_fired(struct fail_point *f)
{
    return atomic_load(&f->fired);
}

bool fail_point_hit(struct fail_point *f)
{
    if (atomic_load_explicit(&f->countdown, memory_order_relaxed) < 0)
        return false;
    if (atomic_fetch_sub(&f->countdown, 1) != 0)
        return false;
    atomic_store(&f->fired, 1);
    errno = atomic_load(&f->error);
    return true;
}
