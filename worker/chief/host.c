#include "worker/chief/host.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "job/keys.h"
#include "common/peers/hello.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "worker/chief/host_state.h"
#include "worker/chief/resume.h"
#include "model/metric.h"
#include "worker/control/progress.h"

enum {
    /* a job that was already done waits this long for ps, which may be gone */
    FINISHED_START_S = 3,
};

enum err host_new(struct host **out, const struct host_config *config, struct errmsg *e)
{
    struct host *h = mem_zalloc(1, sizeof *h);
    if (!h)
        return err_memory_for(e, "the chief");
    h->config = *config;
    h->kept_cut = h->judged = UINT64_MAX;
    h->kept_hold = -1;
    disk_thread_init(&h->checkpoints_disk);
    disk_thread_init(&h->journal_disk);
    place_of_job(&h->checkpoints, config->output, OUTPUT_CHECKPOINTS);
    *out = h;
    return ERR_OK;
}

void host_free(struct host *h)
{
    if (!h)
        return;
    chief_free(h->chief);
    host_page_close(h);
    mem_free(h->ps);
    mem_free(h);
}

const struct chief *host_chief(const struct host *h)
{
    return h->chief;
}

const struct chief_facts *host_facts(const struct host *h)
{
    return &h->facts;
}

/* ---- struct chief_io ---- */

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct host *h = ctx;
    assert(frame_to(type) & (FRAME_TO_PS | FRAME_TO_SHARDS));
    if (h->ps[ps].conn && h->ps[ps].up)
        msg_send(h->ps[ps].conn, type, m, NULL, 0);
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct host *h = ctx;
    struct worker_link *g = worker ? worker_link_of(h, worker) : NULL;
    assert(frame_to(type) & FRAME_TO_WORKER);
    if (worker == 0)
        control_message_to_train(h->control, type, m);
    else if (g)
        msg_send(g->conn, type, m, NULL, 0);
}

/* process_look_back has checked the cut from which the job resumes. A later one can be another job's. Of one that an earlier
 * release made, behind newer ones, the identity tells. */
static enum err check_cut(const struct host *h, struct manifest *m, struct errmsg *e)
{
    const struct job *job = h->control->config.job;
    struct errmsg what = {""};
    if (job_identity_compare(m->identity_text, job->identity_text, &what) == ERR_OK &&
        (contents_same(h->config.contents, m->data_fingerprint, sizeof m->data_fingerprint) ||
         contents_is_untold(h->config.contents, m->data_fingerprint)))
        return ERR_OK;
    enum err err = err_set(
        e, ERR_STATE, "checkpoint %" PRIu64 " in %.200s belongs to another job: %.200s", m->cut,
        h->checkpoints.where, what.text[0] ? what.text : "its training data differ");
    manifest_close(m);
    return err;
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    struct host *h = ctx;
    /* Settle first: otherwise that thread might remove the cut that is found here, because it is older than its own. */
    disk_thread_settle(&h->checkpoints_disk);
    enum err err = dirguard_check(e);
    if (err)
        return err;
    err = host_find_cut(&h->checkpoints, below, m, e);
    return err ? err : check_cut(h, m, e);
}

static void io_discard(void *ctx, uint64_t cut)
{
    struct host *h = ctx;
    store_server_discard(&h->store_server, cut);
}

static void io_kept(void *ctx, uint64_t ask, enum chief_kept what, uint64_t cut, uint64_t step)
{
    struct host *h = ctx;
    struct train_kept kept = {.ask = ask,
                              .cut = cut,
                              .step = step,
                              .copied = what != KEPT_FAILED,
                              .published = what == KEPT_PUBLISHED,
                              .hold = -1};
    h->kept_cut = what == KEPT_COPIED ? cut : UINT64_MAX;
    if (what == KEPT_PUBLISHED) {
        kept.hold = h->kept_hold;
        h->kept_hold = -1;
    }
    control_kept_to_train(h->control, &kept);
}

static void io_epoch(void *ctx, uint64_t epoch)
{
    struct host *h = ctx;
    control_to_train(h->control, TRAIN_EPOCH, epoch);
}

static void io_finish(void *ctx)
{
    struct host *h = ctx;
    control_to_train(h->control, TRAIN_FINISH, 0);
}

