/* The inside of a session, for its own files. An update mode is a table of operations with its own state. session.c
 * has the events and session_state.c what all files share. session_exchange.c serves the modes that pull whole
 * parameters by step (all but ssp), session_lease.c those that compute batches by id (all but sync). Error feedback
 * and averages are layers that work with any mode. Calls go one way, from session.c towards session_state.c; only
 * the operations of the mode are called upwards. */
#pragma once

#include "worker/core/session.h"

struct session_link {
    /* UP: the shard has accepted our hello; STREAMS: the whole running push goes over this connection. */
    enum { LINK_DOWN, LINK_UP, LINK_STREAMS } state;
    /* ASKED: a pull is pending; WHOLE: all chunks of the awaited answer have arrived. */
    enum { PULL_NONE, PULL_ASKED, PULL_WHOLE } pull;
    uint64_t got_step; /* the step of the parameters that have arrived */
    uint32_t got_chunks;
    bool holds; /* all parameters of holds_step came over this connection */
    uint64_t holds_step;
    uint32_t averages;       /* number of chunks of the moving averages that have arrived */
    uint32_t acked_chunks;   /* of the running push, in modes that acknowledge pushes */
    bool made;               /* tables, sync: all parts of the rows are made for got_step, too */
    uint32_t acked_parts;    /* tables, async: of the running push */
    bool rows[SESSION_ASKS]; /* the answer to the last request has arrived */
    /* numbers of the requests for tasks whose keys the shard keeps for this connection; 0: none */
    uint64_t asked[2];
    /* ssp: the clock at which the shard let us enter; UINT64_MAX: not reported yet */
    uint64_t entered_clock;
};

/* Sync: the deal, and the lead shard's reports of steps. */
enum { SESSION_EPOCHS = 4 }; /* number of epochs whose sums the lead shard keeps */

struct sync_state {
    uint64_t epochs;
    uint64_t total; /* number of steps in the job. Redo: UINT64_MAX until the end is known */
    uint64_t deal;  /* version of the last deal; an older deal is ignored */
    uint32_t first_leaf, my_leaves;
    bool pushed_leaf[TREE_LEAVES_MAX]; /* leaves of `step` that are pushed */

    /* sync.dropped: redo */
    struct {
        bool there;
        uint64_t step;
        struct epochs_work is;
    } work;                  /* from the lead shard's last reply */
    bool knows;              /* `here` describes `step` */
    struct epochs_work here; /* the microbatches that make up `step` */

    uint64_t sums_step, told_step; /* UINT64_MAX: none; told: returned by session_take_made */
    struct sums sums; /* sums of step sums_step over all workers, from the lead shard */
};

/* Modes other than sync: batches are leased by id. */
struct lease_state {
    struct session_ranges list, done; /* done: not reported yet */
    struct session_ranges pending;    /* geo: learned here, and in no round yet */
    struct session_ranges recent;     /* geo: in the last rounds; their report may have been lost */
    uint64_t running;                 /* the id that is being computed */
    uint64_t half;                    /* of the ids of the last lease */
    bool asked;
    bool none_left;     /* no lease is available now */
    uint64_t redo_left; /* ids to recompute during the hold */
};

struct geo_state {
    /* The part of the parameters' moves that is still to be pushed; LEAVES: the running push carries all of it. */
    enum { GEO_CLEAN, GEO_MOVED, GEO_LEAVES } left;
    uint64_t round;
    uint32_t members; /* workers that train, as the chief reported last */
};

struct ssp_state {
    uint64_t entry; /* how many times this session has entered */
    uint64_t clock; /* batches done since it entered */
    bool live;      /* the shards wait for this clock */
    bool outside;   /* recomputing a batch while all workers are held, or about to */
    struct {
        bool bounded;
        uint64_t number, clock;
    } pull;
};

struct session {
    const struct session_io *io;
    void *ctx;
    const struct layout *layout;     /* NULL: replies are treated as raw */
    const struct session_mode *mode; /* NULL while the phase is NEW */
    enum session_phase phase;
    struct session_terms terms;
    Gradwire__Generation generation; /* the generation of `terms`, as a message */
    size_t n_skipped;
    uint64_t *skipped; /* batches that are pushed without examples, whatever their gradient is */

