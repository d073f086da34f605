/* A worker's side of training as a pure state machine: which parameters it holds, what it must compute next, what it
 * has pushed and to which shards, and when it pulls, holds or leaves. It receives decoded messages; its actions go
 * out through session_io and session_task. It has no sockets, threads or clocks.
 *
 * Happy path (sync): welcome -> connections up -> deal -> pull -> parameters of step k from every shard -> compute my
 * leaves -> push -> replies of k+1 from every shard -> compute ...
 * Happy path (async): ... -> lease of batch ids -> compute a batch -> push -> newest parameters -> next id ...
 * Failure modes: a connection breaks (the push is sent again over the next one), a step that the others finished
 * without me (pull), a new generation (all state is dropped, and a new welcome starts from the beginning).
 * Each update mode is a table of operations: session_sync.c, session_async.c, session_ssp.c, session_geo.c. */
#pragma once

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

/* A short list of id ranges, in the order in which they must be done. */
struct session_ranges {
    size_t n;
    struct session_range range[WORKER_RANGES_MAX];
};

/* The same list as messages carry it: `at` points into `range`. */
struct session_ranges_said {
    Gradwire__Range range[WORKER_RANGES_MAX + 1], *at[WORKER_RANGES_MAX + 1];
};
/* Returns to->at. n: at most WORKER_RANGES_MAX + 1. */
Gradwire__Range **session_ranges_say(struct session_ranges_said *to,
                                     const struct session_range *range, size_t n);

enum session_phase {
    SESSION_NEW,      /* no welcome yet */
    SESSION_IDLE,     /* nothing to do: no leaves, no lease, or held */
    SESSION_ENTERING, /* ssp: has asked every shard for a clock to begin at */
    SESSION_PULLING,  /* has asked for parameters */
    /* holds all parameters of `step`, and has asked for their moving averages */
    SESSION_AVERAGES,
    SESSION_READY, /* holds all parameters of `step` */
    /* as READY, but has taken a task and waits for the rows that the task looks up */
    SESSION_ROWS,
    SESSION_COMPUTING,
    SESSION_PUSHED, /* waits for the replies */
};

/* Tables: the purpose of a request for rows. */
enum session_ask {
    ASK_TASK, /* for a task, the running one or the one that is guessed to be next */
    ASK_LOOK, /* for an evaluation: in sync the rows of the session's step, otherwise as they are now */
    SESSION_ASKS
};

struct session_io {
    /* Send a message without a body. Pushes do not go through here. */
    void (*to_shard)(void *ctx, uint32_t shard, enum frame_type type, const ProtobufCMessage *m);
    /* Send the whole running push (every node, all chunks of this shard) again. */
    void (*push_again)(void *ctx, uint32_t shard);
    void (*to_chief)(void *ctx, enum frame_type type, const ProtobufCMessage *m);
    /* Tables: send this shard its part of the request again, because the connection is a new one. */
    void (*ask_again)(void *ctx, uint32_t shard, enum session_ask which);
    /* geo: the servers' parameters have arrived. fresh: they replace the local ones. */
    void (*merge)(void *ctx, bool fresh);
    /* Error feedback: true if something is withheld from the shards, or may be. NULL: nothing ever is. */
    bool (*withholds)(void *ctx);
};

/* The caller owns the layout, which must outlive the session. NULL: the session treats all replies as raw. Errors:
 * ERR_NOMEM. */
enum err session_new(struct session **s, const struct session_io *io, void *ctx,
                     const struct layout *layout) MUST_CHECK;
void session_free(struct session *s);

/* A WELCOME from the chief. On error (ERR_PROTO, ERR_NOMEM) *e says why, and the session is unchanged. *anew: the
 * generation or the incarnation has changed, so the shell must close all connections and connect again with the new
 * hello. */
enum err session_on_welcome(struct session *s, const Gradwire__Welcome *m, bool *anew,
                            struct errmsg *e) MUST_CHECK;
/* A message from the chief other than WELCOME; one of another generation is ignored. */
void session_on_chief(struct session *s, enum frame_type type, const ProtobufCMessage *m);
/* The connection to the chief is up (again), and its WELCOME has come: requests without an answer are sent again. */
void session_on_chief_up(struct session *s);
/* Write the ranges of ids that this session still has, for the hello to the chief: at most `room` ranges. Returns the
 * number of ranges written; 0 in sync. */
size_t session_leases(const struct session *s, struct session_range *out, size_t room);
/* Fill in what the hello to the chief reports of this session. *m points into *room, which must live as long as *m. */
struct session_hello {
    Gradwire__Generation generation;
    struct session_ranges_said leases, done;
};
void session_hello_chief(const struct session *s, struct session_hello *room, Gradwire__Hello *m);

