/* Compute threads. Each call runs one function on all of them; the caller is thread 0. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

struct pool;

/* Makes a pool of `threads` threads, including the caller's. The others flush denormals by themselves; the
 * caller must call kernels_flush_denormals. Errors: ERR_NOMEM. Free with pool_free. */
enum err pool_new(struct pool **p, uint32_t threads, struct errmsg *e) MUST_CHECK;
void pool_free(struct pool *p); /* ends and joins the threads; NULL is ignored */
uint32_t pool_threads(const struct pool *p);

/* pool_start runs fn(ctx, 1) to fn(ctx, threads - 1) on the other threads and returns. The caller then does its
 * own part, and calls pool_wait. Thread: the one that made the pool. */
void pool_start(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx);
void pool_wait(struct pool *p);
/* Runs fn(ctx, 0) to fn(ctx, threads - 1) in parallel, 0 on the calling thread. Returns when all are done. */
void pool_run(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx);
