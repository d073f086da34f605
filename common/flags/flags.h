/* Command line flags of ps and worker: gflags behind a C header (flags.cc is the one C++ file). */
#ifndef GRADWIRE_COMMON_FLAGS_FLAGS_H
#define GRADWIRE_COMMON_FLAGS_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster/cluster.h"
#include "common/serve/http_place.h"
#include "common/net/tls.h"

struct flags {
    struct cluster_flags cluster;
    const char *job, *output; /* output "": not given */
    const char *logs;         /* "": DIR/logs */
    const char *const *sets;  /* every --set, in order, those of a --flagfile where it stood */
    size_t n_sets;
    int listen_fd;   /* a listening socket handed down by a launcher; -1: bind one */
    int progress_fd; /* where the chief writes progress as JSON lines for a launcher; -1: none */
    bool find_learning_rate;
    bool doctor, doctor_json; /* look, and do not train */
    const char *certificates; /* the doctor's: "CERT,KEY,CA"; "": none */
    int token_fd; /* where the job's token is read from (common/peers/token.h); -1: none */
    const char *token_file; /* "": none */
    struct tls_files tls;   /* "": not given */
    const char *auth;       /* auto required none (common/peers/auth.h) */
    struct http_place http;
    const char *log_level; /* debug info warn error */
    bool log_json;
    const char *termination_message; /* a file for the last words; "": none */
    const char *cgroup_root;         /* where they are mounted */
    int grace_s;       /* that who started it gives between SIGTERM and SIGKILL; 0: not told */
    bool waits;        /* --when_done=wait: it stays, idle, when the job is done */
    const char *fault; /* a worker that misbehaves on purpose (common/process/fault.h); "": none */
};

/* What the flags ask for. */
enum flags_ask {
    FLAGS_RUN,
    FLAGS_HELP,
    FLAGS_VERSION,
    FLAGS_REFERENCE,
    FLAGS_FIND_RATE,
    FLAGS_DOCTOR,
};

/* Parse argv for "ps" or "worker". --help prints the grouped help that fits a screen and exits 0; a
 * wrong flag prints one line and exits 2. The strings live as long as the process. */
void flags_parse(struct flags *f, const char *program, int argc, char **argv);

/* The same without printing and exiting. Valid until the next call; *f and *ask are set on ERR_OK
 * only. Errors: ERR_INPUT with one line: an unknown flag with the nearest known one, a wrong value,
 * a flagfile that cannot be read, no --job. Thread: one. */
enum err flags_read(struct flags *f, enum flags_ask *ask, int argc, char **argv,
                    struct errmsg *e) MUST_CHECK;

/* The text of --help, at most 80 columns and 24 lines. `program` as in flags_parse. */
void flags_help(const char *program, char *out, size_t bytes);

#endif