/* Connections to shards. */
/* Fill in the clocks that the hello to a shard reports. */
void session_hello_clock(const struct session *s, uint32_t shard, Gradwire__Hello *m);
/* up: the shard has accepted our hello; down: the connection is lost. */
void session_on_link_up(struct session *s, uint32_t shard);
void session_on_link_down(struct session *s, uint32_t shard);

/* Check the head of a reply. *first_elem: the index in the flat block of the body's first element. *wanted false: the
 * caller must read the body and drop it. Errors: ERR_PROTO: the caller must close the connection. */
enum err session_reply_fits(const struct session *s, uint32_t shard, const Gradwire__Reply *m,
                            uint64_t body_bytes, uint64_t *first_elem, bool *wanted,
                            struct errmsg *e) MUST_CHECK;
/* The plan and layout for decoding replies; both are borrowed, and valid until the next WELCOME. */
struct codec_shape session_shape(const struct session *s);
/* The whole frame has arrived; `stored`: its body was wanted, and is stored. Averages (m->averages) are stored in a
 * block of their own. */
void session_on_reply(struct session *s, uint32_t shard, const Gradwire__Reply *m, bool stored);
/* A shard refused our push or pull because it is in another generation: wait for the chief's message. */
void session_on_refuse(struct session *s, uint32_t shard);

/* A task: what to compute or push now. */
struct session_task {
    /* TASK_PUSH: a round (geo), or what was withheld (async). TASK_ROWS, with tables: ask for the rows of these
     * leaves (session_ask_task), which will be computed next. */
    enum session_task_kind { TASK_NONE, TASK_COMPUTE, TASK_PUSH, TASK_ROWS } kind;
    uint64_t name; /* sync: step; async: batch id */
    /* the id, counted from the job's start, of the batch that the leaves are part of */
    uint64_t batch;
    uint64_t end;  /* batches [batch, end) are likely to be computed here next */
    uint64_t then; /* and this one after them; 0: unknown */
    /* sync.dropped: redo: the microbatches that make up the step; valid until the next task. NULL in other jobs. */
    const struct epochs_work *work;
    uint32_t first[TREE_LEVELS_MAX], count[TREE_LEVELS_MAX]; /* ranges of leaves */
    uint32_t runs;                                           /* number of these ranges */
    /* geo, TASK_PUSH: the share of the parameters' moves to push, above 0 to 1; 1: all of them */
    float part;
    bool whole; /* error feedback: the push withholds nothing */
};

/* The session's next task. Call after every event. If it returns TASK_COMPUTE, the phase is then SESSION_COMPUTING. */
struct session_task session_task(struct session *s);
/* Tables: predict, while a task is computed, the batch and leaves of the next one. False: unknown. */
bool session_guess(const struct session *s, struct session_task *next);
/* Begin a request for the rows of the task's leaves; it replaces an earlier request. The shell then sends each shard
 * its part (session_ask_head). */
void session_ask_task(struct session *s, const struct session_task *task);
/* Begin a request for the rows of an evaluation. In sync: those of the session's step, between two steps, while READY or
 * at the end; if the other workers have gone on without this session and they are gone, those that a shard has. */
void session_ask_look(struct session *s);
bool session_look_is_here(const struct session *s); /* every shard has answered that request */
/* Fill in the head of the request to this shard; the caller sends it, and adds the lists. False: nothing to ask, or
 * the shard is not connected. */
bool session_ask_head(struct session *s, uint32_t shard, enum session_ask which,
                      Gradwire__RowsAsk *m);
/* The number of the request that a push of the running task to this shard may name: it brought the task's rows, and
 * the shard keeps its keys on the present connection. 0: no such request, so the push carries the keys. */
uint64_t session_push_ask(const struct session *s, uint32_t shard);
/* True if the answer belongs to the last request of its kind; *which is that kind. */
bool session_rows_fit(const struct session *s, uint32_t shard, const Gradwire__Rows *m,
                      enum session_ask *which);
/* The whole frame has arrived. If it fits (session_rows_fit), its rows are stored. */
void session_on_rows(struct session *s, uint32_t shard, const Gradwire__Rows *m);
/* While computing: true if chunks can be sent to this shard as they become final (its connection was up when the
 * task began). */
bool session_may_stream(const struct session *s, uint32_t shard);
/* Call when all nodes are computed, and everything was streamed to the connections that allow it (session_may_stream).
 * Sends the whole push to the other connected shards (session_io.push_again). */
