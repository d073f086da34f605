#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/process/files.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "worker/chief/host_state.h"
#include "worker/chief/journal_file.h"
#include "worker/evaluate/eval_log.h"

static enum err load_whole(const char *checkpoints, uint64_t cut, struct manifest *m,
                           struct errmsg *e)
{
    enum err err = checkpoint_load(checkpoints, cut, m, e);
    if (err)
        return err;
    err = checkpoint_verify(checkpoints, m, e);
    if (err)
        manifest_close(m);
    return err;
}

/* Nothing is wrong with the cut itself, so what it has learned is not given up for an older one. */
static bool is_no_fault_of_it(enum err err)
{
    return err == ERR_NEWER || err == ERR_NOMEM;
}

enum err host_find_cut(const char *checkpoints, uint64_t below, struct manifest *m,
                       struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, e);
    if (err) {
        log_warn("%s", e->text);
        return is_no_fault_of_it(err) ? err : ERR_CORRUPT;
    }
    err = ERR_NOTFOUND;
    for (size_t i = 0; i < n && err && !is_no_fault_of_it(err); i++) {
        if (cuts[i] >= below)
            continue;
        err = load_whole(checkpoints, cuts[i], m, e);
        if (is_no_fault_of_it(err))
            log_warn("cut %" PRIu64 " is not read: %s", cuts[i], e->text);
        else if (err)
            log_warn("cut %" PRIu64 " cannot be used, the one before it is tried: %s", cuts[i],
                     e->text);
    }
    mem_free(cuts);
    return err && !is_no_fault_of_it(err) && n ? ERR_CORRUPT : err;
}

/* ---- manifests ---- */

/* A manifest on its way to disk. */
struct publication {
    struct host *host;
    struct manifest m;
    char dir[4096];
    uint32_t keep;
    struct checkpoint_file *file;
    uint8_t *window, *dropped;
    uint32_t *threads;
};

void host_join_publisher(struct host *h)
{
    if (h->publishing)
        pthread_join(h->publisher, NULL);
    h->publishing = false;
}

/* The publisher's word; without memory for an error's text another one stands for it: NULL would say that it is done. */
static void post_published(struct control *control, uint64_t cut, const char *error)
{
    char *copy = error ? mem_strdup(error) : NULL;
    if (error && !copy)
        control_post(control, HOST_PUBLISHED, cut, (char *)"no memory", NULL);
    else
        control_post(control, HOST_PUBLISHED, cut, copy, mem_free);
}

static void publication_free(struct publication *p)
{
    mem_free(p->file);
    mem_free(p->window);
    mem_free(p->threads);
    mem_free(p->dropped);
    mem_free(p);
}

