/* A shard: the parameters of one run of chunks, their slots, and what was applied to them. The pure core of a ps:
 * messages come in decoded, answers go out through shard_io; it knows no sockets, files or threads, so the same
 * code runs under the simulation.
 *
 * Happy path (sync): push frames fill the gate -> a chunk whose leaves are all there is summed by the tree and
 * updated from one weight block into the other -> the run goes out to all who wait for the next step.
 * Happy path (async): a push frame is applied chunk by chunk, once -> the same chunks go back.
 * Failure modes: another generation (refused by name, the connection stays), a step that is over (duplicate,
 * answered with the present parameters), a message that does not fit the plan (ERR_PROTO: the shell closes). */
#ifndef GRADWIRE_PS_CORE_SHARD_H
#define GRADWIRE_PS_CORE_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/checkpoint/broken.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/codec/codec_choice.h"
#include "common/parameters/tree.h"
#include "common/rows/row_layout.h"
#include "common/wire/msg.h"
#include "ps/rows/row_traffic.h"

/* Rows that a worker has asked for. Answered or not, its keys are what a push over the same connection may refer to. */
struct shard_ask {
    uint64_t number; /* 0: there is none */
    bool once;       /* an evaluation's: answered in no codec */
    bool bounded;    /* ssp: a read at `clock` */
    bool waits;      /* for step `step`, which is not made yet; ssp: until it may read at `clock` */
    uint64_t step, clock;
    uint32_t keys[ROW_TABLES_MAX]; /* of each list */
    struct buffer *mixed;          /* the keys; NULL: none are asked for */
    struct buffer *room;           /* for the answer, while it waits */
};
enum { SHARD_ASKS_MAX = 2 };

/* A worker's connection as the shard sees it; the shell embeds it. */
struct shard_peer {
    struct shard_peer *next;
    uint32_t worker;
    uint64_t incarnation;
    struct codec_link link;
    uint64_t holds; /* 1 + the step of which it was sent all: differences may follow; 0: none */
    union {
        struct {
            uint64_t want_step;     /* waits for the parameters of this step; 0: for none */
            bool want_pulled;       /* it asked by a pull, not by a push */
            uint64_t answered_step; /* its parameters were sent whole since the last pull */
            uint64_t
                answered_push; /* since then: 1 + the step of the last push answered; 0: none */
            struct tree_leaves pushed; /* backup workers: of the step before want_step */
        } sync;
        struct {
            bool gated; /* its pull of this number waits for the bound */
            uint64_t clock, number;
        } ssp;
    };
    struct shard_ask ask[SHARD_ASKS_MAX]; /* tables: its latest ones, the oldest first */
};

/* A copy of what a cut needs of the blocks, owned by the image; and what it will have of the tables. */
struct shard_image {
    uint64_t cut;
    struct checkpoint_shard blocks; /* `rows` is this image's, NULL: the job has no tables */
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct checkpoint_rows rows; /* they come by save_rows; who writes puts `next` and `ctx` */
};
void shard_image_free(struct shard_image *image);

struct shard_io {
    /* To a worker: REPLY or REFUSE. The body is sent from where it stands: before_write comes before it changes. */
    void (*send)(void *ctx, struct shard_peer *to, enum frame_type type, const ProtobufCMessage *m,
                 const void *body, uint64_t bytes);
    /* To a worker: ROWS, with the first `bytes` of the body (NULL: none), to which a reference is kept until it is sent. */
    void (*send_rows)(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                      struct buffer *body, uint64_t bytes);
    /* These elements are about to be rewritten: copy what is still to be sent of them. */
    void (*before_write)(void *ctx, const float *lo, uint64_t elems);
    /* To the chief, by way of the ps's control connection. */
    void (*tell)(void *ctx, enum frame_type type, const ProtobufCMessage *m);
    /* Write the image on another thread; the answer comes as shard_on_saved. Takes the image. */
    void (*save)(void *ctx, struct shard_image *take_image);
    /* The image's rows, in order. May another group be saved now? Whoever says no calls shard_copy when it may be. */
    bool (*save_room)(void *ctx);
    /* The group is copied. row_group_ends: that was the last. Errors: ERR_NOMEM. */
    enum err (*save_rows)(void *ctx, const struct row_group *g);
    /* What is being saved is of no use any more, and no answer is awaited. */
    void (*save_end)(void *ctx);
    /* Fill blocks (first_elem, elems, slots, wanted are set) and *m, which is zeros, from a published cut. */
    enum err (*load)(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *blocks,
                     struct errmsg *e);
    /* The generation changed: close every worker's connection. */
    void (*drop_peers)(void *ctx);
    double (*now_s)(void *ctx); /* to know what encoding costs */
    /* socket_progress of the peer's connection. An error: `auto` has no rate, and sends raw. */
    enum err (*progress)(void *ctx, const struct shard_peer *of, struct link_progress *p);
};