void session_computed(struct session *s);
/* True while replies to the running push are missing. */
bool session_exchanges(const struct session *s);
/* True if the running push is a round of geo or a remainder, and so has no gradient. */
bool session_pushes_round(const struct session *s);
/* geo: the batches of the round; an empty list otherwise. */
const struct session_ranges *session_round(const struct session *s);

/* The step that the last exchange made. Each step is returned once. False: none to return. */
struct session_made {
    uint64_t id; /* sync: the step; other modes: the batch */
    bool own;    /* not in sync: the sums belong to the task that was computed here */
    /* sync: over all workers; 0 if the others made the step without this worker */
    struct sums sums;
};
bool session_take_made(struct session *s, struct session_made *made);

/* Do not learn from the running task. The chief is notified, again after a reconnect. In async, if the policy is to
 * skip, the batch is pushed as one without examples; otherwise a new generation or the job's end follows. */
void session_reject(struct session *s, const char *what);
/* True if the running batch is one that an earlier recovery decided to leave out. */
bool session_skips(const struct session *s);
/* SIGTERM: finish the running task, then leave. */
void session_go(struct session *s);
/* True if the chief has agreed that this worker leaves. */
bool session_may_leave(const struct session *s);
/* Sync, the chief's own session: compute no step from `step` on (early stopping). Holds until the next WELCOME. */
void session_stop_at(struct session *s, uint64_t step);
/* The same in epochs, for jobs that train dropped microbatches again: the step is not known in advance. */
void session_stop_behind(struct session *s, uint64_t epochs);
/* Sync: the number of leaves of each step that are computed here. */
uint32_t session_leaves(const struct session *s);
/* Sync: true if the parameters that are held are those of the last step. */
bool session_is_at_end(const struct session *s);
/* Sync: the position of the step whose parameters are held: `epochs` finished before it, `steps` made of the running
 * epoch, `of` steps in that epoch as far as is known. */
struct session_place {
    uint64_t epochs, steps, of;
};
struct session_place session_place(const struct session *s);
/* The chief's session: loss and metrics of an epoch (from 0) over all workers, as the lead shard reported last; in
 * sync, of all steps before the one whose parameters are held. False, with zeros: not reported. */
bool session_epoch(const struct session *s, uint64_t epoch, struct sums *sums);
/* The chief's session: the results by slice that the lead shard reported last, of an epoch that is over. */
struct session_slices {
    uint64_t epoch; /* from 0 */
    uint32_t n;     /* 0: none were reported */
    double of[SLICES_MAX][SLICE_NUMBERS];
};
const struct session_slices *session_slices(const struct session *s);
/* The chief's session: the examples of all workers that these sums gained while it looked. Never falls: a rollback takes none
 * away, and examples that are trained again count again. */
double session_examples(const struct session *s);
/* Async, the chief's session at the end: pull the newest parameters, whatever is leased. */
void session_pull_final(struct session *s);
bool session_is_final(const struct session *s); /* those parameters have arrived */
/* The chief's session, between two tasks: ask for the moving averages of the parameters that are held. Only while
 * READY. */
void session_pull_averages(struct session *s);
/* Returns true once, when the averages have arrived. False in the phase READY, after a request: the request was given
 * up, so pull them again. */
bool session_take_averages(struct session *s);

/* The terms of the last WELCOME; zero before the first. Only a WELCOME changes them. */
struct session_terms {
    struct generation generation;
    char uuid[37];
    uint32_t worker;
    uint64_t incarnation;
    Gradwire__Settings settings; /* plain values, no pointers */
    bool sync;                   /* all workers make one step at a time */
    bool backups;                /* sync: a step may be made without this worker */
    bool acks;                   /* pushes are acknowledged without parameters */
    bool tables;                 /* rows are looked up; the plan names every shard */
    struct row_codecs codecs;    /* the codecs of rows */
    bool feedback;               /* parts that a codec withholds are kept, and sent later */
    struct plan plan;
    uint32_t leaves; /* of a batch */
};
const struct session_terms *session_terms(const struct session *s);
enum session_phase session_phase(const struct session *s);
/* the step whose parameters are held (READY and after) */
uint64_t session_step(const struct session *s);
/* Describe for a log line what the session waits for. */
void session_waits_for(const struct session *s, char *out, size_t bytes);

/* The work of a worker's process over its life, as the process reports it at the end (proto DoneAck). */

struct worker_account {
    uint64_t tasks, bytes_out, bytes_in; /* bytes: on the connections to the shards */
    /* seconds since the first task: computed_s: of computing; waited_s: neither of computing nor of evaluating */
    double examples, computed_s, waited_s;
    struct codec_cost push, reply;
};
