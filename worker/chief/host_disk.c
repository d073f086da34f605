#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "worker/chief/host_state.h"
#include "worker/chief/journal_file.h"
#include "worker/evaluator/eval_log.h"

enum { COMPLAINTS_MAX = 5, COMPLAINTS_BYTES = 320 };

/* The errors of `cuts` cuts, which must all fit into one line. */
struct complaints {
    size_t cuts, named;
    char text[COMPLAINTS_BYTES];
};

/* `why` usually begins with a file in the cut's directory, whose path names the cut. */
static void complain(struct complaints *c, const char *checkpoints, uint64_t cut, const char *why)
{
    char named[48] = "";
    size_t at = strlen(c->text), folder = strlen(checkpoints);
    size_t most = c->cuts < COMPLAINTS_MAX ? c->cuts : COMPLAINTS_MAX;
    int share = (int)(COMPLAINTS_BYTES / most) - (int)sizeof "; ";
    if (c->named++ >= COMPLAINTS_MAX)
        return;
    if (strncmp(why, checkpoints, folder) == 0 && why[folder] == '/')
        why += folder + 1;
    else
        share -= snprintf(named, sizeof named, "checkpoint %" PRIu64 ": ", cut);
    (void)snprintf(c->text + at, sizeof c->text - at, "%s%s%.*s", at ? "; " : "", named, share,
                   why);
}

enum err host_find_cut(const struct place *checkpoints, uint64_t below, struct manifest *m,
                       struct errmsg *e)
{
    uint64_t *cuts = NULL, newest = 0, unfinished = 0;
    size_t n = 0;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, e);
    if (!err) {
        newest = n ? cuts[0] : 0;
        err = checkpoint_unfinished(checkpoints, newest, &unfinished, e);
    }
    if (err) {
        log_warn("%s", e->text);
        mem_free(cuts);
        return checkpoint_unusable(err) ? ERR_CORRUPT : err;
    }
    if (unfinished > newest)
        log_info("checkpoint %" PRIu64
                 " has no manifest.gw, so it was not completed: it is skipped",
                 unfinished);
    err = ERR_NOTFOUND;
    struct complaints all = {.cuts = n};
    for (size_t i = 0; i < n && checkpoint_unusable(err); i++) {
        if (cuts[i] >= below)
            continue;
        err = checkpoint_load_whole((struct cut){checkpoints, cuts[i]}, m, e);
        if (checkpoint_unusable(err))
            log_warn("checkpoint %" PRIu64 " cannot be used, the one before it is tried: %s",
                     cuts[i], e->text);
        else if (err)
            log_warn("checkpoint %" PRIu64 " is not read: %s", cuts[i], e->text);
        if (err)
            complain(&all, checkpoints->where, cuts[i], e->text);
    }
    mem_free(cuts);
    if (!n || !checkpoint_unusable(err))
        return err;
    return err_set(e, ERR_CORRUPT, "%s%s", all.text,
                   all.named > COMPLAINTS_MAX ? "; the others are in the log" : "");
}

static enum err is_final(const struct place *checkpoints, uint64_t cut, bool *final,
                         struct errmsg *e)
{
    struct manifest m;
    enum err err = checkpoint_load_manifest((struct cut){checkpoints, cut}, &m, e);
    if (err)
        return err;
    *final = m.final;
    manifest_close(&m);
    return ERR_OK;
}

enum err host_find_final(const struct place *checkpoints, struct manifest *m, struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0, i = 0;
    bool final = false;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, e);
    while (!err && !final && i < n)
        err = is_final(checkpoints, cuts[i++], &final, e);
    if (!err)
        err = final ? checkpoint_load_whole((struct cut){checkpoints, cuts[i - 1]}, m, e)
                    : err_set(e, ERR_NOTFOUND, "%s: no checkpoint is the final one",
                              checkpoints->where);
    mem_free(cuts);
    return err;
}

/* ---- manifests ---- */

/* A manifest that is being written. */
struct publication {
    struct host *host;
    bool holds; /* the cut was requested: no one may remove it */
    struct manifest m;
    uint32_t *from; /* (m.files): the ps that has written the file */
};

/* Post the result of a disk's thread. Without memory for the error text, another text replaces it, because NULL
 * would mean success. */
static void post_word(struct control *control, enum host_letter type, uint64_t number,
                      const char *error)
{
    char *copy = error ? mem_strdup(error) : NULL;
    if (error && !copy)
        control_post(control, (int)type, number, (char *)"no memory", NULL);
    else
        control_post(control, (int)type, number, copy, mem_free);
}

static void publication_free(struct publication *p)
{
    manifest_close(&p->m);
    mem_free(p->from);
    mem_free(p);
}

