/* The launcher's connection to one host: a remote shell that executes a runner there (runner.c), messages (talk.h), and a
 * heartbeat.
 *
 * Happy path: link_open -> the runner sends READY -> messages -> link_free.
 * Failure modes: the shell cannot be started, ends, does not print a runner's hello, sends no READY within LINK_READY_MS, or
 * is silent for TALK_SILENCE_MS while it is not busy. Then the link is down: its shell is killed, and the owner gets the
 * reason, with the shell's last output. The owner decides if it opens the link again. */
#ifndef GRADWIRE_LAUNCH_REMOTE_LINK_H
#define GRADWIRE_LAUNCH_REMOTE_LINK_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "launch/remote/talk.h"

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

#endif
