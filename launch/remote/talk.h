/* The messages between the launcher and a runner on another host, over standard input and output of a remote shell.
 *
 * The runner begins with the line TALK_HELLO; earlier output (a shell's greeting) is skipped. Then both send messages: a
 * header of 12 bytes (little-endian: payload bytes u32, type u32, process u32), and the payload: a JSON object, or raw bytes
 * for OUT, PROGRESS and WEB_DATA. Each side sends at least one message every TALK_PING_MS, so a connection that was silent
 * for TALK_SILENCE_MS is lost. */
#ifndef GRADWIRE_LAUNCH_REMOTE_TALK_H
#define GRADWIRE_LAUNCH_REMOTE_TALK_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

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
    /* both ways: a browser's connection to the chief's page (web.h); `process` is the connection's number */
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

#endif