    struct session_link *link; /* (plan.shards) */
    uint64_t step;             /* the step whose parameters are held */
    struct {
        bool again; /* as soon as the pending pulls are answered */
        bool any;   /* any step, not `step` */
        uint64_t step;
    } pull;
    enum session_task_kind at_hand; /* the kind of the running task; TASK_NONE: no task runs */

    /* WANTED: the chief has sent HOLD; SAID, only in sync: HELD was sent to the chief */
    enum { HOLD_NONE, HOLD_WANTED, HOLD_SAID } hold;
    uint64_t hold_cut;
    /* pull the newest parameters, and nothing else */
    enum { FINAL_NONE, FINAL_WANTED, FINAL_ASKED } final;
    /* GOES: SIGTERM has come; SAID: the chief was notified; ENDS: the chief has agreed. */
    enum { STAY, STAY_GOES, STAY_SAID, STAY_ENDS } stay;
    struct {
        uint64_t number; /* number of the pull */
        enum { AVERAGES_NONE, AVERAGES_HERE, AVERAGES_GONE } state;
    } averages;
    uint64_t remainders; /* error feedback, async: pushes of withheld parts alone */

    struct {
        uint64_t number; /* of the last request */
        uint64_t own;    /* number of the request that brought the rows of the last task; 0: none */
        struct session_rows_ask {
            bool there, any, bounded;
            uint64_t number, step, clock;
        } ask[SESSION_ASKS];
        struct session_task of;   /* ASK_TASK: the task whose rows are requested */
        struct session_task task; /* in the phase SESSION_ROWS: the task that waits for its rows */
    } rows;

    struct {
        uint64_t epoch;
        struct sums sums;
    } epoch[SESSION_EPOCHS]; /* (epochs) the chief's session: as the lead shard reported last */
    size_t epochs;
    struct session_slices slices; /* n 0: none were reported */
    double examples;              /* of all workers, that these sums gained */

    struct { /* the NaN guard: for the running step or batch, reported to the chief */
        uint64_t name;
        char what[192]; /* "": none */
    } rejected;

    struct lease_state lease; /* empty in sync */
    union {
        struct sync_state sync;
        struct geo_state geo;
        struct ssp_state ssp;
    };
};

/* The operations of an update mode. NULL: the mode does nothing there. */
struct session_mode {
    bool leases;     /* batches are leased by id */
    bool acks;       /* pushes are acknowledged without parameters */
    bool feeds_back; /* top-k keeps what it does not send */
    /* asserts the invariants of the mode's state between two events */
    void (*check)(const struct session *s);
    void (*begin)(struct session *s); /* a new generation: reset the state */
    void (*wake)(struct session *s);  /* IDLE: pull parameters if there is work for them */
    void (*pull_newest)(struct session *s);
    void (*on_deal)(struct session *s, const Gradwire__Deal *m);
    /* the ids are already in the list */
    void (*on_lease)(struct session *s, const Gradwire__Lease *m);

    struct session_task (*task)(struct session *s); /* READY: the task to do now */
    /* tables; NULL: this mode cannot guess */
    bool (*guess)(const struct session *s, struct session_task *next);
    /* tables: true if the rows of the next task are read at a clock, *clock. NULL: never */
    bool (*reads_at)(const struct session *s, uint64_t *clock);
    void (*learned)(struct session *s); /* a batch's update is made here, so nothing is pushed */
    void (*pushed)(struct session *s);  /* the push has gone to all connected shards */
    bool (*take_made)(struct session *s, struct session_made *made); /* NULL: each task is one */
    bool (*is_clean)(const struct session *s); /* nothing is left to push that could be pushed */

    void (*link_up)(struct session *s, uint32_t shard);
    void (*hello_clock)(const struct session *s, uint32_t shard, Gradwire__Hello *m);
    enum err (*reply_fits)(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                           uint64_t body_bytes, bool *wanted, struct errmsg *e);
    void (*on_reply)(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored);

