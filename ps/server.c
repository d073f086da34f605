#include "ps/server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/conn.h"
#include "common/process/cgroup.h"
#include "common/peers/greeting.h"
#include "common/base/list.h"
#include "common/net/listen.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/peers/hello.h"
#include "common/parameters/plan.h"
#include "common/checkpoint/checkpoint.h"
#include "common/net/tls.h"
#include "common/serve/vitals.h"
#include "ps/life.h"
#include "ps/shard_thread.h"
#include "common/peers/chief_place.h"
#include "ps/server_http.h"

enum {
    TICK_MS = 200,
    SAY_WAIT_MS = 10000,
    GOING_ALONE_MS = 2000, /* after SIGTERM without a chief: nothing more can be saved */
    LEASES_MAX = 4096,
    FAILED_CODES = 128, /* an exit code below this, not 0: no other process of the chief follows */
    SECOND_CHIEF_MS = 3000, /* how long a chief has to show that it lives */
    SECOND_CHIEF_AGAIN_MS = 60000,
};

struct client {
    struct server *server;
    struct conn *conn;
    struct client *next;
    Gradwire__Hello *hello; /* NULL until it has arrived */
    bool is_chief, waits_for_chief, waits_for_entry;
    struct greeting greeting;
    struct pending_conn pending;
    ProtobufCMessage *message;
    uint16_t type;
    uint64_t body_bytes;
    uint8_t *space; /* memory for its body */
};

struct lease {
    Gradwire__WorkerLease message; /* the range is set when it is sent */
    Gradwire__Range range;
};

/* A worker's fence that was passed to the shard threads. */
struct fence {
    struct generation generation;
    uint64_t incarnation;
    uint32_t waits; /* shard threads that have not answered; 0: no fence is pending */
};

struct server {
    const struct server_config *config;
    struct loop loop;
    struct listener listener;
    struct mailbox in;
    struct loop_signal term, interrupt;
    struct loop_timer tick;

    uint32_t threads;
    struct shard_thread **thread;
    struct chief_place chief_place;
    struct shard_report **report; /* being collected for the answer to the chief's hello */
    bool asked_status;

    struct client *clients, *chief;
    struct pending pending;
    enum life life;
    struct generation generation;                   /* the last one entered */
    char uuid[37], journal[37], chief_address[300]; /* uuid, journal: of that generation */
    uint64_t journal_lines;                         /* of that journal, as in HelloReply */
    uint32_t journal_crc;
    struct hello_host host;        /* the facts that hellos are checked against */
    char refused[HELLO_WHY_BYTES]; /* why it refused a hello; empty after the report to the chief */
    uint8_t data[32];              /* the fingerprint of the run's training data */
    int64_t chief_lost_ms, said_ms, vitals_ms, reads_ms;
    /* until then only a chief at chief_address is accepted, if none is connected; 0: no second chief has come */
    int64_t proves_until_ms;

    size_t leases; /* that the chief has noted */
    struct lease lease[LEASES_MAX];

    struct grace grace;
    bool said_short; /* logged that the grace is too short for a snapshot */
    bool ends;       /* the exit code is decided; the loop still turns for connections that end */
    struct server_http http;
    struct fence fence[WORKERS_MAX];

    char failed_why[sizeof(struct errmsg)]; /* of the last chief; "": it has not failed */
    /* It has ended the job with this code; 0: it has not. Ps 0 stays until failed_until_ms, for workers that have not
     * heard it. */
    int failed_code;
    int64_t failed_until_ms;
    bool heard[WORKERS_MAX]; /* these workers have heard it from this ps */

    int64_t told_ms; /* time of SIGTERM */
    int exit_code;
};

/* The reason is logged before, as the last line. A connection that ends in the same tick, such as that of the chief that gave the
 * reason, adds none. */
static void end(struct server *s, int exit_code)
{
    s->ends = true;
    s->exit_code = exit_code;
    loop_stop(&s->loop);
}

/* ---- the wait for a chief ---- */

struct bound {
    uint32_t seconds;
    const char *key;
};

/* How long it waits for a chief. */
static struct bound bound_of(const struct server *s)
{
    const struct job *job = s->config->job;
    return life_is[s->life].before_chief
               ? (struct bound){job->timeouts.start_s, "timeouts.start_s"}
               : (struct bound){job->timeouts.ps_rejoin_s, "timeouts.ps_rejoin_s"};
}

static void say_waits(const struct server *s)
{
    const struct bound bound = bound_of(s);
    log_info("waiting for the chief, at most %u s (%s)", bound.seconds, bound.key);
}

/* ---- the hello ---- */

static void answer_waiting_workers(struct server *s)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Generation g = msg_generation(s->generation);
    m.chief_address = s->chief_address;
    m.uuid = s->uuid;
    m.generation = &g;
    m.entered = life_is[s->life].entered;
    for (struct client *c = s->clients; c; c = c->next) {
        if (!c->waits_for_chief || (c->waits_for_entry && !life_is[s->life].entered))
            continue;
        c->waits_for_chief = false;
        msg_send(c->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
    }
}

