/* A worker's side of training as a pure state machine: which parameters it holds, what it must compute next, what it
 * has pushed and to whom, when it pulls, holds, or leaves. Messages come in decoded; what to do goes out through
 * session_io and session_task. It knows no sockets, threads or clocks.
 *
 * Happy path (sync): welcome -> links up -> deal -> pull -> parameters of step k from every shard -> compute my leaves
 * -> push -> replies of k+1 from every shard -> compute ...
 * Happy path (async): ... -> lease of batch ids -> compute a batch -> push -> newest parameters -> next id ...
 * Failure modes: a link breaks (pushed again when it is up), a step that others finished without me (pull), a new
 * generation (everything is dropped, welcome starts anew).
 * Each update mode is a table of operations: session_sync.c, session_async.c, session_ssp.c, session_geo.c. */
#ifndef GRADWIRE_WORKER_CORE_SESSION_H
#define GRADWIRE_WORKER_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/codec/codec.h"
#include "common/parameters/epochs.h"
#include "common/parameters/layout.h"
#include "common/parameters/limits.h"
#include "common/parameters/plan.h"
#include "common/parameters/sums.h"
#include "common/parameters/tree.h"
#include "common/wire/msg.h"

struct session;

struct session_range {
    uint64_t first, count;
};

/* A short list of id ranges, in the order in which they are to be done. */
struct session_ranges {
    size_t n;
    struct session_range range[WORKER_RANGES_MAX];
};

/* The same in messages: `at` points into `range`. */
struct session_ranges_said {
    Gradwire__Range range[WORKER_RANGES_MAX + 1], *at[WORKER_RANGES_MAX + 1];
};
/* Returns to->at. n: at most WORKER_RANGES_MAX + 1. */
Gradwire__Range **session_ranges_say(struct session_ranges_said *to,
                                     const struct session_range *range, size_t n);

enum session_phase {
    SESSION_NEW,      /* no welcome yet */
    SESSION_IDLE,     /* nothing to do: no leaves, no lease, or held */
    SESSION_ENTERING, /* ssp: asked every shard for a clock to begin at */
    SESSION_PULLING,  /* asked for parameters */
    SESSION_AVERAGES, /* holds whole parameters of `step`, and has asked for their averages */
    SESSION_READY,    /* holds whole parameters of `step` */
    SESSION_ROWS,     /* the same; has taken a task, and waits for the rows that it looks up */
    SESSION_COMPUTING,
    SESSION_PUSHED, /* waits for the replies */
};

/* Tables: what rows are asked for. */
enum session_ask {
    ASK_TASK, /* of a task, at hand or guessed */
    ASK_LOOK, /* of an evaluation: as they are */
    SESSION_ASKS
};

struct session_io {
    /* A message without a body; pushes go another way. */
    void (*to_shard)(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m);
    /* Send all of the running push (every node, all of this shard's chunks) again. */
    void (*push_again)(void *ctx, uint32_t shard);
    void (*to_chief)(void *ctx, enum frame_type type, const ProtobufCMessage *m);
    /* Tables: send this shard its part of the ask again: the connection is a new one. */
    void (*ask_again)(void *ctx, uint32_t shard, enum session_ask which);
    /* geo: the servers' parameters are here. Fresh: they take the place of ours. */
    void (*merge)(void *ctx, bool fresh);
    /* Error feedback: something was withheld from the shards, or may have been. May be NULL: never. */
    bool (*withholds)(void *ctx);
};

/* The layout is the shell's; NULL: replies are raw, as far as the session knows. Errors: ERR_NOMEM. */
enum err session_new(struct session **s, const struct session_io *io, void *ctx,
                     const struct layout *layout) MUST_CHECK;
void session_free(struct session *s);

/* From the chief. Errors: ERR_PROTO, ERR_NOMEM with a line that says why; the session is then as before. *anew: this is
 * another generation or incarnation than before: the shell closes all links and dials again with the new hello. */
enum err session_on_welcome(struct session *s, const Gradwire__Welcome *m, bool *anew,
                            struct errmsg *e) MUST_CHECK;
void session_on_chief(struct session *s, enum frame_type type, const ProtobufCMessage *m);
/* The connection to the chief is (again) up, after its WELCOME: what was asked and not answered is asked again. */
void session_on_chief_up(struct session *s);
/* The ranges that the hello to the chief must repeat. */
size_t session_leases(const struct session *s, struct session_range *out, size_t room);
/* What the hello to the chief says of this session. *room is pointed into, and lives as long as *m. */
struct session_hello {
    Gradwire__Generation generation;
    struct session_ranges_said leases, done;
};
void session_hello_chief(const struct session *s, struct session_hello *room, Gradwire__Hello *m);

/* Links. */
/* What the hello to a shard says of clocks. */
void session_hello_clock(const struct session *s, uint32_t shard, Gradwire__Hello *m);
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
void session_on_refuse(struct session *s, uint32_t shard);

/* What to compute or push now. */
struct session_task {
    /* TASK_PUSH: geo: a round; async: what was withheld. TASK_ROWS: tables: ask for the rows of these leaves
     * (session_ask_task); they will be computed next. */
    enum session_task_kind { TASK_NONE, TASK_COMPUTE, TASK_PUSH, TASK_ROWS } kind;
    uint64_t name;  /* sync: step; async: batch id */
    uint64_t batch; /* the id of the batch, from the job's start, whose leaves they are */
    uint64_t end;   /* [batch, end): are likely to be computed here next */
    /* sync.dropped: redo: what the step is made of, until the next task; else NULL. */
    const struct epochs_work *work;
    uint32_t first[TREE_LEVELS_MAX], count[TREE_LEVELS_MAX]; /* runs of leaves */
    uint32_t runs;
    float part; /* TASK_PUSH: of what has moved since the last round; 1: all of it goes */
    bool whole; /* error feedback: its pushes withhold nothing */
};

