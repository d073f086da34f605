#include "common/strangers.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"

uint32_t strangers_bound(uint64_t descriptors)
{
    uint64_t share = descriptors / STRANGERS_SHARE;
    return share < STRANGERS_LEAST  ? STRANGERS_LEAST
           : share > STRANGERS_MOST ? STRANGERS_MOST
                                    : (uint32_t)share;
}

void strangers_init(struct strangers *s)
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *s = (struct strangers){.open_max = strangers_bound(limit.rlim_cur),
                            .said_ms = clock_now_ms() - STRANGERS_SAY_MS};
}

void strangers_add(struct strangers *s, struct stranger *one, struct conn *c)
{
    *one = (struct stranger){.of = s, .older = s->newest, .conn = c, .since_ms = clock_now_ms()};
    if (s->newest)
        s->newest->newer = one;
    else
        s->oldest = one;
    s->newest = one;
    if (++s->open > s->open_max)
        (void)strangers_shed(s);
}

void stranger_leave(struct stranger *one)
{
    struct strangers *s = one->of;
    if (!s)
        return;
    *(one->older ? &one->older->newer : &s->oldest) = one->newer;
    *(one->newer ? &one->newer->older : &s->newest) = one->older;
    one->of = NULL;
    s->open--;
}

/* They may come as often as they like; the log hears of them now and then. */
static void say_shed(struct strangers *s)
{
    int64_t now_ms = clock_now_ms();
    s->shed++;
    s->untold++;
    if (now_ms - s->said_ms < STRANGERS_SAY_MS)
        return;
    log_warn("many connections that do not say who they are: the oldest are closed (%" PRIu64
             " since last told; %u may be open)",
             s->untold, s->open_max);
    s->said_ms = now_ms;
    s->untold = 0;
}

bool strangers_shed(struct strangers *s)
{
    struct stranger *one = s->oldest;
    if (!one)
        return false;
    stranger_leave(one);
    conn_close(one->conn, ERR_CLOSED, "too many connections without a hello");
    say_shed(s);
    return true;
}

void strangers_tick(struct strangers *s, int64_t now_ms)
{
    while (s->oldest && now_ms - s->oldest->since_ms > STRANGERS_MS) {
        struct stranger *one = s->oldest;
        stranger_leave(one);
        conn_close(one->conn, ERR_TIMEOUT, "no hello");
    }
}

void strangers_metrics(const struct strangers *s, struct metrics *m)
{
    metrics_gauge(m, "gradwire_unproven_connections",
                  "Connections that have not proven yet to be of the job.", s->open);
    metrics_counter(m, "gradwire_shed_connections_total",
                    "Such connections, closed because there were too many.", s->shed);
}
