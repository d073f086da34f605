/* A ps process of the simulated cluster: what ps/server.c does around the shards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "ps/core/shard_state.h"
#include "tests/lib/quiet.h"
#include "tests/lib/sim.h"

#define OF(conn_peer) ((struct sim_conn *)((char *)(conn_peer)-offsetof(struct sim_conn, peer)))

static void io_send(void *ctx, struct shard_peer *to, enum frame_type type,
                    const ProtobufCMessage *m, const void *body, uint64_t bytes)
{
    struct sim_thread *t = ctx;
    const Gradwire__Reply *head = (const Gradwire__Reply *)m;
    if (type == FRAME_REFUSE) {
        t->refused = true;
        if (!t->replays)
            sim_send(t->sim, OF(to), DIALER, type, m);
        return;
    }
    sim_check_read(t, to, head);
    sim_rows_seen.duplicates += head->parts && head->outcome == GRADWIRE__OUTCOME__DUPLICATE;
    if (head->codec != GRADWIRE__CODEC__RAW) {
        sim_send_bytes(t->sim, OF(to), DIALER, type, m, body, bytes, &t->unsent);
        return;
    }
    if (bytes)
        sim_stale_sent(t, to, head);
    sim_send_body(t->sim, OF(to), DIALER, type, m, body, bytes / sizeof(float), &t->unsent);
}

static void io_send_rows(void *ctx, struct shard_peer *to, const Gradwire__Rows *m,
                         struct buffer *body, uint64_t bytes)
{
    struct sim_thread *t = ctx;
    bool sync = t->sim->config.settings.update == GRADWIRE__UPDATE__SYNC;
    sim_check_rows_read(t, to, m);
    sim_async_rows_sent(t, to);
    sim_rows_seen.gone += m->gone ? 1 : 0;
    sim_rows_seen.before += sync && !m->gone && m->step < t->core->step;
    sim_rows_seen.making += sync && m->step == t->core->step && t->core->sync.parts_made;
    sim_send_bytes(t->sim, OF(to), DIALER, FRAME_ROWS, &m->base, body ? body->data : NULL, bytes,
                   NULL);
}

static void io_before_write(void *ctx, const float *lo, uint64_t elems)
{
    struct sim_thread *t = ctx;
    sim_unsent_forget(&t->unsent, lo, elems);
}

/* ---- letters between the main thread and the shard threads: in order, each way, each thread ---- */

struct sim_report {
    bool entered;
    struct generation generation;
    uint64_t next_cut, max_incarnation;
    ProtobufCMessage *status; /* NULL: it owns nothing */
};

enum letter_kind { TO_TELL, TO_TAKE, TO_FENCE, TO_STATUS, FROM_TELLS, FROM_FENCED, FROM_REPORT };

struct letter {
    struct sim_thread *thread;
    enum letter_kind kind;
    enum frame_type type;
    ProtobufCMessage *m;
    struct sim_conn *conn;
    struct sim_report *report;
};

static void report_free(struct sim_report *r)
{
    if (r)
        msg_free(r->status);
    free(r);
}

static void letter_free(void *p)
{
    struct letter *l = p;
    msg_free(l->m);
    report_free(l->report);
    free(l);
}

static void on_letter(struct sim *sim, struct sim_event *e);

static struct letter *post(struct sim_thread *t, enum letter_kind kind, enum frame_type type,
                           const ProtobufCMessage *m)
{
    struct sim *sim = t->sim;
    int64_t *last = kind >= FROM_TELLS ? &t->out_us : &t->in_us;
    int64_t at = sim->now_us + (int64_t)sim_below(sim, sim_chance(sim, 30) ? 3000 : 30);
    if (at < *last)
        at = *last;
    *last = at;
    struct letter *l = calloc(1, sizeof *l);
    l->thread = t;
    l->kind = kind;
    l->type = type;
    l->m = m ? msg_copy(m) : NULL;
    struct sim_event *e = sim_after(sim, at - sim->now_us, &t->ps->proc, on_letter);
    e->p = l;
    e->drop = letter_free;
    return l;
}

static void io_tell(void *ctx, enum frame_type type, const ProtobufCMessage *m)
{
    (void)post(ctx, FROM_TELLS, type, m);
}

