/* The inside of a shard, shared by the files of ps that make it up. */
#ifndef GRADWIRE_PS_CORE_SHARD_STATE_H
#define GRADWIRE_PS_CORE_SHARD_STATE_H

#include "common/codec/codec.h"
#include "common/parameters/epochs.h"
#include "common/parameters/staleness.h"
#include "ps/core/clocks.h"
#include "ps/core/shard.h"

enum {
    SHARD_SUM_ELEMS = 4096
}; /* summed and updated at a time: what stays in the first-level cache */

enum shard_cut_state {
    CUT_NONE,
    CUT_ASKED,   /* sync: stop at the next boundary */
    CUT_STOPPED, /* reported; complete chunks wait */
    CUT_GOES_ON, /* sync: until cut_step is made */
    CUT_SAVING,
};

struct shard_run {
    uint32_t first, count; /* chunks of this shard, from 0 */
    enum codec codec;      /* how it travels; RAW: as it stands in shard_seen */
    bool difference;       /* to what was held before */
    uint64_t bytes;
};

struct shard_fence {
    uint32_t worker;
    uint64_t incarnation; /* the least that is let in */
};

/* Where the shards decide together what becomes of a step (shard_round.c). */
struct shard_round {
    bool on;
    uint32_t chunks_summed; /* their sums stand in the other weight block */
    double *squares;        /* of each chunk */
    bool guard;             /* the NaN guard looks at gradients and slots */
    float clip_norm;
    struct { /* what a new chief says otherwise */
        bool there, guard;
        float clip_norm;
        uint64_t step; /* from it on: no shard has begun it */
    } next;
    char broken[192]; /* what it has found in the lowest chunk of them; "": nothing */
    uint32_t broken_chunk;
    struct shard_trust *trust; /* lamb; else NULL */
    bool scaled;               /* its sums are of the gradient times `scale`, which is decided */
    float scale;
    struct {
        bool there, rejected;
        uint64_t step;
        float scale;
        float *ratio; /* lamb: of each tensor */
    } last; /* the last decision that came: of `step`, if a cut holds it, or of the step before */
};

struct shard_average {
    bool on;
    uint32_t slot; /* which one */
    float *
        next; /* sync: of the step in the making; of step - 1 while before_there. NULL: updated in place */
};

/* Backup workers: what a step is made of is decided once for all shards (shard_accept.c). */
struct shard_accept {
    bool on;
    uint32_t told; /* nodes that the last report called whole */
    struct {
        bool there;
        uint64_t step;
        struct tree_leaves leaves;
    } last; /* the last decision that came: of `step`, if a cut or another round holds it, or of the step before */
};

/* sync.dropped: redo: what is dropped is trained in extra steps at the epoch's end (shard_redo.c). */
struct shard_redo {
    bool on;
    struct epochs epochs;      /* at `step` */
    struct epochs_work before; /* of step - 1 */
    Gradwire__Redo status;
};

/* A reply's `work`, and what it points to. */
struct shard_work {
    Gradwire__StepWork message;
    struct epochs_work work;
};

struct shard {
    const struct shard_io *io;
    void *ctx;
    uint32_t ps, thread;

    bool entered;
    struct generation generation;
    char uuid[37];

    /* what the chief said */
    struct plan plan;
    struct layout layout;
    uint32_t index;       /* among the plan's shards */
    struct plan_shard me; /* chunks == 0: the plan leaves this thread empty */
    enum update_mode update;
    struct optimizer optimizer,
        optimizer_undecayed; /* the other: of tensors without weight decay */
    uint64_t seed, batches_per_epoch;
    uint32_t leaves, metrics;

    /* parameters */
    float *block
        [2]; /* sync: block[now] is step's, the other one is made into step + 1's; async: block[0] */
    int now;
    bool before_there; /* sync: the other block still holds step - 1 */
    float *slot[OPTIMIZER_SLOTS_MAX];
    uint32_t slots;
    struct shard_average average;
    uint64_t step, t, duplicates;
    uint64_t clipped; /* the lead: updates whose gradient was scaled down */
    uint64_t dropped; /* backup workers: microbatches that no step has */
    struct epoch_sums
        epoch[CHECKPOINT_EPOCHS]; /* the lead: sums of epoch e at e % CHECKPOINT_EPOCHS */

