#include "common/net/loop.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "common/base/clock.h"
#include "common/process/cgroup.h"
#include "common/base/mem.h"

/* libevent opens an epoll instance and a pair for signals, and ends the process if it cannot. */
enum { LOOP_DESCRIPTORS = 3 };

enum err loop_base_new(struct event_base **out, struct errmsg *e)
{
    enum err err = ulimits_check_descriptors(LOOP_DESCRIPTORS, e);
    if (err)
        return err;
    struct event_config *config = event_config_new();
    if (!config)
        return err_memory_for(e, "an event loop");
    /* One thread per loop, so libevent needs no locks. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (!base)
        return err_memory_for(e, "an event loop");
    *out = base;
    return ERR_OK;
}

enum err loop_init(struct loop *l)
{
    struct event_base *base = NULL;
    enum err err = loop_base_new(&base, NULL);
    if (err)
        return err;
    *l = (struct loop){.base = base};
    l->later_end = &l->later;
    return ERR_OK;
}

void loop_put_off(struct loop *l, struct loop_later *later)
{
    later->next = NULL;
    *l->later_end = later;
    l->later_end = &later->next;
}

/* Work that is added meanwhile runs, too. */
static void run_later(struct loop *l)
{
    while (l->later) {
        struct loop_later *first = l->later;
        l->later = first->next;
        if (!l->later)
            l->later_end = &l->later;
        first->fn(first);
    }
}

enum err loop_tick(struct loop *l, bool *idle)
{
    /* Work scheduled between ticks runs now; this tick then does not wait for events. */
    int flags = l->later ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE;
    run_later(l);
    int rc = event_base_loop(l->base, flags);
    run_later(l);
    if (rc < 0)
        return ERR_IO;
    if (idle) /* run_later may have added events */
        *idle = rc == 1 && event_base_get_num_events(l->base, EVENT_BASE_COUNT_ADDED) == 0;
    return ERR_OK;
}

enum err loop_run(struct loop *l)
{
    enum err rc = ERR_OK;
    bool idle = false;
    l->stopped = false;
    while (rc == ERR_OK && !idle && !l->stopped)
        rc = loop_tick(l, &idle);
    return rc;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

void loop_close(struct loop *l)
{
    run_later(l);
    event_base_free(l->base);
    *l = (struct loop){0};
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop_timer *t = arg;
    t->fn(t->arg);
}

void loop_timer_init(struct loop_timer *t, struct loop *l, void (*fn)(void *arg), void *arg)
{
    *t = (struct loop_timer){.fn = fn, .arg = arg};
    event_assign(&t->event, l->base, -1, 0, on_timer, t);
}

/* libevent cannot change the kind of a pending event: delete, assign and add it again. */
static enum err timer_start(struct loop_timer *t, int64_t ms, short kind)
{
    struct timeval tv = clock_timeval(ms);
    struct event_base *base = event_get_base(&t->event);
    event_del(&t->event);
    event_assign(&t->event, base, -1, kind, on_timer, t);
    return event_add(&t->event, &tv) == 0 ? ERR_OK : ERR_NOMEM;
}

enum err loop_timer_once(struct loop_timer *t, int64_t ms)
{
    return timer_start(t, ms, 0);
}

enum err loop_timer_every(struct loop_timer *t, int64_t ms)
{
    return timer_start(t, ms, EV_PERSIST);
}

bool loop_timer_running(const struct loop_timer *t)
{
    return event_pending(&t->event, EV_TIMEOUT, NULL) != 0;
}

void loop_timer_stop(struct loop_timer *t)
{
    event_del(&t->event);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    struct loop_signal *s = arg;
    s->fn((int)number, s->arg);
}

enum err loop_signal_init(struct loop_signal *s, struct loop *l, int number,
                          void (*fn)(int number, void *arg), void *arg)
{
    *s = (struct loop_signal){.fn = fn, .arg = arg};
    event_assign(&s->event, l->base, number, EV_SIGNAL | EV_PERSIST, on_signal, s);
    return event_add(&s->event, NULL) == 0 ? ERR_OK : ERR_NOMEM;
}

void loop_signal_close(struct loop_signal *s)
{
    event_del(&s->event);
}

static void drop(struct mail *m)
{
    if (m->free && m->data)
        m->free(m->data);
}

/* Takes all waiting letters: the arrays are swapped. */
static void swap(struct mailbox *mb)
{
    pthread_mutex_lock(&mb->lock);
    struct mail *empty = mb->out;
    mb->out = mb->in;
    mb->n_out = mb->n_in;
    mb->in = empty;
    mb->n_in = 0;
    pthread_mutex_unlock(&mb->lock);
    mb->read = 0;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct mailbox *mb = arg;
    uint64_t ignored;
    (void)!read(fd, &ignored, sizeof(ignored));
    swap(mb);
    while (mb->read < mb->n_out) {
        struct mail *m = &mb->out[mb->read++];
        mb->fn(mb->arg, m);
        drop(m);
    }
}

enum err mailbox_init(struct mailbox *mb, struct loop *l, void (*fn)(void *arg, struct mail *m),
                      void *arg)
{
    enum err rc = ERR_NOMEM;
    *mb = (struct mailbox){.fn = fn, .arg = arg};
    mb->in = mem_zalloc(MAILBOX_MAX, sizeof(*mb->in));
    if (!mb->in)
        return rc;
    mb->out = mem_zalloc(MAILBOX_MAX, sizeof(*mb->out));
    if (!mb->out)
        goto free_in;
    mb->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mb->fd < 0) {
        rc = err_of_errno(errno);
        goto free_out;
    }
    event_assign(&mb->event, l->base, mb->fd, EV_READ | EV_PERSIST, on_wake, mb);
    if (event_add(&mb->event, NULL) != 0)
        goto close_fd;
    pthread_mutex_init(&mb->lock, NULL);
    return ERR_OK;
close_fd:
    close(mb->fd);
free_out:
    mem_free(mb->out);
free_in:
    mem_free(mb->in);
    return rc;
}

void mailbox_close(struct mailbox *mb)
{
    event_del(&mb->event);
    for (size_t i = 0; i < mb->n_in; i++)
        drop(&mb->in[i]);
    pthread_mutex_destroy(&mb->lock);
    close(mb->fd);
    mem_free(mb->out);
    mem_free(mb->in);
    *mb = (struct mailbox){.fd = -1};
}

static void wake(struct mailbox *mb)
{
    uint64_t one = 1;
    /* EAGAIN means that the counter is full, so the reader is due to wake already. */
    (void)TEMP_FAILURE_RETRY(write(mb->fd, &one, sizeof(one)));
}

enum err mailbox_post(struct mailbox *mb, const struct mail *m)
{
    enum err rc = ERR_OK;
    pthread_mutex_lock(&mb->lock);
    bool first = mb->n_in == 0;
    if (mb->n_in == MAILBOX_MAX)
        rc = ERR_TOOBIG;
    else
        mb->in[mb->n_in++] = *m;
    if (rc == ERR_OK && first)
        wake(mb); /* under the lock, so that mailbox_close cannot close fd before */
    pthread_mutex_unlock(&mb->lock);
    if (rc != ERR_OK)
        drop(&(struct mail){.data = m->data, .free = m->free});
    return rc;
}

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
