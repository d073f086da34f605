#include "common/net/disk_thread.h"

#include <time.h>

#include "common/base/mem.h"

struct disk_job {
    struct disk_job *next;
    void (*run)(void *arg);
    void *arg;
};

void disk_thread_init(struct disk_thread *t)
{
    *t = (struct disk_thread){.jobs = 0};
    t->last = &t->first;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
}

/* Removes the next job, waiting for one. NULL: the thread must stop. */
static struct disk_job *next(struct disk_thread *t)
{
    while (!t->first && !t->stop)
        pthread_cond_wait(&t->changed, &t->lock);
    struct disk_job *job = t->first;
    if (job)
        t->first = job->next;
    if (!t->first)
        t->last = &t->first;
    return job;
}

static void *run(void *arg)
{
    struct disk_thread *t = arg;
    pthread_mutex_lock(&t->lock);
    for (struct disk_job *job; (job = next(t)) != NULL; t->jobs--) {
        pthread_mutex_unlock(&t->lock);
        job->run(job->arg);
        mem_free(job);
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

enum err disk_thread_post(struct disk_thread *t, void (*fn)(void *arg), void *arg)
{
    struct disk_job *job = mem_zalloc(1, sizeof *job);
    if (!job)
        return ERR_NOMEM;
    *job = (struct disk_job){.run = fn, .arg = arg};
    pthread_mutex_lock(&t->lock);
    enum err err = t->jobs == DISK_JOBS_MAX ? ERR_TOOBIG : ERR_OK;
    if (!err && !t->running && pthread_create(&t->pthread, NULL, run, t))
        err = ERR_NOMEM;
    if (!err) {
        t->running = true;
        t->jobs++;
        *t->last = job;
        t->last = &job->next;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    if (err)
        mem_free(job);
    return err;
}

void disk_thread_settle(struct disk_thread *t)
{
    pthread_mutex_lock(&t->lock);
    while (t->jobs)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

bool disk_thread_close_within(struct disk_thread *t, int64_t ms)
{
    struct timespec until;
    int err = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&t->lock);
    while (t->jobs && !err)
        err = pthread_cond_clockwait(&t->changed, &t->lock, CLOCK_MONOTONIC, &until);
    bool idle = t->jobs == 0;
    pthread_mutex_unlock(&t->lock);
    if (idle)
        disk_thread_close(t);
    return idle;
}

void disk_thread_close(struct disk_thread *t)
{
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (t->running)
        pthread_join(t->pthread, NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
}
