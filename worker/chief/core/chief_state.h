/* The inside of the chief, for the files of worker/chief alone. */
#ifndef GRADWIRE_WORKER_CHIEF_CORE_CHIEF_STATE_H
#define GRADWIRE_WORKER_CHIEF_CORE_CHIEF_STATE_H

#include "worker/chief/core/chief.h"

enum {
    CHIEF_HOLD_MS = 10000,     /* a worker that is up holds within this, or is fenced */
    CHIEF_HOLD_DOWN_MS = 1000, /* the same for one whose connection is lost */
    CHIEF_CUT_RETRY_MS = 5000,
    CHIEF_FINAL_CUT_TRIES = 3,
    CHIEF_GOING_ALONE_MS = 2000, /* told to go, a ps may be away for so long */
    CHIEF_DONE_MS = 10000,       /* workers confirm DONE within this */
    CHIEF_DONE_PS_MS = 3000,     /* ps close within this */
    CHIEF_SAY_WAIT_MS = 10000,
};

enum chief_phase {
    CHIEF_GATHER, /* not every ps is connected */
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
    uint64_t next_cut, incarnation;
    Gradwire__HelloReply *hello; /* a copy of its last one; NULL: none */
    int64_t lost_ms;
};

struct chief_shard {
    bool entered, stopped, copied, saved;
    uint64_t step, t, duplicates, clipped, dropped;
    struct ids resolved;
    size_t partials;
    struct codec_cost push, reply;
    uint64_t partial[64]; /* as many as fit; the others show in the next round */
    struct checkpoint_file file;
};

enum { OWNER_NONE = 0, OWNER_REDO = 1, OWNER_WORKER = 2 /* + worker */ };
enum { OWNER_DYING = OWNER_WORKER + CHIEF_WORKERS_MAX /* + worker */ };

struct chief_worker {
    bool member; /* counts in the deal */
    bool up, welcomed, held, acked, fencing;
    bool given;      /* a process got `incarnation` in this generation: it may push */
    bool hello_used; /* its leases were taken over */
    int64_t fence_ms;
    uint64_t incarnation;
    int64_t lost_ms;
    uint32_t want;                 /* ids that it asked for and has not got */
    bool told_none;                /* feedback: there are none to be had now */
    Gradwire__Hello *hello;        /* kept until the generation is entered */
    uint32_t fenced_by;            /* ps that have answered FENCED */
    struct worker_account account; /* when acked */
    uint64_t dropped;              /* backup workers: microbatches, as far as this chief decided */
    uint64_t gone_below; /* ssp: these incarnations are to leave the least clock; 0: none */
    bool gone;           /* every shard refuses them, and was told so */
    uint64_t refused_by[PLAN_SHARDS_MAX / 64]; /* ps that refuse them, as bits */
};

enum chief_cut_stage { STAGE_NONE, STAGE_HOLD, STAGE_STOP, STAGE_SAVE, STAGE_PUBLISH };

struct chief_cut {
    enum chief_cut_stage stage;
    uint64_t number, step;
    struct ids settled; /* geo: resolved with this cut, on every shard */
    int64_t began_ms;
    bool final, resumed;
    bool again; /* another one is wanted as soon as this one is over */
    uint32_t tries;
};

/* commit.c */
struct chief_decision {
    bool there, rejected;
    uint64_t step;
    float scale;
};

struct chief_commit {
    uint64_t step;   /* that is being reported */
    bool *reported;  /* by each shard */
    double *squares; /* of each chunk */
    uint64_t examples, divisor;
    bool scaled; /* lamb: the scale is decided, and the shards are to report again with it */
    float scale;
    bool *trusted; /* and this shard has */
    uint32_t *
        trust_first; /* lamb: of each chunk its first piece (common/parameters/trust.h); else NULL */
    double *trust;   /* TRUST_SUMS of each piece */
    float *ratio;    /* of each tensor, of the last decision */
    uint32_t broken_shard;
    char broken[JOURNAL_WHAT_MAX];   /* what the lowest shard of those has found; "": nothing */
    uint32_t row;                    /* batches that were rejected one behind the other */
    struct chief_decision last, due; /* due: told when the journal is written */
};

/* accept.c: backup workers */
struct chief_accept {
    bool on;
    uint64_t step;            /* that is being reported */
    bool begins, extra;       /* it is an epoch's first one; sync.dropped: redo: an extra one */
    bool *reported;           /* by each shard */
    struct tree_nodes *whole; /* of each shard */
    bool seen; /* the own session stands at seen_step, and what it does at an epoch's end is done */
    uint64_t seen_step;
    struct {
        bool there;
        uint64_t step;
        struct tree_leaves leaves;
    } last;
};

struct chief_stale {
    uint32_t shard, worker;
    struct staleness counted;
};

struct chief {
    struct chief_config config;
    const struct chief_io *io;
    void *ctx;
    int64_t now_ms, started_ms, said_ms;
    enum chief_phase phase;
    bool sync, ssp, geo;
    bool feedback;  /* workers withhold parts of gradients */
    bool holds;     /* workers are held for a cut: in sync, until nothing is withheld */
    bool retires;   /* who is gone is refused by every shard before it counts as gone */
    uint32_t slots; /* of the optimizer */
    bool lamb;
    uint64_t total;

    struct generation generation;
    bool entered; /* this chief has entered `generation` on all shards */
    enum { MODE_INIT, MODE_RESTORE, MODE_TAKEOVER } mode;
    char uuid[37];
    struct plan plan;
    uint32_t *threads;
    Gradwire__Plan plan_message;
    struct manifest base; /* the cut that the generation started from */
    bool has_base;
    uint64_t usable_below; /* cuts from here on have proved unusable */

