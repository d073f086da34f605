#include "worker/chief/host.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/conn.h"
#include "common/dial.h"
#include "common/files.h"
#include "common/greeting.h"
#include "common/list.h"
#include "common/listen.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/msg_send.h"
#include "common/store.h"
#include "worker/chief/keeper.h"
#include "worker/progress.h"
#include "worker/model/metric.h"

enum {
    FINISHED_START_S = 3, /* a job that was done before waits this long for ps that may be gone */
};

/* A control connection to a ps. */
struct ps_link {
    struct host *host;
    uint32_t ps;
    struct dialer *dialer;
    struct conn *conn;
    bool up;
    uint64_t connection; /* counts, so that an answer to a former one is not taken for this one's */
    ProtobufCMessage *message;
    uint16_t type;
    uint8_t *body; /* of a STORE_PUT */
    size_t bytes;
    char refusal[400];
};

/* A worker that dialed in. */
struct guest {
    struct host *host;
    struct conn *conn;
    struct guest *next;
    bool known;
    uint32_t worker;
    struct greeting greeting;
    ProtobufCMessage *message;
    uint16_t type;
};

/* A manifest on its way to disk. */
struct publication {
    struct host *host;
    struct manifest m;
    char dir[4096];
    uint32_t keep;
    struct checkpoint_file *file;
    uint8_t *window;
    uint32_t *threads;
};

struct host {
    struct host_config config;
    struct control *control;
    struct chief *chief;
    char checkpoints[4096];
    struct ps_link *ps;
    struct guest *guests;
    struct listener listener;
    bool listening;
    struct evaluation eval;
    bool has_eval;
    pthread_t publisher;
    bool publishing;
    struct keeper *keeper;
    char store_token[64];
    uint64_t connections;
    pthread_t scribe; /* writes `writing` into the journal; `pending` is next */
    bool scribing;
    struct journal writing, pending;
    uint64_t epochs_told, cut_told;
    int64_t started_ms;
    struct chief_facts facts;
};

enum err host_new(struct host **out, const struct host_config *config, struct errmsg *e)
{
    struct host *h = mem_zalloc(1, sizeof *h);
    if (!h)
        return err_set(e, ERR_NOMEM, "no memory for the chief");
    h->config = *config;
    (void)snprintf(h->checkpoints, sizeof h->checkpoints, "%s/checkpoints", config->output);
    *out = h;
    return ERR_OK;
}

void host_free(struct host *h)
{
    if (!h)
        return;
    chief_free(h->chief);
    mem_free(h->ps);
    mem_free(h);
}

bool host_account(const struct host *h, uint32_t worker, struct chief_account *out)
{
    return h->chief && chief_account(h->chief, worker, out);
}

bool host_staleness(const struct host *h, uint32_t worker, struct staleness *out)
{
    return h->chief && chief_staleness(h->chief, worker, out);
}

const struct chief_facts *host_facts(const struct host *h)
{
    return &h->facts;
}

enum err host_find_cut(const char *checkpoints, uint64_t below, struct manifest *m)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    struct errmsg e = {""};
    if (checkpoint_list(checkpoints, &cuts, &n, &e)) {
        log_warn("%s", e.text);
        return ERR_CORRUPT;
    }
    enum err err = ERR_NOTFOUND;
    for (size_t i = 0; i < n && err; i++) {
        if (cuts[i] >= below)
            continue;
        err = checkpoint_load(checkpoints, cuts[i], m, &e);
        if (!err) {
            err = checkpoint_verify(checkpoints, m, &e);
            if (err)
                manifest_close(m);
        }
        if (err)
            log_warn("cut %" PRIu64 " cannot be used, the one before it is tried: %s", cuts[i],
                     e.text);
    }
    mem_free(cuts);
    return err && n ? ERR_CORRUPT : err;
}

/* ---- what the core asks of us (struct chief_io) ---- */

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct host *h = ctx;
    if (h->ps[ps].conn && h->ps[ps].up)
        msg_send(h->ps[ps].conn, type, m, NULL, 0);
}

static struct guest *guest_of(struct host *h, uint32_t worker)
{
    for (struct guest *g = h->guests; g; g = g->next)
        if (g->known && g->worker == worker)
            return g;
    return NULL;
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct host *h = ctx;
    struct guest *g = worker ? guest_of(h, worker) : NULL;
    if (worker == 0)
        control_message_to_train(h->control, type, m);
    else if (g)
        msg_send(g->conn, type, m, NULL, 0);
}

