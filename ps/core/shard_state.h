/* The inside of a shard, shared by the files that implement it. A mode's state is in the union: its fields exist only
 * if the mode is on. State that every mode can have is outside of the union.
 *
 * Calls go one way: a file calls only files that come before it in this list (shard_NAME.c). Calls in the other
 * direction go through the mode's table.
 *     check                           assertions of what is true between two events
 *     taken, reply, average           records of applied pushes; encoding of replies; moving averages
 *     send, apply, status             to workers; to the parameters; to the chief
 *     rows                            rows of tables, in and out
 *     image, cut, copy                a shard's part of a cut
 *     accept, redo, trust, step, parts, guard, round, sync
 *     stale, async, ssp, delta, geo, remainder
 *     shard                           incoming messages */
#pragma once

#include "common/codec/codec.h"
#include "common/math/bins.h"
#include "common/parameters/limits.h"
#include "common/parameters/staleness.h"
#include "ps/core/clocks.h"
#include "ps/core/shard.h"
#include "ps/core/shard_async.h"
#include "ps/core/shard_rows.h"
#include "ps/core/shard_sync.h"

/* An update mode: a table of functions that handle pushes and pulls, with the mode's own state. shard.c calls the table
 * that the settings select, and never tests which mode it is. NULL in a table: the mode has nothing to do at this
 * event. Never NULL: close, restore, on_push, on_pull; if the mode has tables also the functions for rows. Any error of
 * on_push, on_pull, on_rows_push, on_rows_ask and on_tick closes the worker's connection. */

struct shard_mode {
    bool steps;      /* all shards make the same step, from one weight block into the other */
    bool optimizes;  /* the optimizer runs on the shard, which has slots */
    bool remainders; /* a push may consist of values that its worker withheld before */

    /* ---- settings that only this mode uses ---- */

    bool (*takes)(const Gradwire__Settings *m); /* true: they are in range; NULL: any are */
    /* The run-time key whose value determined the layout of memory and differs for the new chief; NULL: none differs. */
    const char *(*laid_out_otherwise)(const struct shard *s, const Gradwire__Settings *m);

    /* ---- a generation: the state is zeros before open and after close ---- */

    /* Check the settings, allocate for the plan's chunks; NULL: nothing to do. Errors: ERR_NOMEM, without a text; others with
     * a text. */
    enum err (*open)(struct shard *s, const Gradwire__Settings *m, struct errmsg *e);
    void (*close)(struct shard *s);
    /* Restore the mode's own part of a cut; weights, slots and counters are already restored. Errors: ERR_CORRUPT with a
     * text. */
    enum err (*restore)(struct shard *s, const struct manifest *m, uint64_t cut, struct errmsg *e);
    /* Take a new chief's run-time keys. Keys of a commit round apply from step round_from on, which no shard has begun. */
    void (*take_over)(struct shard *s, const Gradwire__Settings *m, uint64_t round_from);
    /* A generation is entered, or the attempt has failed: workers start again. Also called before close. */
    void (*begin)(struct shard *s);

    /* ---- workers ---- */