static void io_save(void *ctx, struct shard_image *take_image)
{
    sim_stale_saved(ctx, take_image);
    sim_disk_save(ctx, take_image);
}

static bool io_save_room(void *ctx)
{
    return sim_disk_save_room(ctx);
}

static enum err io_save_rows(void *ctx, const struct row_group *g)
{
    sim_disk_save_rows(ctx, g);
    return ERR_OK;
}

static void io_save_end(void *ctx)
{
    sim_disk_save_end(ctx);
}

bool sim_thread_reads(const struct sim_conn *c)
{
    return c->kind != CONN_LINK || !c->said_hello || shard_reads(c->thread->core);
}

void sim_thread_go_on(struct sim_thread *t)
{
    for (struct sim_conn *c = t->sim->conns; c; c = c->next)
        if (c->kind == CONN_LINK && c->said_hello && c->thread == t)
            sim_resume_reading(t->sim, c, ACCEPTOR);
}

static enum err io_load(void *ctx, uint64_t cut, struct manifest *m,
                        struct checkpoint_shard *blocks, struct errmsg *e)
{
    struct sim_thread *t = ctx;
    t->sim->restored = true;
    enum err err = sim_disk_load(t->sim, cut, m, blocks, e);
    if (!err)
        sim_stale_loaded(t, m);
    return err;
}

static void leave(struct sim *sim, struct sim_conn *c)
{
    if (c->said_hello && c->thread->core)
        shard_peer_gone(c->thread->core, &c->peer);
    c->said_hello = false;
    sim_close(sim, c, ACCEPTOR);
}

static void close_peers(struct sim_thread *t, bool fenced_only)
{
    for (struct sim_conn *c = t->sim->conns; c; c = c->next)
        if (c->kind == CONN_LINK && c->said_hello && c->thread == t &&
            (!fenced_only || shard_peer_fenced(t->core, &c->peer)))
            leave(t->sim, c);
}

static void io_drop_peers(void *ctx, enum err why)
{
    (void)why;
    struct sim_thread *t = ctx;
    sim_unsent_forget(&t->unsent, NULL, 0);
    close_peers(t, false);
}

static const struct shard_io io = {.send = io_send,
                                   .send_rows = io_send_rows,
                                   .before_write = io_before_write,
                                   .tell = io_tell,
                                   .save = io_save,
                                   .save_room = io_save_room,
                                   .save_rows = io_save_rows,
                                   .save_end = io_save_end,
                                   .load = io_load,
                                   .drop_peers = io_drop_peers,
                                   .now_s = quiet_now_s,
                                   .progress = quiet_no_progress};

/* ---- life ---- */

void sim_ps_start(struct sim *sim, struct sim_ps *ps)
{
    ps->threads = sim->config.threads[ps->proc.index];
    for (uint32_t i = 0; i < ps->threads; i++) {
        struct sim_thread *t = &ps->thread[i];
        *t = (struct sim_thread){.sim = sim, .ps = ps, .index = i};
        if (shard_new(&t->core, ps->proc.index, i, &io, t))
            abort();
        t->core->rows.memory_unit = 1;
        if (sim->config.kept_bytes)
            t->core->rows.beside = (struct shard_beside){.least_bytes = sim->config.kept_bytes};
    }
    ps->control = NULL;
    ps->uuid[0] = ps->journal[0] = '\0';
    ps->journal_lines = ps->journal_crc = 0;
    ps->going = ps->asked_status = false;
    memset(ps->fence_waits, 0, sizeof ps->fence_waits);
    ps->proc.up = true;
}

static void forget_reports(struct sim_ps *ps)
{
    for (uint32_t i = 0; i < SIM_THREADS_MAX; i++) {
        report_free(ps->report[i]);
        ps->report[i] = NULL;
    }
}

static void forget_leases(struct sim_ps *ps)
{
    while (ps->leases)
        msg_free(&ps->lease[--ps->leases]->base);
}

static void forget_push(struct sim_thread *t)
{
    msg_free(t->last_push);
    t->last_push = NULL;
}