/* ---- a chief that fails ---- */

static void tell_failed(struct client *c)
{
    struct server *s = c->server;
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Done failed = GRADWIRE__DONE__INIT;
    failed.exit_code = s->failed_code;
    failed.text = s->failed_why;
    failed.linger_s = s->failed_code ? 0 : s->config->job->timeouts.ps_rejoin_s;
    m.failed = &failed;
    if (s->failed_code && c->hello->worker < WORKERS_MAX)
        s->heard[c->hello->worker] = true;
    msg_send(c->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
}

/* True if it knows how many workers there are, and each has heard it. */
static bool all_have_heard(const struct server *s)
{
    const struct cluster *cluster = s->config->cluster;
    uint32_t workers = cluster->n_workers + cluster->separate_chief;
    for (uint32_t i = 1; i < workers && i < WORKERS_MAX; i++)
        if (!s->heard[i])
            return false;
    return cluster->n_workers > 0;
}

static void leave_failed(struct server *s)
{
    log_error("the chief ended the job: %s", s->failed_why);
    end(s, s->failed_code);
}

/* code 0: another chief may come. Workers that are idle wait for the next job. */
static void note_failed(struct server *s, int code, const char *why)
{
    s->failed_code = code;
    (void)snprintf(s->failed_why, sizeof s->failed_why, "%s", why);
    for (struct client *c = s->clients; c; c = c->next)
        if (c->waits_for_chief && !c->waits_for_entry)
            tell_failed(c);
}

static void on_failed(struct server *s, const Gradwire__Done *m)
{
    note_failed(s, m->exit_code, m->text);
    if (s->config->cluster->index > 0 || !m->linger_s) {
        leave_failed(s);
        return;
    }
    s->failed_until_ms = clock_now_ms() + (int64_t)m->linger_s * 1000;
    if (!all_have_heard(s)) /* otherwise it leaves with the next tick, behind the answers */
        log_warn("the chief ended the job: %s; staying %u s (timeouts.worker_rejoin_s) for workers "
                 "that do not know it",
                 s->failed_why, m->linger_s);
}

/* If a chief is connected, the one that has failed is another process, such as one that was started by mistake. */
static void hello_of_failed_chief(struct client *c, const Gradwire__Done *m)
{
    struct server *s = c->server;
    if (s->chief || m->exit_code <= 0 || m->exit_code >= FAILED_CODES)
        log_warn("%s: another process of the chief has failed: %s", conn_peer(c->conn), m->text);
    else if (life_is[s->life].entered) {
        /* only the ps have the steps since the last checkpoint: a chief that is started with other arguments can go on */
        note_failed(s, 0, m->text);
        log_warn("the chief failed before it could train: %s; waiting for another one, for "
                 "timeouts.ps_rejoin_s (%u s) since the last one was connected",
                 s->failed_why, s->config->job->timeouts.ps_rejoin_s);
    } else if (!s->failed_code)
        on_failed(s, m);
    conn_finish(c->conn, ERR_CLOSED, "a chief that failed has said so");
}

/* ---- a second chief ---- */

/* A chief at another address is another process. If both live, perhaps each with a DIR of its own, they would take over from each
 * other again and again. A connection does not show whether its chief lives: that process may be stopped, or its host without
 * power. So the connection is closed, and for a while only a chief at the same address may take it up again. */
static bool is_second_chief(struct server *s, const char *address)
{
    int64_t now_ms = clock_now_ms();
    if (strcmp(s->chief_address, address) == 0)
        return false;
    if (!s->chief)
        return s->proves_until_ms > now_ms;
    if (!s->proves_until_ms || now_ms - s->proves_until_ms >= SECOND_CHIEF_AGAIN_MS) {
        s->proves_until_ms = now_ms + SECOND_CHIEF_MS;
        conn_close(s->chief->conn, ERR_CLOSED, "another chief has come: does this one live?");
        chief_place_gone(&s->chief_place);
    }
    return true;
}

static void hello_of_chief(struct client *c, const Gradwire__Hello *m)
{
    struct server *s = c->server;
    if (is_second_chief(s, m->chief_address)) {
        char why[HELLO_WHY_BYTES];
        (void)snprintf(why, sizeof why,
                       "the chief at %.100s was started, but ps %u belongs to the chief at %.100s; "
                       "end one of them",
                       m->chief_address, s->config->cluster->index, s->chief_address);
        greeting_turn_away(c->conn, &s->host, GRADWIRE__REASON__NOT_READY, why);
        return;
    }
    s->failed_code = 0;
    s->failed_why[0] = 0;
    if (s->chief) {
        conn_close(s->chief->conn, ERR_CLOSED, "another chief has come");
        chief_place_gone(&s->chief_place);
    }
    s->chief = c;
    log_wait_over();
    c->is_chief = true;
    s->life = life_next(s->life, LIFE_CHIEF);
    conn_limits(c->conn, FRAME_HEAD_MAX, STORE_PIECE_BYTES);
    (void)snprintf(s->chief_address, sizeof s->chief_address, "%s", m->chief_address);
    answer_waiting_workers(s);
    s->asked_status = true;
    for (uint32_t i = 0; i < s->threads; i++)
        if (shard_thread_ask(s->thread[i], SHARD_STATUS))
            conn_close(c->conn, ERR_TOOBIG, "a shard thread is too far behind");
}

/* A refused one is pending until it closes. */
static bool is_arrival_of_chief(const struct client *c)
{
    return c->hello && !c->pending.of && c->hello->role == GRADWIRE__ROLE__ARRIVAL &&
           c->hello->chief_address[0];
}

/* The chief that reads its data, the latest; NULL: there is none, or one is connected. */
static const struct client *arrival_of_chief(const struct server *s)
{
    const struct client *chief = s->chief ? NULL : s->clients; /* the newest */
    while (chief && !is_arrival_of_chief(chief))
        chief = chief->next;
    return chief;
}

/* Without a chief the arrivals of workers are sent to the arrival of a chief. */
static void answer_arrivals(struct server *s)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    const struct client *chief = arrival_of_chief(s);
    if (!chief)
        return;
    m.chief_address = chief->hello->chief_address;
    for (struct client *c = s->clients; c; c = c->next) {
        if (!c->waits_for_chief || c->hello->role != GRADWIRE__ROLE__ARRIVAL)
            continue;
        c->waits_for_chief = false;
        msg_send(c->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
    }
}

static void hello_of_arrival(struct client *c, const Gradwire__Hello *m)
{
    struct server *s = c->server;
    c->waits_for_chief = !m->chief_address[0];
    c->waits_for_entry = true;
    if (arrival_of_chief(s) == c)
        log_info("the chief reads its data, and is waited for as long as it does");
    if (s->chief)
        answer_waiting_workers(s);
    answer_arrivals(s);
}

static void hello_of_worker(struct client *c, const Gradwire__Hello *m)
{
    struct server *s = c->server;
    if (m->shard < 0) {
        c->waits_for_chief = true;
        c->waits_for_entry = m->idle;
        if (s->failed_why[0] && !m->idle)
            tell_failed(c);
        else if (s->chief)
            answer_waiting_workers(s);
        else if (life_is[s->life].done && s->config->over->epochs && !m->idle) {
            /* Tell a client that the job is done. Workers have nothing to wait for, unless the user asked for more epochs. */
            Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
            Gradwire__Over over = GRADWIRE__OVER__INIT;
            over.epochs = s->config->over->epochs;
            over.run = s->config->over->run;
            reply.over = &over;
            msg_send(c->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
        }
        return;
    }
    if (m->shard >= (int64_t)s->threads) {
        char why[128];
        (void)snprintf(why, sizeof why, "shard thread %" PRId64 " of %u was dialed", m->shard,
                       s->threads);
        greeting_turn_away(c->conn, &s->host, GRADWIRE__REASON__BAD_MESSAGE, why);
        return;
    }
    struct conn_handover conn;
    Gradwire__Hello *hello = c->hello;
    if (conn_detach(c->conn, &conn)) {
        greeting_turn_away(c->conn, &s->host, GRADWIRE__REASON__BAD_MESSAGE,
                           "bytes arrived after the hello, before its answer");
        return;
    }
    c->hello = NULL;
    enum err err = shard_thread_take(s->thread[hello->shard], &conn, hello);
    if (err)
        log_warn("dropping a worker's connection: %s", err_str(err));
    /* conn_detach ends the connection without on_close */
    LIST_REMOVE(s->clients, c);
    listen_release(&s->listener);
    mem_free(c);
}

/* ---- the chief's hello reply, when every shard thread has reported ---- */

static void forget_reports(struct server *s)
{
    for (uint32_t i = 0; i < s->threads; i++) {
        shard_report_free(s->report[i]);
        s->report[i] = NULL;
    }
}

/* Send the chief what the job's page shows of this process. A refusal does not wait for its turn. */
static void tell_vitals(struct server *s, int64_t now)
{
    struct vitals_note note;
    bool due = s->refused[0] || now - s->vitals_ms >= VITALS_EVERY_MS;
    if (!s->chief || !s->chief->hello->vitals || !due)
        return;
    s->vitals_ms = now;
    vitals_note_make(&note, s->config->http_fd);
    note.message.refused = s->refused;
    msg_send(s->chief->conn, FRAME_VITALS, &note.message.base, NULL, 0);
    s->refused[0] = 0;
}

static void send_hello_reply(struct server *s)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    struct generation largest = {0, 0};
    Gradwire__ShardStatus *status[PLAN_SHARDS_MAX];
    m.shards = status;
    m.entered = true;
    for (uint32_t i = 0; i < s->threads; i++) {
        struct shard_report *r = s->report[i];
        m.entered = m.entered && r->facts.entered &&
                    generation_equal(r->facts.generation, s->report[0]->facts.generation);
        if (r->facts.generation.number >= largest.number)
            largest = r->facts.generation;
        if (r->facts.max_incarnation > m.incarnation)
            m.incarnation = r->facts.max_incarnation;
        if (r->next_cut > m.cut)
            m.cut = r->next_cut;
        if (r->status)
            status[m.n_shards++] = r->status;
    }
    Gradwire__Generation g = msg_generation(largest);
    Gradwire__WorkerLease *leases[LEASES_MAX];
    for (size_t i = 0; i < s->leases; i++) {
        leases[i] = &s->lease[i].message;
        leases[i]->range = &s->lease[i].range;
    }
    m.leases = leases;
    m.n_leases = s->leases;
    m.generation = &g;
    m.uuid = s->uuid;
    m.journal = s->journal;
    m.journal_lines = s->journal_lines;
    m.journal_crc = s->journal_crc;
    m.threads = s->threads;
    m.chief_address = s->chief_address;
    m.going = life_is[s->life].told;
    msg_send(s->chief->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
    tell_vitals(s, clock_now_ms());
}

static void on_status(struct server *s, uint32_t thread, struct shard_report *take_report)
{
    shard_report_free(s->report[thread]);
    s->report[thread] = take_report;
    for (uint32_t i = 0; i < s->threads; i++)
        if (!s->report[i])
            return;
    if (s->chief && s->asked_status)
        send_hello_reply(s);
    s->asked_status = false;
    forget_reports(s);
}

/* ---- the chief's messages ---- */

static void note_leases(struct server *s, const Gradwire__LeaseNote *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->leases; i++)
        if (s->lease[i].message.worker != m->worker)
            s->lease[kept++] = s->lease[i];
    s->leases = kept;
    for (size_t i = 0; i < m->n_ranges && s->leases < LEASES_MAX; i++) {
        struct lease *l = &s->lease[s->leases++];
        gradwire__worker_lease__init(&l->message);
        gradwire__range__init(&l->range);
        l->message.worker = m->worker;
        l->range.first = m->ranges[i]->first;
        l->range.count = m->ranges[i]->count;
    }
}

static void to_shards(struct server *s, enum frame_type type, const ProtobufCMessage *m)
{
    for (uint32_t i = 0; i < s->threads; i++) {
        enum err err = shard_thread_tell(s->thread[i], type, m);
        if (err && s->chief)
            conn_close(s->chief->conn, err, "the letter to a shard thread is lost");
    }
}

/* A later fence of the same worker replaces the earlier one. */
static enum err fence(struct server *s, const Gradwire__Fence *m)
{
    if (m->worker >= WORKERS_MAX)
        return ERR_PROTO;
    s->fence[m->worker] =
        (struct fence){msg_generation_get(m->generation), m->incarnation, s->threads};
    to_shards(s, FRAME_FENCE, &m->base);
    return ERR_OK;
}

static void tell_fenced(struct server *s, uint32_t worker)
{
    const struct fence *f = &s->fence[worker];
    Gradwire__Fenced m = GRADWIRE__FENCED__INIT;
    Gradwire__Generation g = msg_generation(f->generation);
    m.generation = &g;
    m.ps = s->config->cluster->index;
    m.worker = worker;
    m.incarnation = f->incarnation;
    if (s->chief &&
        !s->asked_status) /* the answer to its hello comes first; the chief repeats the fence */
        msg_send(s->chief->conn, FRAME_FENCED, &m.base, NULL, 0);
}

static void on_done(struct server *s, const Gradwire__Done *m)
{
    if (m->exit_code) {
        on_failed(s, m);
        return;
    }
    *s->config->linger_s = s->config->cluster->index == 0 ? m->linger_s : 0;
    bool rests = s->config->waits || *s->config->linger_s;
    if (m->over)
        over_set(s->config->over, m->over->epochs, m->over->run);
    log_info("the job is done");
    if (*s->config->linger_s)
        log_info("a worker does not know it yet: staying %u s to answer workers",
                 *s->config->linger_s);
    if (rests && !life_is[s->life].entered)
        s->life = life_next(s->life, LIFE_OVER); /* it holds no parameters */
    else
        end(s, rests ? SERVER_RESTS : 0);
}

static void on_enter(struct server *s, const Gradwire__Enter *m)
{
    s->life = life_next(s->life, LIFE_ENTER);
    s->config->over->epochs = 0;
    s->generation = msg_generation_get(m->generation);
    if (m->mode != GRADWIRE__ENTER_MODE__TAKEOVER)
        s->leases = 0;
    (void)snprintf(s->uuid, sizeof s->uuid, "%s", m->uuid);
    (void)snprintf(s->journal, sizeof s->journal, "%s", m->journal);
    s->journal_lines = m->journal_lines;
    s->journal_crc = m->journal_crc;
    /* The training data of the run that this ps holds from now on are the chief's. */
    const Gradwire__Contents *contents = s->chief->hello->contents;
    bool told = contents && contents->fingerprint.len == sizeof s->data;
    if (told)
        memcpy(s->data, contents->fingerprint.data, sizeof s->data);
    s->host.data = told ? s->data : NULL;
    if (m->mode == GRADWIRE__ENTER_MODE__RESTORE)
        log_info("generation %" PRIu64 ": resuming from checkpoint %" PRIu64, s->generation.number,
                 (uint64_t)m->cut);
    else
        log_info("generation %" PRIu64 ": %s", s->generation.number,
                 m->mode == GRADWIRE__ENTER_MODE__INIT ? "initial values"
                                                       : "a new chief takes over");
    answer_waiting_workers(s);
    to_shards(s, FRAME_ENTER, &m->base);
}

static void on_journaled(struct server *s, const Gradwire__Journaled *m)
{
    if (!generation_equal(msg_generation_get(m->generation), s->generation))
        return;
    s->journal_lines = m->journal_lines;
    s->journal_crc = m->journal_crc;
}

static enum err on_chief(struct server *s, enum frame_type type, const ProtobufCMessage *m)
{
    switch (type) {
    case FRAME_ENTER:
        on_enter(s, (const Gradwire__Enter *)m);
        return ERR_OK;
    case FRAME_JOURNALED:
        on_journaled(s, (const Gradwire__Journaled *)m);
        return ERR_OK;
    case FRAME_LEAVE:
        log_info("asked to stop: a checkpoint with everything learned is published");
        end(s, 143);
        return ERR_OK;
    case FRAME_FENCE:
        return fence(s, (const Gradwire__Fence *)m);
    case FRAME_LEASE_NOTE:
        note_leases(s, (const Gradwire__LeaseNote *)m);
        return ERR_OK;
    case FRAME_DONE:
        on_done(s, (const Gradwire__Done *)m);
        return ERR_OK;
    default:
        if (!(frame_to(type) & FRAME_TO_SHARDS))
            return ERR_PROTO;
        to_shards(s, type, m);
        return ERR_OK;
    }
}

/* ---- connections ---- */

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct client *client = owner;
    client->type = f->type;
    enum err err = client->hello ? ERR_OK : greeting_on_head(&client->greeting, c, f, head);
    if (!err && client->hello &&
        (!client->is_chief || (f->body_bytes && f->type != FRAME_STORE_ANSWER)))
        err = ERR_PROTO;
    if (err)
        return err;
    client->message = msg_unpack(f->type, head, f->head_bytes);
    client->body_bytes = f->body_bytes;
    client->space = NULL;
    if (!client->message)
        return ERR_PROTO;
    if (f->body_bytes && client->hello)
        client->space = chief_place_space(&client->server->chief_place,
                                          (const Gradwire__StoreAnswer *)client->message);
    return ERR_OK;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c;
    static uint8_t unwanted[4096];
    struct client *client = owner;
    if (!client->hello)
        return greeting_on_space(&client->greeting, at, left, p, bytes);
    bool wanted = client->space != NULL;
    *p = wanted ? client->space + at : unwanted;
    *bytes = wanted || left < sizeof unwanted ? (size_t)left : sizeof unwanted;
    return ERR_OK;
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct client *client = owner;
    ProtobufCMessage *m = client->message;
    client->message = NULL;
    if (client->hello) {
        enum err err =
            client->type == FRAME_STORE_ANSWER
                ? chief_place_on_answer(&client->server->chief_place,
                                        (const Gradwire__StoreAnswer *)m, client->body_bytes, NULL)
                : on_chief(client->server, (enum frame_type)client->type, m);
        msg_free(m);
        return err;
    }
    client->hello = (Gradwire__Hello *)m;
    if (!greeting_taken(&client->greeting, c, &client->server->host, client->hello))
        return ERR_OK;
    pending_conn_leave(&client->pending);
    if (client->hello->role == GRADWIRE__ROLE__DOCTOR) {
        Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
        reply.uuid = client->server->uuid;
        reply.going = life_is[client->server->life].told;
        reply.time_ms = clock_wall_ms();
        log_debug("%s: a check by doctor", conn_peer(client->conn));
        msg_send(client->conn, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
        conn_finish(client->conn, ERR_CLOSED, "a doctor has looked");
    } else if (client->hello->role == GRADWIRE__ROLE__CHIEF && client->hello->failed)
        hello_of_failed_chief(client, client->hello->failed);
    else if (client->hello->role == GRADWIRE__ROLE__CHIEF && client->hello->shard < 0)
        hello_of_chief(client, client->hello);
    else if (client->hello->role == GRADWIRE__ROLE__ARRIVAL)
        hello_of_arrival(client, client->hello);
    else
        hello_of_worker(client, client->hello);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct client *client = owner;
    struct server *s = client->server;
    bool pending = client->pending.of; /* conn.c has logged it from time to time */
    /* The chief that this process waits for in vain may be a peer that could not even send a hello, as one with TLS. */
    if (pending && !s->chief && !s->refused[0] && (code == ERR_PROTO || code == ERR_TLS))
        (void)snprintf(s->refused, sizeof s->refused, "%s: %s", conn_peer(c), why);
    else if (!pending && (code == ERR_PROTO || code == ERR_TOOBIG))
        log_warn("%s: connection closed: %s", conn_peer(c), why);
    if (s->chief == client) {
        s->chief = NULL;
        s->chief_lost_ms = clock_now_ms();
        answer_arrivals(s);
        chief_place_gone(&s->chief_place);
        if (!s->ends)
            log_info("the chief's connection is lost: %s", why);
        if (!s->ends && s->life == LIFE_TRAINING && !s->failed_code)
            say_waits(s);
    }
    LIST_REMOVE(s->clients, client);
    pending_conn_leave(&client->pending);
    listen_release(&s->listener);
    msg_free(client->message);
    msg_free(client->hello);
    mem_free(client);
}

static const struct conn_ops client_ops = {
    .on_head = on_head,
    .on_space = on_space,
    .on_frame = on_frame,
    .on_close = on_close,
};

/* Called by a listener when the process has no free descriptors. */
static bool on_no_descriptors(void *owner)
{
    struct server *s = owner;
    return pending_shed(&s->pending);
}

static void on_accept(void *owner, int fd, const char *peer)
{
    struct server *s = owner;
    struct client *c = mem_zalloc(1, sizeof *c);
    if (!c || conn_new(&c->conn, &s->loop, fd, peer, &client_ops, c)) {
        log_warn("%s: no memory for a connection", peer);
        if (!c)
            close(fd); /* otherwise conn_new has closed it */
        listen_release(&s->listener);
        mem_free(c);
        return;
    }
    c->server = s;
    c->next = s->clients;
    s->clients = c;
    pending_add(&s->pending, &c->pending, c->conn);
    greeting_begin(&c->greeting, c->conn);
}

/* ---- letters, signals, time ---- */

/* Log when the grace becomes too short for a snapshot, and when it suffices again. */
static void on_snapshot(struct server *s, uint32_t thread, const struct shard_snapshot *m)
{
    char text[240];
    grace_note(&s->grace, thread, m->bytes, m->seconds);
    grace_say(&s->grace, text, sizeof text);
    bool is_short = !grace_suffices(&s->grace);
    if (is_short && !s->said_short)
        log_warn("%s: on SIGTERM it would not begin one, and the last published checkpoint would "
                 "remain; allow more time (timeouts.grace_s, terminationGracePeriodSeconds)",
                 text);
    else if (!is_short && s->said_short)
        log_info("%s: it now suffices", text);
    s->said_short = is_short;
}

static void on_letter(void *arg, struct mail *m)
{
    struct server *s = arg;
    if (m->type == SHARD_TELLS) {
        if (s->chief && !s->asked_status)
            msg_send(s->chief->conn, (enum frame_type)m->number, m->data, NULL, 0);
    } else if (m->type == SHARD_STATUS) {
        on_status(s, (uint32_t)m->number, m->data);
        m->data = NULL;
    } else if (m->type == SHARD_FENCED) {
        /* A shard thread has processed this fence. Incarnations are unique, so the number identifies it. */
        for (uint32_t i = 0; i < WORKERS_MAX; i++)
            if (s->fence[i].waits && s->fence[i].incarnation == m->number &&
                --s->fence[i].waits == 0)
                tell_fenced(s, i);
    } else if (m->type == SHARD_STORE) {
        chief_place_on_letter(&s->chief_place, m->number, s->chief ? s->chief->conn : NULL);
    } else if (m->type == SHARD_SNAPSHOT) {
        on_snapshot(s, (uint32_t)m->number, m->data);
    } else if (m->type == SHARD_MEASURED) {
        server_http_on_report(&s->http, (uint32_t)m->number, m->data);
        m->data = NULL;
    }
}

static void on_signal(int number, void *arg)
{
    (void)number;
    struct server *s = arg;
    enum life before = s->life;
    s->life = life_next(s->life, LIFE_TOLD);
    if (s->ends)
        return;
    if (life_is[before].told) {
        log_warn("asked to stop twice: exiting immediately");
        end(s, 143);
        return;
    }
    s->told_ms = clock_now_ms();
    if (s->failed_code) {
        leave_failed(s);
        return;
    }
    if (!life_is[before].entered) {
        /* a job that stopped early can be continued, and needs this ps then */
        bool over = life_is[before].done && (s->config->waits || s->config->ending == ENDING_DONE);
        log_info(over ? "asked to stop: the job is done" : "asked to stop before training began");
        end(s, over ? 0 : 143);
        return;
    }
    if (!grace_suffices(&s->grace)) {
        char text[240];
        grace_say(&s->grace, text, sizeof text);
        log_warn(
            "asked to stop: %s: no snapshot is begun, and the last published checkpoint remains",
            text);
        end(s, 143);
        return;
    }
    log_info("asked to stop: requesting a checkpoint from the chief");
    if (s->chief) {
        Gradwire__Going m = GRADWIRE__GOING__INIT;
        msg_send(s->chief->conn, FRAME_GOING, &m.base, NULL, 0);
    }
}

/* Neither this process nor a worker counts the time for which a chief reads its data. */
static void wait_for_reading(struct server *s, int64_t now)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    m.chief_reads = true;
    s->chief_lost_ms = now;
    if (now - s->reads_ms < VITALS_EVERY_MS)
        return;
    s->reads_ms = now;
    for (struct client *c = s->clients; c; c = c->next)
        if (c->waits_for_chief && c->hello->waits)
            msg_send(c->conn, FRAME_HELLO_REPLY, &m.base, NULL, 0);
}