static void io_final(void *ctx)
{
    struct host *h = ctx;
    control_to_train(h->control, TRAIN_PUBLISHED, chief_facts(h->chief).cut_step);
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct host *h = ctx;
    h->facts = chief_facts(h->chief);
    /* the connected processes know that the job is done; the others are gone */
    if (h->config.finished)
        exit_code = 0;
    const char *why = exit_code == 1 ? ps_links_why_away(h) : "";
    bool data = exit_code == 1 && ps_links_have_other_data(h);
    control_stop_train(h->control, data ? 2 : exit_code, "%s%s%s", text, why[0] ? ": " : "", why);
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    (void)ctx;
    if (is_warning)
        log_warn("%s", text);
    else
        log_info("%s", text);
}

static void io_waits(void *ctx, const struct chief_wait *wait)
{
    const struct host *h = ctx;
    char words[200] = "";
    if (wait->who)
        (void)chief_wait_words(wait, words, sizeof words);
    else
        log_wait_over();
    progress_wait(h->config.progress_fd, words, wait->seconds);
}

/* A job that was done before has already reported this. */
static void io_restored(void *ctx, const struct manifest *m)
{
    struct host *h = ctx;
    char text[RESUME_WORDS_BYTES];
    control_to_train(h->control, TRAIN_RESTORED, m ? m->step : 0);
    host_page_restored(h, m);
    if (h->config.finished || !m)
        return;
    host_undo_results(h, m->cut);
    bool goes_on = resume_words(text, m, h->control->config.job, h->config.batches_per_epoch);
    log_info("%s", text);
    if (goes_on)
        progress_say(h->config.progress_fd, "%s", text);
    else
        progress_untrained(h->config.progress_fd, text);
}

static uint64_t io_random(void *ctx)
{
    (void)ctx;
    uint64_t r = 0;
    /* it only has to be different each time */
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        r = (uint64_t)clock_now_ms() ^ (uint64_t)getpid() << 40;
    return r;
}

static const char *io_store_token(void *ctx)
{
    struct host *h = ctx;
    host_rename_token(h, io_random(h));
    return h->store_token;
}

static const struct chief_io chief_io = {
    .to_ps = io_to_ps,
    .to_worker = io_to_worker,
    .find_cut = io_find_cut,
    .publish = host_publish,
    .discard = io_discard,
    .kept = io_kept,
    .epoch = io_epoch,
    .finish = io_finish,
    .await_evaluator = host_await_evaluator,
    .ended = io_ended,
    .say = io_say,
    .waits = io_waits,
    .restored = io_restored,
    .random = io_random,
    .store_token = io_store_token,
    .journal = host_journal,
    .final = io_final,
};

/* ---- the control thread's calls ---- */

static void set_field(Gradwire__Settings *s, const struct job_key *key, const struct job *job)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(s->base.descriptor, key->setting);
    const void *from = job_key_at(key, job, NULL);
    assert(field);
    void *to = (char *)s + field->offset;
    if (field->type == PROTOBUF_C_TYPE_BOOL)
        *(protobuf_c_boolean *)to = *(const bool *)from;
    else if (field->type == PROTOBUF_C_TYPE_UINT64)
        *(uint64_t *)to = key->type == KEY_U64 ? *(const uint64_t *)from : *(const uint32_t *)from;
    else
        memcpy(to, from, sizeof(uint32_t)); /* also for a float and an enum */
}

static Gradwire__Settings settings_of(const struct job *job, uint64_t batches_per_epoch,
                                      const struct cluster *cluster)
{
    Gradwire__Settings s = GRADWIRE__SETTINGS__INIT;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->setting)
            set_field(&s, key, job);
    msg_optimizer_set(&s, &job->optimizer);
    s.batches_per_epoch = batches_per_epoch;
    s.metrics = metric_sums(job);
    s.progressive = metric_progressive(job);
    s.slices = job_slices(job);
    s.replicas_to_aggregate = job_replicas(job, cluster_workers_most(cluster));
    s.redo = job->sync.dropped == DROPPED_REDO;
    s.flush_epochs = job->training.monitor != MONITOR_NONE;
    return s;
}

static enum err next_cut(const struct place *checkpoints, uint64_t *next, struct errmsg *e)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    enum err err = checkpoint_list(checkpoints, &cuts, &n, e);
    *next = n ? cuts[0] + 1 : 0;
    mem_free(cuts);
    return err;
}