void sim_ps_stop(struct sim *sim, struct sim_ps *ps)
{
    for (struct sim_conn *c = sim->conns; c; c = c->next)
        if (c->proc[ACCEPTOR] == &ps->proc && sim_open(c, ACCEPTOR)) {
            if (c->said_hello) /* its asks go with it */
                shard_peer_gone(c->thread->core, &c->peer);
            c->said_hello = false;
            sim_close(sim, c, ACCEPTOR);
        }
    for (uint32_t i = 0; i < ps->threads; i++) {
        struct sim_thread *t = &ps->thread[i];
        sim_unsent_forget(&t->unsent, NULL, 0);
        sim_rows_seen.kept += shard_facts(t->core).kept_rows;
        sim_rows_seen.held += shard_facts(t->core).holds;
        shard_free(t->core);
        buffer_pool_close(&t->pool);
        t->core = NULL;
        sim_stale_thread_close(t);
        forget_push(t);
    }
    forget_reports(ps);
    ps->threads = 0;
    forget_leases(ps);
    ps->proc.up = false;
}

static void on_grace_over(struct sim *sim, struct sim_event *e)
{
    sim_trace(sim, "ps %u: the grace is over", e->proc->index);
    sim_exit(sim, e->proc, 143);
}

void sim_ps_go(struct sim *sim, struct sim_ps *ps)
{
    ps->going = true;
    (void)sim_after(sim, 30000000, &ps->proc, on_grace_over);
    Gradwire__Going m = GRADWIRE__GOING__INIT;
    if (sim_open(ps->control, ACCEPTOR))
        sim_send(sim, ps->control, DIALER, FRAME_GOING, &m.base);
}

/* ---- hellos ---- */

static void control_hello(struct sim *sim, struct sim_ps *ps, struct sim_conn *c)
{
    if (sim_open(ps->control, ACCEPTOR))
        sim_close(sim, ps->control, ACCEPTOR); /* of a chief that is gone */
    ps->control = c;
    ps->asked_status = true;
    forget_reports(ps);
    for (uint32_t i = 0; i < ps->threads; i++)
        (void)post(&ps->thread[i], TO_STATUS, 0, NULL);
}

static struct sim_report *report_new(struct sim_thread *t)
{
    struct shard *s = t->core;
    struct sim_report *r = calloc(1, sizeof *r);
    r->entered = shard_facts(s).entered;
    r->generation = shard_facts(s).generation;
    r->next_cut = t->next_cut;
    r->max_incarnation = shard_facts(s).max_incarnation;
    r->status = r->entered && s->planned ? msg_copy(&shard_status(s)->base) : NULL;
    return r;
}

static void hello_reply(struct sim *sim, struct sim_ps *ps)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    struct generation largest = {0, 0};
    Gradwire__ShardStatus *status[SIM_THREADS_MAX];
    m.shards = status;
    m.entered = true;
    for (uint32_t i = 0; i < ps->threads; i++) {
        const struct sim_report *r = ps->report[i];
        if (r->generation.number >= largest.number)
            largest = r->generation;
        m.entered =
            m.entered && r->entered && generation_equal(r->generation, ps->report[0]->generation);
        if (r->max_incarnation > m.incarnation)
            m.incarnation = r->max_incarnation;
        if (r->next_cut > m.cut)
            m.cut = r->next_cut;
        if (r->status)
            status[m.n_shards++] = (Gradwire__ShardStatus *)r->status;
    }
    Gradwire__Generation g = msg_generation(largest);
    m.generation = &g;
    m.uuid = ps->uuid;
    m.journal = ps->journal;
    m.journal_lines = ps->journal_lines;
    m.journal_crc = ps->journal_crc;
    m.threads = ps->threads;
    m.going = ps->going;
    m.leases = ps->lease;
    m.n_leases = ps->leases;
    sim_send(sim, ps->control, DIALER, FRAME_HELLO_REPLY, &m.base);
}

static void on_report(struct sim *sim, struct sim_ps *ps, uint32_t thread,
                      struct sim_report *take_report)
{
    report_free(ps->report[thread]);
    ps->report[thread] = take_report;
    for (uint32_t i = 0; i < ps->threads; i++)
        if (!ps->report[i])
            return;
    if (sim_open(ps->control, ACCEPTOR) && ps->asked_status)
        hello_reply(sim, ps);
    ps->asked_status = false;
    forget_reports(ps);
}

static struct sim_thread *owner(struct sim_ps *ps, int64_t shard)
{
    for (uint32_t i = 0; i < ps->threads; i++) {
        if (ps->thread[i].core->planned && shard_status(ps->thread[i].core)->shard == shard)
            return &ps->thread[i];
    }
    return NULL;
}

