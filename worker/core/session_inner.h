/* The inside of a session, for the files that make it up. The update mode is a table of operations with a state of its
 * own; session.c has the events, session_state.c what all parts share, session_exchange.c what those modes share that
 * pull whole parameters by step (all but ssp), session_lease.c what those share that compute batches by id (all but
 * sync). Error feedback and averages are layers over any of them. Calls between the files go one way, from session.c to
 * session_state.c; upwards there are the operations of the mode alone. */
#ifndef GRADWIRE_WORKER_CORE_SESSION_INNER_H
#define GRADWIRE_WORKER_CORE_SESSION_INNER_H

#include "worker/core/session.h"

struct session_link {
    /* UP: the shard has accepted our hello; STREAMS: everything of the running push goes over this connection. */
    enum { LINK_DOWN, LINK_UP, LINK_STREAMS } state;
    /* ASKED: a pull is on its way; WHOLE: all chunks of what is awaited are here. */
    enum { PULL_NONE, PULL_ASKED, PULL_WHOLE } pull;
    uint64_t got_step; /* whose parameters they are */
    uint32_t got_chunks;
    bool holds; /* all parameters of holds_step came over this connection */
    uint64_t holds_step;
    uint32_t averages;       /* chunks of them that are here */
    uint32_t acked_chunks;   /* of the running push, where that is answered by itself */
    bool made;               /* tables, sync: all parts of got_step's rows are made, too */
    uint32_t acked_parts;    /* tables, async: of the running push */
    bool rows[SESSION_ASKS]; /* its answer to the last ask is here */
    uint64_t asked[2];       /* of a task: what the shard keeps of this connection; 0: none */
    uint64_t entered_clock;  /* bounded staleness; UINT64_MAX: not said yet */
};

/* Sync: the deal, and what the lead says of steps. */
enum { SESSION_EPOCHS = 4 }; /* of so many a lead keeps sums */

struct sync_state {
    uint64_t epochs;
    uint64_t total; /* steps in all. Redo: UINT64_MAX until the end is here */
    uint64_t deal;
    uint32_t first_leaf, my_leaves;
    bool pushed_leaf[TREE_LEAVES_MAX]; /* of `step` */

    /* sync.dropped: redo */
    struct {
        bool there;
        uint64_t step;
        struct epochs_work is;
    } work;                  /* of the lead's last reply */
    bool knows;              /* `here` is of `step` */
    struct epochs_work here; /* what `step` is made of */

    uint64_t sums_step, told_step; /* UINT64_MAX: none; told: by session_take_made */
    struct sums sums;              /* what sums_step did in all, from the lead */
};

/* Not sync: batches are leased by id. */
struct lease_state {
    struct session_ranges list, done; /* done: not yet reported */
    struct session_ranges pending;    /* learned here, and in no round yet */
    struct session_ranges recent;     /* in the last rounds: a report may have been lost */
    uint64_t running;                 /* the id in the works */
    bool asked;
    bool none_left;     /* no lease is to be had now */
    uint64_t redo_left; /* ids to be done during the hold */
};

struct geo_state {
    /* Of what the parameters have moved: something is left to be pushed; with the task at hand nothing is left. */
    enum { GEO_CLEAN, GEO_MOVED, GEO_LEAVES } left;
    uint64_t round;
    uint32_t members; /* workers that train, as the chief said last */
};

struct ssp_state {
    uint64_t entry; /* how often I have entered */
    uint64_t clock; /* batches that I have done, from where I entered */
    bool live;      /* the shards wait for my clock */
    bool outside;   /* doing what is to be redone while all are held, or about to */
    struct {
        bool bounded;
        uint64_t number, clock;
    } pull;
};

struct session {
    const struct session_io *io;
    void *ctx;
    const struct layout *layout;     /* NULL: replies are raw, as far as it knows */
    const struct session_mode *mode; /* NULL: NEW */
    enum session_phase phase;
    struct session_terms terms;
    Gradwire__Generation generation; /* that of the terms, for messages */
    size_t n_skipped;
    uint64_t *skipped; /* pushed as batches without examples, whatever their gradient is */

    struct session_link *link; /* (plan.shards) */
    uint64_t step;             /* whose parameters are held */
    struct {
        bool again; /* as soon as the pulls on their way are answered */
        bool any;   /* what is there, not `step` */
        uint64_t step;
    } pull;
    enum session_task_kind at_hand;

    enum { HOLD_NONE, HOLD_WANTED, HOLD_SAID } hold; /* SAID: in sync: HELD was sent for it */
    uint64_t hold_cut;
    enum { FINAL_NONE, FINAL_WANTED, FINAL_ASKED } final; /* the newest parameters, nothing else */
    /* GOES: told to go; SAID: so is the chief; ENDS: it has agreed. */
    enum { STAY, STAY_GOES, STAY_SAID, STAY_ENDS } stay;
    struct {
        uint64_t number; /* of the pull */
        enum { AVERAGES_NONE, AVERAGES_HERE, AVERAGES_GONE } state;
    } averages;
    uint64_t remainders; /* error feedback, async: pushes of what was withheld alone */

