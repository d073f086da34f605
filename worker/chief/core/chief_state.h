/* The inside of the chief, for the files of this folder alone. A file calls only files above it in this list; the
 * update modes are called through their table, struct chief_mode.
 *
 *   journal                the list of its lines
 *   tell                   messages to every ps, log lines, lines of the journal, the end of the job
 *   workers                the list of workers, and their parts of the tree
 *   guard                  the NaN guard
 *   feedback               parts of gradients that workers withhold
 *   shards                 the shards' state as they reported it last
 *   inexact                what makes the job inexact: keys, OpenBLAS's kernels, a directory that lacks the run's past
 *   accept commit          layers of sync: backup workers, the commit of a step
 *   leases                 for the other modes: ids of batches
 *   sync async ssp geo     the update modes; async has staleness, ssp the workers that are gone permanently
 *   cut                    a cut of the whole cluster, and how often one is taken
 *   members                workers that join, send messages and leave
 *   wait                   the process that training waits for
 *   finish                 the end, when all is learned
 *   generation             how a generation begins
 *   facts chief            counts for summaries; the events */
#pragma once

#include "worker/chief/core/chief.h"

enum {
    CHIEF_HOLD_MS = 10000,     /* a connected worker must hold within this, or it is fenced */
    CHIEF_HOLD_DOWN_MS = 1000, /* the same for a worker whose connection is lost */
    CHIEF_KEEP_MS = 3000,      /* the cut of an epoch's end must stop the shards within this */
    CHIEF_CUT_RETRY_MS = 5000, /* from a failed cut to the next one, the final one too */
    /* The values of checkpoint.every_steps and every_seconds that are auto: a cut is due when both have passed. */
    CHIEF_CUT_STEPS = 500,
    CHIEF_CUT_S = 60,
    /* If both keys are auto, a cut is also due when this many times the cost of the last cut has passed since that cut
     * began, but at least CHIEF_CUT_LEAST_MS. */
    CHIEF_CUT_SHARE = 100,
    CHIEF_CUT_LEAST_MS = 1000,
    CHIEF_FINAL_CUT_TRIES = 3,
    CHIEF_GOING_ALONE_MS = 2000, /* after SIGTERM: how long a missing ps is waited for */
    CHIEF_DONE_MS = 10000,       /* a worker that is not a member must confirm DONE within this */
    CHIEF_DONE_PS_MS = 3000,     /* ps must close within this */
    CHIEF_COME_MS = 2000, /* so long after a takeover may a worker come that is not welcomed yet */
    CHIEF_SAY_WAIT_MS = 10000,
    CHIEF_EXIT_RESTART =
        128, /* an exit code from here on: another process of this chief may follow */
    /* after this long without progress the chief asks the shards whose parts they wait for */
    CHIEF_STALL_MS = 3000,
    CHIEF_ANSWER_MS = 2000, /* the shards must answer within this, and are asked again */
    /* a shard that has not answered this many requests is itself the process waited for */
    CHIEF_SILENT_ASKS = 2,
    CHIEF_STALL_STEPS =
        3, /* the stall must also last this many steps at the pace of the last one */
};

enum chief_phase {
    CHIEF_GATHER, /* a generation begins when every ps is connected */
    CHIEF_ENTER,  /* ENTER is sent */
    CHIEF_RUN,
    CHIEF_FINISH,  /* all is learned: final evaluation, final cut, model/ */
    CHIEF_DONE,    /* DONE is sent to workers */
    CHIEF_DONE_PS, /* DONE is sent to ps */
    CHIEF_ENDED,
};

struct chief_ps {
    bool up, was_up, entered, going;
    bool told; /* has been sent DONE, and has closed its connection since */
    struct generation generation;
    char uuid[37];
    uint32_t threads;
    uint64_t next_cut;
    Gradwire__HelloReply *hello; /* a copy of its last answer to our hello; NULL: none */
    int64_t lost_ms;
};