static void link_refuse(struct sim *sim, struct sim_conn *c, const Gradwire__Refuse *m)
{
    sim_send(sim, c, DIALER, FRAME_REFUSE, &m->base);
    sim_close(sim, c, ACCEPTOR);
}

static void link_hello(struct sim *sim, struct sim_ps *ps, struct sim_conn *c,
                       const Gradwire__Hello *m)
{
    Gradwire__Refuse refuse = GRADWIRE__REFUSE__INIT;
    refuse.reason = GRADWIRE__REASON__NOT_READY;
    struct sim_thread *t = owner(ps, m->shard);
    if (t)
        post(t, TO_TAKE, FRAME_HELLO, &m->base)->conn = c;
    else
        link_refuse(sim, c, &refuse);
}

static void take(struct sim_thread *t, struct sim_conn *c, const Gradwire__Hello *m)
{
    struct sim *sim = t->sim;
    Gradwire__Refuse refuse;
    if (!sim_open(c, ACCEPTOR))
        return;
    if (shard_on_hello(t->core, &c->peer, m, &refuse) != ERR_OK) {
        link_refuse(sim, c, &refuse);
        return;
    }
    if (m->incarnation < t->incarnation[m->worker])
        sim_fail(sim, "shard %u lets in an older incarnation of worker %u", c->to, m->worker);
    t->incarnation[m->worker] = m->incarnation;
    c->thread = t;
    c->said_hello = true;
    close_peers(t, true);
    Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
    sim_send(sim, c, DIALER, FRAME_HELLO_REPLY, &reply.base);
}

/* ---- the chief's messages ---- */

/* Before a ps enters the generation of a chief that does not know the run's past, the line about that is on disk. */
static void note_journal(struct sim_ps *ps, const Gradwire__Enter *m)
{
    struct sim *sim = ps->thread[0].sim;
    if (m->mode == GRADWIRE__ENTER_MODE__TAKEOVER && strcmp(ps->journal, m->journal) != 0) {
        sim_seen.moved++;
        if (!journal_inexact(&sim->journal))
            sim_fail(sim, "ps %u is taken over without a line about the unknown past",
                     ps->proc.index);
    }
    (void)snprintf(ps->journal, sizeof ps->journal, "%s", m->journal);
    ps->journal_lines = m->journal_lines;
    ps->journal_crc = m->journal_crc;
}

static void check_generation(struct sim_thread *t)
{
    struct sim *sim = t->sim;
    struct generation now = shard_facts(t->core).generation;
    if (now.number < t->seen.number ||
        (now.number == t->seen.number && t->seen.number && now.tag != t->seen.tag))
        sim_fail(sim, "ps %u: generation %" PRIu64 " follows %" PRIu64, t->ps->proc.index,
                 now.number, t->seen.number);
    if (now.number != t->seen.number)
        t->read_clock = 0;
    t->seen = now;
    if (shard_facts(t->core).entered && now.number >= sim->entered) {
        sim->entered = now.number;
        sim->entered_tag = now.tag;
    }
}

/* A cut came between the sums of all rows and this decision, which waits. */
static void note_held(const struct sim_thread *t)
{
    const struct shard *s = t->core;
    const struct shard_round *r = &s->sync.round;
    sim_rows_seen.late += s->rows.on && s->mode == &shard_mode_sync && shard_cut_holds(s) &&
                          r->parts_summed == ROW_PARTS && r->last.there && r->last.step == s->step;
}

