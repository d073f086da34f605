/* The chief's decisions as a pure state machine: it gathers the ps, starts generations (initial values, restore,
 * takeover), keeps membership, deals leaves and leases, orders cuts, and ends the job. Messages and time come in,
 * what to do goes out through chief_io. Nothing lives only here: a new chief asks all ps and reads the manifest.
 *
 * Happy path: every ps says hello -> ENTER -> every shard has ENTERED -> cut 0 -> deal -> ... periodic cuts ... ->
 * all is learned -> final evaluation -> final cut -> published -> DONE to workers, then to ps.
 * Failure modes: a ps that comes back empty (a new generation from the last cut), a worker that stays away (its
 * leaves and leases are dealt again), a cut that fails (tried again; the final one ends the job), a ps that stays
 * away (the job fails with the ps's name). */
#ifndef GRADWIRE_WORKER_CHIEF_CORE_CHIEF_H
#define GRADWIRE_WORKER_CHIEF_CORE_CHIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"
#include "common/checkpoint/checkpoint.h"
#include "common/parameters/limits.h"
#include "common/parameters/ids.h"
#include "common/parameters/layout.h"
#include "common/wire/msg.h"
#include "common/parameters/plan.h"
#include "common/parameters/staleness.h"
#include "common/parameters/tree.h"
#include "worker/chief/core/journal.h"
#include "worker/core/account.h"

/* Dealt at a time: few, so that what a dead worker held is soon redone. */
enum { CHIEF_WORKERS_MAX = WORKERS_MAX, CHIEF_LEASE_IDS = 4 };

enum chief_kept { KEPT_COPIED, KEPT_PUBLISHED, KEPT_FAILED };

/* Nothing is made any more, because of this one process. */
struct chief_wait {
    enum chief_wait_for { WAIT_NOBODY, WAIT_PS, WAIT_WORKER } who;
    uint32_t index;
    enum chief_wait_why {
        WAIT_AWAY,      /* it is not connected */
        WAIT_SILENT,    /* it is connected, and does not do what is its to do: stopped, or slow */
        WAIT_UNREACHED, /* a worker that does not reach `ps` */
    } why;
    uint32_t ps;
    double seconds; /* for so long */
};

struct chief_io {
    /* To ps `ps`'s control connection, and to worker `worker` (0 is the chief's own session). */
    void (*to_ps)(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
    void (*to_worker)(void *ctx, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);
    /* The newest usable cut below `below` (UINT64_MAX: any). ERR_NOTFOUND: there never was one;
     * ERR_CORRUPT, ERR_NEWER: there are some, and none can be used, for the reason that *e has of each below `below`;
     * ERR_NOMEM. *m is the caller's. */
    enum err (*find_cut)(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e);
    /* Write the manifest on another thread, answer with chief_on_published. The core fills what it knows; the shell
     * adds evaluation, seconds, identity and fingerprint. `m` is valid during the call. */
    void (*publish)(void *ctx, const struct manifest *m);
    /* A cut is over without a manifest: its files may go. */
    void (*discard)(void *ctx, uint64_t cut);
    /* Of the cut that chief_keep asked for as `ask`. Behind KEPT_COPIED updates do not get into it any more; then it is
     * published, or it has failed. A new generation drops it without a word. */
    void (*kept)(void *ctx, uint64_t ask, enum chief_kept what, uint64_t cut, uint64_t step);
    /* Not in sync: as many batches are done as the first `epoch` epochs have; not said of the last epoch. Said once, and
     * again where a rollback went behind it. */
    void (*epoch)(void *ctx, uint64_t epoch);
    /* All is learned: get the final parameters, evaluate them, then chief_on_evaluated. */
    void (*finish)(void *ctx);
    /* The final cut is published: model/ may be written. May be NULL. */
    void (*final)(void *ctx);
    /* The job is over for this process: 0 done, 1 failed, 143 going; `text` says why where it failed. */
    void (*ended)(void *ctx, int exit_code, const char *text);
    /* A line for people. */
    void (*say)(void *ctx, int is_warning, const char *text);
    /* Training waits for this process, or (WAIT_NOBODY) for none any more. Said once when that begins. May be NULL. */
    void (*waits)(void *ctx, const struct chief_wait *wait);
    /* A generation begins with what this cut has, or (NULL) with initial values. Said before any worker hears of it. */
    void (*restored)(void *ctx, const struct manifest *m);
    uint64_t (*random)(void *ctx);
    /* Append to the journal on another thread, in the order of the calls; answer each with chief_on_journaled. */
    void (*journal)(void *ctx, const struct journal_entry *entry);
    /* There is an evaluator, and the final cut is published: when it has a result for it, chief_on_judged. May be called
     * again for the same cut. */
    void (*await_evaluator)(void *ctx, uint64_t cut);
};

struct chief_config {
    const struct layout *layout;
    Gradwire__Settings settings;  /* its lists are the caller's */
    uint32_t ps;                  /* how many */
    uint32_t workers;             /* expected, the chief's own among them; at least 1 */
    struct job_training training; /* the job's */
    struct job_checkpoint checkpoint;
    struct job_timeouts timeouts;  /* evaluator_s 0: there is no evaluator */
    const char *store_token;       /* "": none; the caller's */
    const struct journal *journal; /* of the runs before; copied. NULL: none */
    bool finished;           /* the job was done before: whoever cannot be told is not missed */
    uint64_t learned_epochs; /* then: in its final checkpoint */
};

struct chief; /* opaque: worker/chief/core/chief_state.h */

enum err chief_new(struct chief **c, const struct chief_config *config, const struct chief_io *io,
                   void *ctx, int64_t now_ms, struct errmsg *e) MUST_CHECK;
void chief_free(struct chief *c);

/* A ps's control connection: its answer to our hello, its messages, its loss. */
void chief_on_ps_up(struct chief *c, uint32_t ps, const Gradwire__HelloReply *m, int64_t now_ms);
void chief_on_ps_down(struct chief *c, uint32_t ps, int64_t now_ms);
void chief_on_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m,
                 int64_t now_ms);

