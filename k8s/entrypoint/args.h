/* The command line of the image's entrypoint: what is its own, and what is handed on to ps or worker as it stands. */
#ifndef GRADWIRE_K8S_ENTRYPOINT_ARGS_H
#define GRADWIRE_K8S_ENTRYPOINT_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { ARGS_MAX = 1024 };

struct args {                                                        /* NULL: not given */
    const char *role, *index, *ps, *workers, *ps_host, *worker_host; /* ordinals -> TF_CONFIG */
    const char *worker_ips, *current_ip, *port;                      /* the hosts form */
    const char *job_name, *job, *token, *tls, *auth, *http_port;     /* looked at, and handed on */
    bool print, help, version, doctor;
    const char *rest[ARGS_MAX]; /* for the program, short flags written out; with argv's lifetime */
    size_t n_rest;
    char sets[8][128]; /* those written out */
    size_t n_sets;
};

/* Errors: ERR_INPUT with one line. */
enum err args_read(struct args *a, int argc, char **argv, struct errmsg *e) MUST_CHECK;
/* The entrypoint's own part of --help. */
const char *args_help(void);

#endif
