#include "worker/control/control.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/net/tls.h"
#include "common/peers/hello.h"
#include "worker/control/control_http.h"

enum { TICK_MS = 50 };

static void post(struct mailbox *to, int type, uint64_t number, void *take_data,
                 void (*release)(void *))
{
    struct mail m = {.type = type, .number = number, .data = take_data, .free = release};
    enum err err = mailbox_post(to, &m);
    if (err && err != ERR_CLOSED)
        log_error("a message between threads is lost: %s", err_str(err));
}

void control_to_train(struct control *c, enum train_letter type, uint64_t number)
{
    post(c->config.train, (int)type, number, NULL, NULL);
}

/* Nobody repeats a message between threads: without it the job would wait for ever. */
static void stop_without_memory(struct control *c, const char *what)
{
    struct errmsg e;
    enum err err = err_memory_for(&e, "%s", what);
    control_stop_train(c, err_exit_code(err), "%s", e.text);
}

void control_message_to_train(struct control *c, enum frame_type type, const ProtobufCMessage *m)
{
    ProtobufCMessage *copy = msg_copy(m);
    if (copy)
        post(c->config.train, TRAIN_CHIEF, (uint64_t)type, copy, msg_free);
    else
        stop_without_memory(c, "a message of the chief");
}

static void kept_free(void *data)
{
    struct train_kept *kept = data;
    if (kept->hold >= 0)
        (void)close(kept->hold);
    mem_free(kept);
}

void control_kept_to_train(struct control *c, const struct train_kept *kept)
{
    struct train_kept *copy = mem_zalloc(1, sizeof *copy);
    if (!copy) {
        stop_without_memory(c, "the report that a checkpoint is published");
        return;
    }
    *copy = *kept;
    post(c->config.train, TRAIN_KEPT, 0, copy, kept_free);
}

void control_stop_train(struct control *c, int exit_code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(c->end_text, sizeof c->end_text, fmt, args);
    va_end(args);
    c->ended = true;
    c->exit_code = exit_code;
    http_tell(c->http);
    post(c->config.train, TRAIN_STOP, (uint64_t)exit_code, mem_strdup(c->end_text), mem_free);
}

void control_send(struct control *c, enum frame_type type, const ProtobufCMessage *m)
{
    assert(type == FRAME_HELLO || frame_to(type) == FRAME_TO_CHIEF);
    ProtobufCMessage *copy = msg_copy(m);
    if (copy)
        post(&c->in, CONTROL_SEND, (uint64_t)type, copy, msg_free);
    else
        post(&c->in, CONTROL_NO_MEMORY, 0, NULL, NULL);
}

void control_post(struct control *c, int type, uint64_t number, void *take_data,
                  void (*release)(void *))
{
    post(&c->in, type, number, take_data, release);
}

void control_refusal(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char *out, size_t bytes)
{
    struct errmsg e = {""};
    bool job = m->reason == GRADWIRE__REASON__OTHER_JOB && !m->encoding.len;
    if (job && m->identity_text[0] &&
        job_identity_compare(m->identity_text, config->job->identity_text, &e))
        (void)snprintf(out, bytes, "%s belongs to another job: %s (%s)", who, m->text, e.text);
    else if (job)
        (void)snprintf(out, bytes, "%s belongs to another job: %s", who, m->text);
    else if (m->reason == GRADWIRE__REASON__OTHER_DATA) {
        char text[HELLO_WHY_BYTES];
        hello_other_data(m, config->cluster, config->contents, text, sizeof text);
        (void)snprintf(out, bytes, "%.350s; all processes must read the same data.train", text);
    } else
        (void)snprintf(out, bytes, "%s refused: %s", who, m->text);
}

void control_refused(const struct control_config *config, const char *who,
                     const Gradwire__Refuse *m, char said[CONTROL_REFUSAL_BYTES])
{
    char text[CONTROL_REFUSAL_BYTES];
    control_refusal(config, who, m, text, sizeof text);
    if (strcmp(text, said) != 0)
        log_warn("%s; trying again", text);
    memcpy(said, text, sizeof text);
}