static enum err make_chief(struct host *h, struct errmsg *e)
{
    const struct job *job = h->control->config.job;
    const struct cluster *cluster = h->control->config.cluster;
    uint32_t workers = cluster->sparse ? 1 : cluster->n_workers + cluster->separate_chief;
    uint64_t from = journal_named_epochs(h->config.journal);
    struct chief_config config = {
        .layout = h->config.layout,
        .settings = settings_of(job, h->config.batches_per_epoch, cluster),
        .ps = cluster->n_ps,
        .workers = workers ? workers : 1,
        .separate_chief = cluster->separate_chief,
        .training = job->training,
        .checkpoint = job->checkpoint,
        .timeouts = job->timeouts,
        .journal = h->config.journal,
        .blas = h->config.blas,
        .window_batches = h->config.window_batches,
        .past = {.journal = journal_name(h->config.journal),
                 .dir = h->config.output,
                 .from = from,
                 .epochs = epoch_log_whole(h->config.log, from)},
        .finished = h->config.finished,
        .learned_epochs = h->config.learned_epochs,
        .unkept_step = h->config.unkept_step,
    };
    enum err err = next_cut(&h->checkpoints, &config.next_cut, e);
    if (err)
        return err;
    (void)job_is_exact(job, cluster_workers_most(cluster), config.inexact);
    (void)snprintf(config.past.run, sizeof config.past.run, "%s", h->config.log->uuid);
    if (h->config.finished)
        config.timeouts.start_s = FINISHED_START_S;
    if (h->config.finished || !cluster->has_evaluator)
        config.timeouts.evaluator_s = 0;
    h->has_evaluator = config.timeouts.evaluator_s > 0;
    return chief_new(&h->chief, &config, &chief_io, h, clock_now_ms(), e);
}

static enum err host_start(void *role, struct control *control, struct errmsg *e)
{
    struct host *h = role;
    h->control = control;
    h->started_ms = clock_now_ms();
    pending_init(&h->pending);
    store_server_init(&h->store_server, &h->checkpoints, control, &h->checkpoints_disk);
    enum err err = host_page_start(h, e);
    if (!err)
        err = host_make_token(h, io_random(h), e);
    if (!err)
        err = make_chief(h, e);
    if (err)
        return err;
    if (h->config.listen_fd >= 0) {
        err = listen_start(&h->listener, &control->loop, h->config.listen_fd, LISTEN_OPEN_MAX,
                           worker_link_accept, h);
        if (err)
            return err_set(e, err, "the chief cannot listen: %s", err_str(err));
        h->listener.shed = worker_links_shed;
        h->listening = true;
    }
    err = ps_links_start(h, e);
    if (err)
        return err;
    Gradwire__Hello own = GRADWIRE__HELLO__INIT;
    return chief_on_worker_up(h->chief, 0, &own, clock_now_ms(), e);
}

/* Messages of the own worker. Its first hello was sent for it; a hello of its own means that it comes back. */
static void on_own(struct host *h, enum frame_type type, const ProtobufCMessage *m, int64_t now)
{
    struct errmsg e = {""};
    enum err err = ERR_OK;
    if (type != FRAME_HELLO)
        chief_on_worker(h->chief, 0, type, m, now);
    else
        err = chief_on_worker_up(h->chief, 0, (const Gradwire__Hello *)m, now, &e);
    if (err)
        control_stop_train(h->control, err_exit_code(err), "%s", e.text);
}