/* Hold the cut before older ones are removed. */
static void hold(const struct publication *p)
{
    struct errmsg e = {""};
    int hold;
    if (checkpoint_hold((struct cut){&p->host->checkpoints, p->m.cut}, &hold, &e))
        log_warn("checkpoint %" PRIu64 " cannot be protected from removal: %s", p->m.cut, e.text);
    else
        control_post(p->host->control, HOST_HELD, (uint64_t)hold, NULL, NULL);
}

/* ---- the history ---- */

/* Lines that are being written to DIR/history.jsonl. */
struct lines {
    struct host *host;
    char *text;
    bool whole; /* they replace the file's contents */
};

static void complain_of_history(struct host *h, const char *why)
{
    if (!h->epochs_complained)
        log_warn("history.jsonl cannot be written, so epochs may be missing from the history after "
                 "a restart (logged once): %s",
                 why);
    h->epochs_complained = true;
}

static void write_lines(void *arg)
{
    struct lines *l = arg;
    struct errmsg e = {""};
    char path[4200];
    size_t bytes = strlen(l->text);
    epoch_log_path(path, l->host->config.output);
    enum err err = l->whole ? files_write(path, l->text, bytes, &e)
                            : line_file_append(path, l->text, bytes, &e);
    if (err)
        complain_of_history(l->host, e.text);
    else if (!l->whole)
        l->host->epochs_unsynced = true;
    if (!l->whole)
        control_to_train(l->host->control, TRAIN_NOTED, 0);
    mem_free(l->text);
    mem_free(l);
}

/* The history must be on disk before a cut that has learned those epochs. */
static void sync_history(struct host *h)
{
    struct errmsg e = {""};
    char path[4200];
    epoch_log_path(path, h->config.output);
    if (h->epochs_unsynced && line_file_sync(path, &e))
        complain_of_history(h, e.text);
    h->epochs_unsynced = false;
}

bool host_epochs_on_letter(struct host *h, struct mail *m)
{
    if (m->type != CONTROL_EPOCH_LINE && m->type != CONTROL_EPOCH_LINES)
        return false;
    struct lines *l = m->data ? mem_zalloc(1, sizeof *l) : NULL;
    if (l)
        *l = (struct lines){h, m->data, m->type == CONTROL_EPOCH_LINES};
    if (l && disk_thread_post(&h->checkpoints_disk, write_lines, l) == ERR_OK) {
        m->data = NULL;
    } else {
        log_warn(
            "an epoch will be missing from the history after a restart: no memory to write it");
        mem_free(l);
        if (m->type == CONTROL_EPOCH_LINE)
            control_to_train(h->control, TRAIN_NOTED, 0);
    }
    return true;
}

/* ---- a cut ---- */

/* Checks that this process sees each file as its ps has reported it. */
static enum err look_at_files(const struct publication *p, struct errmsg *e)
{
    struct errmsg why = {""};
    uint32_t bad;
    enum err err = checkpoint_check_files(&p->host->checkpoints, &p->m, &bad, &why);
    return err ? err_set(e, err, "ps %" PRIu32 ": %s", p->from[bad], why.text) : ERR_OK;
}

static void publish(void *arg)
{
    struct publication *p = arg;
    const struct place *place = &p->host->checkpoints;
    struct errmsg e = {""};
    const char *encoding = p->host->config.encoding;
    enum err err = ERR_OK;
    sync_history(p->host);
    if (encoding)
        err = checkpoint_write_encoding((struct cut){place, p->m.cut}, encoding, strlen(encoding),
                                        &p->m.encoding, &e);
    if (!err)
        err = look_at_files(p, &e);
    if (!err)
        err = checkpoint_publish(place, &p->m, &e);
    if (!err)
        journal_unmark(place);
    if (!err && p->holds)
        hold(p);
    if (!err)
        checkpoint_prune(place, p->host->control->config.job->checkpoint.keep);
    post_word(p->host->control, HOST_PUBLISHED, p->m.cut, err ? e.text : NULL);
    publication_free(p);
}

static struct publication *publication_new(struct host *h, const struct manifest *m,
                                           struct errmsg *e)
{
    const struct job *job = h->control->config.job;
    struct manifest all = *m;
    all.identity_text = job->identity_text;
    (void)snprintf(all.run, sizeof all.run, "%s", job->checkpoint.run);
    all.seconds = h->config.seconds_before + (double)(clock_now_ms() - h->started_ms) / 1000.0;
    memcpy(all.data_fingerprint, h->config.contents->fingerprint, sizeof all.data_fingerprint);
    all.eval.valid = h->has_eval;
    all.eval.step = h->eval.step;
    all.eval.loss = h->eval.loss;
    memcpy(all.eval.metric, h->eval.metric, sizeof h->eval.metric);
    struct publication *p = mem_zalloc(1, sizeof *p);
    uint32_t *from = mem_zalloc(m->files, sizeof *from);
    enum err err = p && from ? manifest_copy(&p->m, &all, e)
                             : err_memory_for(e, "the manifest of checkpoint %" PRIu64, m->cut);
    if (err) {
        mem_free(from);
        mem_free(p);
        return NULL;
    }
    p->host = h;
    p->holds = m->cut == h->kept_cut;
    p->from = from;
    for (uint32_t i = 0; i < m->files; i++)
        from[i] = chief_ps_of(h->chief, i);
    return p;
}