    /* sync */
    struct gate gate;
    uint8_t *made; /* per chunk of the step in the making */
    uint32_t chunks_made, runs;
    struct shard_run *run; /* in the order in which they were made */
    double step_examples, step_sums[GATE_SUMS_MAX];
    float *scratch;
    struct shard_round round;
    struct shard_accept accept;
    struct shard_redo redo;

    /* compression */
    struct codec_shape shape;
    struct coder *coder;
    uint32_t push_codecs;               /* that pushes may have: codec_mask */
    enum codec reply_codec, step_codec; /* the latter of the step that is being made */
    uint32_t codecs_allowed;
    struct codec_choice reply_choice;
    float *
        encoded; /* (elems) NULL: replies are raw; else a run's bytes stand where its elements would */
    float *view[2];    /* what workers hold, beside block[]; NULL: the same */
    bool view_same[2]; /* it is what block[] holds: the step travelled raw */
    struct codec_cost push_cost, reply_cost;
    Gradwire__CodecCost status_push, status_reply;
    uint64_t reply_runs;

    /* async */
    struct once once;
    uint64_t *chunk_t; /* updates of each chunk */
    float delay_compensation;
    bool staleness_rate;
    struct stale *stale; /* of each worker that said hello: shard_stale.c */
    uint64_t
        rate_staleness; /* of the next shard_apply: what its rate is divided by; 0, 1: by nothing */

    /* ssp */
    struct clocks clocks;
    uint64_t staleness;

    struct geo *geo; /* rounds of each worker that said hello: shard_geo.c */

    bool feedback;       /* pushes withhold: top-k */
    struct taken *taken; /* what was applied of each worker's last push: shard_taken.c */

    enum shard_cut_state cut_state;
    uint64_t cut, cut_step;
    Gradwire__CutCopied *copied;  /* what was copied for `cut` */
    struct checkpoint_file saved; /* of `cut`, when the writer is done */
    bool is_saved;
    char save_error[256]; /* or why it could not be */

    struct shard_peer *peers;
    size_t fences;
    struct shard_fence *fence;
    uint64_t max_incarnation;

    /* memory of shard_status */
    Gradwire__ShardStatus status;
    Gradwire__EpochSums status_epoch[CHECKPOINT_EPOCHS];
    Gradwire__EpochSums *status_epochs[CHECKPOINT_EPOCHS];
    uint8_t status_window[IDS_WINDOW_BYTES];
    uint8_t *status_partial;
    Gradwire__WorkerStaleness *status_stale, **status_stale_at;
};

/* shard_apply.c: elements [at, at + n) of the shard; to, from, g point to the first (to may be from or g). g * inv_n
 * is the mean gradient; `scale` is clipping's, 1 for none; t the number of this update, from 1. */
void shard_apply(struct shard *s, uint64_t t, uint64_t at, size_t n, float *to, const float *from,
                 const float *g, float inv_n, float scale);
/* shard_average.c: all but shard_average_pull do nothing where no average is kept. Elements count from the shard's
 * first. */
enum err shard_average_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_average_close(struct shard *s);
void shard_average_start(
    struct shard *s); /* the initial weights are there, and are their average */
/* Only where one is kept: the average of elements [at, at + n), to be updated in place. */
float *shard_average_at(struct shard *s, uint64_t at, size_t n);
void shard_average_keep(struct shard *s, uint64_t at, size_t n); /* no update of these */
void shard_average_turn(struct shard *s);                        /* the step is made */
enum err shard_average_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e) MUST_CHECK;
/* Error feedback in async: `mean`, elements [at, at + n) of the shard, as if it had come with the last update, t. */
void shard_apply_remainder(struct shard *s, uint64_t t, uint64_t at, size_t n, const float *mean);
/* shard_sync.c */
enum err shard_sync_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                         struct buffer *body, struct errmsg *e);
void shard_sync_release(struct shard *s); /* make what is complete, after a stop */
uint64_t shard_chunk_at(const struct shard *s,
                        uint32_t chunk); /* its first element in the blocks */
