/* The inside of a shard, shared by the files of ps that make it up. A mode's state is in the union: its fields exist only
 * where it is on. What every mode may have is beside it.
 *
 * Calls go one way: a file calls only files that stand before it here. Upwards there is the mode's table alone.
 *     check                           what holds between two events
 *     taken, reply, average           what becomes of pushes; how parameters leave; averages
 *     send, apply, status             to workers; to the parameters; to the chief
 *     rows                            what of tables comes in and goes out
 *     image, cut, copy                a shard's part of a cut
 *     accept, redo, trust, step, parts, guard, round, sync
 *     stale, async, ssp, delta, geo, remainder
 *     shard                           what comes in */
#ifndef GRADWIRE_PS_CORE_SHARD_STATE_H
#define GRADWIRE_PS_CORE_SHARD_STATE_H

#include "common/codec/codec.h"
#include "common/parameters/limits.h"
#include "common/parameters/staleness.h"
#include "ps/core/clocks.h"
#include "ps/core/shard.h"
#include "ps/core/shard_async.h"
#include "ps/core/shard_mode.h"
#include "ps/core/shard_rows.h"
#include "ps/core/shard_sync.h"

struct shard_run {
    uint32_t first, count; /* chunks of this shard, from 0 */
    enum codec codec;      /* how it travels; RAW: as it stands in shard_seen */
    bool difference;       /* to what was held before */
    uint64_t bytes;
};

/* Bounded staleness; `async` first, so that async's functions find their state. */
struct shard_ssp {
    struct shard_async async;
    struct clocks clocks;
};

struct shard_geo {
    struct ids resolved;
};

/* How bodies of pushes come in. */
struct shard_codec {
    struct codec_shape shape;
    struct coder *coder;
    uint32_t allowed, pushes; /* codec masks: of the job, and what pushes may have */
    struct codec_cost push_cost;
};

/* How parameters leave (shard_reply.c). */
struct shard_reply {
    enum codec codec, step_codec; /* the latter of the step that is being made */
    struct codec_choice choice;
    float
        *encoded; /* (elems) a run's bytes, where its elements would stand; NULL: replies are raw */
    float *view[2];    /* what workers hold, beside block[]; NULL: the same */
    bool view_same[2]; /* it is what block[] holds: the step travelled raw */
    struct codec_cost cost;
    uint64_t runs;
};

/* The moving average of the weights (shard_average.c). */
struct shard_average {
    bool on;
    uint32_t slot; /* which one */
    float *next;   /* steps: of step + 1; while before_there of step - 1. NULL: updated in place */
};

/* What was applied of each worker's last push (shard_taken.c). */
struct shard_taken {
    bool on;
    struct taken *of;
};

enum shard_cut_state {
    CUT_NONE,
    CUT_ASKED,   /* steps: stop at the next boundary */
    CUT_STOPPED, /* reported; where there are steps complete chunks wait */
    CUT_GOES_ON, /* steps: until `step` is the present one */
    CUT_SAVING,
};

struct shard_cut {
    enum shard_cut_state state;
    uint64_t number, step;
    Gradwire__CutCopied *copied;  /* what was copied for it */
    struct checkpoint_file saved; /* when the writer is done */
    bool is_saved;
    char error[256];  /* or why it could not be */
    char broken[192]; /* what of it is not finite, in words */
};

/* Sums of epochs as they are told, and what they point to. */
struct shard_epochs {
    struct epoch_sums of[CHECKPOINT_EPOCHS];
    Gradwire__EpochSums epoch[CHECKPOINT_EPOCHS], *epochs[CHECKPOINT_EPOCHS];
    size_t n;
};

/* Memory of shard_status. */
struct shard_told {
    Gradwire__ShardStatus status;
    Gradwire__CodecCost push, reply;
    struct shard_epochs epochs;
    Gradwire__TableCounts table[ROW_TABLES_MAX], *tables[ROW_TABLES_MAX];
    uint8_t window[IDS_WINDOW_BYTES];
};

struct shard {
    const struct shard_io *io;
    void *ctx;
    uint32_t ps, thread;

    bool entered;
    struct generation generation;
    Gradwire__Generation wire_generation; /* the same, for messages to point to */
    char uuid[37];

    /* what the chief said */
    const struct shard_mode *mode; /* NULL: it has said nothing */
    struct plan plan;
    struct layout layout;
    uint32_t index;       /* among the plan's shards */
    bool planned;         /* the plan has a place for this thread */
    struct plan_shard me; /* chunks may be 0 where there are tables */
    struct optimizer optimizer,
        optimizer_undecayed;     /* the other: of tensors without weight decay */
    Gradwire__Settings settings; /* without lists */

    /* parameters */
    float *block[2]; /* steps: block[now], and step + 1 in the making; else block[0] */
    int now;
    bool before_there; /* steps: the other block still holds step - 1 */
    float *slot[OPTIMIZER_SLOTS_MAX];
    uint32_t slots;
    uint64_t step, t, duplicates;
    uint64_t clipped; /* the lead: updates whose gradient was scaled down */
    uint64_t dropped; /* backup workers: microbatches that no step has */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS]; /* the lead: of epoch e at e % CHECKPOINT_EPOCHS */

    union {
        struct shard_sync sync;
        struct shard_async async;
        struct shard_ssp ssp;
        struct shard_geo geo;
    };
    struct shard_rows rows;
    struct delta *deltas; /* shard_delta.h: of each worker that said hello */

    struct shard_codec codec;
    struct shard_reply reply;
    struct shard_average average;
    struct shard_taken taken;
    struct shard_cut cut;
    struct shard_peer *peers;
    uint64_t least_incarnation[WORKERS_MAX], max_incarnation; /* let in of each worker; ever said */
    struct shard_told told;
};