static void *publish_run(void *arg)
{
    struct publication *p = arg;
    struct errmsg e = {""};
    enum err err = checkpoint_publish(p->dir, &p->m, &e);
    if (!err)
        checkpoint_prune(p->dir, p->keep);
    post_published(p->host->control, p->m.cut, err ? e.text : NULL);
    publication_free(p);
    return NULL;
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = mem_zalloc(bytes + 1, 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

static struct publication *publication_new(struct host *h, const struct manifest *m)
{
    struct publication *p = mem_zalloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->host = h;
    p->m = *m;
    p->keep = h->control->config.job->checkpoint.keep;
    (void)snprintf(p->dir, sizeof p->dir, "%s", h->checkpoints);
    p->m.file = p->file = copy_of(m->file, m->files * sizeof *m->file);
    p->m.window_bits = p->window = copy_of(m->window_bits, m->window_bits_bytes);
    p->m.redo.dropped = p->dropped = copy_of(m->redo.dropped, m->redo.dropped_bytes);
    p->m.ps_threads = p->threads = copy_of(m->ps_threads, m->ps * sizeof *m->ps_threads);
    p->m.identity_text = h->control->config.job->identity_text;
    (void)snprintf(p->m.run, sizeof p->m.run, "%s", h->control->config.job->checkpoint.run);
    p->m.seconds = h->config.seconds_before + (double)(clock_now_ms() - h->started_ms) / 1000.0;
    memcpy(p->m.data_fingerprint, h->config.data_fingerprint, sizeof p->m.data_fingerprint);
    p->m.eval.valid = h->has_eval;
    p->m.eval.step = h->eval.step;
    p->m.eval.loss = h->eval.loss;
    memcpy(p->m.eval.metric, h->eval.metric, sizeof h->eval.metric);
    if (p->file && p->window && p->threads && p->dropped)
        return p;
    publication_free(p);
    return NULL;
}

void host_publish(void *ctx, const struct manifest *m)
{
    struct host *h = ctx;
    host_join_publisher(h); /* one of a generation that is over */
    struct publication *p = publication_new(h, m);
    if (p && pthread_create(&h->publisher, NULL, publish_run, p) == 0) {
        h->publishing = true;
        return;
    }
    if (p)
        publication_free(p);
    post_published(h->control, m->cut, "no memory to write the manifest");
}

/* ---- the journal ---- */

/* The writer: an fsync must not block the control thread. */
static void *write_journal(void *arg)
{
    struct host *h = arg;
    struct errmsg e = {""};
    enum err err = journal_append(h->checkpoints, h->writing.entry, h->writing.n, &e);
    char *copy = err ? mem_strdup(e.text) : NULL;
    control_post(h->control, HOST_JOURNALED, h->writing.n,
                 err && !copy ? (char *)"no memory" : copy, copy ? mem_free : NULL);
    return NULL;
}

static void join_journal_writer(struct host *h)
{
    if (h->journaling)
        pthread_join(h->journal_writer, NULL);
    h->journaling = false;
}

static void write_pending(struct host *h)
{
    if (h->journaling || h->waiting.n == 0)
        return;
    journal_close(&h->writing);
    h->writing = h->waiting;
    h->waiting = (struct journal){0};
    h->journaling = pthread_create(&h->journal_writer, NULL, write_journal, h) == 0;
    if (!h->journaling)
        control_post(h->control, HOST_JOURNALED, h->writing.n, (char *)"no thread could be started",
                     NULL);
}

void host_journal(void *ctx, const struct journal_entry *entry)
{
    struct host *h = ctx;
    if (journal_add(&h->waiting, entry))
        control_post(h->control, HOST_JOURNALED, 1, (char *)"no memory", NULL);
    write_pending(h);
}

void host_on_journaled(struct host *h, uint64_t entries, const char *error)
{
    join_journal_writer(h);
    for (uint64_t i = 0; i < entries; i++)
        chief_on_journaled(h->chief, i ? NULL : error, clock_now_ms());
    write_pending(h);
}

void host_finish_journal(struct host *h)
{
    struct errmsg e = {""};
    join_journal_writer(h);
    if (h->waiting.n && journal_append(h->checkpoints, h->waiting.entry, h->waiting.n, &e))
        log_warn("the journal could not be written: %s", e.text);
    journal_close(&h->writing);
    journal_close(&h->waiting);
}

/* ---- the evaluator's last word ---- */

enum { LOOK_MS = 100 };

static bool is_judged(const struct host *h, uint64_t cut)
{
    struct eval_log log;
    struct errmsg e;
    if (eval_log_read(&log, h->control->config.job, h->config.output, &e))
        return false; /* the evaluator is told by its own log */
    const struct eval_result *last = eval_log_last(&log, h->uuid);
    bool judged = last && last->final && last->cut == cut;
    eval_log_close(&log);
    return judged;
}

static void *look_run(void *arg)
{
    struct host *h = arg;
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    uint64_t told = UINT64_MAX;
    while (!atomic_load(&h->await_no_more)) {
        uint64_t cut = atomic_load(&h->awaited);
        if (cut != told && is_judged(h, cut)) {
            control_post(h->control, HOST_JUDGED, cut, NULL, NULL);
            told = cut;
        }
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

void host_await_evaluator(void *ctx, uint64_t cut)
{
    struct host *h = ctx;
    struct chief_facts facts;
    chief_facts(h->chief, &facts);
    if (!h->awaiting)
        memcpy(h->uuid, facts.uuid, sizeof h->uuid);
    atomic_store(&h->awaited, cut);
    if (!h->awaiting)
        h->awaiting = pthread_create(&h->eval_watcher, NULL, look_run, h) == 0;
    if (!h->awaiting)
        log_warn("no thread could be started to look for the evaluator's result");
}

void host_await_no_more(struct host *h)
{
    atomic_store(&h->await_no_more, true);
    if (h->awaiting)
        pthread_join(h->eval_watcher, NULL);
    h->awaiting = false;
}

/* ---- the storage's token ---- */

enum err host_make_token(struct host *h, uint64_t random, struct errmsg *e)
{
    char path[sizeof h->checkpoints + sizeof h->store_token];
    if (h->control->config.job->checkpoint.store != STORE_AUTO)
        return ERR_OK;
    enum err err = files_mkdirs(h->checkpoints, e);
    (void)snprintf(h->store_token, sizeof h->store_token, ".storage-%016" PRIx64, random);
    (void)snprintf(path, sizeof path, "%s/%s", h->checkpoints, h->store_token);
    return err ? err : files_write(path, "", 0, e);
}

void host_remove_token(struct host *h)
{
    char path[sizeof h->checkpoints + sizeof h->store_token];
    (void)snprintf(path, sizeof path, "%s/%s", h->checkpoints, h->store_token);
    if (h->store_token[0])
        (void)unlink(path);
}