static void tell(struct sim_thread *t, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_ENTER) {
        struct generation before = shard_facts(t->core).generation;
        t->sim->took_over = ((const Gradwire__Enter *)m)->mode == GRADWIRE__ENTER_MODE__TAKEOVER;
        for (uint32_t i = 0; t->sim->config.tables && t->core->mode == &shard_mode_sync &&
                             t->sim->took_over && i < ROW_PARTS;
             i++)
            sim_rows_seen.taken_over += t->core->sync.gate.chunk[t->core->me.chunks + i].nodes > 0;
        for (uint32_t i = 0; i < SIM_WORKERS_MAX && t->sim->took_over; i++)
            sim_worker_lose_withheld(&t->sim->worker[i]);
        shard_on_chief(t->core, FRAME_ENTER, m);
        check_generation(t);
        sim_backup_entered(t, before, (const Gradwire__Enter *)m);
        sim_stale_entered(t, before, (const Gradwire__Enter *)m);
        if (!generation_equal(before, shard_facts(t->core).generation)) {
            sim_async_rows_entered(t, (const Gradwire__Enter *)m);
            sim_geo_entered(t, (const Gradwire__Enter *)m);
        }
    } else if (type == FRAME_GONE) {
        sim_shard_gone(t, (const Gradwire__Gone *)m);
    } else {
        const Gradwire__Cut *cut = type == FRAME_CUT ? (const Gradwire__Cut *)m : NULL;
        if (cut && cut->cut + 1 > t->next_cut)
            t->next_cut = cut->cut + 1;
        if (type == FRAME_CUT_AT && t->core->mode && !t->core->mode->steps)
            sim_seen.raised +=
                t->core->mode != &shard_mode_geo && ((const Gradwire__CutAt *)m)->t > t->core->t;
        if (type == FRAME_STEP_DECISION)
            sim_backup_deciding(t, (const Gradwire__StepDecision *)m);
        shard_on_chief(t->core, type, m);
        if (type == FRAME_STEP_DECISION) {
            note_held(t);
            sim_backup_decided(t, (const Gradwire__StepDecision *)m);
        }
    }
    sim_thread_go_on(t);
}

static void on_fenced(struct sim *sim, struct sim_ps *ps, const Gradwire__Fence *m)
{
    Gradwire__Fenced reply = GRADWIRE__FENCED__INIT;
    if (m->incarnation != ps->fence[m->worker] || --ps->fence_waits[m->worker] > 0)
        return;
    reply.generation = m->generation;
    reply.ps = ps->proc.index;
    reply.worker = m->worker;
    reply.incarnation = m->incarnation;
    if (sim_open(ps->control, ACCEPTOR))
        sim_send(sim, ps->control, DIALER, FRAME_FENCED, &reply.base);
}

static void on_letter(struct sim *sim, struct sim_event *e)
{
    struct letter *l = e->p;
    struct sim_thread *t = l->thread;
    const Gradwire__Fence *fence = (const Gradwire__Fence *)l->m;
    switch (l->kind) {
    case TO_TELL:
        tell(t, l->type, l->m);
        break;
    case TO_TAKE:
        take(t, l->conn, (const Gradwire__Hello *)l->m);
        break;
    case TO_FENCE:
        shard_fence(t->core, fence->worker, fence->incarnation);
        close_peers(t, true);
        (void)post(t, FROM_FENCED, 0, l->m);
        break;
    case TO_STATUS:
        post(t, FROM_REPORT, 0, NULL)->report = report_new(t);
        break;
    case FROM_TELLS:
        if (sim_open(t->ps->control, ACCEPTOR))
            sim_send(sim, t->ps->control, DIALER, l->type, l->m);
        break;
    case FROM_FENCED:
        on_fenced(sim, t->ps, fence);
        break;
    case FROM_REPORT:
        on_report(sim, t->ps, t->index, l->report);
        l->report = NULL;
        break;
    }
    letter_free(l);
}

