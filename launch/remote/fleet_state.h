/* What fleet.c (the run) and fleet_check.c (before it) share. */
#ifndef GRADWIRE_LAUNCH_REMOTE_FLEET_STATE_H
#define GRADWIRE_LAUNCH_REMOTE_FLEET_STATE_H

#include <jansson.h>

#include "common/base/sha256.h"
#include "common/net/listen.h"
#include "launch/remote/fleet.h"
#include "launch/remote/link.h"
#include "launch/remote/web.h"

/* A worker that is the chief has both bits. */
enum {
    RUNS_CHIEF = 1 << ROLE_CHIEF,
    RUNS_WORKER = 1 << ROLE_WORKER,
    RUNS_PS = 1 << ROLE_PS,
    RUNS_EVALUATOR = 1 << ROLE_EVALUATOR
};

/* One line of the hosts file that has processes. */
struct remote {
    struct fleet *fleet;
    const struct host_line *line;
    uint32_t index; /* of the line */
    uint32_t n;     /* processes */
    unsigned runs;  /* RUNS_* of their roles */
    struct link link;
    char *command;          /* for the remote shell */
    char program[PATH_MAX]; /* the launcher there */
    struct site site;
    char tls_file[3][PATH_MAX]; /* of site.tls */
    struct event *again;        /* when the link is opened again */
    int64_t again_ms, lost_ms;
    char said[LINK_WORDS_BYTES + 128]; /* why it was last said to be away */
    bool settled;                      /* its ports are bound: processes may start */
    /* before the run */
    bool failed, asked, answered;
    int64_t asked_ms, answered_ms; /* CLOCK_REALTIME */
    json_t *answer;
    char data_hash[SHA256_HEX_BYTES]; /* "": it needs no data */
};

/* Where one process is kept. */
struct remote_place {
    struct remote *remote;
    uint32_t index; /* of the crew */
    uint16_t port;  /* 0: none bound yet */
    bool sent;      /* the runner was told to start it */
    int log_fd;     /* -1: closed */
};

struct fleet {
    struct fleet_config config;
    const char *rsh;
    char cwd[PATH_MAX];
    char *job_hash;
    struct remote *remote; /* of each line of the hosts file; those without processes have n = 0 */
    struct remote_place *place; /* of each process */
    bool running;               /* checked: from here on a link that is down is opened again */
    bool closed;
    struct problems *problems; /* before the run */
    const struct process_events *events;
    void *arg;
    const struct guardian *guardian;
    struct web web;
    bool has_door;
    struct listener door;  /* where browsers come to the page */
    struct loop door_loop; /* config.base, as the listener wants it */
};

/* Open the link. Errors: ERR_IO, ERR_NOMEM. */
enum err remote_open(struct remote *c, struct errmsg *e) MUST_CHECK;
/* Ask the runner; the answer comes to remote_answered or, before the run, to c->answer. */
void remote_ask(struct remote *c, json_t *take_ask);
/* {"what": "bind"} for all processes of the host, on the ports that they had. */
json_t *remote_ask_bind(struct remote *c);
/* Before the run: something is wrong with this host. */
void remote_problem(const struct remote *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