/* The reason why the chief is away, if it is known. */
static const char *why_no_chief(const struct server *s, char *out, size_t bytes)
{
    out[0] = 0;
    if (s->failed_why[0])
        (void)snprintf(out, bytes, "; the last chief failed: %s", s->failed_why);
    else if (s->refused[0])
        (void)snprintf(out, bytes, "; the last process that was refused: %s", s->refused);
    return out;
}

static void check_chief(struct server *s, int64_t now)
{
    const struct bound bound = bound_of(s);
    int64_t away_s = (now - s->chief_lost_ms) / 1000;
    char why[sizeof s->failed_why + 64];
    if (away_s > bound.seconds) {
        log_error("no chief for %" PRId64 " s (%s)%s", away_s, bound.key,
                  why_no_chief(s, why, sizeof why));
        end(s, 1);
    } else if (now - s->said_ms >= SAY_WAIT_MS) {
        s->said_ms = now;
        log_warn("waiting %" PRId64 " s for the chief, at most %u s (%s)%s", away_s, bound.seconds,
                 bound.key, why_no_chief(s, why, sizeof why));
    }
}

/* This process holds no parameters, so it can wait without losing work; with --when_done=wait without a limit. */
static void check_rest(struct server *s, int64_t now)
{
    int64_t away_ms = now - s->chief_lost_ms;
    int64_t start_ms = (int64_t)s->config->job->timeouts.start_s * 1000, bound_ms = start_ms;
    if (s->config->ending == ENDING_DONE && start_ms > ENDING_ALONE_MS)
        bound_ms = ENDING_ALONE_MS;
    if (*s->config->linger_s)
        bound_ms = (int64_t)*s->config->linger_s * 1000;
    if (s->config->waits && life_is[s->life].rests)
        return;
    if (s->config->waits && away_ms > start_ms) {
        log_info("no chief for %u s (timeouts.start_s): idle until one connects (--when_done=wait)",
                 s->config->job->timeouts.start_s);
        s->life = life_next(s->life, LIFE_ALONE);
    } else if (life_is[s->life].done && away_ms > bound_ms) {
        log_info("the job is done, and no chief has connected to continue training");
        end(s, 0);
    } else if (!life_is[s->life].done ||
               !*s->config->linger_s) { /* otherwise it stays for linger_s */
        check_chief(s, now);
    }
}

