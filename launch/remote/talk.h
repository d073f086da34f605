/* The messages between the launcher and a runner on another host, over standard input and output of a remote shell.
 *
 * The runner begins with the line TALK_HELLO; earlier output (a shell's greeting) is skipped. Then both send messages: a
 * header of 12 bytes (little-endian: payload bytes u32, type u32, process u32), and the payload: a JSON object, or raw bytes
 * for OUT, PROGRESS and WEB_DATA. Each side sends at least one message every TALK_PING_MS, so a connection that was silent
 * for TALK_SILENCE_MS is lost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>
#include <jansson.h>

#include "common/base/err.h"

#define TALK_HELLO "gradwire-runner 1"
enum {
    TALK_HEADER_WORDS = 3,
    TALK_PAYLOAD_MAX = 4 << 20,
    TALK_GREETINGS_MAX = 64 << 10,
    TALK_GREETING_BYTES = 256,
    TALK_PING_MS = 2000,
    TALK_SILENCE_MS = 10000
};

enum talk_type {
    /* launcher to runner */
    TALK_ASK,    /* {"what": "clock|check|bind|reach|shared", ..}: answered by one ANSWER */
    TALK_START,  /* {"argv": [..], "token": "..", "progress": bool, "grace_ms": n}, process */
    TALK_SIGNAL, /* {"signal": n}, process */
    TALK_PING,   /* answered by PONG */
    /* runner to launcher */
    TALK_READY,   /* {"version": "..", "host": "..", "cores": n, "memory_bytes": n} */
    TALK_ANSWER,  /* {"problems": [..], ..} */
    TALK_STARTED, /* {"pid": n}, process */
    TALK_FAILED,  /* {"why": ".."}, process: the process could not be started */
    TALK_ENDED,   /* {"status": wait status, "rss": bytes}, process; sent after all of its output */
    TALK_OUT,     /* raw: the process's output to stdout and stderr */
    TALK_PROGRESS, /* raw: the chief's output to its progress pipe */
    TALK_PONG,
    /* both ways: a browser's connection to the chief's page; `process` is the connection's number */
    TALK_WEB_OPEN, /* launcher to runner */
    TALK_WEB_DATA, /* raw */
    TALK_WEB_CLOSE,
    TALK_TYPES
};

struct talk;
struct talk_ops {
    /* A message has arrived; `data` is valid during the call and followed by a NUL. False: the message is invalid, and the
     * talk ends. The callback can call talk_close. */
    bool (*on_message)(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes);
    /* The other side has disconnected, or has violated the protocol; called once. The callback must call talk_close. */
    void (*on_end)(void *arg, const char *why);
};

struct bufferevent;
struct talk {
    struct bufferevent *in, *out;
    int in_fd, out_fd;
    size_t greetings;                   /* bytes received before the hello */
    char greeting[TALK_GREETING_BYTES]; /* their last line, which can be incomplete; printable */
    bool greeted;                       /* the other side's hello was seen, or is not expected */
    int64_t heard_ms; /* clock_now_ms when bytes last arrived; the owner checks the silence */
    const struct talk_ops *ops;
    void *arg;
    bool *gone; /* set by talk_close during a callback */
};

/* Takes both descriptors, also on error. wait_hello true: the other side is a runner. False: this side is one, and sends the
 * hello. Errors: ERR_NOMEM. */
enum err talk_init(struct talk *t, struct event_base *base, int take_in, int take_out,
                   bool wait_hello, const struct talk_ops *ops, void *arg) MUST_CHECK;
/* Close, and drop queued messages. Can be called again, and in the callbacks. */
void talk_close(struct talk *t);

/* Queue a message; takes `take_object`. Does nothing if the talk is closed. Without memory heard_ms is set so low that
 * the owner's timer treats the connection as lost. */
void talk_send(struct talk *t, enum talk_type type, uint32_t process, json_t *take_object);
void talk_send_raw(struct talk *t, enum talk_type type, uint32_t process, const void *data,
                   size_t bytes);
/* The number of queued bytes. */
size_t talk_queued(const struct talk *t);

/* The job's page through the connection to another host: browsers connect to a port of the launcher's host, and reach the
 * HTTP server of the chief on the other host.
 *
 * Happy path: a browser connects here -> WEB_OPEN -> the runner connects to the chief -> both pass on received bytes as
 * WEB_DATA -> the side whose connection closes first sends WEB_CLOSE.
 * Failure modes:
 * - WEB_MAX connections are open: another one is closed immediately.
 * - The chief does not accept the connection: closed.
 * - The connection between the hosts is full, or a reader does not read: closed when more than WEB_QUEUE_BYTES wait, or
 *   WEB_FINISH_MS after the other side has closed. The page requests the data again.
 * - The connection between the hosts is lost: all are closed.
 * No process of the job waits for a browser when it writes. */
