/* The state that fleet.c (during the run) and fleet_check.c (before the run) share. */
#ifndef GRADWIRE_LAUNCH_REMOTE_FLEET_STATE_H
#define GRADWIRE_LAUNCH_REMOTE_FLEET_STATE_H

#include <jansson.h>

#include "common/base/sha256.h"
#include "common/net/listen.h"
#include "launch/remote/fleet.h"
#include "launch/remote/link.h"
#include "launch/remote/web.h"

/* Bits for roles. A worker that is the chief has both bits. */
enum {
    RUNS_CHIEF = 1 << ROLE_CHIEF,
    RUNS_WORKER = 1 << ROLE_WORKER,
    RUNS_PS = 1 << ROLE_PS,
    RUNS_EVALUATOR = 1 << ROLE_EVALUATOR
};

/* A line of the hosts file. */
struct remote {
    struct fleet *fleet;
    const struct host_line *line;
    uint32_t index; /* index of the line */
    uint32_t n;     /* processes */
    unsigned runs;  /* RUNS_* bits of their roles */
    struct link link;
    char *command;          /* the remote shell's command */
    char program[PATH_MAX]; /* path of the launcher on that host */
    struct site site;
    char tls_file[3][PATH_MAX]; /* of site.tls */
    struct event *again;        /* timer for the next attempt to connect */
    int64_t again_ms, lost_ms;
    char said[LINK_WORDS_BYTES + 128]; /* the last logged reason for its loss */
    bool settled;                      /* its ports are bound: processes can start */
    /* before the run */
    bool failed, asked, answered;
    int64_t asked_ms, answered_ms; /* CLOCK_REALTIME */
    json_t *answer;
    char data_hash[SHA256_HEX_BYTES]; /* "": no process there needs data */
};

/* The remote part of one process. */
struct remote_place {
    struct remote *remote;
    uint32_t index; /* index in the crew */
    uint16_t port;  /* 0: not bound yet */
    bool sent;      /* the start request was sent to the runner */
    int log_fd;     /* -1: closed */
};

struct fleet {
    struct fleet_config config;
    const char *rsh;
    char cwd[PATH_MAX];
    char *job_hash;
    struct remote *remote;      /* (lines of the hosts file); n is 0 for a line without processes */
    struct remote_place *place; /* (processes) */
    bool running; /* the checks are over: from now on a lost connection is opened again */
    bool closed;
    struct problems *problems; /* before the run */
    const struct process_events *events;
    void *arg;
    const struct guardian *guardian;
    struct web web;
    bool has_door;
    struct listener door;  /* accepts browsers for the job's page */
    struct loop door_loop; /* config.base in the form that the listener needs */
};

/* Connect to the host. Errors: ERR_IO, ERR_NOMEM. */
enum err remote_open(struct remote *c, struct errmsg *e) MUST_CHECK;
/* Send the runner a request. The answer goes to remote_answered or, before the run, to c->answer. */
void remote_ask(struct remote *c, json_t *take_ask);
/* Make the request {"what": "bind"} for all processes of the host, with their previous ports. */
json_t *remote_ask_bind(struct remote *c);
/* Before the run: add a problem of this host. */
void remote_problem(const struct remote *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
