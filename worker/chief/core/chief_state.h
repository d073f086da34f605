/* The inside of the chief, for the files of this folder alone. A file calls only files that stand above it in this list;
 * the update modes are called through their table, struct chief_mode.
 *
 *   tell                   messages to every ps, lines for people, the end of the job
 *   workers                their places, and their parts of the tree
 *   journal guard          the NaN guard
 *   feedback               what workers withhold
 *   shards                 their state, as they told it last
 *   accept commit          layers of sync: backup workers, the step commit
 *   stale leases clocks    for the other modes: staleness, ids of batches, who is gone for good
 *   sync async ssp geo     the update modes
 *   pace                   how often cuts are taken
 *   cut                    a cut of the whole cluster
 *   members                workers that come, ask and go
 *   wait                   whom training waits for
 *   finish                 the end, when all is learned
 *   generation             how one begins
 *   facts chief            numbers for people; the events */
#ifndef GRADWIRE_WORKER_CHIEF_CORE_CHIEF_STATE_H
#define GRADWIRE_WORKER_CHIEF_CORE_CHIEF_STATE_H

#include "worker/chief/core/chief.h"

enum {
    CHIEF_HOLD_MS = 10000,     /* a worker that is up holds within this, or is fenced */
    CHIEF_HOLD_DOWN_MS = 1000, /* the same for one whose connection is lost */
    CHIEF_KEEP_MS = 3000,      /* the cut of an epoch's end stops the shards within this */
    CHIEF_CUT_RETRY_MS = 5000,
    CHIEF_CUT_STEPS = 500, /* with an automatic interval a cut is due when both have passed, */
    CHIEF_CUT_S = 60,
    CHIEF_CUT_SHARE = 100,     /* or so many times what the last one cost, */
    CHIEF_CUT_LEAST_MS = 1000, /* at least this */
    CHIEF_FINAL_CUT_TRIES = 3,
    CHIEF_GOING_ALONE_MS = 2000, /* told to go, a ps may be away for so long */
    CHIEF_DONE_MS = 10000,       /* who is no member confirms DONE within this */
    CHIEF_DONE_PS_MS = 3000,     /* ps close within this */
    CHIEF_SAY_WAIT_MS = 10000,
    CHIEF_STALL_MS =
        3000, /* nothing was made for so long: the shards are asked whom they wait for, */
    CHIEF_ANSWER_MS = 2000, /* answer within this, and are asked again */
    CHIEF_SILENT_ASKS = 2,  /* a shard that has answered none of so many is waited for */
    CHIEF_STALL_STEPS =
        3, /* but only when so many steps, at the last one's pace, would have been made */
};

enum chief_phase {
    CHIEF_GATHER, /* a generation is to begin when every ps is connected */
    CHIEF_ENTER,  /* ENTER is sent */
    CHIEF_RUN,
    CHIEF_FINISH,  /* all is learned: final evaluation, then the final cut */
    CHIEF_DONE,    /* DONE is sent to workers */
    CHIEF_DONE_PS, /* DONE is sent to ps */
    CHIEF_ENDED,
};

struct chief_ps {
    bool up, was_up, entered, going;
    bool told; /* that the job is done, and it has closed its connection since */
    struct generation generation;
    char uuid[37];
    uint32_t threads;
    uint64_t next_cut;
    Gradwire__HelloReply *hello; /* a copy of its last one; NULL: none */
    int64_t lost_ms;
};

struct chief_shard {
    bool entered, stopped, copied, saved;
    uint64_t step, t, duplicates, clipped;
    struct codec_cost push, reply;
    struct checkpoint_file file;
    char broken[192];  /* CutSaved's; "": none */
    uint64_t squeezed; /* rows */
    uint32_t tables;
    struct row_counts table[ROW_TABLES_MAX]; /* (tables) */
    struct {
        uint64_t number; /* of the ask that it has answered; 0: none */
        uint64_t step;
        struct tree_leaves missing; /* sync */
        bool behind;                /* ssp: `worker` has the least clock */
        uint32_t worker;
    } wait;
    union {
        struct {
            uint64_t dropped;
            bool reported, trusted;  /* its part of the step; lamb: with the scaled gradient */
            bool accepts;            /* it has told what is whole on it of the step */
            struct tree_nodes whole; /* backup workers */
        } sync;
        struct {
            struct ids resolved;
            size_t partials;
            uint64_t partial[64]; /* as many as fit; the others show in the next round */
        } async;                  /* and ssp, and geo */
    };
};

