/* Shared code of tests of one chief, or one shard, by itself: callbacks that do nothing, or fail the test, and the first
 * messages of every such test. A test has its own for what it looks at. */
#pragma once

#include "ps/core/shard.h"
#include "worker/chief/core/chief.h"

/* ---- chief_io ---- */

void quiet_to_worker(void *ctx, uint32_t worker, enum frame_type type, const ProtobufCMessage *m);
enum err quiet_find_no_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e);
void quiet_publish(void *ctx, const struct manifest *m);
void quiet_discard(void *ctx, uint64_t cut);
void quiet_finish(void *ctx);
void quiet_say(void *ctx, int is_warning, const char *text);
void quiet_restored(void *ctx, const struct manifest *m);
uint64_t quiet_random(void *ctx); /* 7 */
void quiet_journal(void *ctx, const struct journal_entry *entry);
/* The job must not end. */
void quiet_never_ends(void *ctx, int exit_code, const char *text);

/* A ps of one thread is there; `generation` is its own, 0: it is empty. */
void quiet_ps_up(struct chief *chief, uint32_t ps, uint64_t generation, int64_t now_ms);
/* The shards of ps 0 to n - 1, one each, have entered it. */
void quiet_entered(struct chief *chief, uint32_t n, struct generation generation, int64_t now_ms);

/* ---- shard_io ---- */

void quiet_before_write(void *ctx, const float *lo, uint64_t elems);
/* A cut's copy is dropped. There is always room for rows, and they go nowhere. */
void quiet_save(void *ctx, struct shard_image *take_image);
bool quiet_save_room(void *ctx);
enum err quiet_save_rows(void *ctx, const struct row_group *g);
void quiet_save_end(void *ctx);
enum err quiet_load_no_cut(void *ctx, uint64_t cut, struct manifest *m, struct checkpoint_shard *b,
                           struct errmsg *e);
void quiet_drop_peers(void *ctx, enum err why);
double quiet_now_s(void *ctx);
enum err quiet_no_progress(void *ctx, const struct shard_peer *of, struct link_progress *p);
/* The head of what is sent: nobody must be refused. */
const Gradwire__Reply *quiet_reply(enum frame_type type, const ProtobufCMessage *m);
/* The parameters as they are. */
const float *quiet_weights(const struct shard *s, uint64_t *first_elem, uint64_t *elems);

/* One tensor w of zeros in so many whole chunks, all of one shard. */
enum { QUIET_CHUNK = PLAN_CHUNK_MIN_BYTES / 4 };
void quiet_plan(struct layout *layout, Gradwire__Plan *plan, uint32_t chunks);
/* A tensor w of zeros in one chunk, which is shard 0's, and those tables; the lists are those that they name. */
void quiet_tables(struct layout *layout, Gradwire__Plan *plan, uint32_t shards,
                  const struct row_table_spec *table, uint32_t tables);
Gradwire__Generation quiet_generation(uint64_t number);
/* The shard enters it; `cut` is what a restore starts from. */
void quiet_enter(struct shard *shard, Gradwire__Plan *plan, Gradwire__Settings *settings,
                 uint64_t number, Gradwire__EnterMode mode, uint64_t cut);
