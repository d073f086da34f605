/* A worker's side of training as a pure state machine: which parameters it holds, what it must compute next, what it
 * has pushed and to whom, when it pulls, holds, or leaves. Messages come in decoded; what to do goes out through
 * session_io and session_task. It knows no sockets, threads or clocks.
 *
 * Happy path (sync): welcome -> links up -> deal -> pull -> parameters of step k from every shard -> compute my leaves
 * -> push -> replies of k+1 from every shard -> compute ...
 * Happy path (async): ... -> lease of batch ids -> compute a batch -> push -> newest parameters -> next id ...
 * Failure modes: a link breaks (pushed again when it is up), a step that others finished without me (pull), a new
 * generation (everything is dropped, welcome starts anew). */
#ifndef GRADWIRE_WORKER_CORE_SESSION_H
#define GRADWIRE_WORKER_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/parameters/epochs.h"
#include "common/parameters/ids.h"
#include "common/parameters/layout.h"
#include "common/parameters/limits.h"
#include "common/wire/msg.h"
#include "common/parameters/plan.h"
#include "common/parameters/sums.h"
#include "common/parameters/tree.h"

struct session_range {
    uint64_t first, count;
};

/* A short list of id ranges, in the order in which they are to be done. */
struct session_ranges {
    size_t n;
    struct session_range range[WORKER_RANGES_MAX];
};

enum session_phase {
    SESSION_NEW,      /* no welcome yet */
    SESSION_IDLE,     /* nothing to do: no leaves, no lease, or held */
    SESSION_ENTERING, /* ssp: asked every shard for a clock to begin at */
    SESSION_PULLING,  /* asked for parameters */
    SESSION_AVERAGES, /* holds whole parameters of `step`, and has asked for their averages */
    SESSION_READY,    /* holds whole parameters of `step` */
    SESSION_COMPUTING,
    SESSION_PUSHED, /* waits for the replies */
};

struct session_link {
    bool up;           /* the shard has accepted our hello */
    bool pushed;       /* everything of the running push was sent on this connection */
    bool asked;        /* a pull is on its way */
    bool whole;        /* all chunks of what is awaited are here */
    uint64_t got_step; /* whose parameters they are */
    uint32_t got_chunks;
    uint32_t acked_chunks; /* ssp: of the running batch */
    bool acked, entered;
    uint64_t entered_clock;
    bool holds; /* sync: all parameters of holds_step came over this connection */
    uint64_t holds_step;
    uint32_t averages; /* chunks of them that are here */
};

struct session_io {
    void (*pull)(void *ctx, uint32_t shard, const Gradwire__Pull *m);
    /* Send all of the running push (every node, all of this shard's chunks) again. */
    void (*push_again)(void *ctx, uint32_t shard);
    void (*to_chief)(void *ctx, enum frame_type type, const ProtobufCMessage *m);
    /* geo: the servers' parameters are here. Fresh: they take the place of ours. */
    void (*merge)(void *ctx, bool fresh);
    void (*tick)(void *ctx, uint32_t shard, const Gradwire__Tick *m); /* ssp */
    /* Error feedback: something was withheld from the shards, or may have been. May be NULL: never. */
    bool (*withholds)(void *ctx);
};

/* What to compute now. */
struct session_task {
    /* TASK_PUSH: geo: a round; async: what was withheld */
    enum { TASK_NONE, TASK_COMPUTE, TASK_PUSH } kind;
    uint64_t name;  /* sync: step; async: batch id */
    uint64_t batch; /* the id of the batch, from the job's start, whose leaves they are */
    const struct epochs_work
        *work; /* sync.dropped: redo: what the step is made of, until the next task; else NULL */
    uint32_t first[TREE_LEVELS_MAX], count[TREE_LEVELS_MAX]; /* runs of leaves */
    uint32_t runs;
    uint32_t divisor; /* TASK_PUSH: of what has moved since the last round; 1: all of it goes */
};

struct session {
    const struct session_io *io;
    void *ctx;
    enum session_phase phase;
    struct generation generation;
    char uuid[37];
    uint32_t worker;
    uint64_t incarnation;
    Gradwire__Settings settings; /* plain values */
    bool sync, ssp, geo;
    struct plan plan;
    const struct layout *layout; /* the shell's; NULL: replies are raw, as far as it knows */
    uint32_t leaves;
    uint64_t
        total; /* batches in all: steps in sync, ids in async. Redo: UINT64_MAX until the end is here */

    struct session_link *link; /* plan.shards */
    uint64_t step;             /* whose parameters are held (READY and after) */
    bool re_pull;              /* pull again as soon as the pulls on their way are answered */
    bool pull_any;             /* the next pull takes what is there, not `pull_step` */
    uint64_t pull_step;

    /* sync: the deal */
    uint64_t deal;
    bool dealt; /* a deal of this generation is here */
    uint32_t first_leaf, my_leaves;
    bool pushed_leaf[TREE_LEAVES_MAX]; /* of `step` */

    /* sync.dropped: redo: of the lead's last reply */
    struct {
        bool there;
        uint64_t step;
        struct epochs_work is;
    } work;
    bool knows;              /* `here` is of `step` */
    struct epochs_work here; /* what `step` is made of */

    /* async: leases */
    struct session_ranges lease, done; /* done: not yet reported */
    uint64_t running;                  /* the id in the works */
    bool asked_lease, holding, redoing;
    uint64_t redo_left; /* ids to be done during the hold */
    bool final;         /* the newest parameters are wanted, nothing else */
    bool final_asked;
    uint64_t hold_cut;

    /* the moving averages: session_average.c */
    uint64_t averages_number; /* of the pull */
    bool averages_there, averages_gone;

