/* A worker's connection to the chief, whose address ps 0 has.
 *
 * Happy path: connect to ps 0 -> the chief's address -> connect to the chief -> hello -> letters both ways, until
 * DONE.
 * Failure modes: the connection is lost (ask ps 0 again, for timeouts.ps_rejoin_s); the chief refuses us, because
 * our rows have another meaning (the process reads them again by the cut that the chief names: cut_reader.h), or
 * because our data differ (exit 2, control_other_data); the job has ended meanwhile (ps 0 reports that, or the final manifest is in DIR/checkpoints: exit 0); the chief
 * has failed (ps 0 reports that: its exit code); the chief's host
 * is gone without closing the connection (shards of a later generation refuse us: ask ps 0 again); the chief dies while
 * we connect to it, and the next one has another address (ask ps 0 again). */
#include "worker/control/chief_link.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/peers/dial.h"
#include "common/peers/hello.h"
#include "common/checkpoint/ending.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/net/disk_thread.h"
#include "common/serve/vitals.h"
#include "worker/control/meter.h"

enum {
    SAY_WAIT_MS = 10000,
    ASK_AGAIN_MS = 3000,
    GOING_ALONE_MS = 2000,
    /* time for all shards to enter a generation that some have entered, and for the chief to welcome us */
    LATER_MS = 10000,
    LOOK_MS = 2000,
    LOOK_BOUND_S = 10, /* storage may hang */
    LOOK_STOP_MS = 2000,
    /* the job is done, but the chief may wait for our confirmation: time to connect to it again */
    CONFIRM_MS = 2000,
};

enum { LINK_LOOKED = CONTROL_ROLE }; /* a letter; number: 1 if the final manifest exists */

enum { EARLY_MAX = 32 };

static const char NOBODY_TRAINS_ON[] =
    "the job is done, and no chief has connected to continue training";

struct chief_link {
    struct control *control;
    struct dialer *ps, *chief;
    struct conn *conn; /* to ps 0 or to the chief */
    bool to_chief;     /* conn is to the chief */
    bool welcomed;     /* the chief has welcomed us at least once */
    bool parked;       /* the chief has parked us until every ps is reached */
    bool up;           /* connected to the chief */
    bool vitals;       /* the chief wants our VITALS */
    bool said_hello;   /* on this connection: no other message may precede it */
    bool answered;     /* the chief has answered it, and with that agreed on checksums */
    uint32_t early;    /* messages that wait for the answer */
    struct mail early_mail[EARLY_MAX];
    char address[300], refusal[CONTROL_REFUSAL_BYTES], waits_for[600];
    bool by_ps;       /* the refusal came from ps 0 */
    bool unfit;       /* its cause is how this process was started: trying again does not help */
    char dialed[300]; /* the address that l->chief connects to */
    bool trusted;     /* a chief has answered there, or ps 0 has named it again */
    int64_t lost_ms, dialed_ms, said_ms;
    int64_t reads_ms; /* when ps 0 has last said that a chief reads its data */
    int64_t vitals_ms;
    int64_t other_data_ms; /* of the chief, as in control_other_data */
    int64_t over_ms;       /* since when ps 0 reports that the job is done; 0: it does not */
    uint64_t generation;   /* of the last welcome; 0: none */
    uint64_t later;        /* the latest generation that a shard has reported; 0: none */
    int64_t later_ms;
    struct disk_thread disk;
    bool hangs;            /* its last search for the final manifest does not end */
    atomic_bool abandoned; /* the same: the answer is no longer needed */
    bool looking, looked;  /* for the final manifest, since the connection was lost */
    bool seen;             /* the final manifest, since then */
    int64_t looked_ms;
    ProtobufCMessage *message;
    uint16_t type;
};

/* How long it waits for the chief, or for ps 0, which knows the chief. */
static uint32_t bound_s(const struct chief_link *l)
{
    const struct job *job = l->control->config.job;
    return l->welcomed ? job->timeouts.ps_rejoin_s : job->timeouts.start_s;
}

/* How long it has waited, without the time for which the chief reads its data. */
static int64_t away_ms(const struct chief_link *l, int64_t now)
{
    return now - (l->reads_ms > l->lost_ms ? l->reads_ms : l->lost_ms);
}

