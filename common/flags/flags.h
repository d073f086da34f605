/* The command line of every program: gflags with a C interface (flags.cc is the only C++ file). common/flags/table.c
 * has the flags.
 * A program reads its arguments once, at start-up, then gets values by flag name. A name that is not in the table
 * is our own bug and ends the process. Strings are valid until the next flags_read. Thread: one thread reads the
 * arguments; afterwards any thread can get values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cluster/cluster.h"
#include "common/serve/http_hosts.h"
#include "common/net/tls.h"

/* Reads argv[1] and the following for `program` ("ps", "train": a name in flags_programs). Errors: ERR_INPUT with
 * one line: an unknown flag, with the nearest known one; a wrong value; an unreadable flagfile; a missing flag; a
 * missing or surplus argument. */
enum err flags_read(const char *program, int argc, char **argv, struct errmsg *e) MUST_CHECK;

/* If --help, --version, --print_job_reference or --print_manual is given, prints the answer on stdout and exits. */
void flags_answer(const char *program);

/* Both: flags_read, then flags_answer. On an error, prints one line on stderr and exits with code 2. */
void flags_parse(const char *program, int argc, char **argv);

/* Return a flag's value. If it is not given: its preset (table.h), or without a preset "", -1 or false. */
const char *flags_text(const char *name); /* never NULL */
/* as flags_text, but NULL if the flag is given neither on the command line nor in a flagfile */
const char *flags_given(const char *name);
int64_t flags_number(const char *name);
bool flags_on(const char *name);
/* Returns the values of a FLAG_LIST in order, with NULL at the end; values of a --flagfile are at its position. *n
 * (`n` can be NULL) is their number. */
const char *const *flags_list(const char *name, size_t *n);
#define FLAGS_WORDS "(words)" /* a list: the arguments that are not flags */
#define FLAGS_REST "(rest)"   /* a list: the arguments that the entrypoint passes on */

/* The flags of ps and worker. A text that is not given is "". */
struct flags {
    struct cluster_flags cluster;
    bool alone;
    const char *job, *output;
    const char *logs;        /* "": DIR/logs */
    const char *const *sets; /* all --set in order; those of a --flagfile at its position */
    size_t n_sets;
    int listen_fd;   /* a listening socket from the launcher; -1: bind one */
    int progress_fd; /* the chief writes progress for the launcher here, as JSON lines; -1: off */
    int lock_fd; /* the chief's: an open file DIR/lock, locked by a launcher or `rank`; -1: none */
    const char *rows; /* as host_copy_begin takes it; "": none */
    bool find_learning_rate;
    bool doctor, doctor_json; /* check, do not train */
    /* "PS,WORKERS,EVALUATORS": the launcher's check before it starts them */
    const char *doctor_crew;
    const char *certificates; /* for the doctor: "CERT,KEY,CA" */
    int token_fd; /* the job's token is read from here (common/peers/hello.h); -1: none */
    const char *token_file;
    struct tls_files tls;
    const char *auth; /* auto, required or none (common/peers/hello.h) */
    struct http_place http;
    const char *log_level; /* debug, info, warn or error */
    bool log_json;
    const char *termination_message; /* file for the termination message */
    const char *cgroup_root;         /* mount point of cgroups */
    int grace_s;                     /* seconds between SIGTERM and SIGKILL; 0: unknown */
    bool waits;                      /* --when_done=wait: stay up, idle, after the job is done */
    const char *fault;               /* misbehave on purpose (common/process/fault.h) */
};
/* Fills *f from the flags that were read. *f borrows the strings. */
void flags_process(struct flags *f);
/* Same for the TLS files only, for programs other than ps and worker. */
struct tls_files flags_tls(void);

/* Writes the text of --help: at most 80 columns, and for the launcher's commands 23 lines. */
enum { FLAGS_HELP_BYTES = 16384 };
void flags_help(const char *program, char *out, size_t bytes);

/* ---- manual.c: the manual pages, from the tables of flags and of the job file's keys ---- */

/* Writes a page in mdoc(7): "gradwire", "gradwire-ps" or "gradwire-worker" of section 1, "gradwire-job" of section 5. */
void manual_write(FILE *out, const char *page);

/* Text for manual pages: mdoc(7), as man(1) and mandoc(1) format it. */

/* Writes running text of `bytes` bytes as lines of mdoc. A line ends after each sentence, and before column 80.
 * Markdown's `code` and **strong** become bold, [text](address) becomes the text. */
void roff_text(FILE *out, const char *text, size_t bytes);

/* Writes a Markdown page as mdoc, without its first heading, its comments and its table of contents. It knows headings
 * of level 2 and 3, paragraphs, code blocks, lists with `-`, and tables. Each row of a table becomes a tagged
 * paragraph. */
void roff_markdown(FILE *out, const char *page);