void host_publish(void *ctx, const struct manifest *m)
{
    struct host *h = ctx;
    struct errmsg e = {"no memory to write the manifest"};
    struct publication *p = publication_new(h, m, &e);
    if (p && disk_thread_post(&h->checkpoints_disk, publish, p) == ERR_OK)
        return;
    if (p)
        publication_free(p);
    post_word(h->control, HOST_PUBLISHED, m->cut, e.text);
}

/* ---- the journal ---- */

/* An entry that is being written. */
struct record {
    struct host *host;
    struct journal_entry entry;
};

static void append(void *arg)
{
    struct record *r = arg;
    struct errmsg e = {""};
    enum err err = journal_append(&r->host->checkpoints, &r->entry, 1, &e);
    post_word(r->host->control, HOST_JOURNALED, 1, err ? e.text : NULL);
    mem_free(r);
}

void host_journal(void *ctx, const struct journal_entry *entry)
{
    struct host *h = ctx;
    struct record *r = mem_zalloc(1, sizeof *r);
    if (r)
        *r = (struct record){h, *entry};
    if (r && disk_thread_post(&h->journal_disk, append, r) == ERR_OK)
        return;
    post_word(h->control, HOST_JOURNALED, 1, r ? "no thread could be started" : "no memory");
    mem_free(r);
}

/* ---- the evaluator's results ---- */

enum {
    LOOK_MS = 100,        /* interval of checks for the final cut's result */
    LOOK_PACE_MS = 1000,  /* for other cuts */
    JUDGING_MAX_S = 86400 /* the largest accepted duration */
};

/* A search of DIR/eval.json for a cut. */
struct search {
    struct host *host;
    uint64_t cut;
    bool final; /* only a final result counts */
};

/* The finding of a search. */
struct looked {
    bool judged;
    int64_t took_ms;
    struct evaluation eval;
    char other[MODEL_BLAS_BYTES]; /* kernels that are not the chief's; "": none */
};

static int64_t judging_ms(double seconds)
{
    return seconds > 0 ? (int64_t)(1000 * (seconds < JUDGING_MAX_S ? seconds : JUDGING_MAX_S)) : 0;
}

static void look(void *arg)
{
    struct search *s = arg;
    const struct host *h = s->host;
    struct errmsg e; /* the evaluator logs this error itself */
    struct manifest m = {0};
    struct eval_log log = {.n = 0};
    const struct eval_result *r = NULL;
    struct looked *found = mem_zalloc(1, sizeof *found);
    if (found &&
        checkpoint_load_manifest((struct cut){&h->checkpoints, s->cut}, &m, &e) == ERR_OK &&
        eval_log_read(&log, h->control->config.job, h->config.output, &e) == ERR_OK)
        r = eval_log_of(&log, &m);
    if (r && (r->final || !s->final)) {
        *found =
            (struct looked){.judged = true, .took_ms = judging_ms(r->seconds), .eval = r->eval};
        const char *own = h->config.blas; /* "" if the job is not exact whatever multiplies */
        for (uint32_t i = 0; *own && i < log.kernels; i++)
            if (strcmp(log.blas[i], own) != 0)
                (void)snprintf(found->other, MODEL_BLAS_BYTES, "%s", log.blas[i]);
    }
    eval_log_close(&log);
    manifest_close(&m);
    control_post(h->control, HOST_LOOKED, s->cut, found, mem_free);
    mem_free(s);
}

void host_await_evaluator(void *ctx, uint64_t cut)
{
    struct host *h = ctx;
    h->awaited = cut;
    h->awaiting = true;
}

/* The cut whose result is wanted; UINT64_MAX: none. */
static uint64_t wanted(const struct host *h, const struct chief_facts *f)
{
    if (h->awaiting)
        return h->awaited;
    return h->has_evaluator && f->cut != h->judged ? f->cut : UINT64_MAX;
}