    struct chief_ps *ps;
    struct chief_shard *shard;
    uint32_t workers; /* entries in `worker` */
    struct chief_worker *worker;
    size_t stales;
    struct chief_stale *stale; /* as the shards told last: stale.c */
    uint64_t incarnations, deal;
    bool told_idle, told_momentum;

    uint64_t step; /* sync: as the own session knows */
    struct ids done;
    uint64_t lost;   /* geo: batches that died with their worker, as far as cuts have shown */
    uint64_t losing; /* the same with the cut in the works */
    uint64_t residuals_lost; /* feedback: of workers that are gone, or in a takeover */
    uint64_t unsettled;      /* geo: the least id that died since the last cut; UINT64_MAX: none */
    uint64_t next_id, redo;
    uint32_t owner[IDS_WINDOW];

    struct chief_commit commit;
    struct chief_accept accept;
    struct journal journal;
    uint32_t unwritten; /* its entries on their way to disk */
    bool rollback_due;  /* when they are there: back to the last cut */
    struct chief_cut cut;
    uint64_t next_cut, published_cut, published_step;
    int64_t last_cut_ms, retry_ms;
    bool published_final, going, evaluated;
    bool awaits_evaluator; /* the final cut is published, its result is not there */
    int64_t final_ms;      /* since when; 0: never */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS];
    struct manifest_redo redo_place; /* as the lead shard said last; sync.dropped: redo */
    int64_t done_ms;
    char failed[256];
};

/* chief.c */
void chief_say(struct chief *c, int warning, const char *fmt, ...) PRINTF_LIKE(3, 4);
void chief_all_ps(struct chief *c, enum frame_type type, const ProtobufCMessage *m);
void chief_fail(struct chief *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void chief_end(struct chief *c, int exit_code, const char *text);
void chief_final(struct chief *c); /* the final cut is published */
uint64_t chief_steps(const struct chief *c);
void chief_check_finished(struct chief *c);
void chief_take_status(struct chief *c, const Gradwire__ShardStatus *m);

/* stale.c */
void stale_take(struct chief *c, const Gradwire__ShardStatus *m);
void stale_forget(struct chief *c);

/* members.c */
struct chief_worker *chief_worker(struct chief *c, uint32_t worker);
void members_entered(struct chief *c); /* welcome all that wait, deal */
void members_tick(struct chief *c);
void members_on(struct chief *c, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);
void members_close(struct chief *c);
/* Sync: who computes which leaves, by worker; those that get none are left out. Returns how many. */
struct chief_part {
    uint32_t worker, first, end;
};
uint32_t members_parts(const struct chief *c, struct chief_part part[CHIEF_WORKERS_MAX]);
/* Ids of the batches, in async. */
void leases_start(struct chief *c);
void leases_take_done(struct chief *c, size_t n, Gradwire__Range **ranges);
void leases_return(struct chief *c, uint32_t worker);
void leases_serve(struct chief *c);
/* Geo: what a dead worker holds is not dealt again, and done with once every shard refuses it; what of it was added
 * shows at the next cut. In other modes leases_die is leases_return. */
void leases_die(struct chief *c, uint32_t worker);
void leases_lose(struct chief *c, uint32_t worker);
/* Geo: what some shard has resolved, or a dead worker held, is resolved. Fills *all; what no shard has is lost. */
void leases_settle(struct chief *c, struct ids *all);
void leases_assign(struct chief *c, uint32_t worker, const uint64_t *ids, size_t n, bool redo);

/* clocks.c: nothing is done but in ssp and geo. Incarnations of the worker below its present one leave the least clock when
 * every shard refuses them: FENCE is sent by clocks_leave, by the caller of clocks_expect. */
void clocks_expect(struct chief *c, uint32_t worker);
void clocks_leave(struct chief *c, uint32_t worker);
void clocks_on_fenced(struct chief *c, const Gradwire__Fenced *m);
void clocks_resend(struct chief *c, uint32_t ps); /* its connection is back */
void clocks_forget(struct chief *c);              /* a new generation has no clocks */

/* cut.c */
void cut_start(struct chief *c, bool final);
void cut_abort(struct chief *c);
void cut_progress(struct chief *c);
void cut_tick(struct chief *c);
void cut_on(struct chief *c, uint32_t ps, enum frame_type type, const ProtobufCMessage *m);
void cut_resend(struct chief *c, uint32_t ps);
void cut_resend_worker(struct chief *c, uint32_t worker);

/* accept.c: nothing is done where there are no backup workers. */
enum err accept_init(struct chief *c) MUST_CHECK;
void accept_close(struct chief *c);
void accept_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void accept_on_step(struct chief *c, uint64_t step); /* the own session stands there */
void accept_resend(struct chief *c, uint32_t ps);
void accept_progress(struct chief *c); /* who is dealt what has changed */

/* commit.c */
enum err commit_init(struct chief *c) MUST_CHECK; /* a generation of c->plan begins */
void commit_close(struct chief *c);
void commit_on_report(struct chief *c, uint32_t ps, const Gradwire__StepReport *m);
void commit_resend(struct chief *c, uint32_t ps); /* it is there again */
/* Async: a worker does not push this batch. */
void commit_on_rejected(struct chief *c, const Gradwire__BatchRejected *m);
void commit_on_journaled(struct chief *c);
void commit_batch_done(struct chief *c, uint64_t batch);

#endif