static bool end_if_a_thread_failed(struct server *s)
{
    const char *why;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < s->threads && !err; i++)
        err = shard_thread_failed(s->thread[i], &why);
    if (!err)
        return false;
    log_error("%s", why);
    end(s, err == ERR_TOOBIG ? 138 : err_exit_code(err)); /* a lost letter: a restart can help */
    return true;
}

static void on_tick(void *arg)
{
    struct server *s = arg;
    int64_t now = clock_now_ms();
    if (s->ends || end_if_a_thread_failed(s))
        return;
    tell_vitals(s, now);
    if (s->failed_code && (all_have_heard(s) || now >= s->failed_until_ms))
        leave_failed(s);
    else if (s->failed_code)
        return; /* it stays for workers that have not heard it */
    else if (life_is[s->life].told) {
        if (!s->chief && now - s->chief_lost_ms > GOING_ALONE_MS &&
            now - s->told_ms > GOING_ALONE_MS) {
            log_warn("asked to stop, but no chief is connected: the last published checkpoint "
                     "remains");
            end(s, 143);
        } else if (now - s->told_ms > grace_bound_ms(&s->grace)) {
            log_warn("the grace of %u s ended before a checkpoint was published, or the job was "
                     "done",
                     s->grace.allowed_s);
            end(s, 143);
        }
    } else if (arrival_of_chief(s))
        wait_for_reading(s, now);
    else if (!s->chief && life_is[s->life].entered)
        check_chief(s, now);
    else if (!s->chief)
        check_rest(s, now);
    pending_tick(&s->pending, now);
    server_http_measure(&s->http);
    if (tls_own())
        (void)tls_look(tls_own(), now);
}

