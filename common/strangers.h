/* Connections that have not proven to be of the job: those that said no hello yet, and those that are being refused.
 * Whoever reaches a port may open as many as he likes; so they are bounded in number (by the descriptors that this
 * process may have, most of which are the job's own) and in time, and the oldest goes first. A peer of ours is a stranger
 * for one round trip. One list for a listener; thread: its loop's. */
#ifndef GRADWIRE_COMMON_STRANGERS_H
#define GRADWIRE_COMMON_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conn.h"
#include "common/metrics.h"

enum {
    STRANGERS_SHARE = 4,     /* one of so many descriptors may be a stranger's */
    STRANGERS_LEAST = 16,    /* at a time, */
    STRANGERS_MOST = 1024,   /* whatever the descriptors */
    STRANGERS_MS = 30000,    /* for a hello to come */
    STRANGERS_SAY_MS = 10000 /* between two log lines about them */
};

struct strangers;

struct stranger {
    struct strangers *of; /* NULL: it is none, or no more */
    struct stranger *older, *newer;
    struct conn *conn;
    int64_t since_ms;
};

struct strangers {
    struct stranger *oldest, *newest;
    uint32_t open, open_max;
    uint64_t shed, untold; /* closed to make room: all, and since the log said so */
    int64_t said_ms;
};

/* How many at a time, of a process that may have so many descriptors. Pure. */
uint32_t strangers_bound(uint64_t descriptors);
/* The bound is that of RLIMIT_NOFILE now. */
void strangers_init(struct strangers *s);
/* A connection was accepted; the oldest one is closed where there are too many now. */
void strangers_add(struct strangers *s, struct stranger *one, struct conn *c);
/* It is none any more: it is of the job, or closed. Again is nothing. */
void stranger_leave(struct stranger *one);
/* Close the oldest: its descriptor is free at once. False: there is none. */
bool strangers_shed(struct strangers *s);
/* Close those whose time is over. */
void strangers_tick(struct strangers *s, int64_t now_ms);
void strangers_metrics(const struct strangers *s, struct metrics *m);

#endif