enum { OWNER_NONE = 0, OWNER_REDO = 1, OWNER_WORKER = 2 /* + worker */ };
enum { OWNER_DYING = OWNER_WORKER + CHIEF_WORKERS_MAX /* + worker */ };

struct chief_worker {
    bool member; /* counts in the deal */
    bool up, welcomed, held, acked, fencing;
    bool given;      /* a process got `incarnation` in this generation: it may push */
    bool hello_used; /* its leases were taken over */
    int64_t fence_ms;
    uint64_t incarnation; /* the largest that is given, or that is refused with those below it */
    uint64_t process;     /* the first one of the process that has this place */
    int64_t lost_ms;
    int64_t done_ms;               /* when it was sent DONE */
    Gradwire__Hello *hello;        /* kept until the generation is entered */
    uint32_t fenced_by;            /* ps that have answered FENCED */
    struct worker_account account; /* when acked */
    bool
        unreached; /* it has told that it does not reach `unreached_ps`; parked for that, it stays so */
    uint32_t unreached_ps;
    int64_t unreached_ms; /* since then */
    int64_t
        silent_ms; /* before its connection is lost: nothing was heard of its host for so long */
    union {
        struct {
            uint64_t dropped; /* backup workers: microbatches, as far as this chief decided */
        } sync;
        struct {
            uint32_t want;       /* ids that it asked for and has not got */
            bool told_none;      /* feedback: there are none to be had now */
            bool gone;           /* every shard refuses them, and was told so */
            uint64_t gone_below; /* ssp, geo: these incarnations are to go; 0: none */
            uint64_t refused_by[PLAN_SHARDS_MAX / 64]; /* ps that refuse them, as bits */
        } async;
    };
};

enum chief_cut_stage { STAGE_NONE, STAGE_HOLD, STAGE_STOP, STAGE_SAVE, STAGE_PUBLISH };

struct chief_cut {
    enum chief_cut_stage stage;
    uint64_t number, step;
    uint64_t t; /* the largest of the stopped shards; in sync they go on to one and the same */
    int64_t began_ms;
    bool final, resumed;
    bool again;     /* another one is wanted as soon as this one is over */
    uint64_t keeps; /* the ask that it is the answer to; 0: none */
    uint32_t tries;
};

struct chief_pace {
    int64_t began_ms;   /* the last published cut did, or the generation after it */
    int64_t took_ms;    /* that cut, until it was published; 0: this chief has published none */
    uint64_t judged;    /* the evaluator has a result for this cut; UINT64_MAX: none */
    int64_t judging_ms; /* and needed so long */
};

/* wait.c */
struct chief_stall {
    uint64_t made;         /* steps, or batches, when it was last looked */
    int64_t moved_ms;      /* since then nothing was made */
    int64_t took_ms[2];    /* the last one, and the one before */
    uint64_t asks;         /* of the shards, in this chief's life */
    uint64_t first_ask;    /* of these, of this stall */
    int64_t asked_ms;      /* 0: not in this stall */
    struct chief_wait now; /* whom it is because of; seconds: not kept */
    int64_t since_ms;      /* of it */
};

/* commit.c */
struct chief_decision {
    bool there, rejected;
    uint64_t step;
    float scale;
};

