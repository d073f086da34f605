/* The other hosts of a job and their processes; implements process_ops of launch/local/process.h.
 *
 * Happy path: fleet_new -> fleet_check (all hosts in parallel: reachable, version, clock, programs, job file, data, ports,
 * connections between the hosts) -> fleet_check_shared -> the supervisor starts and signals processes by their ops, and gets
 * their events -> fleet_close.
 * Failure modes while the job runs:
 * - The connection to a host is lost: the launcher logs the host's name, its processes are lost (the supervisor's rules
 *   decide), and the launcher connects again after 1 s, doubling to 10 s. The new runner waits until all processes of the old
 *   one have ended, and binds the same ports; then the awaited processes start there.
 * - A host with a ps or the chief stays away for ps_rejoin_s: the job ends. */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"
#include "launch/local/crew.h"
#include "launch/local/guardian.h"
#include "launch/remote/hosts.h"
#include "launch/local/process.h"

enum { FLEET_AGAIN_FIRST_MS = 1000, FLEET_AGAIN_MAX_MS = 10000 };

struct fleet;

/* Everything in it outlives the fleet. */
struct fleet_config {
    struct event_base *base;
    const struct hosts *hosts;
    const uint32_t *host_of; /* (processes of the crew) index of the host */
    struct crew *crew;
    const struct options *options;
    const struct job *job;
    const struct site *here; /* this host's programs */
    const char *output;      /* DIR on this host */
    const char *token;       /* given to every process */
    const char *shared_text; /* contents of DIR/processes/hosts, different for each run */
};

/* Set host and ops of the crew's processes; *config is copied. Free *f with fleet_free, also after an error; *f is NULL
 * before the call. Errors: ERR_IO, ERR_NOMEM. */
enum err fleet_new(struct fleet **f, const struct fleet_config *config,
                   struct errmsg *e) MUST_CHECK;

/* Connect to all hosts and check them. Afterwards the ports are bound there, and every process has its address and
 * command line. Blocks for at most a minute in each of five phases: connect, clock, check, bind, reach. Errors:
 * ERR_INPUT with the problems, or with *e if the job file cannot be read; ERR_IO, ERR_NOMEM. */
enum err fleet_check(struct fleet *f, struct problems *p, struct errmsg *e) MUST_CHECK;
/* Write DIR/processes/hosts, and check that the hosts of the chief, of the evaluator, and, with checkpoint.store:
 * shared, of the ps see it. From now on a lost connection is opened again. Blocks for at most a minute. Errors:
 * ERR_INPUT with the problems; ERR_IO. */
enum err fleet_check_shared(struct fleet *f, struct problems *p, struct errmsg *e) MUST_CHECK;

/* Set the receiver of events, before the first process is started. *events outlives the fleet. */
void fleet_tell(struct fleet *f, const struct process_events *events, void *arg);
/* Register the remote shells with the guardian, now and whenever one is restarted. *g outlives the fleet. Errors:
 * ERR_IO. */
enum err fleet_guard(struct fleet *f, const struct guardian *g, struct errmsg *e) MUST_CHECK;
/* A child of this process was reaped. */
void fleet_reaped(struct fleet *f, pid_t pid);

/* Serve the job's page on a port of this host's 127.0.0.1 while the job runs. Sets the chief's HTTP address to it, which stays
 * the same when the chief restarts. Errors: ERR_IO, ERR_NOMEM: there is no page. */
enum err fleet_serve_page(struct fleet *f, struct errmsg *e) MUST_CHECK;
/* Disconnect from all hosts and wait for the remote shells; can be called again. Blocks for at most LINK_CLOSE_MS. */
void fleet_close(struct fleet *f);
/* Closes it first. Takes NULL. */
void fleet_free(struct fleet *f);
