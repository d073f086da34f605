/* The worker's connections to the shards, one each, on the training thread's loop; a lost one is connected again.
 * Gradients are sent as ranges of chunks from where backward wrote them; parameters are read into the flat block. */
#pragma once

#include "common/net/loop.h"
#include "worker/driver/gradient_node.h"
#include "worker/driver/local.h"
#include "worker/driver/push_codec.h"
#include "worker/driver/row_frames.h"
#include "worker/core/session.h"

struct cluster;
struct job;
struct links;
struct unreached;

struct links_config {
    struct loop *loop;
    struct session *session;
    const struct job *job;
    const struct cluster *cluster;
    const struct layout *layout;
    float *w;                    /* the flat block, which replies are read into */
    float *averages;             /* the flat block of moving averages; NULL: not needed */
    struct unreached *unreached; /* tracks which connections are up; reset with each generation */
    const struct local *local;   /* geo: the state of the rounds; else NULL */
    /* A gradient cannot be sent: the reason, and the exit code. */
    void (*on_refused)(void *ctx, int exit_code, const char *text);
    /* A shard no longer accepts this incarnation. */
    void (*on_turned_away)(void *ctx, uint32_t shard, const char *text);
    /* A shard has entered this generation, which is later than ours. */
    void (*on_later)(void *ctx, uint64_t generation);
    void *ctx;
};

/* Copies *config; the objects that it points to must outlive *l. Connects nothing: links_restart does. Errors:
 * ERR_NOMEM. */
enum err links_new(struct links **l, const struct links_config *config,
                   struct errmsg *e) MUST_CHECK;
void links_free(struct links *l);

/* The session has a new generation: close all connections, and connect to the shards of its plan. Errors: ERR_NOMEM,
 * ERR_INPUT. */
enum err links_restart(struct links *l, struct errmsg *e) MUST_CHECK;

/* A task begins; its nodes' ranges follow (gradient_range). Full ranges of chunks are sent to the shards that can
 * take them as they become final. `rows`: number of rows of data in the step's whole batch, in sync. */
void links_begin(struct links *l, const struct session_task *task, uint64_t rows);
void links_end(struct links *l); /* the whole task is written */
void links_range(void *links, struct gradient_node *n, uint64_t from, uint64_t to);
/* Tables: the task's nodes and their rows are final. Sends everything, to each shard in one write. `ask`: also asks
 * for the rows of *v; NULL: it does not. */
void links_push_all(struct links *l, const struct gradient_node *node, uint32_t nodes,
                    struct row_values *ask);
/* Ask every connected shard for its rows of *v. *v must live until another request of this kind, or links_forget. */
void links_ask(struct links *l, enum session_ask which, struct row_values *v);
void links_forget(struct links *l, enum session_ask which); /* answers are no longer stored */
void links_ask_again(struct links *l, uint32_t shard, enum session_ask which);
/* Send the whole running push to this shard, for session_io.push_again. */
void links_push_again(struct links *l, uint32_t shard, const struct gradient_node *node,
                      uint32_t nodes);
/* Send the whole round (geo), or what was withheld (async), to this shard. */
void links_push_round(struct links *l, uint32_t shard);
/* Send a message without a body; it is dropped if the shard is not connected. */
void links_send(struct links *l, uint32_t shard, enum frame_type type, const ProtobufCMessage *m);
/* Fill in the bytes on all connections so far, those of earlier generations included, and the cost of encoding
 * gradients and decoding parameters. */
void links_count(const struct links *l, struct worker_account *a);
/* Error feedback: true if something is withheld. */
bool links_withhold(const struct links *l);
/* Why a shard of this ps is not connected (dial_why); "": it is not known. */
const char *links_why_away(const struct links *l, uint32_t ps);
/* The codec of the pushes to this shard. */
enum codec links_codec(const struct links *l, uint32_t shard);
/* Gradient blocks are about to be rewritten: copy the parts that a slow shard has not taken. */
void links_before_write(struct links *l);
