/* The processes of a job, and the command line of each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "job/job.h"
#include "launch/base/options.h"
#include "launch/local/process.h"
#include "launch/local/guardian.h"

/* Child processes: fork, exec, signal. crew.c and runner.c start the job's processes with it. */
enum { CHILD_EXIT_NO_EXEC = 127 };

/* A growing command line, NULL-terminated. A failed allocation is remembered. Begins as zeros. */
struct args {
    char **argv; /* free with argv_free */
    size_t n;
    bool failed;
};
void args_add(struct args *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
void argv_free(char **argv); /* takes NULL, too */

/* Descriptors that a process inherits; -1: none. */
struct handed {
    int listen, http, progress;
    int rows[2]; /* a worker's, for the host's copy of the rows (data/host_copy.h): memory, spill */
    uint32_t rows_processes; /* that have it; 0: there is none */
    int lock;              /* the open file DIR/lock, which this process has locked: the chief's */
    uint16_t http_port;    /* of `http` */
    const char *http_name; /* the user's name for the address of `http`; NULL: none */
};
/* Make the files of the host's copy of the rows, for so many processes, and note them; none for fewer than two, or on a system
 * without memfd. folder: data.spill; NULL: TMPDIR, or /tmp. They are the caller's (rows_close), and each process inherits them. */
void rows_open(struct handed *h, const char *folder, uint32_t processes);
void rows_close(struct handed *h);
/* Add the flags that tell the process the numbers of its descriptors. */
void args_add_handed(struct args *a, const struct handed *fds);

struct child {
    char *const *argv; /* NULL-terminated */
    struct handed handed;
    int out_fd;        /* stdout and stderr of the child */
    const char *token; /* written to the child's standard input; NULL: standard input is empty */
    bool again;        /* a restart in the same job */
};

/* Start the child in its own process group, registered with the guardian. If it cannot be registered (a kernel without
 * pidfd), the child gets SIGKILL when its parent dies. If the program cannot be executed, the child writes the reason
 * to out_fd and exits with CHILD_EXIT_NO_EXEC. The descriptors stay the caller's. Errors: ERR_IO. */
enum err child_start(pid_t *pid, const struct child *c, const struct guardian *g,
                     struct errmsg *e) MUST_CHECK;

/* Set the environment that children inherit: BLAS uses one thread, because gradwire has its own compute threads, and
 * TF_CONFIG, which could contradict the flags of a process, is removed. */
void child_set_environment(void);

/* Signal the child's process group. Does nothing if pid is 0. */
void child_signal(pid_t pid, int sig);

/* Processes on this host. Each is a child of the launcher, has a port of 127.0.0.1 for the whole job, and writes its log
 * itself. */

/* The local part of one process. */
struct local_place {
    const struct guardian *guardian; /* it must run before the first start */
    /* Inherited at every start. The ports stay bound for the whole job. `progress` (chief, evaluator) is not owned. */
    struct handed handed;
    bool started; /* the process was started before in this job */
};

/* A child with this pid has ended. True: it was this process; its end is noted. */
bool local_reaped(struct process *p, pid_t pid, uint64_t peak_rss_bytes);

/* Facts about a host that the command lines of its processes need. */
struct site {
    char ps_program[PATH_MAX], worker_program[PATH_MAX];
    char job[PATH_MAX], output[PATH_MAX];
    struct tls_files tls;
    uint32_t cores;        /* divided among the processes there */
    uint64_t memory_bytes; /* likewise */
};

struct crew {
    uint32_t n; /* ps, then the chief if it is separate, the workers, the evaluator */
    struct process *process;
    uint32_t chief;      /* index of the chief */
    uint32_t evaluators; /* 0 or 1 */
    char *ps_hosts, *worker_hosts;
    const char *token_flag; /* "--token_file=FILE" for each process; NULL: none. Not owned */
    struct guardian guardian;
    struct handed rows;              /* those of the host's copy, for all processes here */
    struct local_place *local_place; /* (n); NULL: the processes run on other hosts */
};

/* Fill *s for this host, without s->output. The programs are in o->bin_dir, or, if it is NULL, next to the launcher.
 * Nothing must be freed. Errors: ERR_INPUT the programs were not found. */
enum err site_init(struct site *s, const struct options *o, struct errmsg *e) MUST_CHECK;

/* List the processes; dir: the output directory for their logs. Close with crew_close, also after an error.
 * Errors: ERR_IO, ERR_NOMEM. */
enum err crew_init(struct crew *c, const struct options *o, const char *dir,
                   struct errmsg *e) MUST_CHECK;
void crew_close(struct crew *c);

/* For a crew on this host: bind all ports and make all command lines. Chief and evaluator inherit `progress_fd`, and the
 * chief `lock_fd`. Job and options outlive *c. Errors: ERR_IO, ERR_NOMEM. */
enum err crew_settle_here(struct crew *c, const struct options *o, const struct job *job,
                          const struct site *site, int progress_fd, int lock_fd,
                          struct errmsg *e) MUST_CHECK;

/* Make the command line of process i; all processes must have an address. Process i runs on `site`, together with the
 * processes that have the same site_of[]; site_of NULL: all are on one site. Descriptors that are -1 are left out.
 * Errors: ERR_NOMEM. */
enum err crew_make_argv(struct crew *c, uint32_t i, const struct options *o, const struct job *job,
                        const struct site *site, const uint32_t *site_of, const struct handed *fds,
                        struct errmsg *e) MUST_CHECK;