/* What to do now; call after every event. TASK_COMPUTE moves to SESSION_COMPUTING. */
struct session_task session_task(struct session *s);
/* Tables: while a task is computed, what the next one is likely to be: batch and leaves. False: unknown. */
bool session_guess(const struct session *s, struct session_task *next);
/* The rows of the task's leaves are asked for, in the place of those of an earlier one. The shell sends each shard its
 * part (session_ask_head). */
void session_ask_task(struct session *s, const struct session_task *task);
/* Rows as they are, for an evaluation; in sync between two steps, while READY or at the end. */
void session_ask_look(struct session *s);
bool session_look_is_here(const struct session *s); /* every shard has answered it */
/* The head of the ask to this shard, which is then sent; its lists are the shell's. False: there is nothing to ask, or not
 * connected. */
bool session_ask_head(struct session *s, uint32_t shard, enum session_ask which,
                      Gradwire__RowsAsk *m);
/* The ask that a push of the running task to this shard may name: its rows came by it, and the shard has its keys of the
 * present connection. 0: there is none, and the keys travel with the push. */
uint64_t session_push_ask(const struct session *s, uint32_t shard);
/* Does the answer bring rows of the last ask of its kind? */
bool session_rows_fit(const struct session *s, uint32_t shard, const Gradwire__Rows *m,
                      enum session_ask *which);
/* The whole frame is here; where it fits, its rows are stored. */
void session_on_rows(struct session *s, uint32_t shard, const Gradwire__Rows *m);
/* While computing: may chunks be sent to this shard as they come? (Its connection was up when the task began.) */
bool session_may_stream(const struct session *s, uint32_t shard);
/* All nodes are computed and everything was streamed to the links that allow it; the others get it now. */
void session_computed(struct session *s);
/* The replies to the running push are still awaited. */
bool session_exchanges(const struct session *s);
/* The running push is a round of geo, or what was withheld: it has no gradient. */
bool session_pushes_round(const struct session *s);
/* geo: the batches of the round; else none. */
const struct session_ranges *session_round(const struct session *s);

/* The step that the last exchange made; each is told once. False: none is known. */
struct session_made {
    uint64_t id;      /* sync: the step; else the batch */
    bool own;         /* not sync: its sums are those of the task that was computed */
    struct sums sums; /* sync: over all workers; 0 where the others made it without me */
};
bool session_take_made(struct session *s, struct session_made *made);

/* The running task is not to be learned from; the chief hears of it, again after a reconnect. In async, where the policy is
 * to skip it, it is pushed as one without examples; otherwise a new generation, or the end, comes. */
void session_reject(struct session *s, const char *what);
/* The running batch is one that an earlier recovery has to leave out. */
bool session_skips(const struct session *s);
/* SIGTERM: finish what runs, then go. */
void session_go(struct session *s);
/* The chief lets this worker go. */
bool session_may_leave(const struct session *s);
/* Sync, the chief: no step from `step` on is computed here (early stopping). Until the next WELCOME. */
void session_stop_at(struct session *s, uint64_t step);
/* The same by epochs: where microbatches are trained again the step is not known before. */
void session_stop_behind(struct session *s, uint64_t epochs);
/* Sync: so many leaves of each step are computed here. */
uint32_t session_leaves(const struct session *s);
/* Sync: the parameters that are held are of the last step. */
bool session_is_at_end(const struct session *s);
/* Sync: how many epochs are behind the step whose parameters are held, how many steps of the running one, and how many
 * steps that has, as far as it is known. */
struct session_place {
    uint64_t epochs, steps, of;
};
struct session_place session_place(const struct session *s);
/* The chief: loss and metrics of an epoch, from 0, over all workers, as the lead shard said last; in sync of all steps
 * before the one whose parameters are held. False, and zeros: it did not. */
bool session_epoch(const struct session *s, uint64_t epoch, struct sums *sums);
/* Async, the chief at the end: the newest parameters, whatever is dealt. */
void session_pull_final(struct session *s);
bool session_is_final(const struct session *s); /* they are here */
/* The chief, between two tasks: ask for the moving averages of the parameters that are held. Only while READY. */
void session_pull_averages(struct session *s);
/* They are here, and were not taken yet; where they were asked for and this says no while READY, ask again. */
bool session_take_averages(struct session *s);

/* What the last WELCOME said; zero before the first. Changed by the next one alone. */
struct session_terms {
    struct generation generation;
    char uuid[37];
    uint32_t worker;
    uint64_t incarnation;
    Gradwire__Settings settings; /* plain values */
    bool sync;                   /* one step of all workers at a time */
    bool backups;                /* sync: a step may be made without this worker */
    bool acks;                   /* pushes are answered without parameters */
    bool tables;                 /* rows are looked up; every shard is in the plan */
    struct row_codecs codecs;    /* how rows travel */
    bool feedback;               /* what a codec withholds is kept, and goes out later */
    struct plan plan;
    uint32_t leaves; /* of a batch */
};
const struct session_terms *session_terms(const struct session *s);
enum session_phase session_phase(const struct session *s);
uint64_t session_step(const struct session *s); /* whose parameters are held (READY and after) */
/* For people: what it waits for. */
void session_waits_for(const struct session *s, char *out, size_t bytes);

#endif