static void join_publisher(struct host *h)
{
    if (h->publishing)
        pthread_join(h->publisher, NULL);
    h->publishing = false;
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m)
{
    struct host *h = ctx;
    join_publisher(h); /* or it would delete, as older than its own, the cut that is found here */
    return host_find_cut(h->checkpoints,
                         below < h->config.usable_below ? below : h->config.usable_below, m);
}

/* The publisher's word; without memory for an error's text another one stands for it: NULL would say that it is done. */
static void post_published(struct control *control, uint64_t cut, const char *error)
{
    char *copy = error ? mem_strdup(error) : NULL;
    if (error && !copy)
        control_post(control, CONTROL_PUBLISHED, cut, (char *)"no memory", NULL);
    else
        control_post(control, CONTROL_PUBLISHED, cut, copy, mem_free);
}

static void publication_free(struct publication *p)
{
    mem_free(p->file);
    mem_free(p->window);
    mem_free(p->threads);
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
    p->m.ps_threads = p->threads = copy_of(m->ps_threads, m->ps * sizeof *m->ps_threads);
    p->m.identity_text = h->control->config.job->identity_text;
    p->m.seconds = h->config.seconds_before + (double)(clock_now_ms() - h->started_ms) / 1000.0;
    memcpy(p->m.data_fingerprint, h->config.data_fingerprint, sizeof p->m.data_fingerprint);
    p->m.eval.valid = h->has_eval;
    p->m.eval.step = h->eval.step;
    p->m.eval.loss = h->eval.loss;
    memcpy(p->m.eval.metric, h->eval.metric, sizeof h->eval.metric);
    if (p->file && p->window && p->threads)
        return p;
    publication_free(p);
    return NULL;
}

static void io_publish(void *ctx, const struct manifest *m)
{
    struct host *h = ctx;
    join_publisher(h); /* one of a generation that is over */
    struct publication *p = publication_new(h, m);
    if (p && pthread_create(&h->publisher, NULL, publish_run, p) == 0) {
        h->publishing = true;
        return;
    }
    if (p)
        publication_free(p);
    post_published(h->control, m->cut, "no memory to write the manifest");
}

static void io_discard(void *ctx, uint64_t cut)
{
    struct host *h = ctx;
    checkpoint_discard(h->checkpoints, cut);
}

static void io_finish(void *ctx)
{
    struct host *h = ctx;
    control_to_train(h->control, TRAIN_FINISH, 0);
}

/* Why the first ps that is not there is not: what it said, or what dialing it gave. */
static const char *why_away(const struct host *h)
{
    for (uint32_t i = 0; i < h->control->config.cluster->n_ps; i++)
        if (!h->ps[i].up)
            return h->ps[i].refusal[0] ? h->ps[i].refusal : dial_why(h->ps[i].dialer);
    return "";
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct host *h = ctx;
    chief_facts(h->chief, &h->facts);
    if (h->config.finished)
        exit_code = 0; /* who was still there has been told; the others had gone */
    const char *why = exit_code == 1 ? why_away(h) : "";
    control_stop_train(h->control, exit_code, "%s%s%s", text, why[0] ? ": " : "", why);
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    (void)ctx;
    if (is_warning)
        log_warn("%s", text);
    else
        log_info("%s", text);
}

static uint64_t io_random(void *ctx)
{
    (void)ctx;
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
        r = (uint64_t)clock_now_ms() ^ (uint64_t)getpid() << 40; /* only has to differ */
    return r;
}

/* The journal's writer: an fsync must not block the control thread. */
static void *scribe_run(void *arg)
{
    struct host *h = arg;
    struct errmsg e = {""};
    enum err err = journal_append(h->checkpoints, h->writing.entry, h->writing.n, &e);
    char *copy = err ? mem_strdup(e.text) : NULL;
    control_post(h->control, CONTROL_JOURNALED, h->writing.n,
                 err && !copy ? (char *)"no memory" : copy, copy ? mem_free : NULL);
    return NULL;
}

static void join_scribe(struct host *h)
{
    if (h->scribing)
        pthread_join(h->scribe, NULL);
    h->scribing = false;
}

