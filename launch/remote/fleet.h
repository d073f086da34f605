/* The other hosts of a job, and the processes there, by the process_ops of launch/local/process.h.
 *
 * Happy path: fleet_new -> fleet_check (all hosts at once: reachable, version, clock, programs, job
 * file, data, ports, and whether they reach each other) -> fleet_check_shared -> the supervisor
 * starts and signals processes by their ops, and is told what comes of them -> fleet_close.
 * Failure modes, once the job runs: a link is down -> its host is named, its processes are lost (the
 * supervisor's rules decide), and it is opened again, after 1 s doubling to 10 s. The new runner
 * waits until nothing of the old one lives; its ports are bound as they were; then what is awaited
 * there starts. A host of a ps or of the chief that stays away for ps_rejoin_s ends the job. */
#ifndef GRADWIRE_LAUNCH_REMOTE_FLEET_H
#define GRADWIRE_LAUNCH_REMOTE_FLEET_H

#include <event2/event.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/job/job.h"
#include "launch/local/crew.h"
#include "launch/local/guardian.h"
#include "launch/remote/hosts.h"
#include "launch/remote/problems.h"
#include "launch/local/process.h"

enum { FLEET_AGAIN_FIRST_MS = 1000, FLEET_AGAIN_MAX_MS = 10000 };

struct fleet;

/* All of it outlives the fleet. */
struct fleet_config {
    struct event_base *base;
    const struct hosts *hosts;
    const uint32_t *host_of; /* of each process of the crew */
    struct crew *crew;
    const struct options *options;
    const struct job *job;
    const struct site *here; /* this host's programs */
    const char *output;      /* DIR, as here */
    const char *token;       /* goes to every process */
    const char *shared_text; /* what DIR/processes/hosts says, different for each run */
};

/* Processes of the crew get their host and ops. Errors: ERR_IO, ERR_NOMEM. */
enum err fleet_new(struct fleet **f, const struct fleet_config *config,
                   struct errmsg *e) MUST_CHECK;

/* Open all links and look at the hosts; afterwards ports are bound there, and every process has its
 * address and command line. Blocks, for a minute at most. Errors: ERR_INPUT with the problems;
 * ERR_IO, ERR_NOMEM. */
enum err fleet_check(struct fleet *f, struct problems *p, struct errmsg *e) MUST_CHECK;
/* DIR is locked here: is it the same folder there? Blocks. Errors as above. */
enum err fleet_check_shared(struct fleet *f, struct problems *p, struct errmsg *e) MUST_CHECK;

/* Whom to tell, from now on. */
void fleet_tell(struct fleet *f, const struct process_events *events, void *arg);
/* Register the remote shells, now and whenever one is started again. */
enum err fleet_guard(struct fleet *f, const struct guardian *g, struct errmsg *e) MUST_CHECK;
/* A child of this process was reaped. */
void fleet_reaped(struct fleet *f, pid_t pid);

/* Hang up on all hosts and wait for the remote shells; safe to call again. Blocks: LINK_CLOSE_MS at
 * most. */
/* The job's page on a port of this host's 127.0.0.1, while the job runs: the address of the chief's HTTP, for all its
 * lives, is set. Errors: ERR_IO, ERR_NOMEM: there is no page. */
enum err fleet_serve_page(struct fleet *f, struct errmsg *e) MUST_CHECK;
void fleet_close(struct fleet *f);
void fleet_free(struct fleet *f);

#endif
