#include "common/math/pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "common/math/kernels.h"
#include "common/base/mem.h"

struct pool_thread {
    struct pool *pool;
    pthread_t pthread;
    uint32_t index;
};

struct pool {
    uint32_t threads, started;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t round; /* increases with each pool_start */
    uint32_t busy;
    bool stop;
    void (*fn)(void *ctx, uint32_t thread);
    void *ctx;
    struct pool_thread *thread; /* elements 1 to threads - 1 are used */
};

static void *run(void *arg)
{
    struct pool_thread *t = arg;
    struct pool *p = t->pool;
    uint64_t seen = 0;
    kernels_flush_denormals();
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->round == seen)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->stop)
            break;
        seen = p->round;
        pthread_mutex_unlock(&p->lock);
        p->fn(p->ctx, t->index);
        pthread_mutex_lock(&p->lock);
        assert(p->busy > 0 && p->busy < p->threads && seen == p->round);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum err pool_new(struct pool **out, uint32_t threads, struct errmsg *e)
{
    struct pool *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return err_memory_for(e, "compute threads");
    p->threads = threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->thread = mem_zalloc(threads, sizeof *p->thread);
    for (p->started = 1; p->thread && p->started < threads; p->started++) {
        struct pool_thread *t = &p->thread[p->started];
        *t = (struct pool_thread){.pool = p, .index = p->started};
        if (pthread_create(&t->pthread, NULL, run, t))
            break;
    }
    if (!p->thread || p->started < threads) {
        pool_free(p);
        return err_set(e, ERR_NOMEM, "%u compute threads cannot be started", threads);
    }
    *out = p;
    return ERR_OK;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 1; i < p->started; i++)
        pthread_join(p->thread[i].pthread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->done);
    mem_free(p->thread);
    mem_free(p);
}

uint32_t pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_start(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx)
{
    if (p->threads == 1)
        return;
    pthread_mutex_lock(&p->lock);
    assert(p->busy == 0); /* the previous pool_start has finished */
    p->fn = fn;
    p->ctx = ctx;
    p->busy = p->threads - 1;
    p->round++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void pool_wait(struct pool *p)
{
    if (p->threads == 1)
        return;
    pthread_mutex_lock(&p->lock);
    while (p->busy)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pool_run(struct pool *p, void (*fn)(void *ctx, uint32_t thread), void *ctx)
{
    pool_start(p, fn, ctx);
    fn(ctx, 0);
    pool_wait(p);
}