static void write_pending(struct host *h)
{
    if (h->scribing || h->pending.n == 0)
        return;
    journal_close(&h->writing);
    h->writing = h->pending;
    h->pending = (struct journal){0};
    h->scribing = pthread_create(&h->scribe, NULL, scribe_run, h) == 0;
    if (!h->scribing)
        control_post(h->control, CONTROL_JOURNALED, h->writing.n,
                     (char *)"no thread could be started", NULL);
}

static void io_journal(void *ctx, const struct journal_entry *entry)
{
    struct host *h = ctx;
    if (journal_add(&h->pending, entry))
        control_post(h->control, CONTROL_JOURNALED, 1, (char *)"no memory", NULL);
    write_pending(h);
}

static void on_journaled(struct host *h, uint64_t entries, const char *error)
{
    join_scribe(h);
    for (uint64_t i = 0; i < entries; i++)
        chief_on_journaled(h->chief, i ? NULL : error, clock_now_ms());
    write_pending(h);
}

/* At the end nobody waits for letters any more. */
static void finish_journal(struct host *h)
{
    struct errmsg e = {""};
    join_scribe(h);
    if (h->pending.n && journal_append(h->checkpoints, h->pending.entry, h->pending.n, &e))
        log_warn("the journal could not be written: %s", e.text);
    journal_close(&h->writing);
    journal_close(&h->pending);
}

static const struct chief_io chief_io = {
    .to_ps = io_to_ps,
    .to_worker = io_to_worker,
    .find_cut = io_find_cut,
    .publish = io_publish,
    .discard = io_discard,
    .finish = io_finish,
    .ended = io_ended,
    .say = io_say,
    .random = io_random,
    .journal = io_journal,
};

/* ---- ps ---- */

static enum err ps_on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c;
    struct ps_link *p = owner;
    p->type = f->type;
    if (f->body_bytes &&
        (f->type != FRAME_STORE_PUT || !p->up || f->body_bytes > STORE_PIECE_BYTES))
        return ERR_PROTO;
    p->message = msg_unpack(f->type, head, f->head_bytes);
    if (!p->message)
        return ERR_PROTO;
    p->bytes = (size_t)f->body_bytes;
    if (p->bytes && !(p->body = mem_zalloc(p->bytes, 1)))
        return ERR_NOMEM;
    return ERR_OK;
}

static enum err ps_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **to,
                            size_t *bytes)
{
    (void)c;
    struct ps_link *p = owner;
    *to = p->body + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

/* A file of a cut, to or from the chief's storage. */
static enum err ps_on_store(struct ps_link *p, const ProtobufCMessage *m)
{
    struct keeper *k = p->host->keeper;
    uint8_t *body = p->body;
    p->body = NULL;
    if (p->type == FRAME_STORE_GET)
        return keeper_get(k, p->ps, p->connection, (const Gradwire__StoreGet *)m);
    return keeper_put(k, p->ps, p->connection, (const Gradwire__StorePut *)m, body, p->bytes);
}

static void tell_kept(struct host *h, uint32_t ps, const struct keeper_answer *a)
{
    struct ps_link *p = &h->ps[ps];
    if (!p->conn || !p->up || p->connection != a->connection)
        return;
    msg_send(p->conn, FRAME_STORE_ANSWER, &a->head.base, a->bytes ? a->body : NULL, a->bytes);
    if (p->conn && a->bytes)
        conn_copy_out(p->conn, a->body, a->bytes);
}

static void ps_refused(struct ps_link *p, const Gradwire__Refuse *m)
{
    char who[32], text[sizeof p->refusal];
    (void)snprintf(who, sizeof who, "ps %u", p->ps);
    control_refusal(&p->host->control->config, who, m, text, sizeof text);
    if (strcmp(text, p->refusal) != 0)
        log_warn("%s; trying on", text);
    memcpy(p->refusal, text, sizeof text);
}

static enum err ps_on_frame(struct conn *c, void *owner)
{
    struct ps_link *p = owner;
    struct host *h = p->host;
    ProtobufCMessage *m = p->message;
    p->message = NULL;
    if (p->type == FRAME_HELLO_REPLY && !p->up) {
        p->up = true;
        p->refusal[0] = 0;
        chief_on_ps_up(h->chief, p->ps, (const Gradwire__HelloReply *)m, clock_now_ms());
    } else if (p->type == FRAME_REFUSE) {
        ps_refused(p, (const Gradwire__Refuse *)m);
        conn_close(c, ERR_REFUSED, "refused");
    } else if (p->up && (p->type == FRAME_STORE_PUT || p->type == FRAME_STORE_GET)) {
        enum err err = ps_on_store(p, m);
        msg_free(m);
        return err;
    } else if (p->up) {
        chief_on_ps(h->chief, p->ps, (enum frame_type)p->type, m, clock_now_ms());
    }
    msg_free(m);
    return ERR_OK;
}

static void ps_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c, (void)code;
    struct ps_link *p = owner;
    bool was_up = p->up;
    msg_free(p->message);
    mem_free(p->body);
    p->message = NULL;
    p->body = NULL;
    p->conn = NULL;
    p->up = false;
    keeper_gone(p->host->keeper, p->ps, p->connection);
    if (was_up) {
        log_info("ps %u: the connection is lost: %s", p->ps, why);
        chief_on_ps_down(p->host->chief, p->ps, clock_now_ms());
    }
    dial_start(p->dialer);
}

