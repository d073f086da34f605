/* A rig: the shards of a job with tables, without threads and sockets, and a log of all that they send. Two workers have a
 * connection to each. A test pushes gradients of keys, asks for rows, and compares with tests/lib/row_model.h. A call that
 * a rig cannot carry out fails the test. */
#pragma once

#include "ps/core/shard.h"
#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"

/* Tables 0 and 1 have list 0, table 2 has list 1. One chunk, which is shard 0's: others have rows alone. A step of sync has
 * four leaves. */
enum {
    RIG_LEAVES = 4,
    RIG_SHARDS_MAX = 4,
    RIG_LISTS = 2,
    RIG_TABLES = 3,
    RIG_DIM_MAX = 3,
    RIG_KEYS = 60,
    RIG_LOG_MAX = 64,
    RIG_SEED = 99,
};
extern const uint32_t rig_dim[RIG_TABLES], rig_list[RIG_TABLES];

/* A message that a shard sent. */
struct rig_sent {
    enum frame_type type;
    const struct shard_peer *to;
    uint64_t step, name, number, bytes;
    uint32_t chunks, first_part, parts;
    bool made, gone, has_body;
    Gradwire__Outcome outcome;
    uint8_t body[4096];
};

struct rig {
    uint32_t shards;
    struct rig_node {
        struct shard *shard;
        struct shard_peer peer[2]; /* of workers 0 and 1 */
        struct rig_sent log[RIG_LOG_MAX];
        uint32_t logged;
        char entered_error[256];
    } node[RIG_SHARDS_MAX];
    struct buffer_pool pool;
    struct layout layout;
    Gradwire__Plan plan;
    Gradwire__Settings settings;
    uint64_t generation;
    uint64_t key[RIG_KEYS]; /* mixed, in ascending order */
};

/* Sgd with momentum, in sync, of that many shards. Not entered: its settings and tables can be changed; a change of tables
 * needs a new plan. */
struct rig *rig_new(uint32_t shards);
void rig_plan_anew(struct rig *c);
/* The next generation begins on all shards: connections are gone, and the log is empty. */
void rig_enter(struct rig *c, Gradwire__EnterMode mode);
void rig_hello(struct rig *c, uint32_t shard, uint32_t worker);
void rig_hellos(struct rig *c); /* of both workers to all shards */
/* New, entered, and both workers are there. */
struct rig *rig_begin(uint32_t shards);
struct rig *rig_begin_async(uint32_t shards);
void rig_end(struct rig *c);

uint64_t rig_step(const struct rig *c, uint32_t shard);
const struct rig_sent *rig_last(const struct rig *c, uint32_t shard);

/* ---- gradients ---- */

/* Of one node: which keys of each list it touches, and their gradients in each table. */
struct rig_grads {
    bool touched[RIG_LISTS][RIG_KEYS];
    float g[RIG_TABLES][RIG_KEYS][RIG_DIM_MAX];
};
extern const struct rig_grads rig_nothing;

/* Keys [first, last) of both lists, all gradients g. */
struct rig_grads rig_touch(uint32_t first, uint32_t last, float g);
struct rig_grads rig_random_grads(void); /* by rand(): every fourth key */

/* Copies to out + at. Returns where the next goes. */
size_t rig_put(uint8_t *out, size_t at, const void *from, size_t bytes);
/* The section of one part: counts, keys, values. Returns its bytes. */
size_t rig_section(const struct rig *c, const struct rig_grads *g, struct bucket_range of,
                   uint8_t *out);

/* ---- pushes ---- */

extern const struct tree_node rig_root,
    rig_batch; /* of a whole step; async: the node of every push */

/* A message, without the body. */
Gradwire__RowsPush rig_push_head(Gradwire__Generation *g, uint64_t name, struct tree_node node,
                                 uint32_t examples, uint32_t first, uint32_t parts);
/* As a shard takes one from a connection: the head, then the body where it is wanted. */
enum err rig_send_push(struct rig *c, uint32_t shard, uint32_t worker, const Gradwire__RowsPush *m,
                       const void *body, uint64_t bytes, struct errmsg *e) MUST_CHECK;
/* The shard must take each of the following pushes. */
void rig_push_parts(struct rig *c, uint32_t shard, uint32_t worker, uint64_t name,
                    struct tree_node node, uint32_t examples, const struct rig_grads *g,
                    uint32_t first, uint32_t parts);
void rig_push_rows(struct rig *c, uint32_t shard, uint64_t name, struct tree_node node,
                   uint32_t examples, const struct rig_grads *g); /* worker 0's, all parts */
void rig_push_block(struct rig *c, uint32_t worker, uint64_t name, struct tree_node node,
                    uint32_t examples); /* zeros for the chunk */
/* A whole step of one example on all shards. */
void rig_make_step(struct rig *c, uint64_t step, const struct rig_grads *g);

/* ---- asks ---- */

enum err rig_ask_of(struct rig *c, uint32_t shard, uint32_t worker, const Gradwire__RowsAsk *m,
                    const uint64_t *mixed, uint64_t bytes, struct errmsg *e) MUST_CHECK;
/* For all of the shard's keys, of both lists. */
enum err rig_ask_once(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number, bool any,
                      uint64_t step, bool once, struct errmsg *e) MUST_CHECK;
enum err rig_ask_with(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number, bool any,
                      uint64_t step, struct errmsg *e) MUST_CHECK;
void rig_ask(struct rig *c, uint32_t shard, uint32_t worker, uint64_t number,
             uint64_t step); /* it must be taken */