static const char *bound_key(const struct chief_link *l)
{
    return l->welcomed ? "timeouts.ps_rejoin_s" : "timeouts.start_s";
}

enum err chief_link_new(struct chief_link **out, struct errmsg *e)
{
    struct chief_link *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return err_memory_for(e, "the connection to the chief");
    disk_thread_init(&l->disk);
    atomic_init(&l->abandoned, false);
    *out = l;
    return ERR_OK;
}

bool chief_link_hangs(const struct chief_link *l)
{
    return l->hangs;
}

void chief_link_free(struct chief_link *l)
{
    mem_free(l);
}

/* The chief's dialer stays: a later one to the same address continues its attempts. */
static void ask_ps(struct chief_link *l)
{
    if (l->chief)
        dial_stop(l->chief);
    l->to_chief = false;
    dial_start(l->ps);
}

static const struct conn_ops chief_link_conn_ops;

static void dial_chief(struct chief_link *l)
{
    struct errmsg e = {""};
    l->to_chief = true;
    l->dialed_ms = clock_now_ms();
    if (l->chief && strcmp(l->dialed, l->address) == 0) {
        l->trusted = true;
        dial_start(l->chief);
        return;
    }
    dial_free(l->chief);
    l->chief = NULL;
    l->trusted = false;
    memcpy(l->dialed, l->address, sizeof l->dialed);
    if (dial_new(&l->chief, &l->control->loop, "the chief", l->address, &chief_link_conn_ops, l,
                 &e)) {
        log_warn("%s", e.text);
        l->dialed_ms = clock_now_ms(); /* asked again after a while */
        return;
    }
    dial_start(l->chief);
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)c;
    struct chief_link *l = owner;
    l->type = f->type;
    if (f->body_bytes)
        return ERR_PROTO;
    l->message = msg_unpack(f->type, head, f->head_bytes);
    return l->message ? ERR_OK : ERR_PROTO;
}

/* The earlier job is done; the connection stays open, for a chief that continues it. */
static void on_over(struct chief_link *l, const Gradwire__Over *m)
{
    struct over over;
    over_set(&over, m->epochs, m->run);
    if (!over_suffices(&over, l->control->config.job))
        return;
    if (!l->over_ms)
        log_info("ps 0 reports that the job is done, and training.epochs asks for no more");
    l->over_ms = clock_now_ms();
}

/* A chief may continue the job. */
static void hear_reading(struct chief_link *l)
{
    l->reads_ms = clock_now_ms();
    l->over_ms = 0;
}

/* The chief has failed. If ps 0 still waits for another one, so do we. */
static void on_failed(struct chief_link *l, const Gradwire__Done *m)
{
    char text[sizeof l->refusal];
    if (!m->linger_s) {
        control_stop_train(l->control, m->exit_code ? m->exit_code : 1,
                           "the chief ended the job: %s", m->text);
        return;
    }
    (void)snprintf(text, sizeof text, "the last process of the chief has failed: %s", m->text);
    if (strcmp(text, l->refusal) != 0)
        log_warn("%s; waiting for another one", text);
    memcpy(l->refusal, text, sizeof text);
    l->by_ps = true;
    l->unfit = false;
}

static bool is_own_fault(const Gradwire__Refuse *m)
{
    return m->reason == GRADWIRE__REASON__OTHER_LISTS || m->reason == GRADWIRE__REASON__NO_TOKEN ||
           m->reason == GRADWIRE__REASON__OTHER_NAME || m->reason == GRADWIRE__REASON__OTHER_DATA ||
           m->reason == GRADWIRE__REASON__OTHER_VERSION || m->encoding.len > 0;
}

static void on_refuse(struct chief_link *l, const Gradwire__Refuse *m)
{
    l->by_ps = !l->to_chief;
    l->unfit = is_own_fault(m);
    control_refused(&l->control->config, l->to_chief ? "the chief" : "ps 0", m, l->refusal);
}

static void forget_refusal(struct chief_link *l)
{
    l->refusal[0] = 0;
    l->unfit = false;
}

/* ---- messages between the hello and its answer ---- */

static void forget_early(struct chief_link *l)
{
    for (uint32_t i = 0; i < l->early; i++)
        msg_free(l->early_mail[i].data);
    l->early = 0;
}