static const char *own_address(const struct control_config *config)
{
    const struct cluster *cluster = config->cluster;
    return cluster->self ? cluster->self : cluster->chief ? cluster->chief : "";
}

static void ps_on_open(struct conn *c, void *owner)
{
    struct ps_link *p = owner;
    struct chief_facts facts;
    Gradwire__Hello m;
    p->conn = c;
    p->connection = ++p->host->connections;
    chief_facts(p->host->chief, &facts);
    control_hello(&p->host->control->config, p->ps, &m);
    m.uuid = facts.uuid;
    m.chief_address = (char *)own_address(&p->host->control->config);
    dial_hello(p->dialer, c, &m);
}

static const struct conn_ops ps_ops = {
    .on_head = ps_on_head,
    .on_space = ps_on_space,
    .on_frame = ps_on_frame,
    .on_close = ps_on_close,
    .on_open = ps_on_open,
};

/* ---- workers ---- */

static enum err guest_on_head(struct conn *c, void *owner, const struct frame *f,
                              const uint8_t *head)
{
    (void)c;
    struct guest *g = owner;
    g->type = f->type;
    enum err err = g->known ? ERR_OK : greeting_on_head(&g->greeting, f, head);
    if (!err && g->known && f->body_bytes)
        err = ERR_PROTO;
    if (err)
        return err;
    g->message = msg_unpack(f->type, head, f->head_bytes);
    return g->message ? ERR_OK : ERR_PROTO;
}

static void guest_refuse(struct guest *g, Gradwire__Reason reason, const char *text)
{
    Gradwire__Refuse m = GRADWIRE__REFUSE__INIT;
    m.reason = reason;
    m.text = (char *)text;
    if (reason == GRADWIRE__REASON__OTHER_JOB)
        m.identity_text = g->host->control->config.job->identity_text;
    log_warn("%s is refused: %s", conn_peer(g->conn), text);
    msg_send(g->conn, FRAME_REFUSE, &m.base, NULL, 0);
    conn_finish(g->conn, ERR_REFUSED, text);
}

static bool guest_is_ours(struct guest *g, const Gradwire__Hello *m)
{
    const struct job *job = g->host->control->config.job;
    char why[300];
    if (strcmp(m->version, GRADWIRE_VERSION) != 0) {
        (void)snprintf(why, sizeof why, "a worker of version %.32s dialed a chief of version %s",
                       m->version, GRADWIRE_VERSION);
        guest_refuse(g, GRADWIRE__REASON__OTHER_VERSION, why);
        return false;
    }
    if (strcmp(m->job, job->name) != 0 || m->identity.len != sizeof job->identity ||
        memcmp(m->identity.data, job->identity, sizeof job->identity) != 0) {
        (void)snprintf(why, sizeof why, "a worker of job %.64s dialed the chief of job %s%s",
                       m->job, job->name,
                       strcmp(m->job, job->name) ? "" : "; a key that makes its identity differs");
        guest_refuse(g, GRADWIRE__REASON__OTHER_JOB, why);
        return false;
    }
    if (m->worker == 0 || m->worker >= CHIEF_WORKERS_MAX) {
        (void)snprintf(why, sizeof why, "worker %u dialed the chief: allowed are 1 to %d",
                       m->worker, CHIEF_WORKERS_MAX - 1);
        guest_refuse(g, GRADWIRE__REASON__BAD_MESSAGE, why);
        return false;
    }
    return true;
}