    enum err (*join)(struct shard *s, uint32_t worker, uint64_t incarnation); /* ERR_NOMEM */
    void (*on_hello)(struct shard *s, const Gradwire__Hello *m); /* the worker is admitted */
    /* The push names chunks of this shard. *wanted: read its body. NULL: always read it. Errors: ERR_PROTO. */
    enum err (*push_fits)(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                          struct errmsg *e);
    enum err (*on_push)(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                        struct buffer *body, struct errmsg *e);
    enum err (*on_pull)(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                        struct errmsg *e);
    /* The push names parts of this shard. *wanted: read its body. NULL: the mode has no tables. Errors: ERR_PROTO. */
    enum err (*rows_push_fits)(const struct shard *s, const Gradwire__RowsPush *m, bool *wanted,
                               struct errmsg *e);
    enum err (*on_rows_push)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsPush *m,
                             struct buffer *body, uint64_t bytes, struct errmsg *e);
    /* All keys belong to this shard. */
    enum err (*on_rows_ask)(struct shard *s, struct shard_peer *peer, const Gradwire__RowsAsk *m,
                            struct buffer *body, struct errmsg *e);
    enum err (*on_tick)(struct shard *s, struct shard_peer *peer, const Gradwire__Tick *m,
                        struct errmsg *e);
    void (*on_gone)(struct shard *s, const Gradwire__Gone *m);
    /* The worker is being sent the present values of these chunks, counted from the shard's first. */
    void (*sent)(struct shard *s, uint32_t worker, uint32_t first, uint32_t count);

    /* ---- the chief ---- */

    void (*on_decision)(struct shard *s, const Gradwire__StepDecision *m);
    void (*on_step_ask)(struct shard *s);
    bool (*at_boundary)(
        const struct shard *s); /* true: a cut may stop the shard now; NULL: always */
    void (*on_cut_at)(struct shard *s,
                      const Gradwire__CutAt *m); /* called before the cut is copied */
    void (*release)(
        struct shard *s); /* no cut stops the shard any more: process what has arrived */

    void (*check)(const struct shard *s); /* assert the invariants between two events */
    void (*status)(struct shard *s, Gradwire__ShardStatus *m);
    /* Fill in the workers that the shard waits for; nothing is set if it waits for none. `bits`: memory for m->missing. */
    void (*wait)(const struct shard *s, Gradwire__Wait *m, uint8_t bits[TREE_LEAVES_MAX / 8]);
    /* Write a line for people. False: "N batches applied" is enough. */
    bool (*waits_for)(const struct shard *s, char *out, size_t bytes);
};

extern const struct shard_mode shard_mode_sync, shard_mode_async, shard_mode_ssp, shard_mode_geo;
extern const struct shard_mode shard_mode_remainder; /* async with error feedback: top_k */
/* The operations that async, ssp and async with error feedback share. */
#define SHARD_ASYNC_OPS                                                                            \
    .optimizes = true, .takes = shard_stale_takes,                                                 \
    .laid_out_otherwise = shard_stale_laid_out_otherwise, .open = shard_async_open,                \
    .close = shard_async_close, .restore = shard_async_restore, .on_cut_at = shard_async_cut_at,   \
    .sent = shard_stale_sent, .check = shard_async_check, .status = shard_async_status

/* A range of chunks that is sent in one frame. */
struct shard_run {
    uint32_t first, count; /* chunks of this shard, from 0 */
    enum codec codec;      /* of the frame; RAW: the values of shard_seen */
    bool difference;       /* to the values that the worker already holds */
    uint64_t bytes;        /* of the encoded range; unused if RAW */
};

/* Bounded staleness; `async` first, so that async's functions find their state. */
struct shard_ssp {
    struct shard_async async;
    struct clocks clocks;
};

struct shard_geo {
    struct ids resolved;
    uint64_t lost; /* of these, batches that no push brought to any shard */
};

/* Decoding of the bodies of pushes. */
struct shard_codec {
    struct codec_shape shape;
    struct coder *coder;
    uint32_t allowed, pushes; /* masks of codecs: those of the job, those allowed in pushes */
    struct codec_cost push_cost;
};

/* Encoding of parameters in replies (shard_reply.c). */
struct shard_reply {
    enum codec codec, step_codec; /* step_codec: of the step that is being made */
    struct codec_choice choice;
    float *encoded;    /* (elems) encoded bytes, at their elements' offset; NULL: replies are raw */
    float *view[2];    /* the values that workers hold of block[]; NULL: they hold block[] itself */
    bool view_same[2]; /* view[] equals block[], since the step was sent raw */
    struct codec_cost cost;
    uint64_t runs;
};

/* The moving average of the weights (shard_average.c). */
struct shard_average {
    bool on;
    uint32_t slot; /* the optimizer slot that holds it */
    /* Steps: the average after step + 1; while before_there, the one of step - 1. NULL: updated in place. */
    float *next;
};

/* The applied chunks of each worker's last push (shard_taken.c). */
struct shard_taken {
    bool on;
    struct taken *of;
};

