/* The chief's decisions as a pure state machine. It gathers the ps, starts generations (initial values, restore,
 * takeover), keeps membership, deals leaves and leases, orders cuts, and ends the job. It receives messages and the
 * time, and acts through chief_io. None of its state is unique: a new chief asks all ps and reads the manifest.
 *
 * Happy path: every ps says hello -> ENTER -> every shard has ENTERED -> cut 0 -> deal -> ... periodic cuts ... ->
 * all is learned -> final evaluation -> final cut -> published -> model/ is written -> DONE to workers, then to ps.
 * Failure modes: a ps that comes back empty (a new generation from the last cut), a worker that stays away (its
 * leaves and leases are dealt again), a cut that fails (tried again; the final one ends the job), a ps that stays
 * away (the job fails with the ps's name). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"
#include "common/checkpoint/checkpoint.h"
#include "common/parameters/limits.h"
#include "common/parameters/ids.h"
#include "common/parameters/layout.h"
#include "common/wire/msg.h"
#include "common/parameters/plan.h"
#include "common/parameters/staleness.h"
#include "common/parameters/tree.h"
#include "worker/chief/core/journal.h"
#include "worker/core/session.h"

/* Ids of a lease: few, so that the batches of a dead worker are recomputed soon. */
enum { CHIEF_WORKERS_MAX = WORKERS_MAX, CHIEF_LEASE_IDS = 4, CHIEF_WINDOW_IDS = 64 };

enum chief_kept { KEPT_COPIED, KEPT_PUBLISHED, KEPT_FAILED };

/* The one process that stops the job's progress. */
struct chief_wait {
    enum chief_wait_for { WAIT_NOBODY, WAIT_PS, WAIT_WORKER } who;
    uint32_t index;
    bool separate_chief; /* as in struct chief_config */
    enum chief_wait_why {
        WAIT_AWAY, /* it is not connected */
        /* it is connected, but does not send what the others need: it is stopped, or slow */
        WAIT_SILENT,
        WAIT_UNREACHED, /* a worker that cannot reach `ps` */
        WAIT_LOADS,     /* a worker that is not connected, and reads its data */
    } why;
    uint32_t ps;
    double seconds; /* how long it has been so */
};

