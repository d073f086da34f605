/* The state of a shard in sync mode: the step that is being made. */
#pragma once

#include "common/parameters/epochs.h"
#include "common/parameters/norm.h"
#include "ps/core/gate.h"
#include "ps/core/shard.h"
#include "ps/rows/row_grads.h"

enum { SHARD_SUM_ELEMS = 4096 }; /* summed at a time, to stay in the first-level cache */

/* A chief's settings apply at most three steps after a shard's present one, so this many can differ in their step. */
enum { ROUND_SETTINGS_MAX = 4 };

/* The commit round, in which the chief decides for all shards if and how a step is applied (shard_round.c). */
struct shard_round {
    bool on;
    uint32_t chunks_summed; /* their sums are in the other weight block */
    uint32_t parts_summed;  /* their sums are in `part` */
    /* (parts) The sums that wait for the decision; a part whose `memory` is NULL has none. NULL: no tables. */
    struct row_sum *part;
    double *squares; /* of each chunk, then of each bucket of the shard */
    bool guard;      /* the NaN guard checks gradients and slots */
    float clip_norm;
    /* The settings of new chiefs, the next one to apply first. Those of an earlier chief stay: a shard that is one step ahead
     * can have begun theirs. */
    struct round_settings {
        bool guard;
        float clip_norm;
        uint64_t step; /* they apply from this step on, which no shard had begun */
    } next[ROUND_SETTINGS_MAX];
    uint32_t n_next;
    char broken[192]; /* the guard's finding in the lowest entry of the gate; "": none */
    uint32_t broken_entry;
    struct shard_trust *trust; /* lamb; else NULL */
    bool scaled;               /* `scale` is decided, and the trust sums use the scaled gradient */
    float scale;
    struct {
        bool there, rejected;
        uint64_t step;
        float scale;
        float *ratio; /* lamb: trust ratio of each tensor */
    } last;           /* the last decision; its step is shard.step until it is carried out */
};

/* Backup workers: the chief picks the leaves of a step, the same for all shards (shard_accept.c). */
struct shard_accept {
    bool on;
    uint32_t told; /* number of complete nodes in the last report */
    struct {
        bool there;
        uint64_t step;
        struct tree_leaves leaves;
    } last; /* the last decision; its step is shard.step until that step is made */
};

/* sync.dropped: redo: extra steps at the epoch's end train the dropped microbatches (shard_redo.c). */
struct shard_redo {
    bool on;
    struct epochs epochs;      /* at shard.step */
    struct epochs_work before; /* of shard.step - 1 */
    Gradwire__Redo status;
};

struct shard_sync {
    struct gate gate; /* the chunks, then the parts */
    uint8_t *made;    /* of the step being made: per chunk, then per part */
    uint32_t chunks_made, parts_made, runs;
    bool made_said;        /* tables: the workers that wait for the step know that it is made */
    struct shard_run *run; /* (runs) published, in this order */
    double examples, sums[GATE_SUMS_MAX]; /* of the step being made */
    /* metrics.progressive, on the lead: the marks of the step being made, until chunk 0 is published */
    uint32_t marked;
    struct {
        uint8_t *marks;
        uint32_t rows;
    } mark[TREE_LEAVES_MAX];
    float *scratch;
    struct shard_round round;
    struct shard_accept accept;
    struct shard_redo redo;
};

/* shard_accept.c: without backup workers all functions but shard_accept_outcome do nothing. */
/* A push of the running step has arrived: report if more nodes are complete. */
void shard_accept_came(struct shard *s);
void shard_accept_report(struct shard *s);
/* True: the decision is accepted, and the step can continue. */
bool shard_accept_decide(struct shard *s, const Gradwire__StepDecision *m);
void shard_accept_pick(struct shard *s); /* if the leaves are decided: complete chunks and parts */
void shard_accept_finish(struct shard *s);
/* The outcome of these leaves of a step that is complete or being made. */
Gradwire__Outcome shard_accept_outcome(const struct shard *s, uint64_t step,
                                       const struct tree_leaves *pushed,
                                       Gradwire__Outcome otherwise);

/* Memory for a reply's `work`. */
struct shard_work {
    Gradwire__StepWork message;
    struct epochs_work work;
};

/* shard_redo.c: with sync.dropped: lost these functions do nothing. */
/* A generation with these settings begins. */
enum err shard_redo_open(struct shard *s, const Gradwire__Settings *m, struct errmsg *e) MUST_CHECK;
void shard_redo_close(struct shard *s);
/* Restore from the manifest the position of the cut's step, s->step, in its epoch, and the list of dropped
 * microbatches. Errors: ERR_CORRUPT. */
enum err shard_redo_restore(struct shard *s, const struct manifest *m, uint64_t cut,
                            struct errmsg *e) MUST_CHECK;
void shard_redo_turn(struct shard *s); /* s->step is complete, and still the present step */
/* On the lead: add to a reply the work of `step`, the step whose parameters the reply has: shard.step - 1, shard.step
 * or shard.step + 1. The reply points into *room. */
void shard_redo_say(const struct shard *s, uint64_t step, Gradwire__Reply *reply,
                    struct shard_work *room);
uint64_t shard_redo_epoch(const struct shard *s); /* of s->step, from 0 */
void shard_redo_status(struct shard *s, Gradwire__ShardStatus *m);