/* shard_check.c: assert what holds between two events; each of them calls it when it begins and when it is over. */
void shard_check(const struct shard *s);

/* The chunk's first element in the blocks; chunks count from the shard's first. */
static inline uint64_t shard_chunk_at(const struct shard *s, uint32_t chunk)
{
    return plan_chunk_elem(&s->plan, s->me.first_chunk + chunk) - s->me.first_elem;
}

/* shard_apply.c: elements [at, at + n) of the shard; to, from, g point to the first (to may be from or g). */
struct shard_update {
    uint64_t t;         /* its number, from 1 */
    float inv_n, scale; /* g * inv_n is the mean gradient; clipping's scale, 1: none */
    uint64_t staleness; /* what its rate is divided by; 0, 1: by nothing */
    const float *ratio; /* lamb: of each tensor; NULL: 1 */
};
void shard_apply(struct shard *s, const struct shard_update *u, uint64_t at, size_t n, float *to,
                 const float *from, const float *g);
/* Error feedback in async: `mean`, elements [at, at + n) of the shard, as if it had come with the last update, t. */
void shard_apply_remainder(struct shard *s, uint64_t t, uint64_t at, size_t n, const float *mean);

/* shard_average.c: all but shard_average_pull do nothing where no average is kept. Elements count from the shard's
 * first. */
enum err shard_average_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_average_close(struct shard *s);
void shard_average_start(struct shard *s); /* the initial weights are their own average */
/* Only where one is kept: the average of elements [at, at + n), to be updated in place. */
float *shard_average_at(struct shard *s, uint64_t at, size_t n);
void shard_average_keep(struct shard *s, uint64_t at, size_t n); /* no update of these */
void shard_average_turn(struct shard *s);                        /* the step is made */
enum err shard_average_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e) MUST_CHECK;

/* shard_taken.c: nothing is done where it is off. */
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

/* shard_reply.c */
enum err shard_reply_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_reply_close(struct shard *s);
enum codec shard_reply_codec(const struct shard *s); /* in use; with auto the best one now */
/* What workers hold of block[which]: what is sent raw, and what a cut saves. */
const float *shard_seen(const struct shard *s, int which);
/* Decide how a run, which is raw, travels: the weights of step + 1 (first: of the step's first run), or without steps
 * values of `block`. */
void shard_reply_make(struct shard *s, struct shard_run *run, bool first);
void shard_reply_values(struct shard *s, const Gradwire__Reply *head, const float *block,
                        struct shard_run *run);
/* A step, or without steps an answer, is written to the peer. */
void shard_reply_sent(struct shard *s, struct shard_peer *to);

/* shard_send.c */
bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g);
bool shard_mine(const struct shard *s,
                const Gradwire__Generation *g); /* of this generation, and it is in the plan */
void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count);
/* A run of the step in the making, as it was made. */
void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run);
/* A push is answered with its chunks; added 0: it was a duplicate. `block` NULL: without them. */
void shard_send_pushed(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       uint32_t added, const float *block);
/* A pull is answered with what is there. */
enum err shard_send_present(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e) MUST_CHECK;

/* shard_epochs.c: the lead's sums of loss and metrics. `sums`: n of them; what is missing is 0. */
void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums, size_t n);
/* What the lead keeps, to be told; of other shards nothing. */
void shard_epochs_say(const struct shard *s, struct shard_epochs *room);
/* A reply to `to` that has the run: where it has the lead's first chunk and goes to the chief, it says the epochs' sums. */
void shard_epochs_reply(const struct shard *s, const struct shard_peer *to, Gradwire__Reply *reply,
                        const struct shard_run *run, struct shard_epochs *room);

/* shard_status.c: put the resolved ids to what is told. */
void shard_status_ids(struct shard *s, const struct ids *resolved);

/* shard_image.c: a copy of all that a cut needs of the blocks, as of now, and the tables' cut begins; NULL: no memory. */
struct shard_image *shard_image_new(struct shard *s);
/* Rows on their way to the file: what `save_rows` may keep until they are written. */
enum { SHARD_SAVE_BYTES = 12 << 20 };
/* Fill blocks, slots and rows from a published cut. The manifest, which is zeros before, is the caller's. */
enum err shard_image_load(struct shard *s, uint64_t cut, struct manifest *m,
                          struct errmsg *e) MUST_CHECK;

/* shard_cut.c */
void shard_on_cut(struct shard *s, const Gradwire__Cut *m);
void shard_on_cut_at(struct shard *s, const Gradwire__CutAt *m);
void shard_on_cut_ended(struct shard *s, const Gradwire__CutEnded *m);
bool shard_cut_holds(const struct shard *s);
void shard_cut_boundary(struct shard *s); /* a step is made, or none is begun */
void shard_cut_reset(struct shard *s);
void shard_cut_end_rows(struct shard *s);

/* shard_copy.c: do updates of rows have to wait for the copy of a cut? Then training is held (shard_held). */
bool shard_copy_stops(struct shard *s);
uint64_t shard_kept_most_bytes(const struct shard *s);

#endif