/* Takes the message. Before the answer neither side knows whether frames have checksums. */
static void keep_early(struct chief_link *l, struct mail *m)
{
    if (l->early == EARLY_MAX) { /* the next hello says all of it */
        conn_close(l->conn, ERR_TOOBIG, "the chief does not answer");
        return;
    }
    l->early_mail[l->early++] = *m;
    m->data = NULL;
}

/* ---- answers ---- */

/* The chief's rows have another meaning than ours, and a cut defines it: our rows are read again, once for each
 * digest. */
static void on_other_encoding(struct chief_link *l, const Gradwire__Refuse *m)
{
    struct control *c = l->control;
    const struct control_encoding *tried = c->config.read_by;
    struct control_encoding *to = &c->encoding;
    if (!l->to_chief || !m->encoding_cut || m->encoding.len != sizeof to->digest || c->ended ||
        (tried && memcmp(tried->digest, m->encoding.data, sizeof tried->digest) == 0))
        return;
    to->there = true;
    to->cut = m->encoding_cut - 1;
    memcpy(to->digest, m->encoding.data, sizeof to->digest);
    (void)snprintf(to->chief, sizeof to->chief, "%s", l->address);
    control_stop_train(c, 0, "the rows are read again, with the encoding of checkpoint %" PRIu64,
                       to->cut);
}

static enum err on_frame(struct conn *c, void *owner)
{
    struct chief_link *l = owner;
    ProtobufCMessage *m = l->message;
    l->message = NULL;
    if (l->type == FRAME_REFUSE) {
        on_other_encoding(l, (const Gradwire__Refuse *)m);
        if (!l->control->encoding.there)
            on_refuse(l, (const Gradwire__Refuse *)m);
        if (control_other_data((const Gradwire__Refuse *)m, &l->other_data_ms))
            control_stop_train(l->control, 2, "%s", l->refusal);
        dial_locked_out(l->to_chief ? l->chief : l->ps, (const Gradwire__Refuse *)m);
        if (l->to_chief &&
            ((const Gradwire__Refuse *)m)->reason == GRADWIRE__REASON__OLD_INCARNATION)
            control_stop_train(l->control, 138, "%s", l->refusal);
        conn_close(c, ERR_REFUSED, "refused");
    } else if (!l->to_chief && l->type == FRAME_HELLO_REPLY) {
        const Gradwire__HelloReply *reply = (const Gradwire__HelloReply *)m;
        if (reply->chief_reads)
            hear_reading(l);
        else if (reply->over)
            on_over(l, reply->over);
        else if (reply->failed)
            on_failed(l, reply->failed);
        else {
            l->over_ms = 0;
            if (l->by_ps)
                forget_refusal(l);
            (void)snprintf(l->address, sizeof l->address, "%s", reply->chief_address);
            conn_close(l->conn, ERR_OK, "answered");
        }
    } else if (l->to_chief && l->type == FRAME_PARK) {
        log_warn("the chief has given this worker's work to others until it reaches ps %u",
                 ((const Gradwire__Park *)m)->ps);
        l->parked = true;
        control_message_to_train(l->control, FRAME_PARK, m);
        conn_close(c, ERR_CLOSED, "parked");
    } else if (l->to_chief && l->type != FRAME_CHALLENGE) {
        if (!l->answered) {
            l->answered = true;
            for (uint32_t i = 0; i < l->early && l->conn; i++)
                msg_send(l->conn, (enum frame_type)l->early_mail[i].number, l->early_mail[i].data,
                         NULL, 0);
            forget_early(l);
        }
        if (l->type == FRAME_WELCOME) {
            l->welcomed = true;
            log_wait_over();
            l->other_data_ms = 0;
            const Gradwire__Welcome *welcome = (const Gradwire__Welcome *)m;
            l->generation = msg_generation_get(welcome->generation).number;
            l->vitals = welcome->vitals;
        }
        forget_refusal(l);
        control_message_to_train(l->control, (enum frame_type)l->type, m);
    }
    msg_free(m);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct chief_link *l = owner;
    msg_free(l->message);
    l->message = NULL;
    l->conn = NULL;
    forget_early(l);
    if (!l->ps)
        return;                         /* the worker ends */
    if (l->up && code != ERR_REFUSED) { /* otherwise there was no connection to lose */
        l->lost_ms = clock_now_ms();
        l->looked = l->seen = false;
        log_info("the connection to the chief is lost: %s; waiting for it, at most %u s (%s)", why,
                 bound_s(l), bound_key(l));
    }
    l->up = false;
    if (code != ERR_OK && (l->to_chief ? l->chief : l->ps))
        dial_lost(l->to_chief ? l->chief : l->ps, code, why);
    if (l->parked)
        l->to_chief = false;
    else if (!l->to_chief && code == ERR_OK)
        dial_chief(l);
    else
        ask_ps(l);
}

