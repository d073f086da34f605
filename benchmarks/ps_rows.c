#include "benchmarks/ps_rows.h"

#include <unistd.h>

#include "benchmarks/bench.h"

enum { LOOKS = 200, BETWEEN_US = 50000 };

#define SERIES(ps, family, what) one_ps_metric(ps, family "{shard=\"0\"" what "} ")
#define READ ",what=\"read\""
#define TOUCHED ",what=\"touched\""

struct ps_rows ps_rows_of(const struct one_ps *ps, uint64_t asked, uint64_t touched)
{
    uint64_t now_asked = 0, now_touched = 0;
    for (uint32_t i = 0; i < LOOKS && (now_asked != asked || now_touched != touched); i++) {
        if (i > 0)
            usleep(BETWEEN_US);
        now_asked = SERIES(ps, "gradwire_shard_rows_asked_total", "");
        now_touched = SERIES(ps, "gradwire_shard_rows_total", TOUCHED);
    }
    if (now_asked != asked || now_touched != touched)
        bench_die("the ps counts %lu rows asked for and %lu touched: they were %lu and %lu",
                  (unsigned long)now_asked, (unsigned long)now_touched, (unsigned long)asked,
                  (unsigned long)touched);
    return (struct ps_rows){.asked = asked,
                            .read = SERIES(ps, "gradwire_shard_rows_total", READ),
                            .read_bytes = SERIES(ps, "gradwire_shard_rows_bytes_total", READ),
                            .touched = touched,
                            .touched_bytes =
                                SERIES(ps, "gradwire_shard_rows_bytes_total", TOUCHED)};
}

struct ps_rows ps_rows_a_step(const struct ps_rows *now, const struct ps_rows *was, uint64_t n)
{
    return (struct ps_rows){.asked = (now->asked - was->asked) / n,
                            .read = (now->read - was->read) / n,
                            .read_bytes = (now->read_bytes - was->read_bytes) / n,
                            .touched = (now->touched - was->touched) / n,
                            .touched_bytes = (now->touched_bytes - was->touched_bytes) / n};
}
