/* The state of a shard in async, which other modes build on. */
#pragma once

#include "common/rows/key.h"
#include "ps/core/once.h"
#include "ps/core/shard.h"

struct shard_async {
    struct once once;
    uint64_t *chunk_t;                                 /* (chunks) number of updates of each */
    uint64_t part_t[ROW_PARTS], part_clock[ROW_PARTS]; /* updates; batches received */
    struct stale *stale; /* of each worker that has sent a hello: shard_stale.c */
    /* memory that shard_status uses */
    uint8_t *partial;
    Gradwire__WorkerStaleness *staleness, **staleness_at;
};

/* Entries of struct shard_mode for async and for the modes that build on it; shard_state.h has their contracts. */
enum err shard_async_open(struct shard *s, const Gradwire__Settings *m,
                          struct errmsg *e) MUST_CHECK;
void shard_async_close(struct shard *s);
enum err shard_async_restore(struct shard *s, const struct manifest *m, uint64_t cut,
                             struct errmsg *e) MUST_CHECK;
enum err shard_async_push_fits(const struct shard *s, const Gradwire__Push *m, bool *wanted,
                               struct errmsg *e) MUST_CHECK;
enum err shard_async_push(struct shard *s, struct shard_peer *peer, const Gradwire__Push *m,
                          struct buffer *body, struct errmsg *e) MUST_CHECK;
/* A part's gradient is the mean over the push's examples. Each (name, part) is applied once. A request for rows is answered
 * immediately. */
enum err shard_async_rows_push_fits(const struct shard *s, const Gradwire__RowsPush *m,
                                    bool *wanted, struct errmsg *e) MUST_CHECK;
enum err shard_async_rows_push(struct shard *s, struct shard_peer *peer,
                               const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes,
                               struct errmsg *e) MUST_CHECK;
enum err shard_async_rows_answer(struct shard *s, struct shard_peer *peer,
                                 const Gradwire__RowsAsk *m, struct buffer *body,
                                 struct errmsg *e) MUST_CHECK;
/* Make t the same on all shards. It can differ by 1: one shard had a batch completely, and another worker recomputed the
 * batch for the other shards, found it not finite, and pushed it without examples. */
void shard_async_cut_at(struct shard *s, const Gradwire__CutAt *m);
void shard_async_check(const struct shard *s);
void shard_async_status(struct shard *s, Gradwire__ShardStatus *m);

/* shard_stale.c; chunks count from the shard's first. shard_stale_takes: as shard_mode.takes. */
bool shard_stale_takes(const Gradwire__Settings *m);
/* The setting that cannot be combined with tables, as text; NULL: there is none. */
const char *shard_stale_refused(const Gradwire__Settings *m);
/* As shard_mode.laid_out_otherwise. */
const char *shard_stale_laid_out_otherwise(const struct shard *s, const Gradwire__Settings *m);
enum err shard_stale_join(struct shard *s, uint32_t worker,
                          uint64_t incarnation) MUST_CHECK; /* ERR_NOMEM */
void shard_stale_close(struct shard *s);
/* Note that the worker is being sent the present values of these chunks. */
void shard_stale_sent(struct shard *s, uint32_t worker, uint32_t first, uint32_t count);
/* Update one chunk by the gradient that `worker` computed from the values that it was sent last. g is the sum over
 * `examples`. */
void shard_stale_apply(struct shard *s, uint32_t worker, uint32_t chunk, const float *g,
                       uint32_t examples);
/* Note that the worker is being sent rows; every part counts as sent. */
void shard_stale_rows_sent(struct shard *s, uint32_t worker);
/* The number of updates of the part since the values from which `worker` computed its gradient. */
uint64_t shard_stale_part(const struct shard *s, uint32_t worker, uint32_t part);
/* The divisor of such an update's learning rate; 0, 1: the rate is not divided. */
uint64_t shard_stale_divisor(const struct shard *s, uint64_t staleness);
/* Note that the part's update is applied. A shard without chunks counts the staleness of its first part. */
void shard_stale_part_count(struct shard *s, uint32_t worker, uint32_t part, uint64_t staleness);
/* Fill m->staleness. Errors: ERR_NOMEM: m->staleness stays empty. */
enum err shard_stale_status(struct shard *s, Gradwire__ShardStatus *m) MUST_CHECK;