static void on_lease_note(struct sim_ps *ps, const Gradwire__LeaseNote *m)
{
    for (size_t i = 0; i < ps->leases;) {
        if (ps->lease[i]->worker == m->worker) {
            msg_free(&ps->lease[i]->base);
            ps->lease[i] = ps->lease[--ps->leases];
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < m->n_ranges && ps->leases < 64; i++) {
        Gradwire__WorkerLease l = GRADWIRE__WORKER_LEASE__INIT;
        l.worker = m->worker;
        l.range = m->ranges[i];
        ps->lease[ps->leases++] = (Gradwire__WorkerLease *)msg_copy(&l.base);
    }
}

static void to_shards(struct sim_ps *ps, enum letter_kind kind, enum frame_type type,
                      const ProtobufCMessage *m)
{
    for (uint32_t i = 0; i < ps->threads; i++)
        (void)post(&ps->thread[i], kind, type, m);
}

/* A process that comes later hears how many epochs are learned. In geo all batches of an epoch may have been lost. */
static void check_over(struct sim *sim, const Gradwire__Done *m)
{
    const Gradwire__Settings *s = &sim->config.settings;
    uint64_t epochs = m->over ? m->over->epochs : 0, want = m->exit_code ? 0 : s->epochs;
    if (sim->shortened)
        return;
    if (s->update == GRADWIRE__UPDATE__GEO ? epochs > want : epochs != want)
        sim_fail(sim, "a ps is told that %" PRIu64 " epochs are learned", epochs);
}

static void control_message(struct sim *sim, struct sim_ps *ps, struct sim_conn *c, uint16_t type,
                            const ProtobufCMessage *m)
{
    if (type == FRAME_HELLO) {
        control_hello(sim, ps, c);
        return;
    }
    if (c != ps->control) {
        sim_fail(sim, "a message of a chief that is gone");
        return;
    }
    switch ((enum frame_type)type) {
    case FRAME_ENTER:
        if (((const Gradwire__Enter *)m)->mode != GRADWIRE__ENTER_MODE__TAKEOVER)
            forget_leases(ps);
        (void)snprintf(ps->uuid, sizeof ps->uuid, "%s", ((const Gradwire__Enter *)m)->uuid);
        note_journal(ps, (const Gradwire__Enter *)m);
        to_shards(ps, TO_TELL, type, m);
        break;
    case FRAME_JOURNALED:
        ps->journal_lines = ((const Gradwire__Journaled *)m)->journal_lines;
        ps->journal_crc = ((const Gradwire__Journaled *)m)->journal_crc;
        break;
    case FRAME_LEAVE:
        sim_exit(sim, &ps->proc, 143);
        break;
    case FRAME_FENCE:
        sim_worker_lose_withheld(&ps->proc.sim->worker[((const Gradwire__Fence *)m)->worker]);
        ps->fence[((const Gradwire__Fence *)m)->worker] = ((const Gradwire__Fence *)m)->incarnation;
        ps->fence_waits[((const Gradwire__Fence *)m)->worker] = ps->threads;
        to_shards(ps, TO_FENCE, type, m);
        break;
    case FRAME_LEASE_NOTE:
        on_lease_note(ps, (const Gradwire__LeaseNote *)m);
        break;
    case FRAME_DONE:
        check_over(sim, (const Gradwire__Done *)m);
        sim_exit(sim, &ps->proc, ((const Gradwire__Done *)m)->exit_code);
        break;
    default:
        if (frame_to(type) & FRAME_TO_SHARDS)
            to_shards(ps, TO_TELL, type, m);
        else
            sim_fail(sim, "a ps gets %s", frame_type_str(type));
    }
}

/* ---- workers' messages ---- */

/* The first push of a generation is kept, to be sent again in a later one; its body would not be read. */
static void keep_push(struct sim_thread *t, const Gradwire__Push *m, const struct buffer *body)
{
    if (!body || t->last_push || m->codec != GRADWIRE__CODEC__RAW)
        return;
    t->last_push = msg_copy(&m->base);
    t->last_generation = shard_facts(t->core).generation;
}

/* A push of a generation that is over, from a worker of the present one: it is refused, and changes nothing. */
static void replay_old(struct sim_thread *t, struct shard_peer *from)
{
    struct errmsg e = {""};
    struct shard *s = t->core;
    uint64_t first, n, step = s->step, updates = s->t, elems = 0;
    bool wanted = false;
    if (!t->last_push || generation_equal(t->last_generation, shard_facts(s).generation))
        return;
    const Gradwire__Push *m = (const Gradwire__Push *)t->last_push;
    const float *w = quiet_weights(s, &first, &n);
    float *before = malloc(n * sizeof *before);
    memcpy(before, w, n * sizeof *before);
    t->replays = true;
    t->refused = false;
    if (shard_push_fits(s, m, sizeof(float), &elems, &wanted, &e) || wanted ||
        shard_on_push(s, from, m, NULL, &e) || !t->refused || s->step != step || s->t != updates ||
        memcmp(before, quiet_weights(s, &first, &n), n * sizeof *before) != 0)
        sim_fail(t->sim, "a push of generation %" PRIu64 " counts in %" PRIu64,
                 t->last_generation.number, shard_facts(s).generation.number);
    t->replays = false;
    sim_seen.old++;
    free(before);
    forget_push(t);
}

static void on_push(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                    const Gradwire__Push *head)
{
    struct sim_thread *t = c->thread;
    struct errmsg e = {""};
    uint64_t elems = 0;
    bool wanted = false;
    struct buffer *body = NULL;
    if (c->peer.incarnation < t->incarnation[c->from])
        sim_fail(sim, "shard %u takes a push of an older incarnation of worker %u", c->to, c->from);
    enum err err = shard_push_fits(t->core, head, m->body_bytes, &elems, &wanted, &e);
    if (!err && wanted) {
        body = buffer_acquire(&t->pool, elems);
        if (head->codec == GRADWIRE__CODEC__RAW)
            memcpy(body->data, m->body, m->body_bytes);
        else
            err = shard_push_decode(t->core, head, m->body, m->body_bytes, body->data, &e);
    }
    if (!err) {
        replay_old(t, &c->peer);
        keep_push(t, head, body);
        sim_check_update(t, &c->peer, head->generation, head->name);
        sim_stale_pushing(t);
        err = shard_on_push(t->core, &c->peer, head, body, &e);
        sim_stale_pushed(t, &c->peer, head, body ? body->data : NULL);
        sim_geo_pushed(t, head);
    }
    buffer_unref(body);
    if (err)
        sim_fail(sim, "shard %u, a push of worker %u: %s: %s", c->to, c->from, err_str(err),
                 e.text);
}

static void on_rows(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                    const ProtobufCMessage *head)
{
    struct sim_thread *t = c->thread;
    struct errmsg e = {""};
    bool wanted = false;
    struct buffer *body = NULL;
    enum frame_type type = (enum frame_type)m->type;
    enum err err = shard_rows_fits(t->core, type, head, m->body_bytes, &wanted, &e);
    if (!err && wanted) {
        body = buffer_acquire(&t->pool, m->body_bytes / sizeof(float));
        memcpy(body->data, m->body, m->body_bytes);
    }
    const Gradwire__RowsPush *push = (const Gradwire__RowsPush *)head;
    if (!err && type == FRAME_ROWS_PUSH)
        sim_check_update(t, &c->peer, push->generation, push->name);
    if (!err && type == FRAME_ROWS_PUSH)
        sim_backup_rows_push(t, push);
    sim_async_rows_pushing(t);
    if (!err)
        err = shard_on_rows(t->core, &c->peer, type, head, body, m->body_bytes, &e);
    if (!err && type == FRAME_ROWS_PUSH)
        sim_async_rows_pushed(t, &c->peer, push, body, m->body_bytes);
    buffer_unref(body);
    if (err)
        sim_fail(sim, "shard %u, a %s of worker %u: %s: %s", c->to, frame_type_str(m->type),
                 c->from, err_str(err), e.text);
}

static void link_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                         const ProtobufCMessage *head)
{
    struct errmsg e = {""};
    if (!c->said_hello)
        sim_fail(sim, "a message before the hello");
    else if (m->type == FRAME_PUSH)
        on_push(sim, c, m, (const Gradwire__Push *)head);
    else if (m->type == FRAME_ROWS_ASK || m->type == FRAME_ROWS_PUSH)
        on_rows(sim, c, m, head);
    else {
        if (m->type == FRAME_TICK)
            sim_note_entry(c->thread, &c->peer, (const Gradwire__Tick *)head);
        if (shard_on_worker(c->thread->core, &c->peer, (enum frame_type)m->type, head, &e))
            sim_fail(sim, "shard %u, a %s of worker %u: %s", c->to, frame_type_str(m->type),
                     c->from, e.text);
    }
}

void sim_ps_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                    ProtobufCMessage *head)
{
    struct sim_ps *ps = &sim->ps[c->proc[ACCEPTOR]->index];
    if (c->kind == CONN_CONTROL)
        control_message(sim, ps, c, m->type, head);
    else if (m->type == FRAME_HELLO)
        link_hello(sim, ps, c, (const Gradwire__Hello *)head);
    else
        link_message(sim, c, m, head);
}

void sim_ps_lost(struct sim *sim, struct sim_conn *c)
{
    (void)sim;
    if (c->said_hello && c->thread->core)
        shard_peer_gone(c->thread->core, &c->peer);
    c->said_hello = false;
}