static void guest_hello(struct guest *g, const Gradwire__Hello *m)
{
    struct host *h = g->host;
    if (!guest_is_ours(g, m))
        return;
    struct guest *former = guest_of(h, m->worker);
    if (former) {
        former->known = false;
        chief_on_worker_down(h->chief, m->worker, clock_now_ms());
        conn_close(former->conn, ERR_CLOSED, "this worker dialed in again");
    }
    conn_limits(g->conn, FRAME_HEAD_MAX, 0);
    g->known = true;
    g->worker = m->worker;
    struct errmsg e = {""};
    if (chief_on_worker_up(h->chief, m->worker, m, clock_now_ms(), &e)) {
        g->known = false;
        guest_refuse(g, GRADWIRE__REASON__BAD_MESSAGE, e.text);
    }
}

static enum err guest_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                               size_t *bytes)
{
    (void)c;
    struct guest *g = owner;
    return greeting_on_space(&g->greeting, at, left, p, bytes);
}

static enum err guest_on_frame(struct conn *c, void *owner)
{
    struct guest *g = owner;
    ProtobufCMessage *m = g->message;
    g->message = NULL;
    if (!g->known && greeting_proved(&g->greeting, c))
        guest_hello(g, (const Gradwire__Hello *)m);
    else if (g->known)
        chief_on_worker(g->host->chief, g->worker, (enum frame_type)g->type, m, clock_now_ms());
    msg_free(m);
    return ERR_OK;
}

static void guest_on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct guest *g = owner;
    struct host *h = g->host;
    if (code == ERR_PROTO || code == ERR_TOOBIG)
        log_warn("%s: closed: %s", conn_peer(c), why);
    LIST_REMOVE(h->guests, g);
    if (g->known) {
        log_info("worker %u: the connection is lost: %s", g->worker, why);
        chief_on_worker_down(h->chief, g->worker, clock_now_ms());
    }
    if (h->listening)
        listen_release(&h->listener);
    msg_free(g->message);
    mem_free(g);
}

static const struct conn_ops guest_ops = {
    .on_head = guest_on_head,
    .on_space = guest_on_space,
    .on_frame = guest_on_frame,
    .on_close = guest_on_close,
};

/* Who has said no hello yet: no more than GREETING_MAX, or the oldest goes. */
static void bound_strangers(struct host *h)
{
    struct guest *oldest = NULL;
    uint32_t n = 0;
    for (struct guest *g = h->guests; g; g = g->next)
        if (!g->known && !conn_closed(g->conn)) {
            oldest = g; /* the newest stand in front */
            n++;
        }
    if (n >= GREETING_MAX)
        conn_close(oldest->conn, ERR_TOOBIG, "too many connections without a hello");
}

static void on_accept(void *owner, int fd, const char *peer)
{
    struct host *h = owner;
    struct guest *g = mem_zalloc(1, sizeof *g);
    bound_strangers(h);
    if (!g || conn_new(&g->conn, &h->control->loop, fd, peer, &guest_ops, g)) {
        log_warn("%s: no memory for a connection", peer);
        listen_release(&h->listener);
        mem_free(g);
        return;
    }
    g->host = h;
    g->next = h->guests;
    h->guests = g;
    greeting_begin(&g->greeting, g->conn);
}

/* ---- the control thread's calls ---- */

static Gradwire__Settings settings_of(const struct job *job, uint64_t batches_per_epoch)
{
    Gradwire__Settings s = GRADWIRE__SETTINGS__INIT;
    s.update = (Gradwire__Update)job->training.update;
    s.staleness = job->training.staleness;
    s.geo_every = job->training.geo_every;
    msg_optimizer_set(&s, &job->optimizer);
    s.seed = job->training.seed;
    s.microbatches = job->training.microbatches;
    s.batch_size = job->training.batch_size;
    s.batches_per_epoch = batches_per_epoch;
    s.epochs = job->training.epochs;
    s.metrics = metric_sums(job);
    s.clip_norm = job->training.clip_norm;
    s.delay_compensation = job->training.delay_compensation;
    s.staleness_rate = job->training.staleness_rate;
    s.nan_guard = (uint32_t)job->training.nan_guard;
    s.push_codec = job->compression.push;
    s.push_ratio = job->compression.push_ratio;
    s.flush_epochs = job->training.monitor[0] || job->early_stopping.patience > 0;
    s.reply_codec = job->compression.reply;
    s.codecs_allowed = job->compression.allow;
    return s;
}