struct chief_commit {
    uint64_t step;   /* that is being reported */
    double *squares; /* of each chunk */
    uint64_t examples, divisor;
    bool scaled; /* lamb: the scale is decided, and the shards are to report again with it */
    float scale;
    uint32_t *trust_first; /* lamb: of each chunk its first piece (common/parameters/trust.h) */
    double *trust;         /* TRUST_SUMS of each piece */
    float *ratio;          /* of each tensor, of the last decision */
    uint32_t broken_shard;
    char broken[JOURNAL_WHAT_MAX];   /* what the lowest shard of those has found; "": nothing */
    struct chief_decision last, due; /* due: told when the journal is written */
};

/* accept.c: backup workers */
struct chief_accepted {
    bool there;
    uint64_t step;
    struct tree_leaves leaves;
};

struct chief_accept {
    uint64_t step;      /* that is being reported */
    bool begins, extra; /* it is an epoch's first one; sync.dropped: redo: an extra one */
    bool seen; /* the own session stands at seen_step, and what it does at an epoch's end is done */
    uint64_t seen_step;
    struct chief_accepted last;
};

struct sync_state {
    uint64_t step; /* as the own session knows */
    uint64_t deal;
    bool told_idle;
    struct chief_commit commit;
    struct chief_accept accept;
    struct manifest_redo redo; /* sync.dropped: redo: as the lead shard said last */
};

struct chief_leases {
    struct ids done;
    uint64_t next_id, redo;
    uint64_t epochs_told; /* by this process, of the batches that are done */
    uint64_t unsettled;   /* the least id that died since the last cut; UINT64_MAX: none */
    uint32_t owner[IDS_WINDOW];
};

struct chief_stale {
    uint32_t shard, worker;
    struct staleness counted;
};

struct async_state {
    struct chief_leases leases;
    size_t stales;
    struct chief_stale *stale; /* as the shards told last: stale.c */
};

struct geo_state {
    struct async_state async;
    uint64_t lost;      /* batches that died with their worker, as far as cuts have shown */
    uint64_t losing;    /* the same with the cut in the works */
    struct ids settled; /* resolved with this cut, on every shard */
};

/* How a process of a worker came. */
struct chief_came {
    bool same_process; /* that had been welcomed before */
    bool keeps_state;  /* and in this generation */
    bool replaces;     /* another one, which may push */
};

/* An update mode. NULL: it has nothing to do there. */
struct chief_mode {
    const char *unit;          /* what is counted: a step, a batch */
    const char *adds_momentum; /* the mode's name, where it adds momentum of its own */
    bool has_slots;            /* the shards have those of the optimizer */
    bool holds;                /* workers are held for a cut */
    bool skips;                /* batches to be skipped travel in the welcome */

    /* A generation: c->plan is made (ERR_NOMEM); every shard has entered it, and what they have is known; a ps is there
     * again; it is over, and the chief. */
    enum err (*begin)(struct chief *c);
    void (*entered)(struct chief *c);
    void (*resend)(struct chief *c, uint32_t ps);
    void (*close)(struct chief *c);

