#include "worker/control/http_thread.h"

#include <pthread.h>

#include "common/base/log.h"
#include "common/net/mailbox.h"
#include "common/base/mem.h"

struct http_thread {
    struct loop loop;
    struct mailbox in; /* any letter stops the thread */
    struct http *http;
    pthread_t pthread;
};

static void on_letter(void *arg, struct mail *m)
{
    struct http_thread *t = arg;
    (void)m;
    loop_stop(&t->loop);
}

static void *run(void *arg)
{
    struct http_thread *t = arg;
    if (loop_run(&t->loop))
        log_warn("HTTP is no longer served: the event loop failed");
    return NULL;
}

enum err http_thread_new(struct http_thread **out, int fd, const struct http_ops *ops, void *ctx,
                         struct errmsg *e)
{
    *out = NULL;
    if (fd < 0)
        return ERR_OK;
    struct http_thread *t = mem_zalloc(1, sizeof *t);
    enum err err = ERR_NOMEM;
    if (!t)
        goto no_memory;
    err = loop_init(&t->loop);
    if (err)
        goto no_loop;
    err = mailbox_init(&t->in, &t->loop, on_letter, t);
    if (err)
        goto no_mailbox;
    err = http_open_again(&t->http, &t->loop, fd, ops, ctx);
    if (err)
        goto no_http;
    if (pthread_create(&t->pthread, NULL, run, t) == 0) {
        *out = t;
        return ERR_OK;
    }
    err = ERR_NOMEM;
    http_close(t->http);
no_http:
    mailbox_close(&t->in);
no_mailbox:
    loop_close(&t->loop);
no_loop:
    mem_free(t);
no_memory:
    return err_set(e, err, "HTTP cannot be served: %s", err_str(err));
}

void http_thread_free(struct http_thread *t)
{
    struct mail quit = {.type = 0};
    if (!t)
        return;
    if (mailbox_post(&t->in, &quit))
        log_warn("the HTTP thread cannot be stopped");
    pthread_join(t->pthread, NULL);
    http_close(t->http);
    mailbox_close(&t->in);
    loop_close(&t->loop);
    mem_free(t);
}