static enum err make_chief(struct host *h, struct errmsg *e)
{
    const struct job *job = h->control->config.job;
    const struct cluster *cluster = h->control->config.cluster;
    uint32_t workers = cluster->sparse ? 1 : cluster->n_workers + cluster->separate_chief;
    struct chief_config config = {
        .layout = h->config.layout,
        .settings = settings_of(job, h->config.batches_per_epoch),
        .ps = cluster->n_ps,
        .workers = workers ? workers : 1,
        .every_steps = job->checkpoint.every_steps,
        .every_seconds = job->checkpoint.every_seconds,
        .start_s = h->config.finished ? FINISHED_START_S : job->timeouts.start_s,
        .worker_rejoin_s = job->timeouts.worker_rejoin_s,
        .ps_rejoin_s = job->timeouts.ps_rejoin_s,
        .store = job->checkpoint.store,
        .store_token = h->store_token,
        .max_recoveries = job->training.max_recoveries,
        .max_rejected = job->training.max_rejected,
        .journal = h->config.journal,
    };
    return chief_new(&h->chief, &config, &chief_io, h, clock_now_ms(), e);
}

/* A file by which a ps sees whether its DIR/checkpoints is ours (checkpoint.store: auto). */
static enum err make_token(struct host *h, struct errmsg *e)
{
    char path[sizeof h->checkpoints + sizeof h->store_token];
    if (h->control->config.job->checkpoint.store != STORE_AUTO)
        return ERR_OK;
    enum err err = files_mkdirs(h->checkpoints, e);
    (void)snprintf(h->store_token, sizeof h->store_token, ".storage-%016" PRIx64, io_random(h));
    (void)snprintf(path, sizeof path, "%s/%s", h->checkpoints, h->store_token);
    return err ? err : files_write(path, "", 0, e);
}

static void remove_token(struct host *h)
{
    char path[sizeof h->checkpoints + sizeof h->store_token];
    (void)snprintf(path, sizeof path, "%s/%s", h->checkpoints, h->store_token);
    if (h->store_token[0])
        (void)unlink(path);
}

static enum err host_start(void *role, struct control *control, struct errmsg *e)
{
    struct host *h = role;
    const struct cluster *cluster = control->config.cluster;
    h->control = control;
    h->started_ms = clock_now_ms();
    enum err err = keeper_new(&h->keeper, h->checkpoints, control);
    if (err)
        return err_set(e, err, "no memory for the chief");
    err = make_token(h, e);
    if (!err)
        err = make_chief(h, e);
    if (err)
        return err;
    h->ps = mem_zalloc(cluster->n_ps, sizeof *h->ps);
    if (!h->ps)
        return err_set(e, ERR_NOMEM, "no memory for %u ps", cluster->n_ps);
    if (h->config.listen_fd >= 0) {
        err = listen_start(&h->listener, &control->loop, h->config.listen_fd, LISTEN_OPEN_MAX,
                           on_accept, h);
        if (err)
            return err_set(e, err, "the chief cannot listen: %s", err_str(err));
        h->listening = true;
    }
    for (uint32_t i = 0; i < cluster->n_ps; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "ps %u", i);
        h->ps[i] = (struct ps_link){.host = h, .ps = i};
        err =
            dial_new(&h->ps[i].dialer, &control->loop, what, cluster->ps[i], &ps_ops, &h->ps[i], e);
        if (err)
            return err;
        dial_start(h->ps[i].dialer);
    }
    Gradwire__Hello own = GRADWIRE__HELLO__INIT;
    return chief_on_worker_up(h->chief, 0, &own, clock_now_ms(), e);
}

/* The newest cut is news for the launcher's `status`. */
static void tell_published(struct host *h)
{
    struct chief_facts f;
    chief_facts(h->chief, &f);
    if (f.cut != UINT64_MAX && f.cut != h->cut_told)
        progress_checkpoint(h->config.progress_fd, f.cut, f.cut_step);
    h->cut_told = f.cut;
}