/* ---- the process ---- */

static enum err start_threads(struct server *s, struct errmsg *e)
{
    uint32_t wanted = s->config->job->ps.threads ? s->config->job->ps.threads : cores_usable();
    s->thread = mem_zalloc(wanted, sizeof *s->thread);
    s->report = mem_zalloc(wanted, sizeof *s->report);
    if (!s->thread || !s->report)
        return err_memory_for(e, "%u shard threads", wanted);
    for (uint32_t i = 0; i < wanted; i++) {
        enum err err =
            shard_thread_new(&s->thread[i], s->config->cluster->index, i, s->config->output,
                             &s->chief_place, &s->config->fault, &s->in, e);
        if (err)
            return err;
        s->threads++;
    }
    return ERR_OK;
}

/* Fill in the server's facts for an HTTP answer. */
static void say_facts(void *ctx, struct server_http_facts *f)
{
    const struct server *s = ctx;
    *f = (struct server_http_facts){.run = s->uuid,
                                    .chief_address = s->chief_address,
                                    .chief = s->chief != NULL,
                                    .going = life_is[s->life].told,
                                    .state = life_process_state(s->life, s->chief),
                                    .connections = s->listener.open,
                                    .pending = &s->pending};
    f->chief_away_s = s->chief ? 0 : (double)(clock_now_ms() - s->chief_lost_ms) / 1000;
}

