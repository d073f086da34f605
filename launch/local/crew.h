/* The processes of a job: which there are, and the command line of each. */
#ifndef GRADWIRE_LAUNCH_LOCAL_CREW_H
#define GRADWIRE_LAUNCH_LOCAL_CREW_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "launch/local/local.h"
#include "launch/base/options.h"
#include "launch/local/process.h"

/* What a command line needs to know of the host that it is for. */
struct site {
    char ps_program[PATH_MAX], worker_program[PATH_MAX];
    char job[PATH_MAX], output[PATH_MAX];
    struct tls_files tls;
    uint32_t cores;        /* shared out among the processes there */
    uint64_t memory_bytes; /* the same */
};

struct crew {
    uint32_t n; /* ps, then the chief if it is separate, the workers, the evaluator */
    struct process *process;
    uint32_t chief;      /* which of them is the chief */
    uint32_t evaluators; /* 0 or 1 */
    char *ps_hosts, *worker_hosts;
    const char *token_flag; /* "--token_file=FILE" for each; NULL: none. Not owned */
    struct guardian guardian;
    struct local_place *local_place; /* of each process; NULL: they run on other hosts */
};

/* This host, all but s->output: the programs are in o->bin_dir, or beside the launcher. Errors: ERR_INPUT they are not
 * there. */
enum err site_init(struct site *s, const struct options *o, struct errmsg *e) MUST_CHECK;

/* Name them all; dir is where their logs will be. Close with crew_close, on error too. Errors:
 * ERR_IO, ERR_NOMEM. */
enum err crew_init(struct crew *c, const struct options *o, const char *dir,
                   struct errmsg *e) MUST_CHECK;
void crew_close(struct crew *c);

/* All on this host: bind every port and make the command lines. `progress_fd` goes to chief and evaluator.
 * Job and options outlive *c. Errors: ERR_IO, ERR_NOMEM. */
enum err crew_settle_here(struct crew *c, const struct options *o, const struct job *job,
                          const struct site *site, int progress_fd, struct errmsg *e) MUST_CHECK;

/* All of them have an address: make the command line of process i, which runs on `site` together
 * with those whose site_of[] is the same as its own. site_of NULL: all are together. Descriptors
 * are left out where they are -1. Errors: ERR_NOMEM. */
enum err crew_make_argv(struct crew *c, uint32_t i, const struct options *o, const struct job *job,
                        const struct site *site, const uint32_t *site_of, const struct handed *fds,
                        struct errmsg *e) MUST_CHECK;

#endif