/* The rows that this process has read stay as they are, so only another peer can accept them. */
bool control_other_data(const Gradwire__Refuse *m, int64_t *since_ms)
{
    enum { OTHER_DATA_MS = 10000 };
    int64_t now_ms = clock_now_ms();
    if (m->reason != GRADWIRE__REASON__OTHER_DATA) {
        *since_ms = 0;
        return false;
    }
    if (!*since_ms)
        *since_ms = now_ms;
    return now_ms - *since_ms >= OTHER_DATA_MS;
}

/* ---- the thread ---- */

static void on_letter(void *arg, struct mail *m)
{
    struct control *c = arg;
    if (m->type == CONTROL_QUIT)
        loop_stop(&c->loop);
    else if (m->type == CONTROL_NO_MEMORY)
        stop_without_memory(c, "a message to the chief");
    else
        c->ops->on_letter(c->role, m);
}

static void on_signal(int number, void *arg)
{
    (void)number;
    struct control *c = arg;
    if (c->going) {
        control_stop_train(c, 143, "asked to stop twice: exiting immediately");
        return;
    }
    c->going = true;
    c->going_ms = clock_now_ms();
    log_info("asked to stop");
    c->ops->on_go(c->role, c->going_ms);
}

static void on_tick(void *arg)
{
    struct control *c = arg;
    int64_t now = clock_now_ms();
    if (c->ended)
        return;
    c->ops->on_tick(c->role, now);
    if (tls_own())
        (void)tls_look(tls_own(), now);
    uint32_t grace_s = c->config.job->timeouts.grace_s;
    if (c->going && !c->ended && now - c->going_ms > (int64_t)grace_s * 1000)
        control_stop_train(
            c, 143,
            "the grace of %u s ended before a checkpoint was published, or the job was done",
            grace_s);
}

static void *run(void *arg)
{
    struct control *c = arg;
    if (loop_run(&c->loop))
        control_stop_train(c, 138, "the control thread's event loop failed");
    control_http_close(c);
    c->ended = true; /* no more decisions while the last messages are sent */
    c->ops->stop(c->role);
    return NULL;
}

enum err control_init(struct control *c, const struct control_config *config,
                      const struct control_ops *ops, void *role, struct errmsg *e)
{
    *c = (struct control){.config = *config, .ops = ops, .role = role};
    enum err err = loop_init(&c->loop);
    if (err)
        return err_set(e, err, "no event loop: %s", err_str(err));
    err = mailbox_init(&c->in, &c->loop, on_letter, c);
    if (err)
        goto no_mailbox;
    loop_timer_init(&c->tick, &c->loop, on_tick, c);
    err = loop_signal_init(&c->term, &c->loop, SIGTERM, on_signal, c);
    if (err)
        goto no_signals;
    err = loop_signal_init(&c->interrupt, &c->loop, SIGINT, on_signal, c);
    if (err)
        goto no_interrupt;
    err = loop_timer_every(&c->tick, TICK_MS);
    if (!err)
        err = ops->start(role, c, e);
    if (!err)
        err = control_http_open(c);
    if (!err && pthread_create(&c->pthread, NULL, run, c))
        err = err_set(e, ERR_NOMEM, "the control thread cannot be started");
    if (!err)
        return ERR_OK;
    control_http_close(c);
    ops->stop(role);
    loop_timer_stop(&c->tick);
    loop_signal_close(&c->interrupt);
no_interrupt:
    loop_signal_close(&c->term);
no_signals:
    mailbox_close(&c->in);
no_mailbox:
    loop_close(&c->loop);
    if (e && !e->text[0])
        err_set(e, err, "the control thread cannot be started: %s", err_str(err));
    return err;
}

void control_close(struct control *c)
{
    control_post(c, CONTROL_QUIT, 0, NULL, NULL);
    pthread_join(c->pthread, NULL);
    loop_timer_stop(&c->tick);
    loop_signal_close(&c->term);
    loop_signal_close(&c->interrupt);
    mailbox_close(&c->in);
    loop_close(&c->loop);
}
