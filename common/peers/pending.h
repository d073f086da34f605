/* Connections that have not proven to belong to the job: without a hello yet, or being refused. Any process that
 * reaches a port can open as many as it likes. So their number and their time are limited, and the oldest is closed
 * first. The limit is a share of this process's descriptors, because most of them are for the job's own connections. A
 * process of the job is pending for one round trip. One list per listener. Thread: its loop's. */
#ifndef GRADWIRE_COMMON_PEERS_PENDING_H
#define GRADWIRE_COMMON_PEERS_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/process/metrics.h"

enum {
    PENDING_SHARE = 4,     /* one descriptor of this many can be pending */
    PENDING_LEAST = 16,    /* lower limit of the number */
    PENDING_MOST = 1024,   /* upper limit of the number */
    PENDING_MS = 30000,    /* time limit for the hello */
    PENDING_SAY_MS = 10000 /* between two log lines about them */
};

struct pending;

struct pending_conn {
    struct pending *of; /* NULL: not pending */
    struct pending_conn *older, *newer;
    struct conn *conn;
    int64_t since_ms;
};

struct pending {
    struct pending_conn *oldest, *newest;
    uint32_t open, open_max;
    uint64_t shed, untold; /* closed to make room: in total, and since the last log line */
    int64_t said_ms;
};

/* Returns the limit for a process with that many descriptors. Pure. */
uint32_t pending_bound(uint64_t descriptors);
/* Initializes the list; its limit follows from RLIMIT_NOFILE. */
void pending_init(struct pending *s);
/* Adds an accepted connection. If the limit is exceeded, the oldest is closed. *one must not move while it is
 * pending. */
void pending_add(struct pending *s, struct pending_conn *one, struct conn *c);
/* Removes a connection that has proven to belong to the job, or has closed. A second call does nothing. */
void pending_conn_leave(struct pending_conn *one);
/* Closes the oldest one; its descriptor is free immediately. Returns false if there is none. */
bool pending_shed(struct pending *s);
/* Closes those that exceeded PENDING_MS. */
void pending_tick(struct pending *s, int64_t now_ms);
void pending_metrics(const struct pending *s, struct metrics *m);

#endif