struct chief_io {
    /* Send to the control connection of ps `ps`, or to worker `worker` (0 is the chief's own session). */
    void (*to_ps)(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
    void (*to_worker)(void *ctx, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);
    /* Find the newest usable cut below `below` (UINT64_MAX: any). ERR_NOTFOUND: no cut was ever there; ERR_CORRUPT,
     * ERR_NEWER: cuts exist, but none can be used, and *e has the reason for each; ERR_STATE: the newest is another
     * job's, or the directory is; ERR_NOMEM. *m is the caller's. */
    enum err (*find_cut)(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e);
    /* Write the manifest on another thread, then call chief_on_published. The core fills in what it knows; the shell
     * adds evaluation, seconds, identity and fingerprint. `m` is valid during the call. */
    void (*publish)(void *ctx, const struct manifest *m);
    /* A cut has ended without a manifest: its files can be removed. */
    void (*discard)(void *ctx, uint64_t cut);
    /* Reports the cut that chief_keep requested as `ask`. After KEPT_COPIED no later update gets into the cut; then
     * it is published, or it fails. A new generation drops the request without a call; chief_keep says when one begins for
     * it. */
    void (*kept)(void *ctx, uint64_t ask, enum chief_kept what, uint64_t cut, uint64_t step);
    /* Not in sync: as many batches are done as the first `epoch` epochs have. Called once an epoch, but not for the
     * last one, and again after a rollback to before it. */
    void (*epoch)(void *ctx, uint64_t epoch);
    /* All is learned: get the final parameters, evaluate them, then call chief_on_evaluated. */
    void (*finish)(void *ctx);
    /* The final cut is published: write model/, then call chief_on_written. Before that nobody hears that the job is
     * done. NULL: there is nothing to write. */
    void (*final)(void *ctx);
    /* The job is over for this process: 0 done, 1 failed, 143 stopped on request. `text`: the reason of a failure. */
    void (*ended)(void *ctx, int exit_code, const char *text);
    /* A log line. */
    void (*say)(void *ctx, int is_warning, const char *text);
    /* Training waits for this process, or (WAIT_NOBODY) no longer for any. Called once for each change. NULL: not
     * needed. */
    void (*waits)(void *ctx, const struct chief_wait *wait);
    /* A generation begins with this cut's state, or (NULL) with initial values. Called before any worker is welcomed
     * to it. */
    void (*restored)(void *ctx, const struct manifest *m);
    uint64_t (*random)(void *ctx); /* 64 random bits: a generation's tag, a UUID */
    /* A generation begins: give the file in DIR/checkpoints by which a ps finds the chief's storage a name that no file had
     * before. Returns the name, valid until the next call; "": there is no such file. NULL: there never is. */
    const char *(*store_token)(void *ctx);
    /* Append to the journal on another thread, in the order of the calls; call chief_on_journaled for each. */
    void (*journal)(void *ctx, const struct journal_entry *entry);
    /* The job has an evaluator, and the final cut is published: call chief_on_judged when the evaluator has its
     * result. Can be called again for the same cut. */
    void (*await_evaluator)(void *ctx, uint64_t cut);
};

/* The parts of the run's past that DIR has, as the chief's process finds it at its start. */
struct chief_past {
    const char *journal; /* the journal's name, owned by the caller; "" or NULL: it has none */
    const char *dir;     /* DIR, for people; owned by the caller */
    uint64_t from;       /* history.jsonl may lack the epochs up to this one */
    char run[37];        /* the run of history.jsonl; "": it names none */
    uint64_t epochs;     /* history.jsonl has the epochs of that run behind `from` up to this one */
};

struct chief_config {
    const struct layout *layout;
    Gradwire__Settings settings; /* the caller owns its lists */
    uint32_t ps;                 /* number of ps */
    uint32_t workers;    /* number of workers expected, including the chief's own; at least 1 */
    bool separate_chief; /* as in struct cluster: for the names of workers */
    struct job_training training; /* from the job */
    struct job_checkpoint checkpoint;
    struct job_timeouts timeouts;  /* evaluator_s 0: the job has no evaluator */
    const struct journal *journal; /* of the earlier runs; copied. NULL: none */
    /* Hello.blas of the own session, with which others are compared; owned by the caller. "" or NULL: nothing is */
    const char *blas;
    uint32_t
        window_batches; /* a lease has ids of one window, which has so many, CHIEF_WINDOW_IDS at most (struct order); 0: any */
    char inexact[JOB_INEXACT_BYTES]; /* sync: the key that makes the job inexact; "": none does */
    struct chief_past past;
    /* the job was done before: processes that cannot be reached are not waited for */
    bool finished;
    uint64_t learned_epochs; /* if finished: number of epochs in the final checkpoint */
    /* sync: the step whose evaluation was the best, and died with the last chief before a checkpoint had it; 0: none.
     * After a takeover no cut is taken before the own session is known not to be beyond it. */
    uint64_t unkept_step;
    /* Above the numbers of all cuts in DIR: one that is damaged keeps its number. 0: there are none. */
    uint64_t next_cut;
};

struct chief; /* opaque: worker/chief/core/chief_state.h */

/* Copies *config; the objects that it points to and `io` must outlive *c, except for the journal. Errors: ERR_NOMEM. */
enum err chief_new(struct chief **c, const struct chief_config *config, const struct chief_io *io,
                   void *ctx, int64_t now_ms, struct errmsg *e) MUST_CHECK;
void chief_free(struct chief *c);

/* Events of a ps's control connection: its answer to our hello, its loss, its messages. */
void chief_on_ps_up(struct chief *c, uint32_t ps, const Gradwire__HelloReply *m, int64_t now_ms);
void chief_on_ps_down(struct chief *c, uint32_t ps, int64_t now_ms);
void chief_on_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m,
                 int64_t now_ms);