    /* ssp: session_ssp.c */
    uint64_t entry; /* how often I have entered */
    uint64_t clock; /* batches that I have done, from where I entered */
    bool live;      /* the shards wait for my clock */
    bool outside;   /* doing what is to be redone while all are held, or about to */
    bool pull_bounded;
    uint64_t pull_number, pull_clock;

    /* geo: session_geo.c */
    struct session_ranges pending; /* computed, and in no round yet */
    struct session_ranges recent;  /* in the last rounds: a report of them may have been lost */
    bool moved;                    /* something is left to be pushed */
    bool pushing;                  /* the task at hand is a round */
    bool whole;                    /* .. of all that is left */
    uint64_t round;
    uint32_t members; /* workers that train, as the chief said last */

    /* error feedback: session_feedback.c. `whole`, sync: the task's pushes withhold nothing */
    bool feedback;
    bool said_held; /* sync: of this hold */
    bool none_left; /* async: no lease is to be had now */

    /* the NaN guard in async */
    struct session_rejected { /* of the running batch, said to the chief */
        bool there;
        uint64_t batch;
        char what[192];
    } rejected;
    size_t n_skipped;
    uint64_t *skipped; /* pushed as batches without examples, whatever their gradient is */

    bool going; /* told to go: finish what runs, say so, wait for LEAVE */
    bool said_going;
    bool may_leave;
    bool over; /* the chief said DONE */
    int exit_code;

    struct { /* what the last step did in all, from the lead */
        bool valid;
        uint64_t step;
        struct sums of;
    } sums;
};

void session_init(struct session *s, const struct session_io *io, void *ctx);
void session_close(struct session *s);

/* From the chief. Errors: ERR_PROTO, ERR_NOMEM with a line that says why; the session is then as before.
 * After a WELCOME of another generation the shell closes all links and dials again with the new hello. */
enum err session_on_welcome(struct session *s, const Gradwire__Welcome *m,
                            struct errmsg *e) MUST_CHECK;
void session_on_chief(struct session *s, enum frame_type type, const ProtobufCMessage *m);
/* The connection to the chief is (again) up, after its WELCOME: what was asked and not answered is asked again. */
void session_on_chief_up(struct session *s);
/* The ranges that the hello to the chief must repeat. */
size_t session_leases(const struct session *s, struct session_range *out, size_t room);
/* What the hello to the chief says of this session. *room is pointed into, and lives as long as *m. */
struct session_hello {
    Gradwire__Generation generation;
    Gradwire__Range lease[WORKER_RANGES_MAX + 1], *lease_at[WORKER_RANGES_MAX + 1];
    Gradwire__Range done[WORKER_RANGES_MAX], *done_at[WORKER_RANGES_MAX];
};
void session_hello_chief(const struct session *s, struct session_hello *room, Gradwire__Hello *m);

/* Links. */
/* What the hello to a shard says of clocks. */
void session_hello_clock(const struct session *s, uint32_t shard, Gradwire__Hello *m);
/* Pushes are answered without parameters. */
bool session_wants_acks(const struct session *s);
void session_on_link_up(struct session *s, uint32_t shard);
void session_on_link_down(struct session *s, uint32_t shard);

/* A reply's head: where in the flat block its body goes. *wanted false: read and drop it.
 * Errors: ERR_PROTO: close the link. */
enum err session_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                            uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                            struct errmsg *e) MUST_CHECK;
struct codec_shape session_shape(const struct session *s);
/* The whole frame is here; `stored` tells whether the body was wanted. Averages (m->averages) are stored apart. */
void session_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored);
/* A shard refused a push or pull of ours: another generation is on; wait for the chief's word. */
void session_on_refuse(struct session *s, uint32_t shard, const Gradwire__Refuse *m);

/* What to do now; call after every event. TASK_COMPUTE moves to SESSION_COMPUTING. */
struct session_task session_task(struct session *s);
/* While computing: may chunks be sent to this shard as they come? (Its connection was up when the task began.) */
bool session_may_stream(const struct session *s, uint32_t shard);
/* All nodes are computed and everything was streamed to the links that allow it; the others get it now. */
void session_computed(struct session *s);
/* Async: the gradient of the running batch is not to leave; the chief hears of it, again after a reconnect. Where the
 * policy is to skip it, it is pushed as one without examples; otherwise a new generation, or the end, comes. */
void session_reject(struct session *s, const char *what);
/* The running batch is one that an earlier recovery has to leave out. */
bool session_skips(const struct session *s);
/* SIGTERM: finish what runs, then go. */
void session_go(struct session *s);
/* Sync, the chief: no step from `step` on is computed here (early stopping). Until the next WELCOME. */
void session_stop_at(struct session *s, uint64_t step);
/* The same by epochs: where microbatches are trained again the step is not known before. */
void session_stop_behind(struct session *s, uint64_t epochs);
/* Sync: how many epochs are behind the step whose parameters are held, how many steps of the running one, and how many
 * steps that has, as far as it is known. */
struct session_place {
    uint64_t epochs, steps, of;
};
struct session_place session_place(const struct session *s);
/* Async, the chief at the end: the newest parameters, whatever is dealt. */
void session_pull_final(struct session *s);
bool session_is_final(const struct session *s); /* they are here */
/* The chief, between two tasks: ask for the moving averages of the parameters that are held. Only while READY. */
void session_pull_averages(struct session *s);
/* They are here, and were not taken yet; where they were asked for and this says no while READY, ask again. */
bool session_take_averages(struct session *s);

/* For people: what it waits for. */
void session_waits_for(const struct session *s, char *out, size_t bytes);

#endif