/* shard_trust.c: lamb's part of a commit round. */
enum err shard_trust_init(struct shard *s) MUST_CHECK;
void shard_trust_close(struct shard *s);
/* Add a chunk's gradient g, a sum over `examples`; its mean is multiplied by `scale`. */
void shard_trust_sum(struct shard *s, uint32_t chunk, const float *g, uint64_t examples,
                     float scale);
/* The scale is decided; compute the sums for the ratios, which depend on it. */
void shard_trust_scale(struct shard *s, float scale);
void shard_trust_report(const struct shard *s, Gradwire__StepReport *m);
/* False: the decision does not fit. */
bool shard_trust_decide(struct shard *s, const Gradwire__StepDecision *m);

/* shard_step.c: the step that is being made, chunk by chunk. */
struct shard_sum { /* the terms of a complete chunk's gradient */
    struct tree_node node[TREE_LEAVES_MAX];
    const float *value[TREE_LEAVES_MAX];
    struct tree_values values;
    struct tree_node root;
};
/* Begin to sum a complete chunk. From now on its elements of the other weight block can be overwritten. */
void shard_sum_begin(struct shard *s, uint32_t chunk, struct shard_sum *sum);
/* The sum of elements [at, at + n) of the chunk, n <= SHARD_SUM_ELEMS; valid until the next call. */
const float *shard_sum(struct shard *s, const struct shard_sum *sum, uint64_t at, size_t n);
/* Compute the chunk's parameters of the next step from its gradient: `sum`, or, if NULL, the contents of the other weight
 * block. examples 0: the parameters do not change. scale, ratio: as in shard_update. */
void shard_step_update(struct shard *s, uint32_t chunk, const struct shard_sum *sum,
                       uint64_t examples, float scale, const float *ratio);
/* The gate's entry `chunk`, a chunk or a part, is summed or made: record its pushes, and drop its leaves. */
void shard_step_taken(struct shard *s, uint32_t chunk);
/* The step's marks are counted, or (the step is rejected, or given up) dropped. */
void shard_step_unmark(struct shard *s, bool count);
/* Encode a range of made chunks, and send it to all workers that wait for the step. */
void shard_step_publish(struct shard *s, uint32_t first, uint32_t count);
/* Send a range of the step being made to a worker that waits for it. */
void shard_step_send(struct shard *s, struct shard_peer *to, const struct shard_run *run);
/* The outcome for a push of `step`: rejected if the step was, also for a late push; else `otherwise`. */
Gradwire__Outcome shard_step_outcome(const struct shard *s, uint64_t step,
                                     Gradwire__Outcome otherwise);
void shard_step_finish(struct shard *s); /* all chunks of the step are made and published */

bool shard_step_whole(const struct shard *s); /* all chunks and parts of the step are made */
/* Fill *sum with the nodes of a complete entry of the gate. */
void shard_sum_nodes(const struct shard *s, uint32_t entry, struct shard_sum *sum);

/* shard_parts.c: a step's parts of tables. A part's entry of the gate is chunks + part. */
/* Make all complete parts, unless they must wait for the copy of a cut. Errors: ERR_NOMEM: the part that failed has not
 * changed; the next push tries again. ERR_TOOBIG: likewise, and the shard has asked the chief to end the job. */
enum err shard_parts_make(struct shard *s) MUST_CHECK;
/* In a commit round: sum a complete part; the sum waits for the decision. Errors: ERR_NOMEM: nothing has changed. */
enum err shard_part_sum(struct shard *s, uint32_t part) MUST_CHECK;
/* Make the parts whose sums wait: update their rows, or none if examples is 0. If the rows kept for a cut reach their
 * bound, the remaining parts wait (shard_copy.c). Errors: ERR_NOMEM, ERR_TOOBIG: the remaining parts wait, too. */
enum err shard_parts_decided(struct shard *s, uint64_t examples, float scale) MUST_CHECK;
enum err shard_parts_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e) MUST_CHECK;

/* shard_guard.c: these functions do nothing if the NaN guard is off. A finding is kept for the report. */
/* Check elements [at, at + n) of the shard, in this chunk: g (n) is their summed gradient, `sums` its sums. */
void shard_guard_chunk(struct shard *s, uint32_t chunk, uint64_t at, const float *g, size_t n,
                       struct norm_sums sums);
/* Check a part. squares (buckets of the part): see row_norm.c. */
void shard_guard_part(struct shard *s, uint32_t part, const struct row_grads *g,
                      const double *squares);

/* shard_round.c */
enum err shard_round_init(struct shard *s, const Gradwire__Settings *m) MUST_CHECK;
void shard_round_close(struct shard *s);
void shard_round_sum(struct shard *s, uint32_t chunk);
/* Sum all complete parts. Errors: ERR_NOMEM: the next push tries again. */
enum err shard_round_sum_parts(struct shard *s) MUST_CHECK;
/* Make the step if it is decided and no cut holds the shard. Errors: ERR_NOMEM, ERR_TOOBIG: the step is not made; the
 * next push tries again. */
enum err shard_round_go_on(struct shard *s) MUST_CHECK;
void shard_round_report(struct shard *s);
/* True: the decision is accepted, and the step can continue. */
bool shard_round_decide(struct shard *s, const Gradwire__StepDecision *m);
/* Take a new chief's run-time keys from step from_step on, which no shard has begun. */
void shard_round_adopt(struct shard *s, const Gradwire__Settings *m, uint64_t from_step);
/* A step is complete, and shard.step is the next one: apply the keys that are valid from it on. */
void shard_round_turn(struct shard *s);