/* True if another process was given this worker's number after the one that sends this hello, which must then be
 * turned away. A process whose incarnation the shards refuse for another reason (a cut, or its work was given to
 * others) is welcomed again. */
bool chief_is_replaced(const struct chief *c, uint32_t worker, const Gradwire__Hello *m);

/* Events of a worker's connection: its hello (worker 0: the chief's own session), its loss, its messages. A hello
 * that comes before the generation is entered is kept, and answered then. Errors: ERR_REFUSED with the reason (an
 * impossible worker number); ERR_NOMEM. */
enum err chief_on_worker_up(struct chief *c, uint32_t worker, const Gradwire__Hello *m,
                            int64_t now_ms, struct errmsg *e) MUST_CHECK;
/* Before chief_on_worker_down: nothing had been heard of its host for so long. timeouts.worker_rejoin_s counts from
 * then. */
void chief_on_worker_silent(struct chief *c, uint32_t worker, int64_t silent_ms);
void chief_on_worker_down(struct chief *c, uint32_t worker, int64_t now_ms);
/* The next process of a worker that is not connected has found that the job is done, and takes no part in it. It is no
 * longer waited for. */
void chief_on_worker_idle(struct chief *c, uint32_t worker, int64_t now_ms);
/* The next process of a worker that is not connected has begun to read its data, or (loads false) its arrival is over. This
 * changes no deadline and no deal: only what the chief says of a worker that is waited for. */
void chief_on_worker_loads(struct chief *c, uint32_t worker, bool loads, int64_t now_ms);
void chief_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m, int64_t now_ms);

/* ---- events of the shell ---- */
/* Sync: the chief's own session has the parameters of `step`. */
void chief_on_step(struct chief *c, uint64_t step, int64_t now_ms);
/* The manifest of this cut is on disk (`error` NULL), or could not be written (`error`: the reason). */
void chief_on_published(struct chief *c, uint64_t cut, const char *error, int64_t now_ms);
/* Early stopping; with sync.dropped: redo every end of training. No batch is dealt any more; in sync no step from
 * `step` on is wanted. `generation`: the generation of the own session in which `step` is the end. */
void chief_enough(struct chief *c, uint64_t step, uint64_t generation, int64_t now_ms);
/* Request a cut of what is learned now, in addition to those that the job's keys ask for; io->kept reports it. A
 * later request replaces one whose cut has not stopped the shards. `ask`: not 0. `step`: the latest step that the
 * cut may have; UINT64_MAX: any. If the shards are beyond it after a takeover, the chief goes back, as chief_go_back;
 * otherwise the request fails. */
void chief_keep(struct chief *c, uint64_t ask, uint64_t step, int64_t now_ms);
/* Sync: roll back to the last cut. The evaluation of `step` was the best, and the chief that made it died before a
 * checkpoint had that state: it is made again. No cut is taken before. Does nothing while a generation begins. */
void chief_go_back(struct chief *c, uint64_t step, int64_t now_ms);
/* One journal entry is on disk (`error` NULL), or could not be written (`error`: the reason). */
void chief_on_journaled(struct chief *c, const char *error, int64_t now_ms);
/* The final evaluation is done. */
void chief_on_evaluated(struct chief *c, int64_t now_ms);
/* An evaluation found a value that is not finite: the job fails. `what` describes the value. `step`: as in
 * chief_on_step. */
void chief_on_diverged(struct chief *c, uint64_t step, const char *what, int64_t now_ms);
/* model/ is written, or (error not NULL) cannot be: then the job fails, and every process hears why. */
void chief_on_written(struct chief *c, const char *error, int64_t now_ms);
/* The result can differ from that of the undisturbed job: it is not exact any more. why: as in the journal. */
void chief_on_inexact(struct chief *c, const char *why, int64_t now_ms);
/* The process ends for a reason that this chief does not know. If a restart does not help (1 <= exit_code < 128), every
 * connected process hears it, unless it knows how the job has ended. */
