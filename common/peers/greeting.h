/* The start of a connection on the accepting side: we send CHALLENGE, and HELLO comes back with its proof
 * (hello.h). Without a token the hello has no proof, and no CHALLENGE is sent, except under TLS: there it shows
 * the peer that the handshake is complete on this side, too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"
#include "common/process/metrics.h"

/* Connections that have not proven to belong to the job: without a hello yet, or being refused. Any process that
 * reaches a port can open as many as it likes. So their number and their time are limited, and the oldest is closed
 * first. The limit is a share of this process's descriptors, because most of them are for the job's own connections. A
 * process of the job is pending for one round trip. One list per listener. Thread: its loop's. */
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

enum {
    GREETING_HEAD_MAX = 64 << 10, /* largest head of a hello */
    GREETING_SAY_MS = 10000       /* between two log lines about pending connections */
};

struct greeting {
    bool asked;  /* this process has a token and has sent the nonce */
    bool proves; /* the hello has a proof, right or wrong */
    bool offers; /* the hello offers checksums */
    uint8_t nonce[TOKEN_NONCE_BYTES], expected[TOKEN_PROOF_BYTES], got[TOKEN_PROOF_BYTES];
};

/* Prepares a new connection: sets the limits that hold until the hello, TLS if this process uses it, and sends the
 * challenge. If memory or random bytes run out, it closes the connection. */
void greeting_begin(struct greeting *g, struct conn *c);
/* Call with the head of the hello: checks its checksum, and computes the proof that it must have. Errors: ERR_PROTO not a
 * hello, a wrong checksum (the connection is then closed), or a body that is no proof; ERR_NOMEM. */
enum err greeting_on_head(struct greeting *g, struct conn *c, const struct frame *f,
                          const uint8_t *head) MUST_CHECK;
/* conn_ops.on_space for the hello. Errors: ERR_PROTO. */
enum err greeting_on_space(struct greeting *g, uint64_t at, uint64_t left, void **p,
                           size_t *bytes) MUST_CHECK;
/* Call when the hello is complete. If it offers checksums, all later frames have them, its answer first. Returns whether it
 * is accepted: its sender has our token, its certificate contains a name for the claimed role, and hello_judge accepts its
 * contents. If not, sends a refusal and finishes
 * the connection. To a sender without the token, the refusal reveals nothing about the job. */
bool greeting_taken(const struct greeting *g, struct conn *c, const struct hello_host *host,
                    const Gradwire__Hello *m);
/* Sends REFUSE and finishes the connection. */
void greeting_refuse(struct conn *c, const Gradwire__Refuse *m);
/* Same for a hello that was accepted at first; logged within a limit. Thread: the accepting one. */
void greeting_turn_away(struct conn *c, const struct hello_host *host, Gradwire__Reason reason,
                        const char *text);
