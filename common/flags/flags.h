/* The command line of every program: gflags behind a C header (flags.cc is the one C++ file). The flags stand in
 * common/flags/table.c.
 *
 * A program reads its words once, at the start, and then asks for the values by the flags' names; a name that no row has
 * is a bug of ours and ends the process. Strings live until the next flags_read. Thread: one reads; then any may ask. */
#ifndef GRADWIRE_COMMON_FLAGS_FLAGS_H
#define GRADWIRE_COMMON_FLAGS_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster/cluster.h"
#include "common/serve/http_place.h"
#include "common/net/tls.h"

/* Read argv[1], .. for `program` ("ps", "train"; a name of flags_programs).
 * Errors: ERR_INPUT with one line: an unknown flag with the nearest known one, a wrong value, a flagfile that cannot be
 * read, a flag or word that is missing. */
enum err flags_read(const char *program, int argc, char **argv, struct errmsg *e) MUST_CHECK;

/* Where --help, --version or --print_job_reference is given: answer on stdout and exit. */
void flags_answer(const char *program);

/* Both; what is wrong is one line on stderr, and the exit code is 2. */
void flags_parse(const char *program, int argc, char **argv);

const char *flags_text(const char *name);  /* never NULL */
const char *flags_given(const char *name); /* the same; NULL: it is not on the command line */
int64_t flags_number(const char *name);
bool flags_on(const char *name);
/* The values of a FLAG_LIST in order, NULL behind the last; those of a --flagfile where it stood. *n may be NULL. */
const char *const *flags_list(const char *name, size_t *n);
#define FLAGS_WORDS "(words)" /* a list: what is no flag */
#define FLAGS_REST "(rest)"   /* a list: what the entrypoint hands on */

/* What ps and worker have in common. Texts that are not given are "". */
struct flags {
    struct cluster_flags cluster;
    const char *job, *output;
    const char *logs;        /* "": DIR/logs */
    const char *const *sets; /* every --set, in order, those of a --flagfile where it stood */
    size_t n_sets;
    int listen_fd;   /* a listening socket handed down by a launcher; -1: bind one */
    int progress_fd; /* where the chief writes progress as JSON lines for a launcher; -1: none */
    bool find_learning_rate;
    bool doctor, doctor_json; /* look, and do not train */
    const char
        *doctor_crew; /* "PS,WORKERS,EVALUATORS": the launcher's look before it starts them */
    const char *certificates; /* the doctor's: "CERT,KEY,CA" */
    int token_fd; /* where the job's token is read from (common/peers/token.h); -1: none */
    const char *token_file;
    struct tls_files tls;
    const char *auth; /* auto required none (common/peers/auth.h) */
    struct http_place http;
    const char *log_level; /* debug info warn error */
    bool log_json;
    const char *termination_message; /* a file for the last words */
    const char *cgroup_root;         /* where they are mounted */
    int grace_s;       /* that who started it gives between SIGTERM and SIGKILL; 0: not told */
    bool waits;        /* --when_done=wait: it stays, idle, when the job is done */
    const char *fault; /* a worker that misbehaves on purpose (common/process/fault.h) */
};
void flags_process(struct flags *f);
struct tls_files flags_tls(void);

/* The text of --help, at most 80 columns and, the entrypoint's apart, 23 lines. */
void flags_help(const char *program, char *out, size_t bytes);

#endif