enum { WEB_MAX = 32, WEB_QUEUE_BYTES = 1 << 20, WEB_FINISH_MS = 3000 };

struct bufferevent;
struct web;
struct web_conn {
    struct web *web;
    uint32_t number;         /* identifies the connection in messages; unique */
    struct bufferevent *bev; /* NULL: free */
    struct event *late;      /* the deadline after the other side has closed; NULL: it has not */
};

/* All zero: no connections, nothing to close. */
struct web {
    struct event_base *base;
    struct talk *talk; /* NULL: the host is not connected */
    uint32_t last;     /* the last number given to a connection */
    struct web_conn conn[WEB_MAX];
};

void web_init(struct web *w, struct event_base *base);
/* Close all connections. `talk` carries the next ones; NULL: none can be accepted. */
void web_talk(struct web *w, struct talk *talk);

/* Take a browser's connection, take_fd, and send WEB_OPEN. If WEB_MAX connections are open or no host is connected, the
 * browser's connection is closed. */
void web_accept(struct web *w, int take_fd);
/* Handle a message of the other side. WEB_OPEN connects to 127.0.0.1:port; port 0: refuse it. */
void web_on_message(struct web *w, enum talk_type type, uint32_t number, const char *data,
                    size_t bytes, uint16_t port);

/* The launcher's connection to one host: a remote shell that executes a runner there (runner.c), messages (talk.h), and a
 * heartbeat.
 *
 * Happy path: link_open -> the runner sends READY -> messages -> link_free.
 * Failure modes: the shell cannot be started, ends, does not print a runner's hello, sends no READY within LINK_READY_MS, or
 * is silent for TALK_SILENCE_MS while it is not busy. Then the link is down: its shell is killed, and the owner gets the
 * reason, with the shell's last output. The owner decides if it opens the link again. */
/* A runner waits up to DIRLOCK_WAIT_S for the end of an earlier one. */
enum { LINK_READY_MS = 30000, LINK_CLOSE_MS = 7000, LINK_WORDS_BYTES = 256 };

#define LINK_RSH_DEFAULT                                                                           \
    "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 "                       \
    "-o ServerAliveCountMax=2 -o ControlMaster=no -o ControlPath=none"

struct link_ops {
    /* READY has arrived; `about` is its object, valid during the call. */
    void (*ready)(void *arg, const json_t *about);
    /* False: the message is invalid; the link goes down. */
    bool (*message)(void *arg, enum talk_type type, uint32_t process, const char *data,
                    size_t bytes);
    /* The link has gone down; the callback can open it again. `why` is valid during the call. */
    void (*down)(void *arg, const char *why);
};

enum link_state { LINK_DOWN, LINK_OPENING, LINK_READY };

struct link {
    struct event_base *base;
    const struct link_ops *ops;
    void *arg;
    enum link_state state;
    pid_t pid; /* the remote shell; 0: none */
    struct talk talk;
    int errors_fd;
    struct event *errors, *tick;
    int64_t opened_ms, pinged_ms, ticked_ms; /* clock_now_ms */
    bool busy; /* a request takes the runner long; the owner has its own deadline */
    char words[LINK_WORDS_BYTES]; /* the last line of the shell's stderr, which can be incomplete */
    size_t line_n;                /* bytes of that line; 0: the next byte begins another */
};

/* Initialize; the link is down. Errors: ERR_NOMEM. */
enum err link_init(struct link *l, struct event_base *base, const struct link_ops *ops,
                   void *arg) MUST_CHECK;
/* Start `rsh name command`; rsh is split at blanks. Errors: ERR_IO, ERR_NOMEM: the link is down. */
enum err link_open(struct link *l, const char *rsh, const char *name, const char *command,
                   struct errmsg *e) MUST_CHECK;
/* Take the link down immediately, without a callback; the shell is killed. */
void link_drop(struct link *l);
/* The caller has reaped this pid. True: it was this link's shell; the link goes down when the shell's pipes are closed. */
bool link_reaped(struct link *l, pid_t pid);
/* Close the runner's input, so that it ends its processes. No callback follows. Next call link_wait, which blocks until
 * the shell has ended, and kills it LINK_CLOSE_MS after `began_ms`; then link_free. */
void link_hang_up(struct link *l);
void link_wait(struct link *l, int64_t began_ms);
void link_free(struct link *l);