void chief_leaves(struct chief *c, int exit_code, const char *text, int64_t now_ms);
/* The directory with the job's checkpoints is no longer this job's: the job fails. `why`: the reason. */
void chief_on_dir_lost(struct chief *c, const char *why, int64_t now_ms);
/* The evaluator has a result for this cut, after `took_ms` of work. For the final cut it is the final result. */
void chief_on_judged(struct chief *c, uint64_t cut, int64_t took_ms, int64_t now_ms);
void chief_go(struct chief *c, int64_t now_ms); /* SIGTERM */
/* Call it about every 50 ms. */
void chief_tick(struct chief *c, int64_t now_ms);

/* Counts for summaries, metrics and status pages. */
struct chief_facts {
    bool running;             /* a generation is entered */
    uint64_t generation, cut; /* cut: the last published; UINT64_MAX: none */
    uint64_t cut_step;
    uint64_t steps; /* sync: steps made; async: batches done */
    uint64_t total; /* how many there are in all */
    uint64_t t;     /* updates applied, as the first shard reported last */
    /* dealt: the least id that was never dealt; in sync the own session's step. applied_min, applied_max: the least and
     * the largest step over the shards, as they reported last, without the lost batches. At the end of a job, dealt =
     * applied + lost */
    uint64_t dealt, applied_min, applied_max, duplicates, lost;
    uint64_t clipped, rejected; /* batches */
    uint64_t dropped;           /* backup workers: microbatches */
    struct manifest_redo redo;  /* without its list */
    uint32_t recoveries;        /* recoveries: rollbacks that skip a batch */
    /* from workers that died while they withheld parts; counted by this process */
    uint64_t residuals_lost;
    uint32_t residuals_away; /* also lost if their workers do not come back */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    /* of each table, over all shards, as reported last */
    struct row_counts table[ROW_TABLES_MAX];
    uint64_t squeezed; /* rows dropped because ps.memory was full */
    /* the shards' part, since each shard's process began, as reported last */
    struct codec_cost push, reply;
    char uuid[37];
};
struct chief_facts chief_facts(const struct chief *c);
/* The chief's view of one other process. */
struct chief_peer {
    bool up;
    bool member;          /* a worker that takes part in the deal */
    uint64_t incarnation; /* of a worker */
    double away_s;        /* if it is not up */
};
/* The ps that has this shard, which is in the plan. */
uint32_t chief_ps_of(const struct chief *c, uint32_t shard);
/* True while the chief waits for this file of a cut from this ps. */
bool chief_expects_file(const struct chief *c, uint32_t ps, uint64_t cut, const char *file);
/* The smallest number that is larger than the index of each worker that is expected or came. */
uint32_t chief_workers(const struct chief *c);
/* True if this worker has taken part since the chief's process started. */
bool chief_joined(const struct chief *c, uint32_t worker);
struct chief_peer chief_peer_worker(const struct chief *c, uint32_t worker, int64_t now_ms);
struct chief_peer chief_peer_ps(const struct chief *c, uint32_t ps, int64_t now_ms);
/* A worker's report at the end. False: no report (it is gone, or the job is not over). */
bool chief_account(const struct chief *c, uint32_t worker, struct worker_account *out);
/* Backup workers: the number of this worker's microbatches that were dropped by this chief's decisions. */
uint64_t chief_dropped(const struct chief *c, uint32_t worker);
/* Async: the staleness of one worker's pushes, summed over the shards' last reports; since the last start or
 * rollback. False: none was counted for this worker. */
bool chief_staleness(const struct chief *c, uint32_t worker, struct staleness *out);
/* The journal, with the entries of the earlier runs; valid until the next event. */
const struct journal *chief_journal(const struct chief *c);
/* The process that training waits for now. */
struct chief_wait chief_wait(const struct chief *c, int64_t now_ms);
/* The same as text; if training waits for none, the chief's state. */
void chief_waits_for(const struct chief *c, int64_t now_ms, char *out, size_t bytes);
/* "worker 1, which is connected, and has not sent its part: stopped, or slow" */
const char *chief_wait_words(const struct chief_wait *wait, char *out, size_t bytes);
