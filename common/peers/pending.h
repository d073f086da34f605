/* Connections that have not proven to be of the job: those that said no hello yet, and those that are being refused.
 * Whoever reaches a port may open as many as he likes; so they are bounded in number (by the descriptors that this
 * process may have, most of which are the job's own) and in time, and the oldest goes first. A peer of ours is pending
 * for one round trip. One list for a listener; thread: its loop's. */
#ifndef GRADWIRE_COMMON_PEERS_PENDING_H
#define GRADWIRE_COMMON_PEERS_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/process/metrics.h"

enum {
    PENDING_SHARE = 4,     /* one of so many descriptors may be pending */
    PENDING_LEAST = 16,    /* at a time, */
    PENDING_MOST = 1024,   /* whatever the descriptors */
    PENDING_MS = 30000,    /* for a hello to come */
    PENDING_SAY_MS = 10000 /* between two log lines about them */
};

struct pending;

struct pending_conn {
    struct pending *of; /* NULL: it is none, or no more */
    struct pending_conn *older, *newer;
    struct conn *conn;
    int64_t since_ms;
};

struct pending {
    struct pending_conn *oldest, *newest;
    uint32_t open, open_max;
    uint64_t shed, untold; /* closed to make room: all, and since the log said so */
    int64_t said_ms;
};

/* How many at a time, of a process that may have so many descriptors. Pure. */
uint32_t pending_bound(uint64_t descriptors);
/* The bound is that of RLIMIT_NOFILE now. */
void pending_init(struct pending *s);
/* A connection was accepted; the oldest one is closed where there are too many now. */
void pending_add(struct pending *s, struct pending_conn *one, struct conn *c);
/* It is none any more: it is of the job, or closed. Again is nothing. */
void pending_conn_leave(struct pending_conn *one);
/* Close the oldest: its descriptor is free at once. False: there is none. */
bool pending_shed(struct pending *s);
/* Close those whose time is over. */
void pending_tick(struct pending *s, int64_t now_ms);
void pending_metrics(const struct pending *s, struct metrics *m);

#endif