struct chief_shard {
    bool entered, stopped, copied, saved;
    uint64_t step, t, duplicates, clipped;
    struct codec_cost push, reply;
    struct checkpoint_file file;
    char broken[192];  /* as in CutSaved: what is not finite in its part; "": nothing */
    uint64_t squeezed; /* rows */
    uint32_t tables;
    struct row_counts table[ROW_TABLES_MAX]; /* (tables) */
    struct {
        uint64_t number; /* of the last request that it has answered; 0: none */
        uint64_t step;
        struct tree_leaves missing; /* sync */
        bool behind;                /* ssp: `worker` has the least clock */
        uint32_t worker;
    } wait;
    union {
        struct {
            uint64_t dropped;
            /* reported: its part of the step's commit; trusted, lamb: with the scaled gradient */
            bool reported, trusted;
            bool accepts;            /* has reported which nodes of the step are whole on it */
            struct tree_nodes whole; /* backup workers */
        } sync;
        struct {
            struct ids resolved;
            uint64_t lost; /* geo: of the resolved ones those that no push brought to any shard */
            size_t partials;
            uint64_t partial[64]; /* as many as fit; the others are found in the next round */
        } async;                  /* also ssp and geo */
    };
};

enum { OWNER_NONE = 0, OWNER_REDO = 1, OWNER_WORKER = 2 /* + worker */ };
enum { OWNER_DYING = OWNER_WORKER + CHIEF_WORKERS_MAX /* + worker */ };

struct chief_worker {
    bool member; /* takes part in the deal */
    bool up, welcomed, held, acked, fencing;
    bool loads;      /* it is not up, and reads its data */
    bool joined;     /* it was welcomed at least once */
    bool given;      /* a process was given `incarnation` in this generation, so it may push */
    bool hello_used; /* the leases in its hello were taken over */
    bool other_blas; /* it was logged that its kernels are others than the chief's */
    int64_t fence_ms;
    uint64_t incarnation; /* the largest that was given, or that is refused with all below it */
    uint64_t process;     /* the first incarnation of the process that has this number */
    int64_t lost_ms;
    int64_t done_ms;               /* when DONE was sent to it */
    Gradwire__Hello *hello;        /* kept until the generation is entered */
    uint32_t fenced_by;            /* number of ps that have answered FENCED */
    struct worker_account account; /* when acked */
    /* it reported that it cannot reach `unreached_ps`; if it is parked for that, this stays true */
    bool unreached;
    uint32_t unreached_ps;
    int64_t unreached_ms; /* since then */
    /* time in which nothing was heard of its host, before the connection was lost */
    int64_t silent_ms;
    union {
        struct {
            /* backup workers: its microbatches that this chief's decisions dropped */
            uint64_t dropped;
        } sync;
        struct {
            uint32_t want;  /* ids that it asked for and has not got */
            bool told_none; /* feedback: it has the answer that no ids are available now */
            /* every shard refuses the incarnations below gone_below, and all shards know it */
            bool gone;
            uint64_t gone_below; /* ssp, geo: incarnations below this one must go; 0: none */
            uint64_t refused_by[PLAN_SHARDS_MAX / 64]; /* bit set of the ps that refuse them */
        } async;
    };
};

enum chief_cut_stage { STAGE_NONE, STAGE_HOLD, STAGE_STOP, STAGE_SAVE, STAGE_PUBLISH };

struct chief_cut {
    enum chief_cut_stage stage;
    uint64_t number, step;
    uint64_t t; /* the largest over the stopped shards; in sync they all go on to the same one */
    int64_t began_ms;
    bool final, resumed;
    bool again;     /* another cut is wanted as soon as this one is over */
    uint64_t keeps; /* the request (chief_keep) that it answers; 0: none */
    uint32_t tries; /* attempts at the final cut that have failed since the last published cut */
};

struct chief_pace {
    int64_t began_ms; /* when the last published cut began, or the generation after it */
    /* the duration of that cut until it was published; 0: this process has published none */
    int64_t took_ms;
    uint64_t judged;    /* the last cut that the evaluator has a result for; UINT64_MAX: none */
    int64_t judging_ms; /* how long the evaluator took for it */
};

/* wait.c */
struct chief_stall {
    uint64_t made;         /* steps, or batches, at the last check */
    int64_t moved_ms;      /* the time of the last progress */
    int64_t took_ms[2];    /* duration of the last step, and of the one before */
    uint64_t asks;         /* requests to the shards since this process began */
    uint64_t first_ask;    /* the first request of this stall */
    int64_t asked_ms;      /* 0: none was sent in this stall */
    struct chief_wait now; /* the process that causes it; seconds: not kept */
    int64_t since_ms;      /* since when */
};

/* commit.c */
struct chief_decision {
    bool there, rejected;
    uint64_t step;
    float scale;
};