static void on_open(struct conn *c, void *owner)
{
    struct chief_link *l = owner;
    l->conn = c;
    if (l->to_chief) {
        l->up = l->trusted = true;
        l->said_hello = l->answered = l->vitals = false;
        control_to_train(l->control, TRAIN_HELLO, 0);
        return;
    }
    Gradwire__Hello m;
    hello_make(&m, l->control->config.job, l->control->config.cluster, 0);
    m.waits = true;
    dial_hello(l->ps, c, &m);
}

static const struct conn_ops chief_link_conn_ops = {
    .on_head = on_head,
    .on_frame = on_frame,
    .on_close = on_close,
    .on_open = on_open,
};

static enum err chief_link_start(void *role, struct control *control, struct errmsg *e)
{
    struct chief_link *l = role;
    l->control = control;
    l->lost_ms = l->said_ms = clock_now_ms();
    enum err err = dial_new(&l->ps, &control->loop, "ps 0", control->config.cluster->ps[0],
                            &chief_link_conn_ops, l, e);
    if (err)
        return err;
    log_info("waiting for the chief, at most %u s (%s)", bound_s(l), bound_key(l));
    dial_start(l->ps);
    return ERR_OK;
}

/* With --when_done=wait this process idles immediately. Otherwise it has waited, like a ps, for a chief that
 * continues. */
static void leave_done(struct chief_link *l, const char *why)
{
    if (l->unfit && !l->welcomed) {
        control_stop_train(l->control, 2, "the job has ended without this worker: %s", l->refusal);
        return;
    }
    l->control->nobody_came = !l->welcomed;
    control_stop_train(l->control, 0, "%s", l->control->config.waits ? "the job is done" : why);
}

/* A shard refuses us for a generation that the chief has not announced to us. */
static void on_later(struct chief_link *l, uint64_t generation)
{
    if (generation <= l->later)
        return;
    l->later = generation;
    l->later_ms = clock_now_ms();
}

/* If the chief at the other end had begun that generation, it would have welcomed us to it. So that chief is gone,
 * and TCP has not noticed. */
static void check_later(struct chief_link *l, int64_t now)
{
    if (l->later <= l->generation || !l->later_ms || now - l->later_ms < LATER_MS)
        return;
    l->later_ms = 0; /* once: the next connection is another one */
    log_warn("the shards are in generation %" PRIu64
             ", which the chief has not announced: asking ps 0 for the chief again",
             l->later);
    conn_close(l->conn, ERR_CLOSED, "another generation has begun without us");
}

struct look {
    struct control *control;
    uint64_t generation;
    const atomic_bool *abandoned;
};

static void look(void *arg)
{
    struct look *k = arg;
    const struct control_config *config = &k->control->config;
    bool seen = ending_seen(config->checkpoints, config->job, k->generation);
    if (!atomic_load(k->abandoned))
        control_post(k->control, LINK_LOOKED, seen, NULL, NULL);
    mem_free(k);
}

/* Search for the final manifest: the job may have ended while we were away. */
static void start_look(struct chief_link *l, int64_t now)
{
    struct look *k = l->looking || now - l->looked_ms < LOOK_MS ? NULL : mem_zalloc(1, sizeof *k);
    if (!k)
        return;
    *k = (struct look){l->control, l->generation, &l->abandoned};
    l->looked_ms = now;
    l->looking = disk_thread_post(&l->disk, look, k) == ERR_OK;
    if (!l->looking)
        mem_free(k);
}

static void leave_seen(struct chief_link *l)
{
    if (l->welcomed || !l->unfit)
        log_info("the final checkpoint exists, so the job finished while the connection to the "
                 "chief was lost");
    leave_done(l, "the job is done");
}

