/* A shard: the parameters of one range of chunks, their optimizer slots, and a record of the pushes applied to them. It
 * is the pure core of a ps: messages come in decoded, answers go out through shard_io. It uses no sockets, files or
 * threads, so the simulation runs the same code.
 * Thread: one thread calls all functions of a shard. The functions of shard_io call none of them, except `save`, which
 * can call shard_on_saved.
 *
 * Happy path (sync): push frames fill the gate -> when all leaves of a chunk have arrived, the tree sums them and the
 * chunk is updated from one weight block into the other -> the chunks go to all workers that wait for the next step.
 * Happy path (async): the chunks of a push frame are applied, each once -> the same chunks go back.
 * Failure modes: a message of another generation (refused with the present generation, the connection stays open); a
 * push of an earlier step (a duplicate, answered with the present parameters); a message that does not fit the plan
 * (ERR_PROTO: the shell closes the connection). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/codec/codec_choice.h"
#include "common/parameters/tree.h"
#include "common/rows/row_layout.h"
#include "common/wire/msg.h"
#include "ps/rows/row_tables.h"

/* A worker's request for rows. A push over the same connection can refer to its keys, before and after the answer. */
struct shard_ask {
    uint64_t number; /* 0: no request */
    bool once;       /* for an evaluation: the answer is not encoded, the keys are not kept */
    bool bounded;    /* ssp: a read at `clock` */
    bool waits;      /* until step `step` is made; ssp: until the bound allows reading at `clock` */
    uint64_t step, clock;
    uint32_t keys[ROW_TABLES_MAX]; /* of each list */
    struct buffer *mixed;          /* the mixed keys; NULL: no key is requested */
    struct buffer *room;           /* memory for the answer while the request waits */
};
enum { SHARD_ASKS_MAX = 2 };

/* A worker's connection as the shard sees it; the shell embeds it. */
struct shard_peer {
    struct shard_peer *next;
    uint32_t worker;
    uint64_t incarnation;
    struct codec_link link;
    /* 1 + the last step that was sent completely, to which differences can be sent; 0: none */
    uint64_t holds;
    union {
        struct {
            uint64_t want_step;     /* it waits for this step's parameters; 0: for none */
            bool want_pulled;       /* its request was a pull, not a push */
            uint64_t answered_step; /* this step was sent completely since the last pull */
            /* since the last pull: 1 + the step of the last answered push; 0: none */
            uint64_t answered_push;
            struct tree_leaves pushed; /* backup workers: leaves of the step before want_step */
        } sync;
        struct {
            bool gated; /* its pull with this number waits until the bound allows it */
            uint64_t clock, number;
        } ssp;
    };
    struct shard_ask ask[SHARD_ASKS_MAX]; /* tables: the latest requests, oldest first */
};

/* A shard's part of a cut: a copy of the blocks, owned by the image, and the source of the tables' rows. */
struct shard_image {
    uint64_t cut;
    struct checkpoint_shard blocks; /* `rows`: &rows below; NULL: the job has no tables */
    struct bins bins[CHECKPOINT_EPOCHS];
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct checkpoint_rows rows; /* save_rows provides them; the writer sets `next` and `ctx` */
};
void shard_image_free(struct shard_image *image);

struct shard_io {
    /* Send REPLY or REFUSE to a worker. The body is not copied: before_write announces a change of it. The head `m` is
     * used during the call only. */
    void (*send)(void *ctx, struct shard_peer *to, enum frame_type type, const ProtobufCMessage *m,
                 const void *body, uint64_t bytes);
    /* Send ROWS to a worker, with the first `bytes` of the body (NULL: no body). Holds a reference to the body until it is
     * sent. */
    void (*send_rows)(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                      struct buffer *body, uint64_t bytes);
    /* The shard is about to overwrite `elems` elements from `lo` on: copy those that are in frames still to be sent. */
    void (*before_write)(void *ctx, const float *lo, uint64_t elems);
    /* Send a message to the chief over the ps's control connection. `m` is copied. */
    void (*tell)(void *ctx, enum frame_type type, const ProtobufCMessage *m);
    /* Begin to write the image on another thread. The shell calls shard_on_saved when the image is written; if the
     * writing cannot begin, `save` itself calls shard_on_saved. Takes the image. */
    void (*save)(void *ctx, struct shard_image *take_image);
    /* True: save_rows can take another group of the image's rows now. After false the shell calls shard_copy when there
     * is room again. */
    bool (*save_room)(void *ctx);
    /* Save the next group of the image's rows, in order; the group is copied. The last one is row_group_ends.
     * Errors: ERR_NOMEM. */
    enum err (*save_rows)(void *ctx, const struct row_group *g);
    /* Stop saving: the shard no longer needs the image and expects no answer. */
    void (*save_end)(void *ctx);
    /* Read a published cut into *blocks (first_elem, elems, slots, wanted are set) and *m (zeros on entry). Blocks. On
     * error *m is closed. Errors, with a text; the shard reports ERR_CORRUPT and ERR_NOTFOUND to the chief as a damaged
     * cut. */
    enum err (*load)(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *blocks,
                     struct errmsg *e);
    /* Close every worker's connection. why: ERR_OK the generation changed; ERR_NOMEM or ERR_TOOBIG: the rows of a step
     * found no memory, and only a new process, or a later push, makes the step. */
    void (*drop_peers)(void *ctx, enum err why);
    /* This process cannot enter the generation, which needs so many bytes for parameters and slots, but its next one can
     * (err_exit_code 138): it ends. `what` is copied. False, or NULL: the chief hears it, and ends the job. */
    bool (*fail)(void *ctx, enum err code, uint64_t bytes, const char *what);
    double (*now_s)(void *ctx); /* measures the cost of encoding */
    /* socket_progress (common/net/socket.h) of the peer's connection. On error the codec `auto` chooses
     * without this connection. */
    enum err (*progress)(void *ctx, const struct shard_peer *of, struct link_progress *p);
};

