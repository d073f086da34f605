#include "common/net/mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/mem.h"

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