static void host_on_letter(void *role, struct mail *m)
{
    struct host *h = role;
    int64_t now = clock_now_ms();
    if (m->type == CONTROL_SEND) {
        chief_on_worker(h->chief, 0, (enum frame_type)m->number, m->data, now);
    } else if (m->type == CONTROL_STEP) {
        chief_on_step(h->chief, m->number, now);
    } else if (m->type == CONTROL_EVALUATED) {
        h->eval = *(struct evaluation *)m->data;
        h->has_eval = true;
    } else if (m->type == CONTROL_KEPT) {
        tell_kept(h, (uint32_t)m->number, m->data);
    } else if (m->type == CONTROL_ENOUGH) {
        chief_enough(h->chief, m->number, now);
    } else if (m->type == CONTROL_FINISHED) {
        chief_on_evaluated(h->chief, now);
    } else if (m->type == CONTROL_PUBLISHED) {
        join_publisher(h);
        chief_on_published(h->chief, m->number, m->data, now);
        tell_published(h);
    } else if (m->type == CONTROL_JOURNALED) {
        on_journaled(h, m->number, m->data);
    }
}

/* Async: each epoch's end is an evaluation; the last one's is the final one. */
static void tell_epochs(struct host *h)
{
    struct chief_facts f;
    chief_facts(h->chief, &f);
    const struct job *job = h->control->config.job;
    if (!f.running || job->training.update == UPDATE_SYNC)
        return;
    uint64_t epoch = f.steps / h->config.batches_per_epoch;
    if (epoch > h->epochs_told && epoch < job->training.epochs)
        control_to_train(h->control, TRAIN_EPOCH, epoch);
    h->epochs_told = epoch;
}

static void host_on_tick(void *role, int64_t now)
{
    struct host *h = role;
    chief_tick(h->chief, now);
    if (h->control->ended)
        return;
    tell_epochs(h);
    for (struct guest *g = h->guests; g; g = g->next)
        if (!g->known && now - g->greeting.since_ms > GREETING_MS)
            conn_close(g->conn, ERR_TIMEOUT, "no hello");
}

static void host_on_go(void *role, int64_t now)
{
    struct host *h = role;
    chief_go(h->chief, now);
}

static void ps_on_end(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c, (void)code, (void)why;
    ((struct ps_link *)owner)->conn = NULL;
}

static bool last_words_wait(const struct host *h)
{
    for (uint32_t i = 0; h->ps && i < h->control->config.cluster->n_ps; i++)
        if (h->ps[i].conn && !conn_idle(h->ps[i].conn))
            return true;
    return h->guests != NULL;
}

static void host_stop(void *role)
{
    struct host *h = role;
    if (h->chief && !h->facts.running)
        chief_facts(h->chief, &h->facts);
    if (h->listening)
        listen_close(&h->listener);
    h->listening = false;
    static const struct conn_ops quiet = {
        .on_head = ps_on_head, .on_space = ps_on_space, .on_close = ps_on_end};
    for (uint32_t i = 0; h->ps && i < h->control->config.cluster->n_ps; i++) {
        struct ps_link *p = &h->ps[i];
        dial_free(p->dialer);
        p->dialer = NULL;
        if (p->conn) {
            conn_set_owner(p->conn, &quiet, p);
            conn_finish(p->conn, ERR_CLOSED, "the chief ends");
        }
    }
    for (struct guest *g = h->guests; g; g = g->next) {
        g->known = false;
        conn_finish(g->conn, ERR_CLOSED, "the chief ends");
    }
    int64_t until = clock_now_ms() + 500; /* last words leave */
    bool idle = false;
    while (!idle && clock_now_ms() < until && last_words_wait(h))
        if (loop_tick(&h->control->loop, &idle))
            break;
    for (struct guest *g = h->guests; g; g = g->next)
        conn_close(g->conn, ERR_CLOSED, "the chief ends");
    for (uint32_t i = 0; h->ps && i < h->control->config.cluster->n_ps; i++) {
        if (h->ps[i].conn)
            conn_close(h->ps[i].conn, ERR_CLOSED, "the chief ends");
        msg_free(h->ps[i].message);
        mem_free(h->ps[i].body);
        h->ps[i].message = NULL;
        h->ps[i].body = NULL;
    }
    join_publisher(h);
    keeper_free(h->keeper);
    h->keeper = NULL;
    remove_token(h);
    finish_journal(h);
}

const struct control_ops host_ops = {
    .start = host_start,
    .on_letter = host_on_letter,
    .on_tick = host_on_tick,
    .on_go = host_on_go,
    .stop = host_stop,
};