struct shard_sum {                       /* what a complete chunk's gradient is summed from */
    struct tree_node node[TREE_LEAVES_MAX];
    const float *value[TREE_LEAVES_MAX];
    struct tree_values values;
    struct tree_node root;
};
void shard_sum_begin(const struct shard *s, uint32_t chunk, struct shard_sum *sum);
/* Elements [at, at + n) of the chunk, at most SHARD_SUM_ELEMS; valid until the next call. */
const float *shard_sum(struct shard *s, const struct shard_sum *sum, uint64_t at, size_t n);
void shard_sync_taken(struct shard *s, uint32_t chunk); /* its leaves are of no more use */
void shard_sync_publish(struct shard *s, uint32_t first, uint32_t count);
void shard_sync_finish(struct shard *s); /* every chunk of the step is made and published */
/* shard_round.c */
enum err shard_round_init(struct shard *s, const Gradwire__Settings *m);
void shard_round_close(struct shard *s);
void shard_round_sum(struct shard *s, uint32_t chunk);
void shard_round_go_on(struct shard *s); /* make the step if it is decided */
/* A new chief's run-time keys, from this step on, which no shard has begun. */
void shard_round_adopt(struct shard *s, const Gradwire__Settings *m, uint64_t from_step);
void shard_round_turn(struct shard *s); /* a step is made: those that hold from now on */
/* shard_accept.c: all but the outcome do nothing where there are no backup workers. */
void shard_accept_init(struct shard *s, const Gradwire__Settings *m);
void shard_accept_came(struct shard *s); /* a push of the running step */
void shard_accept_report(struct shard *s);
void shard_accept_decide(struct shard *s, const Gradwire__StepDecision *m);
void shard_accept_pick(struct shard *s); /* if it is decided: the chunks are complete */
void shard_accept_finish(struct shard *s);
/* What became of these leaves of a step that is over, or being made. */
Gradwire__Outcome shard_accept_outcome(const struct shard *s, uint64_t step,
                                       const struct tree_leaves *pushed,
                                       Gradwire__Outcome otherwise);
/* shard_redo.c: nothing is done where dropped microbatches are lost. */
enum err shard_redo_open(struct shard *s, const Gradwire__Settings *m,
                         struct errmsg *e) MUST_CHECK; /* a generation of these settings begins */
void shard_redo_close(struct shard *s);
/* The cut's step, s->step, stands there in its epoch. Errors: ERR_CORRUPT. */
enum err shard_redo_restore(struct shard *s, const struct manifest_redo *m) MUST_CHECK;
void shard_redo_turn(struct shard *s); /* s->step is made, and still the present one */
/* The reply has the parameters of this step, which is step - 1, step or step + 1: what it is made of, from the lead. */
void shard_redo_say(const struct shard *s, uint64_t step, Gradwire__Reply *reply,
                    struct shard_work *room);
uint64_t shard_redo_epoch(const struct shard *s); /* sync: of s->step, from 0 */
void shard_redo_status(struct shard *s);
/* shard_trust.c: what lamb adds to a round. */
enum err shard_trust_init(struct shard *s);
void shard_trust_close(struct shard *s);
/* A chunk's summed gradient over so many examples, the mean of which is scaled. */
void shard_trust_sum(struct shard *s, uint32_t chunk, const float *g, uint64_t examples,
                     float scale);
/* The scale is decided, and what the ratios are made of depends on it. */
void shard_trust_scale(struct shard *s, float scale);
void shard_trust_report(const struct shard *s, Gradwire__StepReport *m);
bool shard_trust_decide(struct shard *s,
                        const Gradwire__StepDecision *m); /* false: it does not fit */