struct chief_commit {
    uint64_t step;   /* the step that the shards are reporting */
    double *squares; /* of each chunk */
    uint64_t examples, divisor;
    bool scaled; /* lamb: the scale is decided, and the shards must report again with it */
    float scale;
    /* lamb: index of each chunk's first piece (common/parameters/norm.h) */
    uint32_t *trust_first;
    double *trust; /* TRUST_SUMS of each piece */
    float *ratio;  /* of each tensor, from the last decision */
    uint32_t broken_shard;
    /* the finding of the lowest shard that found something; "": nothing */
    char broken[JOURNAL_WHAT_MAX];
    struct chief_decision last, due; /* due: sent when the journal is written */
};

/* accept.c: backup workers */
struct chief_accepted {
    bool there;
    uint64_t step;
    struct tree_leaves leaves;
};

struct chief_accept {
    uint64_t step; /* the step that the shards are reporting */
    /* begins: the first step of an epoch; extra, sync.dropped: redo: an extra step */
    bool begins, extra;
    bool seen; /* the own session is at seen_step, and has done its work at the epoch's end */
    uint64_t seen_step;
    struct chief_accepted last;
};

struct sync_state {
    uint64_t step;  /* the own session's step */
    uint64_t deal;  /* version of the last deal */
    bool told_idle; /* it was logged that some workers have no leaves */
    struct chief_commit commit;
    struct chief_accept accept;
    struct manifest_redo redo; /* sync.dropped: redo: as the lead shard reported last */
};

struct chief_leases {
    struct ids done;
    uint64_t next_id, redo;
    uint64_t epochs_told; /* epochs that this process has reported as done */
    /* the least id that leases_lose counted as done since the last cut; UINT64_MAX: none */
    uint64_t unsettled;
    uint32_t owner[IDS_WINDOW];
};

struct chief_stale {
    uint32_t shard, worker;
    struct staleness counted;
};

struct async_state {
    struct chief_leases leases;
    size_t stales;
    struct chief_stale *stale; /* as the shards reported last */
};

struct geo_state {
    struct async_state async;
    uint64_t losing;    /* batches that died with their worker, up to the present cut */
    struct ids settled; /* the ids that every shard counts as resolved from the present cut on */
};

/* The circumstances in which a worker's process joins. */
struct chief_came {
    bool same_process; /* this process had been welcomed before */
    bool keeps_state;  /* the same process, in the same generation and incarnation */
    bool replaces;     /* it replaces another process that was allowed to push */
};

/* The operations of an update mode. NULL: the mode does nothing there. */
struct chief_mode {
    const char *unit; /* the word for what is counted: "step", "batch" */
    /* the mode's name, if the mode adds momentum of its own; else NULL */
    const char *adds_momentum;
    bool has_slots; /* the shards keep the optimizer's slots */
    bool holds;     /* workers are held for a cut */
    bool skips;     /* batches to skip are sent in the welcome */

    /* A generation. `begin`: c->plan is made (ERR_NOMEM). `entered`: every shard has entered it, and its state is
     * known. `resend`: a ps is connected again. `close`: the generation, or the chief, is over. */
    enum err (*begin)(struct chief *c);
    void (*entered)(struct chief *c);
    void (*resend)(struct chief *c, uint32_t ps);
    void (*close)(struct chief *c);