struct shard; /* opaque: ps/core/shard_state.h */

/* `ps`, `thread`: which of the plan's shards this one becomes. Errors: ERR_NOMEM. */
enum err shard_new(struct shard **s, uint32_t ps, uint32_t thread, const struct shard_io *io,
                   void *ctx) MUST_CHECK;
void shard_free(struct shard *s);

/* A message from the chief to shards (frame.h); any other is left alone. Answers through io->tell. A repeated message is
 * answered again, and a shard that the plan leaves empty answers nothing. A decision for another step than the one that
 * is summed is of no use any more, and left alone. */
void shard_on_chief(struct shard *s, enum frame_type type, const ProtobufCMessage *m);
/* The writer is done: `file` or an error text. `broken`: what it saw in the file; NULL: all is finite. */
void shard_on_saved(struct shard *s, uint64_t cut, const struct checkpoint_file *file,
                    const struct broken *broken, const char *error);

/* The rows of a cut leave while training goes on: copy some of them, a bounded time, or give back some memory when it is
 * over. False: there is nothing to do at
 * present. The shell calls it between frames, and while there are none. */
bool shard_copy(struct shard *s);
/* Training waits for that: what is kept of rows that have changed since the cut has reached its bound. */
bool shard_held(const struct shard *s);
/* False: read nothing from workers meanwhile (async: what came would have to be applied). */
bool shard_reads(const struct shard *s);

/* A worker's hello. ERR_OK: the peer is in (until shard_peer_gone). Otherwise *refuse says why (text is static). */
enum err shard_on_hello(struct shard *s, struct shard_peer *peer, const Gradwire__Hello *m,
                        Gradwire__Refuse *refuse) MUST_CHECK;
void shard_peer_gone(struct shard *s, struct shard_peer *peer);
/* Turn away incarnations of `worker`, which is below WORKERS_MAX, below this one; peers of such are closed by the shell
 * (shard_peer_fenced). */
void shard_fence(struct shard *s, uint32_t worker, uint64_t incarnation);
bool shard_peer_fenced(const struct shard *s, const struct shard_peer *peer);

/* A push's head: is it well-formed for this shard, and is its body wanted? *elems: the elements that it is about, or
 * becomes when it is decoded. ERR_PROTO closes. *wanted false: read and drop the body. */
enum err shard_push_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                         uint64_t *elems, bool *wanted, struct errmsg *e) MUST_CHECK;
/* The body of a push that fits, whose codec is not RAW: `out` holds its elements.
 * Errors: ERR_PROTO it does not decode; ERR_STATE a new generation came in between; ERR_NOMEM. */
enum err shard_push_decode(struct shard *s, const Gradwire__Push *m, const void *in, uint64_t bytes,
                           float *out, struct errmsg *e) MUST_CHECK;
/* The whole frame is here; `body` is NULL where it was not wanted. Keeps references of its own. */
enum err shard_on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       struct buffer *body, struct errmsg *e) MUST_CHECK;
/* The same of ROWS_ASK and ROWS_PUSH, whose bodies are kept as they came. */
enum err shard_rows_fits(const struct shard *s, enum frame_type type, const ProtobufCMessage *m,
                         uint64_t body_bytes, bool *wanted, struct errmsg *e) MUST_CHECK;
/* ERR_PROTO also for a body that is not what the head says. */
enum err shard_on_rows(struct shard *s, struct shard_peer *peer, enum frame_type type,
                       const ProtobufCMessage *m, struct buffer *body, uint64_t body_bytes,
                       struct errmsg *e) MUST_CHECK;
/* A message from a worker, without a body. Errors: ERR_PROTO, also for another type. */
enum err shard_on_worker(struct shard *s, struct shard_peer *peer, enum frame_type type,
                         const ProtobufCMessage *m, struct errmsg *e) MUST_CHECK;

/* How far it is. The message's memory is the shard's and valid until the next call. NULL: it owns nothing. */
const Gradwire__ShardStatus *shard_status(struct shard *s);

/* What the shell and tests look at. */
struct shard_facts {
    bool entered;
    bool planned; /* the plan has a place for this thread */
    struct generation generation;
    uint64_t max_incarnation;
    uint64_t elems, state_bytes; /* of the weights; of a snapshot, which has slots, too */
    enum codec reply_codec;      /* in use; with auto the best one now */
    /* Rows that were kept for cuts because they changed before they were copied: how many since the beginning; the most
     * bytes at a time; and how often training waited, as they reached their bound. */
    uint64_t kept_rows, kept_most_bytes, holds;
    struct row_traffic rows;
};
struct shard_facts shard_facts(const struct shard *s);
/* A line for people: what the shard waits for ("step 1200: waiting for leaf 2 of 4"). */
void shard_waits_for(const struct shard *s, char *out, size_t bytes);

#endif