    /* Progress. `enough`: where the job is to end. */
    uint64_t (*steps)(const struct chief *c);
    bool (*learned)(const struct chief *c);
    uint64_t (*enough)(const struct chief *c, uint64_t step, uint64_t generation);
    void (*facts)(const struct chief *c, struct chief_facts *f);
    void (*staleness)(const struct chief *c, uint32_t worker, struct staleness *out);
    void (*on_step)(struct chief *c, uint64_t step);
    void (*on_report)(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
    void (*journaled)(struct chief *c);
    void (*check)(const struct chief *c); /* asserts */

    /* Workers. `came` before it is welcomed, `welcomed` behind that; `goes`: it says so; `away`: for too long. */
    void (*deal)(struct chief *c);
    void (*tick)(struct chief *c);
    void (*came)(struct chief *c, uint32_t worker, struct chief_came how);
    void (*welcomed)(struct chief *c, uint32_t worker, struct chief_came how);
    void (*goes)(struct chief *c, uint32_t worker);
    void (*away)(struct chief *c, uint32_t worker);
    void (*done)(struct chief *c, size_t n, Gradwire__Range **ranges);
    uint32_t (*slowest)(const struct chief *c); /* whom the others wait for; c->workers: nobody */
    void (*on_worker)(struct chief *c, uint32_t worker, enum frame_type type,
                      const ProtobufCMessage *m);

    /* Shards. */
    void (*take_status)(struct chief *c, struct chief_shard *s, const Gradwire__ShardStatus *m);
    void (*from_cut)(struct chief *c, struct chief_shard *s); /* of c->base */
    bool (*equal)(const struct chief_shard *a, const struct chief_shard *b);

    /* A cut. `fence`: a worker that does not hold; `stopped`: all shards are, false: something is redone first;
     * `lacks`: why it cannot be written; `window`: (IDS_WINDOW_BYTES). */
    void (*hold_tick)(struct chief *c);
    void (*fence)(struct chief *c, uint32_t worker);
    void (*on_fenced)(struct chief *c, const Gradwire__Fenced *m);
    bool (*stopped)(struct chief *c);
    void (*put_cut_at)(const struct chief *c, Gradwire__CutAt *m, uint8_t *window);
    const char *(*lacks)(const struct chief *c);
    void (*put_manifest)(const struct chief *c, struct manifest *m, uint8_t *window);
    void (*published)(struct chief *c);
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
    uint32_t slots; /* of the optimizer */
    bool lamb;
    uint64_t total;

    struct generation generation;
    Gradwire__Generation named; /* `generation`, for messages */
    bool entered;               /* this chief has entered `generation` on all shards */
    enum { BEGINS_NEW, BEGINS_RESTORE, BEGINS_TAKEOVER } begins;
    char uuid[37];
    struct plan plan;
    uint32_t *threads;
    Gradwire__Plan plan_message;
    struct manifest base; /* the cut that the generation started from */
    bool has_base;
    uint64_t usable_below; /* cuts from here on have proved unusable: */
    char unusable[200];    /* what shards said of them; "": nothing */

    struct chief_ps *ps;
    struct chief_shard *shard;
    uint32_t workers; /* entries in `worker` */
    struct chief_worker *worker;
    uint64_t incarnations;
    bool told_momentum;
    uint64_t residuals_lost; /* feedback: of workers that are gone, or in a takeover */
    union {
        struct sync_state sync;
        struct async_state async; /* and ssp */
        struct geo_state geo;
    };

    struct journal journal;
    uint32_t row;       /* batches that were rejected one behind the other */
    uint32_t unwritten; /* its entries on their way to disk */
    bool rollback_due;  /* when they are there: back to the last cut */
    struct chief_cut cut;
    struct chief_stall stall;
    uint64_t keep_ask, keep_step; /* whose cut is to come (0: none), of which step at the latest */
    int64_t keep_ms;              /* since when */
    uint64_t next_cut, published_cut, published_step;
    struct chief_pace pace;
    int64_t last_cut_ms, retry_ms;
    bool published_final, going, evaluated;
    bool awaits_evaluator; /* the final cut is published, its result is not there */
    int64_t final_ms;      /* since when; 0: never */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    int64_t done_ms;
    char failed[sizeof(struct errmsg)];
};

/* tell.c */
void chief_say(struct chief *c, int warning, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define EVERY_PS UINT32_MAX
uint32_t chief_ps_away(const struct chief *c); /* the first that is; c->config.ps: none */
void chief_to_ps(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
void chief_send_fence(struct chief *c, uint32_t ps, uint32_t worker, uint64_t incarnation);
void chief_send_done(struct chief *c, int exit_code, const char *text, bool to_ps);
void chief_fail(struct chief *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void chief_end(struct chief *c, int exit_code, const char *text);
bool chief_is_ours(const struct chief *c, const Gradwire__Generation *g);

/* workers.c */
struct chief_worker *chief_worker(struct chief *c, uint32_t worker); /* NULL: no memory */
void workers_close(struct chief *c);
uint32_t workers_count(const struct chief *c); /* members */
/* Who computes which leaves, by worker; those that get none are left out. Returns how many. */
struct chief_part {
    uint32_t worker, first, end;
};
uint32_t workers_parts(const struct chief *c, struct chief_part part[CHIEF_WORKERS_MAX]);
void workers_new_incarnation(struct chief *c, uint32_t worker);
/* It should have answered HOLD, or FENCE, by now. */
bool workers_hold_is_over(const struct chief *c, const struct chief_worker *w);

/* guard.c */
/* The guard has found something. True: the batch is rejected, and training goes on. */
bool guard_reject(struct chief *c, uint64_t batch, const char *what);
/* One more without an update. False: that was the last one. */
bool guard_count_row(struct chief *c, uint64_t batch, const char *what) MUST_CHECK;
void guard_on_rejected(struct chief *c, const Gradwire__BatchRejected *m); /* by a worker */
void guard_batch_done(struct chief *c, uint64_t batch);
/* The job fails for what is not finite. */
void guard_fail(struct chief *c, uint64_t batch, const char *what);
/* Every shard has saved its part of the cut. False: what is in it is not finite, so it is not published, and the job has
 * failed. */
bool guard_takes_cut(struct chief *c) MUST_CHECK;

/* shards.c */
bool shards_all(const struct chief *c, size_t flag); /* an offset in struct chief_shard */
bool shards_equal(const struct chief *c);
void shards_take_status(struct chief *c, const Gradwire__ShardStatus *m);
void shards_begin(struct chief *c); /* by c->begins */

/* accept.c: nothing is done where there are no backup workers. */
bool accept_is_on(const struct chief *c);
void accept_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void accept_on_step(struct chief *c, uint64_t step); /* the own session stands there */
void accept_send(struct chief *c, uint32_t ps);      /* the last decision, if there is one */
void accept_progress(struct chief *c);               /* who is dealt what has changed */

/* commit.c */
enum err commit_init(struct chief *c) MUST_CHECK; /* a generation of c->plan begins */
void commit_close(struct chief *c);
void commit_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void commit_resend(struct chief *c, uint32_t ps); /* it is there again */
void commit_on_journaled(struct chief *c);

/* feedback.c: nothing is done where nothing is withheld. */
void feedback_lost(struct chief *c, bool had);
void feedback_came(struct chief *c, uint32_t worker, struct chief_came how);
void feedback_hold_tick(struct chief *c); /* of a mode that holds nobody by itself */

/* sync.c */
/* Steps, or batches: with extra steps no more than these, until the last epoch's end shows how many (chief_enough). */
uint64_t sync_wanted(const struct chief_config *config);

/* stale.c */
void stale_take(struct chief *c, const Gradwire__ShardStatus *m);
void stale_forget(struct chief *c);
void stale_join(const struct chief *c, uint32_t worker, struct staleness *out);

/* leases.c */
/* By what the shards have: done is what all have resolved, or, by_some, any. */
void leases_start(struct chief *c, bool by_some);
void leases_done(struct chief *c, uint64_t id);
void leases_tell_epoch(struct chief *c); /* the last that is over, if it is news */
void leases_take_done(struct chief *c, size_t n, Gradwire__Range **ranges);
void leases_own(struct chief *c, uint32_t worker, const Gradwire__Range *r); /* it says so */
void leases_return(struct chief *c, uint32_t worker);                        /* to be dealt again */
void leases_repeat(struct chief *c, uint32_t worker); /* told anew what it has, if anything */
void leases_note(struct chief *c, uint32_t worker);   /* on the lead's ps, for the next chief */
void leases_serve(struct chief *c);
void leases_check(const struct chief *c);
/* Where another one asks for batches and none is to be had: who has the least that is not done. c->workers: nobody. */
uint32_t leases_slowest(const struct chief *c);
uint32_t leases_resolved(const struct chief *c, uint64_t id); /* by how many shards */
uint64_t leases_low(const struct chief *c); /* all shards have resolved all below */
/* What a dead worker holds is not dealt again; then, once every shard refuses it, it is done with. */
void leases_die(struct chief *c, uint32_t worker);
void leases_lose(struct chief *c, uint32_t worker);
/* Ids that only some shards have are dealt to a worker that holds; then all is compared again. False: there are none. */
bool leases_redo_uneven(struct chief *c);

/* clocks.c: incarnations of the worker below its present one are gone when every shard refuses them: FENCE is sent by
 * clocks_leave, by the caller of clocks_expect. clocks_retire: so is the present one. */
void clocks_expect(struct chief *c, uint32_t worker);
void clocks_leave(struct chief *c, uint32_t worker);
void clocks_retire(struct chief *c, uint32_t worker);
void clocks_gone(struct chief *c, uint32_t worker); /* and what it had is dealt again */
enum err clocks_begin(struct chief *c) MUST_CHECK;  /* a new generation has none */
bool clocks_on_fenced(struct chief *c, const Gradwire__Fenced *m); /* true: now they are gone */
void clocks_resend(struct chief *c, uint32_t ps);

/* async.c: what ssp and geo have in common with it */
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
bool async_fenced_by_all(struct chief *c, const Gradwire__Fenced *m); /* now: it is held */
bool async_stopped(struct chief *c);
void async_put_manifest(const struct chief *c, struct manifest *m, uint8_t *window);
#define ASYNC_OPS                                                                                  \
    .check = leases_check, .unit = "batch", .holds = true, .skips = true, .close = stale_forget,   \
    .steps = async_steps, .learned = async_learned, .enough = async_enough,                        \
    .staleness = stale_join, .deal = leases_serve, .welcomed = async_welcomed,                     \
    .on_worker = async_on_worker, .done = leases_take_done, .tick = leases_serve,                  \
    .take_status = async_take_status, .from_cut = async_from_cut, .equal = async_equal,            \
    .hold_tick = async_hold_tick

/* pace.c */
bool pace_is_due(const struct chief *c); /* a cut, by the job's keys and what the last one cost */
void pace_begin(struct chief *c);        /* a generation is entered */
void pace_published(struct chief *c);    /* c->cut is */
void pace_judged(struct chief *c, uint64_t cut, int64_t took_ms); /* the evaluator has a result */

/* cut.c */
void cut_start(struct chief *c, bool final);
void cut_abort(struct chief *c);
void cut_progress(struct chief *c);
void cut_tick(struct chief *c);
void cut_on(struct chief *c, enum frame_type type, const ProtobufCMessage *m);
void cut_resend(struct chief *c, uint32_t ps);
void cut_resend_worker(struct chief *c, uint32_t worker);
/* True: this cut is. */
bool cut_published(struct chief *c, uint64_t cut, const char *error) MUST_CHECK;

/* members.c */
void members_entered(struct chief *c); /* welcome all that wait, deal */
void members_tick(struct chief *c);
void members_check_own(struct chief *c); /* fails the job where its own worker stays without a ps */
void members_on(struct chief *c, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);

/* wait.c */
void wait_begin(struct chief *c); /* a generation is entered */
void wait_on(struct chief *c, const Gradwire__Wait *m);
void wait_tick(struct chief *c);
/* "step 12: waiting 5 s for worker 1, .." */
void wait_text(const struct chief *c, const struct chief_wait *w, char *out, size_t bytes);

/* finish.c */
void finish_check(struct chief *c); /* is all learned? */
void finish_evaluated(struct chief *c);
void finish_published(struct chief *c); /* c->cut is */
void finish_judged(struct chief *c, uint64_t cut);
void finish_progress(struct chief *c); /* who is told that it is done has changed */
void finish_tick(struct chief *c);

/* generation.c */
void generation_gathered(struct chief *c); /* is the present one still that of all ps? */
void generation_start(struct chief *c);
void generation_send_enter(struct chief *c, uint32_t ps);
void generation_on_entered(struct chief *c, const Gradwire__Entered *m);
void generation_resend(struct chief *c, uint32_t ps); /* what a ps of ours may have missed */

#endif
