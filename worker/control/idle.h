/* A worker that has nothing to do, because the job is done, or no chief came. It asks ps 0 from time to time. It is
 * called, which ends the wait, when ps 0 reports a run or a generation that this worker does not know.
 *
 * Happy path: connect to ps 0 -> hello -> an answer, once a generation is entered -> the generation is new -> called.
 * Failure modes: ps 0 knows only the job that is over (asked again after IDLE_ASK_MS), ps 0 is away or refuses us
 * (connected again; the log has the reason), a signal (the wait ends, not called). */
#pragma once

#include "common/cluster/cluster.h"
#include "job/job.h"
#include "common/process/process_state.h"
#include "common/wire/msg.h"

enum { IDLE_ASK_MS = 3000 };

/* The run that is over. */
struct idle_run {
    char uuid[37]; /* "": any run is new */
    uint64_t generation;
};

/* How a worker's training ended. The worker may be one that waits for the next run. */
struct idle_end {
    int exit_code;
    bool nobody_came; /* no chief came */
    bool known_over;  /* the job was already done before */
    bool waits;       /* --when_done=wait */
    bool going;       /* SIGTERM or SIGINT has come */
};
/* STATE_DONE, STATE_IDLE: the worker can wait, and *exit_code is 0. STATE_LOADING: it must end, with *exit_code.
 * Pure. */
enum process_state idle_state(const struct idle_end *end, int *exit_code);

/* Wait until a chief calls (*called is true, and *over becomes its run), or until SIGTERM or SIGINT (*called is false).
 * Errors: ERR_IO, ERR_NOMEM.
 * Thread: main. */
enum err idle_wait(const struct job *job, const struct cluster *cluster, struct idle_run *over,
                   bool *called, struct errmsg *e) MUST_CHECK;

/* True if the run that ps 0 reports is a new one for a process that knows `over`. Pure. */
bool idle_is_news(const struct idle_run *over, const char *uuid, uint64_t generation);

/* A worker that finds at its start that the job is done tells the chief so before it ends or rests. The chief may still be
 * waiting for its predecessor, which was killed while the job ended, to confirm the end.
 *
 * Happy path: connect to ps 0 -> the chief's address -> connect to the chief -> hello (idle) -> an answer.
 * Failure modes: the job is over for all (ps 0 reports that, or does not answer within FAREWELL_MS: there is no one to
 * tell), ps 0 or the chief refuses us (the same). */

enum { FAREWELL_MS = 2000 };

/* Returns within FAREWELL_MS. A failure is not reported: the chief then waits for timeouts.worker_rejoin_s.
 * Thread: main. */
void farewell_say(const struct job *job, const struct cluster *cluster);

/* A chief that fails before it has connected (its data are wrong, its checkpoints cannot be read) tells the ps, and through
 * ps 0 the workers, which would wait for it otherwise.
 *
 * Happy path: connect to every ps -> hello with the exit code and the reason -> the ps closes the connection.
 * Failure modes: a ps does not answer within FAILED_START_MS, or refuses this process: the log says how long it waits. */

enum { FAILED_START_MS = 2000 };

/* Returns within FAILED_START_MS. The caller must hold DIR: a second process of a chief, which cannot get it, must not end
 * the job of the first. 0 < what->exit_code < 128. Thread: main. */
void failed_start_tell(const struct job *job, const struct cluster *cluster,
                       const Gradwire__Done *what);

/* A worker that reads its data is connected to the chief meanwhile, in a role of its own: the chief knows that it comes, and how
 * far it is. Its hello as a worker, with the digests of what it has read, follows over another connection.
 *
 * Happy path: connect to ps 0 -> the chief's address, once a generation is entered -> connect to the chief -> hello (ARRIVAL) ->
 * an answer -> VITALS each second, until arrival_end. A chief that reads its data is itself an arrival, at every ps, which then do
 * not count the time; ps 0 sends the arrivals of the workers to it while no chief is connected; it listens for them until arrival_end, and then they ask ps 0 again.
 * While the chief indexes text (data.order: stream), it deals parts of it to arrivals that have a helper, which scan and answer them.
 * Failure modes: ps 0 or the chief is away, a connection is lost, the chief dies and the next one has another address (ps 0 is
 * asked again); one of them refuses this process (the same, later: the worker's own connection reports it). A worker that cannot scan a part, or
 * answers nonsense, gets no more of them. Nothing waits for an
 * arrival. */

struct arrival;
struct index_helper;

/* Starts a thread. `job` is copied, because reading the data changes it; its texts and `cluster` are used until arrival_end.
 * http_fd: as for VITALS, which a worker with a helper does not send. helper: takes it; NULL: none. listen_fd: the chief's socket, on which it listens for arrivals until arrival_end; -1: a worker's. NULL:
 * no memory or no descriptors, which is logged; the worker trains all the same. */
struct arrival *arrival_begin(const struct job *job, const struct cluster *cluster, int http_fd,
                              int listen_fd, struct index_helper *helper);
void arrival_end(struct arrival *a); /* stops and joins the thread; NULL: nothing to do */

/* In the chief: this worker says how far it has read its data, for loading_heard; NULL: it says no more. Thread: any. */
void arrival_note(uint32_t worker, const Gradwire__Loading *m);