enum shard_cut_state {
    CUT_NONE,
    CUT_ASKED,   /* steps: stop at the next boundary */
    CUT_STOPPED, /* stopped and reported; steps: complete chunks wait */
    CUT_GOES_ON, /* steps: continue until `step` is the present step */
    CUT_SAVING,  /* copied; the writer saves it, or has saved it, or has failed */
};

struct shard_cut {
    enum shard_cut_state state;
    uint64_t number, step;
    Gradwire__CutCopied *copied;  /* the report of the copy */
    struct checkpoint_file saved; /* valid if is_saved */
    bool is_saved;
    char error[256];  /* why it could not be saved */
    char broken[192]; /* names the first value that is not finite */
};

/* Memory for a message with the sums of epochs. */
struct shard_epochs {
    struct epoch_sums of[CHECKPOINT_EPOCHS];
    Gradwire__EpochSums epoch[CHECKPOINT_EPOCHS], *epochs[CHECKPOINT_EPOCHS];
    size_t n;
};

/* Memory that shard_status returns. */
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

    /* sent by the chief */
    const struct shard_mode *mode; /* NULL: no plan was received */
    struct plan plan;
    struct layout layout;
    uint32_t index;       /* among the plan's shards */
    bool planned;         /* the plan has a shard for this thread */
    struct plan_shard me; /* chunks can be 0 if the job has tables */
    struct optimizer optimizer,
        optimizer_undecayed;     /* the latter for tensors without weight decay */
    Gradwire__Settings settings; /* without its lists */

    /* parameters */
    /* Steps: block[now] has the present step; the other one is for step + 1. Other modes: only block[0]. */
    float *block[2];
    int now;
    bool before_there; /* steps: the other block still holds step - 1 */
    float *slot[OPTIMIZER_SLOTS_MAX];
    uint32_t slots;
    uint64_t step, t, duplicates;
    uint64_t clipped; /* on the lead: updates whose gradient was scaled down */
    uint64_t dropped; /* backup workers: microbatches that no step contains */
    struct epoch_sums epoch[CHECKPOINT_EPOCHS]; /* on the lead: epoch e at e % CHECKPOINT_EPOCHS */
    struct bins bins[CHECKPOINT_EPOCHS]; /* the same, with metrics.progressive; count NULL: none */
    struct { /* the last results by slice, of so many rows of an epoch */
        uint64_t epoch, rows;
        double of[SLICES_MAX * SLICE_NUMBERS];
    } sliced;

    union {
        struct shard_sync sync;
        struct shard_async async;
        struct shard_ssp ssp;
        struct shard_geo geo;
    };
    struct shard_rows rows;
    struct delta *deltas; /* shard_delta.c: one for each worker that has sent a hello */

    struct shard_codec codec;
    struct shard_reply reply;
    struct shard_average average;
    struct shard_taken taken;
    struct shard_cut cut;
    struct shard_peer *peers;
    /* least_incarnation: of each worker; smaller ones are refused. max_incarnation: the largest of all hellos and
     * fences. */
    uint64_t least_incarnation[WORKERS_MAX], max_incarnation;
    bool separate_chief; /* by the last hello: for the names of workers */
    struct shard_told told;
};

/* shard_check.c: assert what is true between two events. Each event calls it when it begins and when it ends. */
void shard_check(const struct shard *s);

/* The chunk's first element in the blocks; chunks count from the shard's first. */
static inline uint64_t shard_chunk_at(const struct shard *s, uint32_t chunk)
{
    return plan_chunk_elem(&s->plan, s->me.first_chunk + chunk) - s->me.first_elem;
}

/* shard_apply.c: update elements [at, at + n) of the shard. `to`, `from` and `g` (n) point to the first of them; `to` may
 * equal `from` or `g`. */
struct shard_update {
    uint64_t t;         /* the update's number, from 1 */
    float inv_n, scale; /* g * inv_n is the mean gradient; scale: of clipping, 1: none */
    uint64_t staleness; /* the divisor of the learning rate; 0, 1: not divided */
    const float *ratio; /* lamb: the trust ratio of each tensor; NULL: 1 */
};
void shard_apply(struct shard *s, const struct shard_update *u, uint64_t at, size_t n, float *to,
                 const float *from, const float *g);
