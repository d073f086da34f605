/* The state of a shard in sync: a step in the making. */
#ifndef GRADWIRE_PS_CORE_SHARD_SYNC_H
#define GRADWIRE_PS_CORE_SHARD_SYNC_H

#include "common/parameters/epochs.h"
#include "common/parameters/norm.h"
#include "ps/core/gate.h"
#include "ps/core/shard.h"
#include "ps/rows/row_grads.h"

enum { SHARD_SUM_ELEMS = 4096 }; /* in the works at a time: what stays in the first-level cache */

/* Where the shards decide together what becomes of a step (shard_round.c). */
struct shard_round {
    bool on;
    uint32_t chunks_summed; /* their sums stand in the other weight block */
    uint32_t parts_summed;  /* their sums wait in `part` */
    struct row_sum *part;   /* of each part: its sum. Without memory: none waits. NULL: no tables */
    double *squares;        /* of each chunk, then of each bucket of the shard */
    bool guard;             /* the NaN guard looks at gradients and slots */
    float clip_norm;
    struct { /* what a new chief says otherwise */
        bool there, guard;
        float clip_norm;
        uint64_t step; /* from it on: no shard has begun it */
    } next;
    char broken[192]; /* what it has found in the lowest entry of the gate; "": nothing */
    uint32_t broken_entry;
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

struct shard_sync {
    struct gate gate; /* the chunks, then the parts */
    uint8_t *made;    /* of the step in the making: per chunk, then per part */
    uint32_t chunks_made, parts_made, runs;
    bool made_said;        /* tables: who waits for the step was told that it is made */
    struct shard_run *run; /* in the order in which they were made */
    double examples, sums[GATE_SUMS_MAX]; /* of the step in the making */
    float *scratch;
    struct shard_round round;
    struct shard_accept accept;
    struct shard_redo redo;
};

/* shard_accept.c: all but the outcome do nothing where there are no backup workers. */
void shard_accept_came(struct shard *s); /* a push of the running step */
void shard_accept_report(struct shard *s);
/* True: it is taken, and the step may go on. */
bool shard_accept_decide(struct shard *s, const Gradwire__StepDecision *m);
void shard_accept_pick(struct shard *s); /* if it is decided: chunks and parts are complete */
void shard_accept_finish(struct shard *s);
/* What became of these leaves of a step that is over, or being made. */
Gradwire__Outcome shard_accept_outcome(const struct shard *s, uint64_t step,
                                       const struct tree_leaves *pushed,
                                       Gradwire__Outcome otherwise);

/* A reply's `work`, and what it points to. */
struct shard_work {
    Gradwire__StepWork message;
    struct epochs_work work;
};

/* shard_redo.c: nothing is done where dropped microbatches are lost. */
enum err shard_redo_open(struct shard *s, const Gradwire__Settings *m,
                         struct errmsg *e) MUST_CHECK; /* a generation of these settings begins */
void shard_redo_close(struct shard *s);
/* The cut's step, s->step, stands there in its epoch. Errors: ERR_CORRUPT. */
enum err shard_redo_restore(struct shard *s, const struct manifest *m, uint64_t cut,
                            struct errmsg *e) MUST_CHECK;
void shard_redo_turn(struct shard *s); /* s->step is made, and still the present one */
/* The reply has the parameters of this step, which is step - 1, step or step + 1: what it is made of, from the lead. */
void shard_redo_say(const struct shard *s, uint64_t step, Gradwire__Reply *reply,
                    struct shard_work *room);
uint64_t shard_redo_epoch(const struct shard *s); /* of s->step, from 0 */
void shard_redo_status(struct shard *s, Gradwire__ShardStatus *m);

/* shard_trust.c: what lamb adds to a round. */
enum err shard_trust_init(struct shard *s) MUST_CHECK;
void shard_trust_close(struct shard *s);
/* A chunk's summed gradient over so many examples, the mean of which is scaled. */
void shard_trust_sum(struct shard *s, uint32_t chunk, const float *g, uint64_t examples,
                     float scale);
/* The scale is decided, and what the ratios are made of depends on it. */
void shard_trust_scale(struct shard *s, float scale);
void shard_trust_report(const struct shard *s, Gradwire__StepReport *m);
bool shard_trust_decide(struct shard *s,
                        const Gradwire__StepDecision *m); /* false: it does not fit */

/* shard_step.c: a step in the making, chunk by chunk. */
struct shard_sum { /* what a complete chunk's gradient is summed from */
    struct tree_node node[TREE_LEAVES_MAX];
    const float *value[TREE_LEAVES_MAX];
    struct tree_values values;
    struct tree_node root;
};
/* The chunk is complete. Its place in the other weight block is free to be written from now on. */
void shard_sum_begin(struct shard *s, uint32_t chunk, struct shard_sum *sum);
/* Elements [at, at + n) of the chunk, at most SHARD_SUM_ELEMS; valid until the next call. */
const float *shard_sum(struct shard *s, const struct shard_sum *sum, uint64_t at, size_t n);
/* Make the chunk's parameters of the next step from its gradient, which is `sum`, or stands in their place (NULL). Without
 * examples they stay as they are. scale, ratio: as in shard_update. */
void shard_step_update(struct shard *s, uint32_t chunk, const struct shard_sum *sum,
                       uint64_t examples, float scale, const float *ratio);
void shard_step_taken(struct shard *s, uint32_t chunk); /* its leaves are of no more use */
void shard_step_publish(struct shard *s, uint32_t first, uint32_t count);
/* A run of the step in the making, to one who waits for it. */
void shard_step_send(struct shard *s, struct shard_peer *to, const struct shard_run *run);
/* A rejected step is named as such, to who comes late too. */
Gradwire__Outcome shard_step_outcome(const struct shard *s, uint64_t step,
                                     Gradwire__Outcome otherwise);
void shard_step_finish(struct shard *s); /* every chunk of the step is made and published */

bool shard_step_whole(const struct shard *s); /* every chunk and every part of the step is made */
/* What the entry of the gate, which is complete, is summed from. */
void shard_sum_nodes(const struct shard *s, uint32_t entry, struct shard_sum *sum);

/* shard_parts.c: a step's parts of tables. Entry chunks + part of the gate is a part's. */
/* Make what is complete. Errors: ERR_NOMEM: nothing of that part has changed, and the next push tries again. */
enum err shard_parts_make(struct shard *s) MUST_CHECK;
/* In a round: the part is complete, and its sum waits for the decision. Errors: ERR_NOMEM: nothing has changed. */
enum err shard_part_sum(struct shard *s, uint32_t part) MUST_CHECK;
/* Make the parts whose sums wait: update their rows, or, without examples, none. Where rows are kept for a cut up to the
 * bound, the rest waits on (shard_copy.c). Errors: ERR_NOMEM: so do the sums of those that are not made. */
enum err shard_parts_decided(struct shard *s, uint64_t examples, float scale) MUST_CHECK;
enum err shard_parts_ask(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                         struct buffer *body, struct errmsg *e) MUST_CHECK;

/* shard_guard.c: nothing is done where the NaN guard is off. What is found is kept for the report. */
/* Elements [at, at + n) of the shard, which are of this chunk, have the summed gradient g, and these sums. */
void shard_guard_chunk(struct shard *s, uint32_t chunk, uint64_t at, const float *g, size_t n,
                       struct norm_sums sums);
/* `squares`: of each bucket of the part (row_norm.h). */
void shard_guard_part(struct shard *s, uint32_t part, const struct row_grads *g,
                      const double *squares);

/* shard_round.c */
enum err shard_round_init(struct shard *s, const Gradwire__Settings *m) MUST_CHECK;
void shard_round_close(struct shard *s);
void shard_round_sum(struct shard *s, uint32_t chunk);
/* Sum the parts that are complete. Errors: ERR_NOMEM: the next push tries again. */
enum err shard_round_sum_parts(struct shard *s) MUST_CHECK;
/* Make the step if it is decided. Errors: ERR_NOMEM: it is not made, and the next push tries again. */
enum err shard_round_go_on(struct shard *s) MUST_CHECK;
void shard_round_report(struct shard *s);
/* True: it is taken, and the step may go on. */
bool shard_round_decide(struct shard *s, const Gradwire__StepDecision *m);
/* A new chief's run-time keys, from this step on, which no shard has begun. */
void shard_round_adopt(struct shard *s, const Gradwire__Settings *m, uint64_t from_step);
void shard_round_turn(struct shard *s); /* a step is made: those that hold from now on */

#endif