    /* session_exchange.c */
    /* the reply answers the running push */
    bool (*answers)(const struct session *s, const Gradwire__Reply *m);
    void (*take)(struct session *s, struct session_link *l, const Gradwire__Reply *m);
    void (*pulled)(struct session *s);   /* every shard has answered the pull */
    void (*answered)(struct session *s); /* every shard has answered the push */
};
extern const struct session_mode session_sync, session_async, session_geo, session_ssp;

/* session_state.c */
/* A batch is being computed, or is pushed and not acknowledged. */
bool session_running(const struct session *s);
bool session_is_going(const struct session *s);  /* SIGTERM has come */
bool session_all_whole(const struct session *s); /* every shard has answered the pull or the push */
void session_wake(struct session *s);            /* in the phase IDLE: the mode's `wake` */
/* Send the whole running push to this shard; from then on it streams over this connection. */
void session_push_again(struct session *s, uint32_t shard);
/* True if the shard has the whole running push, in modes that acknowledge pushes. */
bool session_acked(const struct session *s, uint32_t shard);
/* The reply's range of chunks belongs to this shard; a reply without chunks is about rows. */
bool session_run_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m);
/* The body has the length that its codec gives for this range of chunks, and the codec is allowed here. */
bool session_codec_fits(const struct session *s, const Gradwire__Reply *m, uint64_t body_bytes);
/* Everything that the shard must answer in addition to its chunks has arrived. */
bool session_rows_made(const struct session *s, const struct session_link *l, bool pulled);
void session_ranges_add(struct session_ranges *r, uint64_t first, uint64_t count);
uint64_t session_ranges_count(const struct session_ranges *r);
/* Take the ranges that are done and not reported. They count as reported from then on. */
size_t session_take_done(struct session *s, struct session_ranges_said *said);
void session_say_held(struct session *s); /* send HELD to the chief, with the ids that are done */

/* session_exchange.c */
/* Pull from every shard the parameters of `step`, or (any; step 0) the newest. A shard that still owes the answer to an
 * earlier pull gets this one after that answer. */
void exchange_pull(struct session *s, bool any, uint64_t step);
void exchange_pull_newest(struct session *s);
/* Pull `step`, only from the shards that have answered with another step. */
void exchange_pull_others(struct session *s, uint64_t step);
/* The range of steps that the shards have answered with. */
struct exchange_steps {
    uint64_t least, most;
};
struct exchange_steps exchange_steps(const struct session *s);
void exchange_check(const struct session *s);
void exchange_pushed(struct session *s);
void exchange_link_up(struct session *s, uint32_t shard);
enum err exchange_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, bool *wanted, struct errmsg *e) MUST_CHECK;
void exchange_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored);

/* session_lease.c */
void lease_on_lease(struct session *s, const Gradwire__Lease *m);
void lease_report(struct session *s); /* report what is done, and ask for more */
struct session_task lease_task(struct session *s);
/* predicts the next id of the list */
bool lease_guess(const struct session *s, struct session_task *next);
void lease_wake(struct session *s);
/* Every shard has taken the running push: of a batch (counts), or of what is pushed before a hold. */
void lease_pushed(struct session *s, bool counts);

/* session_check.c: assert the invariants between two events. Each event calls it when it begins and when it ends. */
void session_check(const struct session *s);

/* session_rows.c */
/* The task that was taken needs rows: ask for them, wait, or begin. */
struct session_task rows_task(struct session *s);
void rows_link_up(struct session *s, uint32_t shard);
/* The push to this shard has gone: send the request for the next task's rows, if it has not been sent on this
 * connection. */
void rows_push_left(struct session *s, uint32_t shard);

/* session_average.c */
void averages_link_up(struct session *s, uint32_t shard);
enum err averages_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, bool *wanted, struct errmsg *e) MUST_CHECK;
void averages_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m);

/* session_feedback.c */
bool feedback_is_clean(const struct session *s); /* true in jobs without feedback */
/* feedback_is_clean, and the mode has nothing to push */
bool session_is_clean(const struct session *s);
void feedback_say_held(struct session *s);    /* sync: report HELD if nothing remains to wait for */
bool feedback_whole(const struct session *s); /* sync: the task's push withholds nothing */
/* async: true if a remainder is due */
bool feedback_pushes(struct session *s, struct session_task *t);