/* Error feedback in async: apply `mean` (n) to elements [at, at + n) of the shard as if it had been part of the last
 * update, t. */
void shard_apply_remainder(struct shard *s, uint64_t t, uint64_t at, size_t n, const float *mean);

/* shard_average.c: if the job keeps no average, all functions but shard_average_pull do nothing. Elements count from the
 * shard's first. */
enum err shard_average_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_average_close(struct shard *s);
void shard_average_start(struct shard *s); /* the average begins as the initial weights */
/* The average of elements [at, at + n), to be updated in place. Only if the job keeps one. */
float *shard_average_at(struct shard *s, uint64_t at, size_t n);
void shard_average_keep(struct shard *s, uint64_t at,
                        size_t n);        /* the step does not update these */
void shard_average_turn(struct shard *s); /* the step is complete */
enum err shard_average_pull(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e) MUST_CHECK;

/* shard_taken.c: these functions do nothing if `taken` is off. */
enum err shard_taken_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_taken_close(struct shard *s);
/* A push was admitted: reserve the memory that shard_taken_note needs. Errors: ERR_NOMEM. */
enum err shard_taken_room(struct shard *s, const struct shard_peer *from, uint64_t name,
                          uint64_t number) MUST_CHECK;
/* An update contains this chunk of the push. */
void shard_taken_note(struct shard *s, uint32_t worker, uint64_t incarnation, uint64_t name,
                      uint64_t number, uint32_t chunk);
void shard_taken_reject(struct shard *s, uint64_t step); /* no update contains this step's pushes */
/* Add the record to a reply about chunks [first, first + count); valid until the next call. */
void shard_taken_put(struct shard *s, const struct shard_peer *to, Gradwire__Reply *m,
                     uint32_t first, uint32_t count);

/* shard_reply.c */
enum err shard_reply_open(struct shard *s) MUST_CHECK; /* memory for a generation's plan */
void shard_reply_close(struct shard *s);
enum codec shard_reply_codec(const struct shard *s); /* in use; with auto the best one now */
/* The values that workers hold of block[which]. Raw replies and cuts contain these. */
const float *shard_seen(const struct shard *s, int which);
/* Choose the codec of a range, which is raw on entry, and encode it. shard_reply_make: weights of step + 1 (first: it is
 * the step's first range). shard_reply_values: values of `block`, in modes without steps. */
void shard_reply_make(struct shard *s, struct shard_run *run, bool first);
void shard_reply_values(struct shard *s, const Gradwire__Reply *head, const float *block,
                        struct shard_run *run);
/* A step's last frame, or, in modes without steps, an answer, was passed to the peer's connection. */
void shard_reply_sent(struct shard *s, struct shard_peer *to);

/* shard_send.c */
bool shard_same_generation(const struct shard *s, const Gradwire__Generation *g);
/* True: *g is the present generation, and the plan has a shard for this thread. */
bool shard_mine(const struct shard *s, const Gradwire__Generation *g);
/* Send chunks [first, first + count) of `block`, encoded if the mode's replies are; NULL: only the head. Fills in
 * the generation, chunks and codec of *head. */
void shard_send(struct shard *s, struct shard_peer *to, Gradwire__Reply *head, const float *block,
                uint32_t first, uint32_t count);
/* Send a range of the step that is being made, as it was encoded. */
void shard_send_run(struct shard *s, struct shard_peer *to, Gradwire__Reply *head,
                    const struct shard_run *run);
/* Answer a push with its chunks of `block`; NULL: without values. added: the number of chunks that the push has
 * changed; 0: it was a duplicate, and is counted. */
void shard_send_pushed(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       uint32_t added, const float *block);
/* Answer a pull with the present values. */
enum err shard_send_present(struct shard *s, struct shard_peer *peer, const Gradwire__Pull *m,
                            struct errmsg *e) MUST_CHECK;