/* Another process was given this worker's place since the one that says this hello was: it is to be turned away. One
 * whose incarnation shards refuse without such a process (a cut, or others' taking over its work) is welcomed anew. */
bool chief_is_replaced(const struct chief *c, uint32_t worker, const Gradwire__Hello *m);

/* A worker's connection: its hello (worker 0: the chief's own session), messages, loss.
 * Before the generation is entered a hello is kept, and answered then.
 * Errors: ERR_REFUSED with the reason (a worker number that cannot be). */
enum err chief_on_worker_up(struct chief *c, uint32_t worker, const Gradwire__Hello *m,
                            int64_t now_ms, struct errmsg *e) MUST_CHECK;
/* Before it is lost: for so long nothing had been heard of its host. timeouts.worker_rejoin_s counts from then. */
void chief_on_worker_silent(struct chief *c, uint32_t worker, int64_t silent_ms);
void chief_on_worker_down(struct chief *c, uint32_t worker, int64_t now_ms);
void chief_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m, int64_t now_ms);

/* From the shell: the own session's step in sync; the manifest is on disk, or not; the final evaluation is done; told
 * to go (SIGTERM); time passes (call each 50 ms or so). */
void chief_on_step(struct chief *c, uint64_t step, int64_t now_ms);
void chief_on_published(struct chief *c, uint64_t cut, const char *error, int64_t now_ms);
/* Early stopping, and with sync.dropped: redo every end: no batch is dealt any more; in sync no step from `step` on is
 * wanted. `generation`: the number of the own session's, in which this step is the end. */
void chief_enough(struct chief *c, uint64_t step, uint64_t generation, int64_t now_ms);
/* A cut of what is learned now is wanted, beside those that the job asks for: io->kept says of it. A later ask takes the
 * place of one whose cut has not stopped the shards. `ask`: not 0. `step`: a cut of a later one is not what was asked for,
 * and fails the ask; UINT64_MAX: any is. */
void chief_keep(struct chief *c, uint64_t ask, uint64_t step, int64_t now_ms);
void chief_on_journaled(struct chief *c, const char *error, int64_t now_ms);
void chief_on_evaluated(struct chief *c, int64_t now_ms);
/* What an evaluation found is not finite: in words. The job fails. `step` as of chief_on_step. */
void chief_on_diverged(struct chief *c, uint64_t step, const char *what, int64_t now_ms);
/* The evaluator has a result for this cut, and needed `took_ms` for it. Of the final cut: the final result. */
void chief_on_judged(struct chief *c, uint64_t cut, int64_t took_ms, int64_t now_ms);
void chief_go(struct chief *c, int64_t now_ms);
void chief_tick(struct chief *c, int64_t now_ms);

/* What summaries and people want to know. */
struct chief_facts {
    bool running;             /* a generation is entered */
    uint64_t generation, cut; /* the last published; UINT64_MAX: none */
    uint64_t cut_step;
    uint64_t steps; /* sync: steps made; async: batches done */
    uint64_t total; /* of them in all */
    uint64_t t;     /* updates applied, as the first shard last said */
    uint64_t dealt, applied_min, applied_max, duplicates, lost;
    uint64_t clipped, rejected; /* batches */
    uint64_t dropped;           /* backup workers: microbatches */
    struct manifest_redo redo;  /* without the list */
    uint32_t recoveries;        /* after which a batch is skipped */
    uint64_t residuals_lost;    /* of workers that died with what they withheld; in this life */
    uint32_t residuals_away;    /* lost as well, should their workers not come back */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    struct row_counts table[ROW_TABLES_MAX]; /* of each table, over all shards, as they last said */
    uint64_t squeezed;                       /* rows that ps.memory had no room for any more */
    struct codec_cost push, reply; /* the shards' part, of this life of each, as they last said */
    char uuid[37];
};
struct chief_facts chief_facts(const struct chief *c);
/* One of the others as the chief sees it. */
struct chief_peer {
    bool up;
    bool member;          /* a worker that is in the deal */
    uint64_t incarnation; /* of a worker */
    double away_s;        /* where it is not up */
};
uint32_t chief_workers(const struct chief *c);
struct chief_peer chief_peer_worker(const struct chief *c, uint32_t worker, int64_t now_ms);
struct chief_peer chief_peer_ps(const struct chief *c, uint32_t ps, int64_t now_ms);
/* False: it has not said it (it is gone, or the job is not over). */
bool chief_account(const struct chief *c, uint32_t worker, struct worker_account *out);
/* Backup workers: how many of this worker's microbatches were dropped, as far as this chief decided. */
uint64_t chief_dropped(const struct chief *c, uint32_t worker);
/* Async: how stale one worker's pushes were on all shards, as they told it last; since the last start or rollback.
 * False: nothing of this worker was counted. */
bool chief_staleness(const struct chief *c, uint32_t worker, struct staleness *out);
/* Whom training waits for now. */
struct chief_wait chief_wait(const struct chief *c, int64_t now_ms);
/* The same in words, or else what the chief is about. */
void chief_waits_for(const struct chief *c, int64_t now_ms, char *out, size_t bytes);
/* "worker 1, which is connected, and has not sent its part: stopped, or slow" */
const char *chief_wait_words(const struct chief_wait *wait, char *out, size_t bytes);

#endif