void host_look(struct host *h, int64_t now_ms)
{
    if (h->looking || now_ms - h->looked_ms < (h->awaiting ? LOOK_MS : LOOK_PACE_MS))
        return;
    const struct chief_facts f = chief_facts(h->chief);
    uint64_t cut = wanted(h, &f);
    h->looked_ms = now_ms;
    struct search *s = cut != UINT64_MAX ? mem_zalloc(1, sizeof *s) : NULL;
    if (!s)
        return;
    *s = (struct search){.host = h, .cut = cut, .final = h->awaiting};
    h->looking = disk_thread_post(h->config.logs_disk, look, s) == ERR_OK;
    if (h->looking)
        return;
    mem_free(s);
    h->awaiting = false;
    log_warn("no thread could be started to look for the evaluator's result");
}

static void tell_kernels(struct host *h, const char *other)
{
    if (!*other || h->told_kernels)
        return;
    h->told_kernels = true;
    log_warn("the evaluator multiplies with OpenBLAS's kernels for %s, the chief with those for "
             "%s: the evaluation can have other last digits than the chief's would have, so this "
             "job is not exact; set the same OPENBLAS_CORETYPE in the environment of every process",
             other, h->config.blas);
}

void host_on_looked(struct host *h, uint64_t cut, const void *letter)
{
    const struct looked *found = letter;
    h->looking = false;
    if (!found || !found->judged)
        return;
    tell_kernels(h, found->other);
    host_page_judged(h, &found->eval);
    h->judged = cut;
    if (cut == h->awaited)
        h->awaiting = false;
    chief_on_judged(h->chief, cut, found->took_ms, clock_now_ms());
}

/* Remove the results of later cuts than the one to which the job went back. */
static void undo_results(void *arg)
{
    struct search *s = arg;
    const struct job *job = s->host->control->config.job;
    const char *output = s->host->config.output;
    struct errmsg e;
    struct manifest base = {0};
    struct eval_log log = {.n = 0};
    enum err err = checkpoint_load_manifest((struct cut){&s->host->checkpoints, s->cut}, &base, &e);
    if (!err)
        err = eval_log_read(&log, job, output, &e);
    if (!err && eval_log_undo(&log, &base, 1) != UINT64_MAX)
        err = eval_log_write(&log, job, output, &e);
    if (err)
        log_warn("%s/eval.json may have results of checkpoints that are undone: %s", output,
                 e.text);
    eval_log_close(&log);
    manifest_close(&base);
    mem_free(s);
}

void host_undo_results(struct host *h, uint64_t base)
{
    struct search *s = h->has_evaluator ? mem_zalloc(1, sizeof *s) : NULL;
    if (!s)
        return;
    *s = (struct search){.host = h, .cut = base};
    if (disk_thread_post(h->config.logs_disk, undo_results, s))
        mem_free(s);
}

/* ---- the lock ---- */

static void check_dir(void *arg)
{
    struct host *h = arg;
    struct errmsg e = {""};
    post_word(h->control, HOST_DIR, 0, dirguard_check(&e) ? e.text : NULL);
}

void host_check_dir(struct host *h, int64_t now_ms)
{
    if (h->dir_checking || now_ms - h->dir_checked_ms < DIRGUARD_EVERY_MS)
        return;
    h->dir_checked_ms = now_ms;
    h->dir_checking = disk_thread_post(h->config.logs_disk, check_dir, h) == ERR_OK;
}

/* ---- the storage's token ---- */

enum err host_make_token(struct host *h, uint64_t random, struct errmsg *e)
{
    if (h->control->config.job->checkpoint.store == STORE_CHIEF)
        return ERR_OK;
    (void)snprintf(h->store_token, sizeof h->store_token, ".storage-%016" PRIx64, random);
    return place_put(&h->checkpoints, h->store_token, "", 0, e);
}

/* Renamed, since that works on a full disk, too: only a folder has a token. Made again if somebody has removed it. */
void host_rename_token(struct host *h, uint64_t random)
{
    char was[sizeof h->store_token], from[FILES_PATH_MAX], to[FILES_PATH_MAX];
    struct errmsg e = {""};
    if (!h->store_token[0] || place_path(&h->checkpoints, h->store_token, from, &e))
        return;
    memcpy(was, h->store_token, sizeof was);
    (void)snprintf(h->store_token, sizeof h->store_token, ".storage-%016" PRIx64, random);
    if (place_path(&h->checkpoints, h->store_token, to, &e) == ERR_OK &&
        (rename(from, to) == 0 || (errno == ENOENT && !host_make_token(h, random, &e))))
        return;
    log_warn("%s cannot be renamed (%s): a ps whose directory is a copy of it may not notice that",
             from, e.text[0] ? e.text : strerror(errno));
    memcpy(h->store_token, was, sizeof was);
}

void host_remove_token(struct host *h)
{
    struct errmsg e;
    if (h->store_token[0])
        (void)!place_remove(&h->checkpoints, h->store_token, &e);
}