    /* Progress. `enough`: the number of steps at which the job must end. */
    uint64_t (*steps)(const struct chief *c);
    bool (*learned)(const struct chief *c);
    uint64_t (*enough)(const struct chief *c, uint64_t step, uint64_t generation);
    void (*facts)(const struct chief *c, struct chief_facts *f);
    void (*staleness)(const struct chief *c, uint32_t worker, struct staleness *out);
    void (*on_step)(struct chief *c, uint64_t step);
    void (*on_report)(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
    void (*journaled)(struct chief *c);
    void (*check)(const struct chief *c); /* asserts */

    /* Workers. `came`: before a worker is welcomed; `welcomed`: after that. `goes`: a worker has reported that it
     * leaves. `away`: others must do a worker's work, because it has been away for too long, or is parked. `done`: a
     * worker reports these ids. */
    void (*deal)(struct chief *c);
    void (*tick)(struct chief *c);
    void (*came)(struct chief *c, uint32_t worker, struct chief_came how);
    void (*welcomed)(struct chief *c, uint32_t worker, struct chief_came how);
    void (*goes)(struct chief *c, uint32_t worker);
    void (*away)(struct chief *c, uint32_t worker);
    void (*done)(struct chief *c, size_t n, Gradwire__Range **ranges);
    /* the worker that the others wait for; c->workers: none */
    uint32_t (*slowest)(const struct chief *c);
    void (*on_worker)(struct chief *c, uint32_t worker, enum frame_type type,
                      const ProtobufCMessage *m);

    /* Shards. */
    void (*take_status)(struct chief *c, struct chief_shard *s, const Gradwire__ShardStatus *m);
    /* take the shard's state from c->base */
    void (*from_cut)(struct chief *c, struct chief_shard *s);
    bool (*equal)(const struct chief_shard *a, const struct chief_shard *b);

    /* A cut. `fence`: this worker does not hold. `stopped`: all shards have stopped; false: something must be
     * recomputed first. `lacks`: why the cut cannot be written; NULL: it can. `window`: (IDS_WINDOW_BYTES). */
    void (*hold_tick)(struct chief *c);
    void (*fence)(struct chief *c, uint32_t worker);
    void (*on_fenced)(struct chief *c, const Gradwire__Fenced *m);
    bool (*stopped)(struct chief *c);
    void (*put_cut_at)(const struct chief *c, Gradwire__CutAt *m, uint8_t *window);
    const char *(*lacks)(const struct chief *c);
    void (*put_manifest)(const struct chief *c, struct manifest *m, uint8_t *window);
    bool (*wants_cut)(const struct chief *c);
};

extern const struct chief_mode chief_sync, chief_async, chief_ssp, chief_geo;

struct chief {
    struct chief_config config;
    const struct chief_io *io;
    void *ctx;
    int64_t now_ms, said_ms;
    enum chief_phase phase;
    const struct chief_mode *mode;
    bool feedback;  /* workers withhold parts of gradients */
    bool holds;     /* workers are held for a cut: by the mode, or until nothing is withheld */
    uint32_t slots; /* number of the optimizer's slots */
    bool lamb;
    uint64_t total;

    struct generation generation;
    struct generation before;   /* the one before it that this process began; all zero: none */
    Gradwire__Generation named; /* `generation`, as a message */
    const char *store_token;    /* as io->store_token returned it for `generation` */
    bool entered;               /* this chief has entered `generation` on all shards */
    bool led;                   /* the same of this or of an earlier generation */
    enum { BEGINS_NEW, BEGINS_RESTORE, BEGINS_TAKEOVER } begins;
    char uuid[37];
    struct plan plan;
    uint32_t *threads;
    Gradwire__Plan plan_message;
    struct manifest base; /* the cut that the generation started from */
    bool has_base;
    uint64_t usable_below; /* cuts from this number on have proved unusable */
    char unusable[200];    /* the shards' reasons; "": none */

    struct chief_ps *ps;
    struct chief_shard *shard;
    uint32_t workers; /* entries in `worker` */
    struct chief_worker *worker;
    uint64_t last_incarnation; /* the largest of this run's workers, as far as this chief knows */
    bool told_momentum;
    uint64_t residuals_lost; /* feedback: of workers that are gone, or were in a takeover */
    union {
        struct sync_state sync;
        struct async_state async; /* also ssp */
        struct geo_state geo;
    };

