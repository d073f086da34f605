/* Compute threads: run one function on all of them, the caller being thread 0. */
#ifndef GRADWIRE_COMMON_MATH_POOL_H
#define GRADWIRE_COMMON_MATH_POOL_H

#include <stdint.h>

#include "common/base/err.h"

struct pool;

/* `threads` in all, the caller's included. Each flushes denormals. Errors: ERR_NOMEM. */
enum err pool_new(struct pool **p, uint32_t threads, struct errmsg *e) MUST_CHECK;
void pool_free(struct pool *p);
uint32_t pool_threads(const struct pool *p);

/* Start fn(ctx, 1 .. threads - 1) on the others, and return; then the caller does its own part and waits.
 * Thread: the one that made the pool. */
void pool_start(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx);
void pool_wait(struct pool *p);
/* All at once: fn(ctx, 0 .. threads - 1), back when all are done. */
void pool_run(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx);

#endif
