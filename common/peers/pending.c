#include "common/peers/pending.h"

#include <assert.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "common/base/log.h"

uint32_t pending_bound(uint64_t descriptors)
{
    uint64_t share = descriptors / PENDING_SHARE;
    return share < PENDING_LEAST  ? PENDING_LEAST
           : share > PENDING_MOST ? PENDING_MOST
                                  : (uint32_t)share;
}

void pending_init(struct pending *s)
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *s = (struct pending){.open_max = pending_bound(limit.rlim_cur),
                          .said_ms = clock_now_ms() - PENDING_SAY_MS};
}

/* Checks the list's ends against the counters. */
static void check(const struct pending *s)
{
    assert((s->oldest == NULL) == (s->open == 0) && (s->newest == NULL) == (s->open == 0));
    assert((s->oldest == s->newest) == (s->open <= 1));
    assert(!s->oldest || (!s->oldest->older && !s->newest->newer));
    assert(s->open <= s->open_max && s->untold <= s->shed);
    (void)s;
}

void pending_add(struct pending *s, struct pending_conn *one, struct conn *c)
{
    *one =
        (struct pending_conn){.of = s, .older = s->newest, .conn = c, .since_ms = clock_now_ms()};
    if (s->newest)
        s->newest->newer = one;
    else
        s->oldest = one;
    s->newest = one;
    if (++s->open > s->open_max)
        (void)pending_shed(s);
    check(s);
}

void pending_conn_leave(struct pending_conn *one)
{
    struct pending *s = one->of;
    if (!s)
        return;
    *(one->older ? &one->older->newer : &s->oldest) = one->newer;
    *(one->newer ? &one->newer->older : &s->newest) = one->older;
    one->of = NULL;
    s->open--;
    check(s);
}

/* Limited, because unauthenticated peers can connect without end. */
static void say_shed(struct pending *s)
{
    int64_t now_ms = clock_now_ms();
    s->shed++;
    s->untold++;
    if (now_ms - s->said_ms < PENDING_SAY_MS)
        return;
    log_warn("too many connections without a hello: the oldest are closed (%" PRIu64
             " since the last such line; up to %u can be open)",
             s->untold, s->open_max);
    s->said_ms = now_ms;
    s->untold = 0;
}

bool pending_shed(struct pending *s)
{
    struct pending_conn *one = s->oldest;
    if (!one)
        return false;
    pending_conn_leave(one);
    conn_close(one->conn, ERR_CLOSED, "too many connections without a hello");
    say_shed(s);
    return true;
}

void pending_tick(struct pending *s, int64_t now_ms)
{
    while (s->oldest && now_ms - s->oldest->since_ms > PENDING_MS) {
        struct pending_conn *one = s->oldest;
        pending_conn_leave(one);
        conn_close(one->conn, ERR_TIMEOUT, "no hello");
    }
}

void pending_metrics(const struct pending *s, struct metrics *m)
{
    metrics_gauge(m, "gradwire_unproven_connections",
                  "Connections that have not yet proven to belong to the job.", s->open);
    metrics_counter(m, "gradwire_shed_connections_total",
                    "Such connections, closed because there were too many.", s->shed);
}