    struct journal journal;
    uint32_t row;       /* number of consecutive batches that were rejected */
    uint32_t unwritten; /* journal entries that are being written */
    bool enter_due;     /* ENTER is sent when they are written */
    bool told_past;     /* it was logged that DIR lacks a part of the run's past */
    bool rollback_due;  /* go back to the last cut when they are written */
    struct chief_cut cut;
    struct chief_stall stall;
    /* the request that no cut answers yet (0: none), and the latest step that its cut may have */
    uint64_t keep_ask, keep_step;
    int64_t keep_ms; /* when the request came */
    uint64_t unkept; /* config.unkept_step, while no cut may begin; 0: one may */
    uint64_t next_cut, published_cut, published_step;
    struct chief_pace pace;
    int64_t last_cut_ms, retry_ms;
    bool published_final, going, evaluated;
    bool final_there;  /* the final cut is published, in this generation */
    uint32_t writings; /* of model/ that have not ended */
    /* the final cut is published, but the evaluator has no result for it yet */
    bool awaits_evaluator;
    int64_t final_ms; /* since when; 0: never */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    int64_t done_ms;
    char failed[sizeof(struct errmsg)];
};

/* tell.c */
void chief_say(struct chief *c, int warning, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define EVERY_PS UINT32_MAX
/* the first ps that is not connected; c->config.ps: none */
uint32_t chief_ps_away(const struct chief *c);
void chief_to_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
void chief_send_fence(struct chief *c, uint32_t ps, uint32_t worker, uint64_t incarnation);
/* Completes the entry, adds it, and has it written: until chief_on_journaled, c->unwritten counts it. */
void chief_note(struct chief *c, struct journal_entry *entry);
/* The lines that are on disk; ps 0 keeps them for the next chief. */
struct journal_lines chief_journal_lines(const struct chief *c);
void chief_tell_journal(struct chief *c);
void chief_send_done(struct chief *c, int exit_code, const char *text, bool to_ps);
void chief_fail(struct chief *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void chief_fail_with(struct chief *c, int exit_code, const char *text);
void chief_end(struct chief *c, int exit_code, const char *text);
bool chief_is_ours(const struct chief *c, const Gradwire__Generation *g);

/* workers.c */
/* NULL: no memory, or the number is too large */
struct chief_worker *chief_worker(struct chief *c, uint32_t worker);
void workers_close(struct chief *c);
uint32_t workers_count(const struct chief *c); /* number of members */
/* The leaves that each worker computes, by worker; workers without leaves are left out. Returns the number of parts. */
struct chief_part {
    uint32_t worker, first, end;
};
uint32_t workers_parts(const struct chief *c, struct chief_part part[CHIEF_WORKERS_MAX]);
/* Give the worker's number a new incarnation, larger than all before. */
void workers_new_incarnation(struct chief *c, uint32_t worker);
/* True if it should have answered HOLD, or FENCE, by now. */
bool workers_hold_is_over(const struct chief *c, const struct chief_worker *w);

/* guard.c */
/* The guard has found something. True: the batch is rejected, and training continues. False: the job fails or rolls
 * back. */
bool guard_reject(struct chief *c, uint64_t batch, const char *what);
/* Count one more batch without an update. False: that was one too many, and the job has failed. */
bool guard_count_row(struct chief *c, uint64_t batch, const char *what) MUST_CHECK;
/* reported by a worker */
void guard_on_rejected(struct chief *c, const Gradwire__BatchRejected *m);
static inline void guard_batch_done(struct chief *c, uint64_t batch)
{
    if (c->row && !journal_has(&c->journal, batch))
        c->row = 0;
}
/* Fail the job, because a value is not finite. */
void guard_fail(struct chief *c, uint64_t batch, const char *what);
/* Every shard has saved its part of the cut. False: a value in it is not finite, so the cut is not published, and
 * the job has failed. */
bool guard_takes_cut(struct chief *c) MUST_CHECK;

/* inexact.c */
/* Compares the worker's kernels with the chief's. False: they differ, and the journal's line is being written, so it
 * must not be welcomed yet. */
bool blas_is_noted(struct chief *c, uint32_t worker) MUST_CHECK;

/* inexact.c: note in the journal why the job is not exact any more, if this is not known. */
void inexact_note(struct chief *c, const char *why);
/* A generation begins: note the key that makes it inexact, if it has steps to make. Then ENTER must wait for the journal. */
void inexact_note_keys(struct chief *c);

/* inexact.c: a generation begins. If this is a takeover, and DIR lacks a part of the run's past: say so, and note it. Then ENTER
 * must wait for the journal. */
void past_note(struct chief *c);

/* shards.c */
uint64_t shards_furthest(const struct chief *c);     /* the most steps in the hellos of the ps */
uint64_t shards_least(const struct chief *c);        /* the fewest */
bool shards_all(const struct chief *c, size_t flag); /* flag: an offset in struct chief_shard */
bool shards_equal(const struct chief *c);
/* True if the plan has this shard, and this ps has it: a ps speaks for its own shards only. */
bool shards_are_of(const struct chief *c, uint32_t shard, uint32_t ps);
void shards_take_status(struct chief *c, const Gradwire__ShardStatus *m);
/* A takeover: the shards' state is what they said in their last hello, until they enter the generation and say it again. In
 * between they can still take pushes of the last generation. */
void shards_take_over(struct chief *c);
void shards_begin(struct chief *c); /* no takeover: the state of the cut, or of nothing */

/* accept.c: does nothing in jobs without backup workers. */
static inline bool accept_is_on(const struct chief *c)
{
    return c->config.settings.replicas_to_aggregate > 0;
}
void accept_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void accept_on_step(struct chief *c, uint64_t step); /* the own session is at this step */
void accept_send(struct chief *c, uint32_t ps);      /* the last decision, if one was made */
void accept_progress(struct chief *c);               /* the deal has changed */

/* commit.c */
enum err commit_init(struct chief *c) MUST_CHECK; /* a generation with c->plan begins */
void commit_close(struct chief *c);
void commit_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void commit_resend(struct chief *c, uint32_t ps); /* the ps is connected again */
void commit_on_journaled(struct chief *c);

/* feedback.c: does nothing in jobs that withhold nothing. */
void feedback_lost(struct chief *c, bool had); /* if had: count what one worker withheld as lost */
void feedback_came(struct chief *c, uint32_t worker, struct chief_came how);
void feedback_hold_tick(struct chief *c); /* for a mode that does not hold workers itself */

/* sync.c */
/* Number of steps, or batches, to learn. With extra steps: an upper bound, until the last epoch's end shows how many
 * (chief_enough). */
uint64_t sync_wanted(const struct chief_config *config);

/* async.c: staleness */
void stale_take(struct chief *c, const Gradwire__ShardStatus *m);
void stale_forget(struct chief *c);
/* Add the worker's counts over all shards to *out. */
void stale_join(const struct chief *c, uint32_t worker, struct staleness *out);

/* leases.c */
/* Start from the shards' state: an id is done if all shards have resolved it, or, with by_some, if any has. */
void leases_start(struct chief *c, bool by_some);
void leases_done(struct chief *c, uint64_t id);
void leases_tell_epoch(struct chief *c); /* report the last epoch that is over, if that is new */
void leases_take_done(struct chief *c, size_t n, Gradwire__Range **ranges);
/* the worker reports that it has these */
void leases_own(struct chief *c, uint32_t worker, const Gradwire__Range *r);
void leases_return(struct chief *c, uint32_t worker); /* make them available again */
void leases_repeat(struct chief *c, uint32_t worker); /* send its leases again, if it has any */
/* write its leases to the lead shard's ps, for the next chief */
void leases_note(struct chief *c, uint32_t worker);
/* Deal ids to the workers that asked for some, unless a cut holds them. */
void leases_serve(struct chief *c);
void leases_check(const struct chief *c);
/* If a worker asks for batches and none is available: the worker that has the least id that is not done. c->workers:
 * none. */
uint32_t leases_slowest(const struct chief *c);
/* the number of shards that have resolved it */
uint32_t leases_resolved(const struct chief *c, uint64_t id);
uint64_t leases_low(const struct chief *c); /* all shards have resolved all ids below this */
/* leases_die: a worker is dead; its ids are not dealt again. leases_lose: every shard refuses that worker, so its ids
 * count as done. */
void leases_die(struct chief *c, uint32_t worker);
void leases_lose(struct chief *c, uint32_t worker);
/* Deal ids that only some shards have to a worker that holds; afterwards all is compared again. False: no such ids. */
bool leases_redo_uneven(struct chief *c);

/* ssp.c, also for geo: the incarnations of a worker below its present one are gone when every shard refuses them.
 * clocks_expect: wait for that; the caller sends FENCE. clocks_leave: the same, and send FENCE. clocks_retire: first
 * give the worker a new incarnation, so that its present one is gone too. */
void clocks_expect(struct chief *c, uint32_t worker);
void clocks_leave(struct chief *c, uint32_t worker);
void clocks_retire(struct chief *c, uint32_t worker);
void clocks_gone(struct chief *c, uint32_t worker); /* also makes its leases available again */
enum err clocks_begin(struct chief *c) MUST_CHECK;  /* a new generation starts without clocks */
bool clocks_on_fenced(struct chief *c, const Gradwire__Fenced *m); /* true: they are gone now */
void clocks_resend(struct chief *c, uint32_t ps);

/* async.c: what async, ssp and geo share */
void async_entered(struct chief *c);
uint64_t async_steps(const struct chief *c);
bool async_learned(const struct chief *c);
uint64_t async_enough(const struct chief *c, uint64_t step, uint64_t generation);
void async_facts(const struct chief *c, struct chief_facts *f);
void async_own(struct chief *c, uint32_t worker, struct chief_came how);
void async_welcomed(struct chief *c, uint32_t worker, struct chief_came how);
void async_on_worker(struct chief *c, uint32_t worker, enum frame_type type,
                     const ProtobufCMessage *m);
void async_take_status(struct chief *c, struct chief_shard *s, const Gradwire__ShardStatus *m);
void async_from_cut(struct chief *c, struct chief_shard *s);
bool async_equal(const struct chief_shard *a, const struct chief_shard *b);
void async_hold_tick(struct chief *c);
/* true: it is fenced by all, and counts as held */
bool async_fenced_by_all(struct chief *c, const Gradwire__Fenced *m);
bool async_stopped(struct chief *c);
void async_put_manifest(const struct chief *c, struct manifest *m, uint8_t *window);
#define ASYNC_OPS                                                                                  \
    .check = leases_check, .unit = "batch", .holds = true, .skips = true, .close = stale_forget,   \
    .steps = async_steps, .learned = async_learned, .enough = async_enough,                        \
    .staleness = stale_join, .deal = leases_serve, .welcomed = async_welcomed,                     \
    .on_worker = async_on_worker, .done = leases_take_done, .tick = leases_serve,                  \
    .take_status = async_take_status, .from_cut = async_from_cut, .equal = async_equal,            \
    .hold_tick = async_hold_tick

/* cut.c: pace */
bool pace_is_due(const struct chief *c); /* by the job's keys and the cost of the last cut */
void pace_begin(struct chief *c);        /* a generation is entered */
void pace_published(struct chief *c);    /* c->cut was published */
void pace_judged(struct chief *c, uint64_t cut, int64_t took_ms); /* the evaluator has a result */

/* cut.c */
/* Start a cut. While another one runs, this starts none: a new one follows if the running one does not serve (`again`).
 * Does nothing before a generation is entered, after training has finished, while a rollback is due, and while an
 * evaluation of the last chief may have to be made again (c->unkept). */
void cut_start(struct chief *c, bool final);
void cut_abort(struct chief *c); /* drop the present cut, and the request of chief_keep */
/* Go on to the next stage if all that the present one waits for has come. */
void cut_progress(struct chief *c);
void cut_tick(struct chief *c);
/* A ps's message about a cut, or FENCED. */
void cut_on(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
/* Roll back to the last cut, as soon as every ps is connected: the evaluation of `step` must be made again. */
void cut_go_back(struct chief *c, uint64_t step);
/* The ps, or the worker, is connected again: send it the message of the present stage. */
void cut_resend(struct chief *c, uint32_t ps);
void cut_resend_worker(struct chief *c, uint32_t worker);
/* The shell has written the manifest of `cut`, or failed to (`error`). True: it is the present cut, which is now
 * published. False: the present cut has failed, or `cut` is one of an earlier generation. */
bool cut_published(struct chief *c, uint64_t cut, const char *error) MUST_CHECK;

/* members.c */
void members_entered(struct chief *c); /* welcome all workers that wait, and deal */
void members_tick(struct chief *c);
void members_idle(struct chief *c, uint32_t worker); /* it is away, and will not come back */
void members_check_own(struct chief *c); /* fails the job if its own worker stays without a ps */
void members_on(struct chief *c, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);

/* wait.c */
void wait_begin(struct chief *c); /* a generation is entered */
void wait_on(struct chief *c, uint32_t ps, const Gradwire__Wait *m);
void wait_tick(struct chief *c);
/* "step 12: waiting 5 s for worker 1, ..." */
void wait_text(const struct chief *c, const struct chief_wait *w, char *out, size_t bytes);

/* finish.c */
void finish_check(struct chief *c); /* checks whether all is learned */
void finish_evaluated(struct chief *c);
void finish_published(struct chief *c); /* c->cut was published */
void finish_judged(struct chief *c, uint64_t cut);
void finish_written(struct chief *c, const char *error); /* as chief_on_written */
/* the set of workers that have confirmed DONE has changed */
void finish_progress(struct chief *c);
void finish_tick(struct chief *c);

/* generation.c */
/* checks whether all ps are still in the present generation */
void generation_gathered(struct chief *c);
void generation_start(struct chief *c);
void generation_send_enter(struct chief *c, uint32_t ps);
void generation_on_journaled(struct chief *c); /* sends the ENTER that waited for the journal */
void generation_on_entered(struct chief *c, uint32_t ps, const Gradwire__Entered *m);
/* send again what a ps of this generation may have missed */
void generation_resend(struct chief *c, uint32_t ps);