    struct {
        uint64_t number; /* of the last ask */
        uint64_t own;    /* of the ask whose rows the last task has; 0: none */
        struct session_rows_ask {
            bool there, any, bounded;
            uint64_t number, step, clock;
        } ask[SESSION_ASKS];
        struct session_task of;   /* ASK_TASK */
        struct session_task task; /* SESSION_ROWS: taken */
    } rows;

    struct {
        uint64_t epoch;
        struct sums sums;
    } epoch[SESSION_EPOCHS]; /* (epochs) the chief: as the lead said last */
    size_t epochs;

    struct { /* the NaN guard: of the running step or batch, said to the chief */
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

/* An update mode. An operation that is NULL has nothing to do. */
struct session_mode {
    bool leases;                            /* batches are leased by id */
    bool acks;                              /* pushes are answered without parameters */
    bool feeds_back;                        /* top-k keeps what it does not send */
    void (*check)(const struct session *s); /* asserts what holds of its state between two events */
    void (*begin)(struct session *s);       /* a generation: the state is as it was */
    void (*wake)(struct session *s); /* IDLE: bring the parameters in if there is work for them */
    void (*pull_newest)(struct session *s);
    void (*on_deal)(struct session *s, const Gradwire__Deal *m);
    void (*on_lease)(struct session *s, const Gradwire__Lease *m); /* its ids are in the list */

    struct session_task (*task)(struct session *s);                    /* READY: what to do now */
    bool (*guess)(const struct session *s, struct session_task *next); /* tables; NULL: none here */
    /* tables: is what the next task looks up read at a clock? NULL: no */
    bool (*reads_at)(const struct session *s, uint64_t *clock);
    void (*learned)(struct session *s); /* the update of a batch is made here: nothing is pushed */
    void (*pushed)(struct session *s);  /* to all shards that are connected */
    bool (*take_made)(struct session *s, struct session_made *made); /* NULL: the task was one */
    bool (*is_clean)(const struct session *s); /* nothing is left to be pushed that could be */

    void (*link_up)(struct session *s, uint32_t shard);
    void (*hello_clock)(const struct session *s, uint32_t shard, Gradwire__Hello *m);
    enum err (*reply_fits)(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                           uint64_t body_bytes, bool *wanted, struct errmsg *e);
    void (*on_reply)(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored);

    /* session_exchange.c */
    bool (*answers)(const struct session *s, const Gradwire__Reply *m); /* the running push */
    void (*take)(struct session *s, struct session_link *l, const Gradwire__Reply *m);
    void (*pulled)(struct session *s);   /* every shard has answered the pull */
    void (*answered)(struct session *s); /* every shard has answered the push */
};
extern const struct session_mode session_sync, session_async, session_geo, session_ssp;

/* session_state.c */
/* A batch is being computed, or pushed and not acknowledged. */
bool session_running(const struct session *s);
bool session_is_going(const struct session *s); /* told to go */
bool session_all_whole(const struct session *s);
void session_wake(struct session *s);
void session_push_again(struct session *s, uint32_t shard);
/* The shard has the running push, all of it, where that is answered by itself. */
bool session_acked(const struct session *s, uint32_t shard);
bool session_run_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m);
/* The body's length is what its codec makes of such a run, and that codec may be here. */
bool session_codec_fits(const struct session *s, const Gradwire__Reply *m, uint64_t body_bytes);
/* What the shard has to answer beside its chunks is here. */
bool session_rows_made(const struct session *s, const struct session_link *l, bool pulled);
void session_ranges_add(struct session_ranges *r, uint64_t first, uint64_t count);
uint64_t session_ranges_count(const struct session_ranges *r);
/* What is done and not reported; it counts as reported then. */
size_t session_take_done(struct session *s, struct session_ranges_said *said);
void session_say_held(struct session *s);

/* session_exchange.c */
void exchange_pull(struct session *s, bool any, uint64_t step);
void exchange_pull_newest(struct session *s);
/* Pull `step` from those shards alone that have answered another one. */
void exchange_pull_others(struct session *s, uint64_t step);
/* What steps the shards have answered. */
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
void lease_report(struct session *s); /* what is done, and ask for more */
struct session_task lease_task(struct session *s);
bool lease_guess(const struct session *s, struct session_task *next); /* the next id of the list */
void lease_wake(struct session *s);
/* The running push is taken everywhere: of a batch, or of what may be pushed before a hold. */
void lease_pushed(struct session *s, bool counts);

/* session_check.c: assert what holds between two events; each of them calls it when it begins and when it is over. */
void session_check(const struct session *s);

/* session_rows.c */
/* Rows of the task that was taken: ask for them, wait, or begin. */
struct session_task rows_task(struct session *s);
void rows_link_up(struct session *s, uint32_t shard);
void rows_push_left(struct session *s, uint32_t shard); /* what was behind it goes out */

/* session_average.c */
void averages_link_up(struct session *s, uint32_t shard);
enum err averages_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                             uint64_t body_bytes, bool *wanted, struct errmsg *e) MUST_CHECK;
void averages_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m);

/* session_feedback.c */
bool feedback_is_clean(const struct session *s); /* true without */
bool session_is_clean(const struct session *s);  /* the same, and the mode has nothing to push */
void feedback_say_held(struct session *s);       /* sync: if there is nothing to wait for */
bool feedback_whole(const struct session *s);    /* sync: the task goes whole */
bool feedback_pushes(struct session *s, struct session_task *t); /* async: a remainder is due */

#endif
