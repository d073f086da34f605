/* What the launcher and a runner on another host say to each other, over the standard input and
 * output of a remote shell.
 *
 * The runner begins with the line TALK_HELLO; what came before it (a shell's greetings) is skipped.
 * From there on both send messages: a header of 12 bytes (little-endian: payload bytes u32, type
 * u32, process u32), then the payload: a JSON object, or raw bytes for OUT, PROGRESS and WEB_DATA.
 * Both sides hear something from the other at least every TALK_PING_MS, so that a link which has
 * been silent for TALK_SILENCE_MS is lost. */
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
    TALK_FAILED,  /* {"why": ".."}, process: it could not be started */
    TALK_ENDED, /* {"status": wait status, "rss": bytes}, process; all that it wrote came before */
    TALK_OUT,   /* raw: what the process wrote to stdout and stderr */
    TALK_PROGRESS, /* raw: what the chief wrote to its progress pipe */
    TALK_PONG,
    /* both ways, a browser's connection to the chief's page (web.h); its number in the place of a process */
    TALK_WEB_OPEN, /* launcher to runner */
    TALK_WEB_DATA, /* raw */
    TALK_WEB_CLOSE,
    TALK_TYPES
};

struct talk;
struct talk_ops {
    /* A message; `data` is valid during the call, with a NUL behind it. False: it is wrong, and the
     * talk ends. The talk may be closed in here. */
    bool (*on_message)(void *arg, enum talk_type type, uint32_t process, const char *data,
                       size_t bytes);
    /* The other side is gone, or does not keep to the above; told once. Close the talk here. */
    void (*on_end)(void *arg, const char *why);
};

struct bufferevent;
struct talk {
    struct bufferevent *in, *out;
    int in_fd, out_fd;
    size_t greetings; /* bytes that came before the hello */
    bool greeted;     /* the other's hello was seen, or none is waited for */
    int64_t heard_ms;
    const struct talk_ops *ops;
    void *arg;
    bool *gone; /* set by talk_close while a message is served */
};

/* Take both descriptors, even on error. `wait_hello`: the other side is a runner; this
 * side is one, and says so, otherwise. Errors:
 * ERR_NOMEM. */
enum err talk_init(struct talk *t, struct event_base *base, int take_in, int take_out,
                   bool wait_hello, const struct talk_ops *ops, void *arg) MUST_CHECK;
/* What is queued is dropped. Safe to call again, and in the callbacks. */
void talk_close(struct talk *t);

/* Queue a message; one that finds no memory ends the talk at its next event. `object` is taken. */
void talk_send(struct talk *t, enum talk_type type, uint32_t process, json_t *take_object);
void talk_send_raw(struct talk *t, enum talk_type type, uint32_t process, const void *data,
                   size_t bytes);
/* Bytes that wait to be sent. */
size_t talk_queued(const struct talk *t);

#endif