struct shard; /* opaque: ps/core/shard_state.h */

/* `ps` and `thread` select the plan's shard that this one becomes. `io` and `ctx` outlive the shard. Free with
 * shard_free, which takes NULL. Errors: ERR_NOMEM. */
enum err shard_new(struct shard **s, uint32_t ps, uint32_t thread, const struct shard_io *io,
                   void *ctx) MUST_CHECK;
void shard_free(struct shard *s);

/* Handle a message from the chief to the shards (frame.h); any other type is ignored. The answer goes to io->tell. A
 * repeated message gets its answer again. A shard that is empty in the plan does not answer. A decision for a step other
 * than the one being summed is out of date, and ignored. */
void shard_on_chief(struct shard *s, enum frame_type type, const ProtobufCMessage *m);
/* The writer has finished: `file`, or the text of an error; the other one is NULL. Ignored if the shard saves another
 * cut now. `broken`: the first value that is not finite; NULL: none. */
void shard_on_saved(struct shard *s, uint64_t cut, const struct checkpoint_file *file,
                    const struct broken *broken, const char *error);

/* The rows of a cut are copied while training continues. Copy some rows, or free some memory after the cut is over, for a
 * bounded time. False: nothing to do at present. The shell calls it between frames, and while no frames arrive. */
bool shard_copy(struct shard *s);
/* True: training waits for the copy, because the rows kept for the cut have reached their memory bound. */
bool shard_held(const struct shard *s);
/* False: read nothing from workers while training waits (async would have to apply it). */
bool shard_reads(const struct shard *s);

/* Handle a worker's hello. ERR_OK: *peer is initialized, and admitted until shard_peer_gone; the worker's earlier
 * incarnations are fenced, so the shell closes fenced peers. ERR_REFUSED: *refuse has the reason, a static text, and
 * *peer is unchanged. */
enum err shard_on_hello(struct shard *s, struct shard_peer *peer, const Gradwire__Hello *m,
                        Gradwire__Refuse *refuse) MUST_CHECK;
void shard_peer_gone(struct shard *s, struct shard_peer *peer);
/* From now on refuse incarnations of `worker` (< WORKERS_MAX) below this one. The shell closes connected peers for which
 * shard_peer_fenced is true. */
void shard_fence(struct shard *s, uint32_t worker, uint64_t incarnation);
bool shard_peer_fenced(const struct shard *s, const struct shard_peer *peer);

/* Check the head of a push. *elems: the number of elements after decoding. *wanted false: read the body and drop it.
 * Errors: ERR_PROTO the head does not fit this shard: close the connection. */
enum err shard_push_fits(const struct shard *s, const Gradwire__Push *m, uint64_t body_bytes,
                         uint64_t *elems, bool *wanted, struct errmsg *e) MUST_CHECK;
/* Decode the body of a push that shard_push_fits accepted and whose codec is not RAW. out (elems).
 * Errors: ERR_PROTO the body cannot be decoded; ERR_STATE a new generation has begun since the check; ERR_NOMEM. */
enum err shard_push_decode(struct shard *s, const Gradwire__Push *m, const void *in, uint64_t bytes,
                           float *out, struct errmsg *e) MUST_CHECK;
/* Handle a push whose frame is complete. `body`: NULL if it was not wanted; the shard takes its own references. A push
 * of another generation gets REFUSE, and ERR_OK. Errors, on which the connection is closed: ERR_PROTO; ERR_NOMEM. */
enum err shard_on_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                       struct buffer *body, struct errmsg *e) MUST_CHECK;
/* The same as shard_push_fits and shard_on_push for ROWS_ASK and ROWS_PUSH, whose bodies are kept as received. */
enum err shard_rows_fits(const struct shard *s, enum frame_type type, const ProtobufCMessage *m,
                         uint64_t body_bytes, bool *wanted, struct errmsg *e) MUST_CHECK;
/* Errors: ERR_PROTO also if the body does not fit the head; ERR_NOMEM; ERR_TOOBIG: the memory for rows is used up, and
 * the shard has asked the chief to end the job. */
enum err shard_on_rows(struct shard *s, struct shard_peer *peer, enum frame_type type,
                       const ProtobufCMessage *m, struct buffer *body, uint64_t body_bytes,
                       struct errmsg *e) MUST_CHECK;
/* Handle a message without a body from a worker. Errors: ERR_PROTO, also for an unknown type. */
enum err shard_on_worker(struct shard *s, struct shard_peer *peer, enum frame_type type,
                         const ProtobufCMessage *m, struct errmsg *e) MUST_CHECK;

/* The shard's progress. The message belongs to the shard and is valid until the next call. Call it only if the shard
 * has entered and is planned (shard_facts). */
const Gradwire__ShardStatus *shard_status(struct shard *s);

/* Facts for the shell and for tests. */
struct shard_facts {
    bool entered;
    bool planned; /* the plan has a shard for this thread */
    struct generation generation;
    uint64_t max_incarnation;
    uint64_t elems, state_bytes; /* weights; size of a snapshot, slots included */
    enum codec reply_codec;      /* in use; with auto the best one now */
    /* Rows that were kept for cuts because they changed before they were copied: their number since the start, the most
     * bytes at one time, and how often training waited because they had reached their memory bound. */
    uint64_t kept_rows, kept_most_bytes, holds;
    struct row_traffic rows;
};
struct shard_facts shard_facts(const struct shard *s);
/* Write a line for people that names what the shard waits for ("step 1200: waiting for microbatch 2 (of 0 to 3)"). */
void shard_waits_for(const struct shard *s, char *out, size_t bytes);