static void on_reached(struct chief_link *l)
{
    if (!l->parked)
        return;
    log_info("every ps is reached again: reconnecting to the chief");
    l->parked = false;
    ask_ps(l);
}

static void chief_link_on_letter(void *role, struct mail *m)
{
    struct chief_link *l = role;
    if (m->type == CONTROL_GENERATION)
        on_later(l, m->number);
    else if (m->type == LINK_LOOKED) {
        l->looking = false;
        l->looked = true;
        l->seen = l->seen || (m->number && !l->up);
    } else if (m->type == CONTROL_REACHED)
        on_reached(l);
    /* A hello over a new connection requests a new incarnation from the chief. */
    else if (m->type == CONTROL_TURNED_AWAY && l->up && l->conn && !l->parked)
        conn_close(l->conn, ERR_CLOSED, "a shard turned this worker away: asking the chief again");
    if (m->type != CONTROL_SEND || !l->up || !l->conn)
        return;
    if (m->number == FRAME_HELLO) {
        l->said_hello = true;
        dial_hello(l->chief, l->conn, m->data);
        return;
    }
    if (l->answered)
        msg_send(l->conn, (enum frame_type)m->number, m->data, NULL, 0);
    else if (l->said_hello) /* otherwise it was meant for the earlier connection */
        keep_early(l, m);
}

/* The chief may have died after ps 0 had named its address. Then the next one has another address, and waits for us only for
 * timeouts.worker_rejoin_s. */
static bool doubts_address(const struct chief_link *l, int64_t now)
{
    if (!l->to_chief || l->conn)
        return false;
    bool failed = l->chief && dial_why(l->chief)[0];
    return (failed && !l->trusted) || now - l->dialed_ms > ASK_AGAIN_MS;
}

/* ps 0 answers a worker only when it knows the chief. */
static const char *who_is_away(const struct chief_link *l)
{
    if (l->parked)
        return "a connection to every ps";
    if (l->refusal[0])
        return l->by_ps ? "ps 0" : "the chief";
    return l->to_chief || l->conn ? "the chief" : "ps 0";
}

/* The reason: a refusal, the failure of the connection, or that the connected ps 0 does not name the chief. */
static const char *why_away(const struct chief_link *l)
{
    if (l->refusal[0])
        return l->refusal;
    if (l->conn)
        return l->to_chief ? "" : "ps 0 is connected, but has not named the chief";
    if (l->to_chief)
        return l->chief ? dial_why(l->chief) : "";
    return dial_why(l->ps);
}

static void say_waiting(const struct chief_link *l, int64_t away_s)
{
    const char *why = why_away(l);
    log_warn("waiting %" PRId64 " s for %s, at most %u s (%s)%s%s", away_s, who_is_away(l),
             bound_s(l), bound_key(l), why[0] ? ": " : "", why);
}

static void give_up(struct chief_link *l, int64_t away_s)
{
    const char *why = why_away(l);
    l->control->nobody_came = !l->welcomed;
    control_stop_train(
        l->control, l->other_data_ms ? 2 : 1, "%s was not available for %" PRId64 " s (%s)%s%s%s",
        who_is_away(l), away_s, bound_key(l), why[0] ? ": " : "", why,
        l->welcomed ? "; the job may be done: see summary.json in the chief's output directory"
                    : "");
}

/* The peer with which this process can never connect, because one side does not accept the other; NULL: there is
 * none. */
static const struct dialer *hopeless(const struct chief_link *l)
{
    if (!l->control->config.handed || l->welcomed || l->conn)
        return NULL;
    if (l->chief && dial_hopeless(l->chief))
        return l->chief;
    return !l->to_chief && dial_hopeless(l->ps) ? l->ps : NULL;
}

/* For the chief's page. */
static void tell_vitals(struct chief_link *l, int64_t now)
{
    struct vitals_note note;
    if (!l->vitals || !l->conn || now - l->vitals_ms < VITALS_EVERY_MS)
        return;
    l->vitals_ms = now;
    vitals_note_make(&note, l->control->config.http_fd);
    meter_vitals(l->control->config.meter, &note.message);
    msg_send(l->conn, FRAME_VITALS, &note.message.base, NULL, 0);
}