static void host_on_letter(void *role, struct mail *m)
{
    struct host *h = role;
    int64_t now = clock_now_ms();
    if (host_page_on_letter(h, m) || host_epochs_on_letter(h, m))
        return;
    if (m->type == CONTROL_SEND) {
        on_own(h, (enum frame_type)m->number, m->data, now);
    } else if (m->type == CONTROL_REACHED || m->type == CONTROL_TURNED_AWAY) {
        control_to_train(h->control, TRAIN_HELLO, 0);
    } else if (m->type == CONTROL_STEP) {
        chief_on_step(h->chief, m->number, now);
    } else if (m->type == CONTROL_EVALUATED) {
        h->eval = *(struct evaluation *)m->data;
        h->has_eval = true;
        if (h->control->config.job->evaluate.every_steps)
            host_page_judged(h, &h->eval);
    } else if (m->type == CONTROL_KEEP) {
        chief_keep(h->chief, m->number, *(const uint64_t *)m->data, now);
    } else if (m->type == CONTROL_BACK) {
        chief_go_back(h->chief, m->number, now);
    } else if (m->type == HOST_HELD) {
        if (h->kept_hold >= 0)
            place_release(h->kept_hold);
        h->kept_hold = (int)m->number;
    } else if (m->type == HOST_STORED) {
        if (m->number == STORE_SERVER_READER)
            worker_links_tell_kept(h, m->data);
        else
            ps_links_tell_kept(h, (uint32_t)m->number, m->data);
    } else if (m->type == CONTROL_ENOUGH) {
        chief_enough(h->chief, m->number, *(const uint64_t *)m->data, now);
    } else if (m->type == CONTROL_DIVERGED) {
        chief_on_diverged(h->chief, m->number, m->data, now);
    } else if (m->type == CONTROL_FINISHED) {
        chief_on_evaluated(h->chief, now);
    } else if (m->type == CONTROL_WRITTEN) {
        chief_on_written(h->chief, m->data, now);
    } else if (m->type == CONTROL_INEXACT) {
        chief_on_inexact(h->chief, m->data ? m->data : "the reason is in the log", now);
    } else if (m->type == CONTROL_LEAVES) {
        chief_leaves(h->chief, (int)m->number, m->data ? m->data : "", now);
    } else if (m->type == HOST_PUBLISHED) {
        h->published += m->data == NULL;
        h->not_published += m->data != NULL;
        h->published_ms = m->data ? h->published_ms : now;
        chief_on_published(h->chief, m->number, m->data, now);
        /* Report the newest cut to the launcher's `status`. */
        const struct chief_facts f = chief_facts(h->chief);
        if (f.cut != UINT64_MAX && f.cut != h->cut_told)
            progress_checkpoint(h->config.progress_fd, f.cut, f.cut_step);
        h->cut_told = f.cut;
    } else if (m->type == HOST_LOOKED) {
        host_on_looked(h, m->number, m->data);
    } else if (m->type == HOST_JOURNALED) {
        chief_on_journaled(h->chief, m->data, now);
    } else if (m->type == HOST_DIR) {
        h->dir_checking = false;
        if (m->data)
            chief_on_dir_lost(h->chief, m->data, now);
    }
}

/* A worker that tells nothing while it reads its data (LOADING_SILENT_MS) is away until it tells again. */
static void age_arrivals(const struct host *h, int64_t now_ms)
{
    struct loading of;
    for (const struct worker_link *g = h->worker_links; g; g = g->next)
        if (g->arrives && !loading_heard(g->worker, &of))
            chief_on_worker_loads(h->chief, g->worker, false, now_ms);
}

static void host_on_tick(void *role, int64_t now)
{
    struct host *h = role;
    char why[600];
    chief_tick(h->chief, now);
    if (!h->control->ended && h->control->config.handed && ps_links_hopeless(h, why, sizeof why))
        control_stop_train(h->control, 2, "%s", why);
    if (h->control->ended)
        return;
    host_look(h, now);
    host_check_dir(h, now);
    age_arrivals(h, now);
    host_page_tick(h, now);
    pending_tick(&h->pending, now);
}

static void host_on_go(void *role, int64_t now)
{
    struct host *h = role;
    chief_go(h->chief, now);
}

static void host_stop(void *role)
{
    struct host *h = role;
    if (h->chief && !h->facts.running)
        h->facts = chief_facts(h->chief);
    if (h->listening)
        listen_close(&h->listener);
    h->listening = false;
    ps_links_finish(h);
    worker_links_finish(h);
    int64_t until = clock_now_ms() + 500; /* for the last messages */
    bool idle = false;
    while (!idle && clock_now_ms() < until && (ps_links_wait(h) || h->worker_links))
        if (loop_tick(&h->control->loop, &idle))
            break;
    worker_links_close(h);
    ps_links_close(h);
    disk_thread_close(&h->journal_disk);
    disk_thread_close(&h->checkpoints_disk);
    disk_thread_settle(h->config.logs_disk);
    store_server_close(&h->store_server);
    host_remove_token(h);
}

const struct control_ops host_ops = {
    .start = host_start,
    .on_letter = host_on_letter,
    .on_tick = host_on_tick,
    .on_go = host_on_go,
    .stop = host_stop,
    .waits_for = host_waits_for,
    .metrics = host_metrics,
    .status = host_status,
};