/* shard_epochs.c: the lead's sums of loss and metrics. sums (n); missing ones count as 0. */
void shard_add_epoch_sums(struct shard *s, uint64_t epoch, uint64_t batches, double examples,
                          const double *sums, size_t n);
/* Count the rows of a push whose sums are, or will be, added to the epoch's. */
void shard_add_marks(struct shard *s, uint64_t epoch, const uint8_t *marks, uint32_t rows);
/* Fill *room with the sums, for a message. Only the lead has any. */
void shard_epochs_say(const struct shard *s, struct shard_epochs *room);
/* Add the epochs' sums to a reply to the chief if its range has the lead's first chunk. */
void shard_epochs_reply(struct shard *s, const struct shard_peer *to, Gradwire__Reply *reply,
                        const struct shard_run *run, struct shard_epochs *room);

/* shard_status.c: add the resolved ids to the status. */
void shard_status_ids(struct shard *s, const struct ids *resolved);

/* shard_image.c: copy the blocks for a cut, and begin the cut of the tables. Free with shard_image_free. NULL: no
 * memory. */
struct shard_image *shard_image_new(struct shard *s);
/* The most bytes of rows that `save_rows` keeps until they are written. */
enum { SHARD_SAVE_BYTES = 12 << 20 };
/* Read blocks, slots and rows from a published cut. *m: zeros on entry; the caller's to close. */
enum err shard_image_load(struct shard *s, uint64_t cut, struct manifest *m,
                          struct errmsg *e) MUST_CHECK;

/* shard_cut.c. shard_cut_holds: a cut stops the shard at a boundary, in modes with steps. shard_cut_reset: give up the
 * cut, if there is one. shard_cut_end_rows: the rows are copied, or no longer needed. */
void shard_on_cut(struct shard *s, const Gradwire__Cut *m);
void shard_on_cut_at(struct shard *s, const Gradwire__CutAt *m);
void shard_on_cut_ended(struct shard *s, const Gradwire__CutEnded *m);
bool shard_cut_holds(const struct shard *s);
void shard_cut_boundary(struct shard *s); /* a step is complete, or none is begun */
void shard_cut_reset(struct shard *s);
void shard_cut_end_rows(struct shard *s);

/* shard_copy.c. shard_copy_stops: true if updates of rows must wait for the copy of a cut; it then notes that training
 * waits (shard_held). shard_kept_most_bytes: the most bytes of kept rows at one time, over all cuts. */
bool shard_copy_stops(struct shard *s);
uint64_t shard_kept_most_bytes(const struct shard *s);

/* Differences of parameters that workers push, in push rounds 1, 2, ... of their incarnation. Each (worker, incarnation,
 * round) is added once to each chunk, however often it is retried. */

struct delta; /* which rounds of a worker are added, and which chunks of the running one */

/* Add a push's values, `delta` (elems), to elements [at, at + elems) of block[0]: chunk `chunk`, counted from the
 * shard's first. */
typedef void shard_delta_add(struct shard *s, const Gradwire__Push *m, uint32_t chunk, uint64_t at,
                             uint64_t elems, const float *delta);

/* A worker has sent a hello. A later incarnation starts again with round 1. Errors: ERR_NOMEM. */
enum err shard_delta_join(struct shard *s, uint32_t worker, uint64_t incarnation) MUST_CHECK;
void shard_delta_close(struct shard *s);
/* Find the delta of the push's worker. Errors: ERR_PROTO: the worker has sent no hello, or the push's round is later
 * than the running one. */
enum err shard_delta_turn(const struct shard *s, const struct shard_peer *peer,
                          const Gradwire__Push *m, struct delta **of, struct errmsg *e) MUST_CHECK;
/* Add those of the push's chunks that the running round still lacks; *added grows by their number. Adds nothing if
 * `body` is NULL or the push's round is over. True: all chunks of the round are added, and the round is over. */
bool shard_delta_take(struct shard *s, struct delta *of, const Gradwire__Push *m,
                      const struct buffer *body, shard_delta_add *add, uint32_t *added);