static void chief_link_on_tick(void *role, int64_t now)
{
    struct chief_link *l = role;
    if (l->up) {
        tell_vitals(l, now);
        check_later(l, now);
        return;
    }
    const struct dialer *in_vain = hopeless(l);
    uint32_t bound = bound_s(l);
    int64_t away_s = away_ms(l, now) / 1000;
    /* A chief that continues the job may be about to welcome us. */
    if (l->welcomed || l->unfit || now - l->lost_ms >= ENDING_ALONE_MS || away_s >= bound)
        start_look(l, now);
    if (l->over_ms && (l->control->config.waits || l->control->going ||
                       now - l->over_ms > ENDING_ALONE_MS || away_s >= bound)) {
        leave_done(l, NOBODY_TRAINS_ON);
    } else if (l->seen && now - l->lost_ms >= CONFIRM_MS) {
        leave_seen(l);
    } else if (l->control->going && now - l->lost_ms > GOING_ALONE_MS &&
               now - l->control->going_ms > GOING_ALONE_MS) {
        control_stop_train(l->control, 143, "asked to stop, but no chief is connected");
    } else if (in_vain) {
        control_stop_train(l->control, 2, "%s and this process do not accept each other: %s",
                           in_vain == l->chief ? "the chief" : "ps 0",
                           l->refusal[0] ? l->refusal : dial_why(in_vain));
    } else if (l->parked) {
        return; /* the training thread ends it, by timeouts.ps_rejoin_s */
    } else if (away_s >= bound && (l->looked || away_s >= bound + LOOK_BOUND_S)) {
        give_up(l, away_s);
    } else if (doubts_address(l, now)) {
        ask_ps(l);
    } else if (now - l->said_ms >= SAY_WAIT_MS) {
        l->said_ms = now;
        say_waiting(l, away_s);
    }
}

/* ---- for HTTP ---- */

static const char *chief_link_waits_for(void *role)
{
    struct chief_link *l = role;
    if (l->welcomed && l->up)
        return NULL;
    const char *why = why_away(l);
    (void)snprintf(l->waits_for, sizeof l->waits_for,
                   "waiting %" PRId64 " s for %s, at most %u s (%s)%s%s",
                   away_ms(l, clock_now_ms()) / 1000, who_is_away(l), bound_s(l), bound_key(l),
                   why[0] ? ": " : "", why);
    return l->waits_for;
}

static void chief_link_metrics(void *role, struct metrics *m)
{
    const struct chief_link *l = role;
    metrics_gauge(m, "gradwire_chief_connected", "Whether the chief is connected.", l->up);
}

static enum err chief_link_status(void *role, json_t *to)
{
    const struct chief_link *l = role;
    json_t *chief = json_pack("{s:b, s:o}", "connected", l->up, "address", json_text(l->address));
    return json_object_set_new(to, "chief", chief) == 0 ? ERR_OK : ERR_NOMEM;
}

static void chief_link_on_go(void *role, int64_t now)
{
    (void)now;
    struct chief_link *l = role;
    /* otherwise the training thread, which does not know of it, would end with 143 */
    if (l->over_ms && !l->up)
        leave_done(l, NOBODY_TRAINS_ON);
    else
        control_to_train(l->control, TRAIN_GO, 0);
}

static void chief_link_stop(void *role)
{
    struct chief_link *l = role;
    l->hangs = !disk_thread_close_within(&l->disk, LOOK_STOP_MS);
    atomic_store(&l->abandoned, l->hangs);
    dial_free(l->ps);
    dial_free(l->chief);
    l->ps = l->chief = NULL;
    if (l->conn)
        conn_finish(l->conn, ERR_CLOSED, "the worker ends");
    for (int i = 0; i < 20 && l->conn && !conn_idle(l->conn); i++)
        if (loop_tick(&l->control->loop, NULL))
            break;
    if (l->conn)
        conn_close(l->conn, ERR_CLOSED, "the worker ends");
}

const struct control_ops chief_link_ops = {
    .start = chief_link_start,
    .on_letter = chief_link_on_letter,
    .on_tick = chief_link_on_tick,
    .on_go = chief_link_on_go,
    .stop = chief_link_stop,
    .waits_for = chief_link_waits_for,
    .metrics = chief_link_metrics,
    .status = chief_link_status,
};