static enum err open_http(struct server *s)
{
    const struct server_http_config config = {.job = s->config->job,
                                              .index = s->config->cluster->index,
                                              .threads = s->threads,
                                              .thread = s->thread,
                                              .facts = say_facts,
                                              .ctx = s};
    return server_http_open(&s->http, &s->loop, s->config->http_fd, &config);
}

static enum err start(struct server *s, struct errmsg *e)
{
    enum err err = loop_init(&s->loop);
    if (err)
        return err_set(e, err, "no event loop: %s", err_str(err));
    err = mailbox_init(&s->in, &s->loop, on_letter, s);
    if (err)
        return err_set(e, err, "no mailbox: %s", err_str(err));
    chief_place_open(&s->chief_place, &s->in, SHARD_STORE);
    err = start_threads(s, e);
    if (err)
        return err;
    pending_init(&s->pending);
    loop_timer_init(&s->tick, &s->loop, on_tick, s);
    err = loop_signal_init(&s->term, &s->loop, SIGTERM, on_signal, s);
    if (!err)
        err = loop_signal_init(&s->interrupt, &s->loop, SIGINT, on_signal, s);
    if (!err)
        err = loop_timer_every(&s->tick, TICK_MS);
    if (!err)
        err = listen_start(&s->listener, &s->loop, s->config->listen_fd, LISTEN_OPEN_MAX, on_accept,
                           s);
    s->listener.shed = on_no_descriptors;
    if (!err)
        err = open_http(s);
    return err ? err_set(e, err, "the ps cannot start: %s", err_str(err)) : ERR_OK;
}

