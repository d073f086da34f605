/* A connection under test: an owner that records all callbacks, and the bare socket at the
 * other end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/net/loop.h"

enum {
    PEER_FRAMES_MAX = 4096,
    PEER_DEADLINE_MS = 120000, /* far beyond what a loaded machine needs, under a sanitizer, too */
};

enum peer_callback {
    PEER_NONE,
    PEER_ON_HEAD,
    PEER_ON_SPACE,
    PEER_ON_PIECE,
    PEER_ON_FRAME,
    PEER_ON_OPEN,
    PEER_ON_DRAINED,
    PEER_ON_IDLE,
    PEER_ON_CLOSE,
};

struct peer_frame {
    struct frame frame;
    uint8_t *head, *body;
    bool over;
};

struct peer {
    struct loop *loop;
    struct conn *conn;         /* NULL once closed */
    size_t piece_bytes;        /* bodies are asked for in pieces of this size; 0: in one */
    enum peer_callback act_in; /* where `act` is called, once the n-th time (0 = the first) */
    int act_at;
    enum err (*act)(struct peer *p);

    struct peer_frame got[PEER_FRAMES_MAX];
    size_t n_got, n_over;                           /* heads, whole frames */
    int opened, closed, drained, idle, after_close; /* calls */
    uint64_t drained_at,
        most_drained; /* bytes read when last drained; the most between two times */
    enum err code;
    char why[256];
};

extern const struct conn_ops peer_ops;

/* A TCP connection over 127.0.0.1: a[0] and a[1] are its ends, both blocking. */
void peer_sockets(int a[2]);
/* Bound to a free port of 127.0.0.1: no other process gets the port, and connections are refused while it does not listen. */
int peer_bind(void);
/* A listening socket on a free port of 127.0.0.1. */
int peer_listen(void);

/* p gets a connection at one end; the other end is returned, blocking. */
int peer_init(struct peer *p, struct loop *loop);
/* Closes what is open and frees what was written down; ticks the loop to let the connection end. */
void peer_close(struct peer *p);

/* Tick until *what reaches `least`, within PEER_DEADLINE_MS, or fail. */
void peer_wait_int(struct loop *loop, const int *what, int least);
void peer_wait_size(struct loop *loop, const size_t *what, size_t least);
/* Waits until poll reports the socket, and fails after PEER_DEADLINE_MS: the other end sees an action soon, not
 * immediately. */
void peer_wait_fd(int fd, short events);
/* Serve what is there now, without waiting. */
void peer_poll(struct loop *loop);

/* A whole frame in memory (mem_free). */
uint8_t *peer_encode(enum frame_type type, const void *head, size_t head_bytes, const void *body,
                     size_t body_bytes, size_t *bytes);
/* All or fail; blocking. */
void peer_write(int fd, const void *p, size_t bytes);
void peer_read(int fd, void *p, size_t bytes);
/* The n-th byte of a stream that differs from its neighbours. */
uint8_t peer_byte(uint64_t n);
void peer_fill(uint8_t *p, size_t bytes, uint64_t from);