/* shard_async.c */
enum err shard_async_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                          struct buffer *body, struct errmsg *e);
/* shard_ssp.c */
void shard_ssp_hello(struct shard *s, const Gradwire__Hello *m);
void shard_ssp_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m);
void shard_ssp_serve(struct shard *s); /* the parameters, to all who may read them now */

/* shard_geo.c */
enum err shard_geo_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_geo_close(struct shard *s);
enum err shard_geo_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e);
void shard_geo_adopt(struct shard *s, const Gradwire__CutAt *m);

/* shard_taken.c: with error feedback; without it nothing is done. */
enum err shard_taken_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_taken_close(struct shard *s);
/* A push of the worker was let in: room for what becomes of it. Before shard_taken_note. Errors: ERR_NOMEM. */
enum err shard_taken_room(struct shard *s, const struct shard_peer *from, uint64_t name,
                          uint64_t number) MUST_CHECK;
/* A chunk of that push is in an update. */
void shard_taken_note(struct shard *s, uint32_t worker, uint64_t incarnation, uint64_t name,
                      uint64_t number, uint32_t chunk);
void shard_taken_reject(struct shard *s, uint64_t step); /* nothing of this step's is */
/* Put it to a reply about chunks [first, first + count); valid until the next call. */
void shard_taken_put(struct shard *s, const struct shard_peer *to, Gradwire__Reply *m,
                     uint32_t first, uint32_t count);

/* shard_stale.c: all but shard_stale_apply do nothing in sync. Chunks count from the shard's first. */
enum err shard_stale_join(struct shard *s, uint32_t worker) MUST_CHECK; /* ERR_NOMEM */
void shard_stale_close(struct shard *s);
/* The worker is sent these chunks as they are now. */
void shard_stale_sent(struct shard *s, uint32_t worker, uint32_t first, uint32_t count);
/* Update one chunk, elements [at, at + elems) of the shard, by the gradient that `worker` computed from what it was
 * sent last. g * inv_n is the mean gradient. */
void shard_stale_apply(struct shard *s, uint32_t worker, uint32_t chunk, uint64_t at,
                       uint64_t elems, const float *g, float inv_n);
/* Fill s->status.staleness. ERR_NOMEM: it is left empty. */
enum err shard_stale_status(struct shard *s) MUST_CHECK;
/* shard_codec.c: the codec of a push's body is allowed, and its length is what the plan predicts or may be. */
enum err shard_codec_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                          struct errmsg *e) MUST_CHECK;
/* shard_reply.c */
enum err shard_reply_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_reply_close(struct shard *s);
void shard_reply_start(
    struct shard *s); /* the weights are there: workers will hold them as they are */
/* What workers hold of block[which]: what is sent raw, and what a cut saves. */
const float *shard_seen(const struct shard *s, int which);
/* The run's weights of step + 1 are there: decide how they travel. */
void shard_reply_make(struct shard *s, struct shard_run *run);
/* A step, or in async an answer, is written to the peer. */
void shard_reply_sent(struct shard *s, struct shard_peer *to);
/* All of `step` was sent to the peer: differences to it may follow. */
void shard_reply_whole(struct shard_peer *to, uint64_t step);
/* Send a run of step + 1, or values in async, encoded; false: raw is the way. */
bool shard_reply_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                     const struct shard_run *run);
bool shard_reply_values(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                        const float *block, uint32_t first, uint32_t count);
/* shard_cut.c */
bool shard_mine(const struct shard *s,
                const Gradwire__Generation *g); /* of this generation, and it owns something */
bool shard_cut_holds(const struct shard *s);
void shard_cut_boundary(struct shard *s); /* a step is made, or none is begun */
void shard_cut_reset(struct shard *s);

/* shard.c */
void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count);
bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g);
void shard_refuse_generation(struct shard *s, struct shard_peer *peer);
void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums);
void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run);
void shard_add_sums(struct shard *s, uint64_t batch, double examples, const double *sums);

#endif