static void stop(struct server *s)
{
    s->life = life_next(s->life, LIFE_STOP);
    s->ends = true;
    listen_close(&s->listener);
    server_http_close(&s->http);
    chief_place_shut(&s->chief_place); /* shard threads that wait for the chief continue */
    for (uint32_t i = 0; i < s->threads; i++)
        shard_thread_free(s->thread[i]);
    for (struct client *c = s->clients; c; c = c->next)
        conn_close(c->conn, ERR_CLOSED, "the ps ends");
    while (s->clients && loop_tick(&s->loop, NULL) == ERR_OK)
        ;
    chief_place_close(&s->chief_place); /* after the last on_close, which reports the loss to it */
    forget_reports(s);
    loop_timer_stop(&s->tick);
    loop_signal_close(&s->term);
    loop_signal_close(&s->interrupt);
    mailbox_close(&s->in);
    loop_close(&s->loop);
    mem_free(s->thread);
    mem_free(s->report);
}

int server_run(const struct server_config *config)
{
    static struct server server; /* the lease table alone is 320 KiB */
    struct server *s = &server;
    struct errmsg e = {""};
    memset(s, 0, sizeof *s);
    s->config = config;
    s->host = (struct hello_host){
        .job = config->job, .cluster = config->cluster, .uuid = s->uuid, .refused = s->refused};
    s->life = life_begin(config->ending != ENDING_NONE);
    grace_init(&s->grace, config->job->timeouts.grace_s, config->grace_s);
    s->chief_lost_ms = s->said_ms = clock_now_ms();
    enum err err = start(s, &e);
    if (err) {
        log_error("%s", e.text);
        return err == ERR_NOMEM ? err_exit_code(err) : 138; /* a restart can help */
    }
    if (life_is[s->life].done)
        log_info(config->waits ? "idle until a chief connects (--when_done=wait)"
                               : "waiting for a chief that continues training");
    else
        say_waits(s);
    err = loop_run(&s->loop);
    if (err) {
        log_error("the event loop failed: %s", err_str(err));
        s->exit_code = 138;
    }
    stop(s);
    /* after SIGTERM it does not stay */
    return s->exit_code == SERVER_RESTS && life_is[s->life].told ? 0 : s->exit_code;
}
