/* The parts of worker 0 in addition to its session: the chief, its connections to the ps, and the workers' connections to it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/quiet.h"
#include "tests/lib/sim.h"

static struct sim *sim_of(const struct sim_worker *k)
{
    return k->proc.sim;
}

/* ---- chief_io ---- */

/* Processes that hear it leave with 0, and nobody is left to hear that a write has failed. */
static void check_done(struct sim_worker *k, enum frame_type type, const ProtobufCMessage *m)
{
    if (type == FRAME_DONE && ((const Gradwire__Done *)m)->exit_code == 0 && !k->model_written)
        sim_fail(sim_of(k), "DONE is sent before model/ is written");
}

static void io_to_ps(void *ctx, uint32_t ps, enum frame_type type, const ProtobufCMessage *m)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "chief -> ps %u: %s", ps, frame_type_str((uint16_t)type));
    check_done(k, type, m);
    if (type == FRAME_FENCE)
        sim_of(k)->fenced = true;
    if (sim_open(k->control[ps], DIALER))
        sim_send(sim_of(k), k->control[ps], ACCEPTOR, type, m);
}

static void io_to_worker(void *ctx, uint32_t worker, enum frame_type type,
                         const ProtobufCMessage *m)
{
    struct sim_worker *k = ctx;
    struct sim_conn *c = worker < SIM_WORKERS_MAX ? k->members[worker] : NULL;
    sim_trace(sim_of(k), "chief -> worker %u: %s", worker, frame_type_str((uint16_t)type));
    check_done(k, type, m);
    if (sim_open(c, ACCEPTOR))
        sim_send(sim_of(k), c, DIALER, type, m);
}

static enum err io_find_cut(void *ctx, uint64_t below, struct manifest *m, struct errmsg *e)
{
    (void)e;
    return sim_disk_find(sim_of(ctx), below, m);
}

static void io_publish(void *ctx, const struct manifest *m)
{
    sim_disk_publish(sim_of(ctx), m);
}

static void io_discard(void *ctx, uint64_t cut)
{
    sim_disk_discard(sim_of(ctx), cut);
}

static void on_finish(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    (void)e;
    k->finishing = true;
    if (!k->terms->sync)
        session_pull_final(k->session);
    sim_worker_pump(sim, k);
}

/* Between the chief's thread and the session's: letters, in the order in which they were posted. */
static struct sim_event *letter(struct sim_worker *k, int to,
                                void (*run)(struct sim *, struct sim_event *))
{
    struct sim *sim = sim_of(k);
    int64_t at = sim->now_us + (int64_t)sim_below(sim, sim_chance(sim, 20) ? 5000 : 30);
    if (at < k->member->last_us[to])
        at = k->member->last_us[to];
    k->member->last_us[to] = at;
    return sim_after(sim, at - sim->now_us, &k->proc, run);
}

static void io_finish(void *ctx)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "chief: all is learned");
    (void)letter(k, DIALER, on_finish);
}

static void on_model_written(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    (void)e;
    k->model_written = true;
    chief_on_written(k->chief, NULL, sim_ms(sim));
    sim_worker_pump(sim, k);
}

/* The session's thread writes it, for a while. */
static void on_model_wanted(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    (void)e;
    sim_after(sim, 300 + (int64_t)sim_below(sim, sim_chance(sim, 10) ? 3000000 : 5000), &k->proc,
              on_model_written);
}

static void io_final(void *ctx)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "chief: the final cut is published");
    (void)letter(k, DIALER, on_model_wanted);
}

static void io_epoch(void *ctx, uint64_t epoch)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "chief: epoch %" PRIu64 " is over", epoch);
    if (epoch <= k->epochs_told)
        sim_fail(sim_of(k), "it was told twice that epoch %" PRIu64 " is over", epoch);
    k->epochs_told = epoch;
}

static void on_ended(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    sim->facts = chief_facts(k->chief);
    sim_exit(sim, &k->proc, (int)e->a);
}

static void io_ended(void *ctx, int exit_code, const char *text)
{
    struct sim_worker *k = ctx;
    sim_trace(sim_of(k), "chief: ended, %d: %s", exit_code, text);
    if (exit_code != 0 && exit_code != 143 && !sim_flaw_ends(sim_of(k), text))
        sim_fail(sim_of(k), "the job has failed: %s", text);
    sim_after(sim_of(k), 1, &k->proc, on_ended)->a = (uint64_t)exit_code;
}

static void io_say(void *ctx, int is_warning, const char *text)
{
    if (strstr(text, ": fenced")) /* as far as its work goes */
        sim_of(ctx)->died = true;
    sim_trace(sim_of(ctx), "chief: %s%s", is_warning ? "! " : "", text);
}

static uint64_t io_random(void *ctx)
{
    return sim_below(sim_of(ctx), UINT64_MAX);
}

/* On disk when the write has ended: what a chief that dies was writing is lost. */
static void on_written(struct sim *sim, struct sim_event *e)
{
    if (journal_add(&sim->journal, e->p))
        abort();
    free(e->p);
    chief_on_journaled(sim->worker[0].chief, NULL, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
}

static void io_journal(void *ctx, const struct journal_entry *entry)
{
    struct sim_worker *k = ctx;
    struct sim *sim = sim_of(k);
    int64_t at = sim->now_us + 300 + (int64_t)sim_below(sim, 5000);
    if (at < k->journal_us)
        at = k->journal_us; /* in order */
    k->journal_us = at;
    if (entry->kind == JOURNAL_INEXACT && !sim->moves)
        sim_fail(sim, "the chief did not move: %s", entry->what);
    struct sim_event *e = sim_after(sim, at - sim->now_us, &k->proc, on_written);
    e->p = malloc(sizeof *entry);
    memcpy(e->p, entry, sizeof *entry);
    e->drop = free;
}

/* True for the ask that the session still waits for. */
static bool is_open(const struct sim_worker *k, uint64_t ask)
{
    return k->keep_open && ask == k->keep_asks &&
           generation_equal(k->kept_generation, k->terms->generation);
}

/* The epoch's weights are on disk as the best. */
static void keep_best(struct sim *sim, uint64_t epoch, uint64_t step)
{
    if (epoch != sim->best_epoch + 1 && !sim->best_excused)
        sim_fail(sim, "epoch %" PRIu64 " is kept behind epoch %" PRIu64 ": one is lost", epoch,
                 sim->best_epoch);
    sim->best_epoch = epoch;
    sim->best_step = step;
}

static void on_copied(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    if (is_open(k, e->a))
        k->keeping = false;
    sim_worker_pump(sim, k);
}

static void on_settled(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    if (is_open(k, e->a)) {
        sim->best_excused |= !e->b;
        if (e->b)
            keep_best(sim, k->kept_epoch, k->kept_step);
        k->keeping = k->keep_open = false;
    }
    sim_worker_pump(sim, k);
}

/* Where worker 0 has leaves, nobody has made a step since it asked. */
static void io_kept(void *ctx, uint64_t ask, enum chief_kept what, uint64_t cut, uint64_t step)
{
    static const char *const words[] = {"copied", "published", "failed"};
    struct sim_worker *k = ctx;
    struct sim *sim = sim_of(k);
    sim_trace(sim, "chief: cut %" PRIu64 ", step %" PRIu64 ", of ask %" PRIu64 " is %s", cut, step,
              ask, words[what]);
    bool present = ask == k->keep_asks && k->keeping &&
                   generation_equal(k->kept_generation, k->terms->generation);
    if (what == KEPT_COPIED && present &&
        (step < k->kept_step ||
         (sim->config.workers <= sim->config.settings.microbatches && step != k->kept_step)))
        sim_fail(sim, "a cut of step %" PRIu64 " was asked for, and it is of step %" PRIu64,
                 k->kept_step, step);
    sim_seen.kept += what == KEPT_PUBLISHED;
    struct sim_event *e = letter(k, DIALER, what == KEPT_COPIED ? on_copied : on_settled);
    e->a = ask;
    e->b = what == KEPT_PUBLISHED;
}

/* The epochs after it are trained, and noted, again. */
static void io_restored(void *ctx, const struct manifest *m)
{
    struct sim_worker *k = ctx;
    struct sim *sim = sim_of(k);
    uint64_t step = m ? m->step : 0;
    if (sim->noted_step > step)
        sim->noted_step = 0;
    if (step > k->unkept_step)
        k->unkept_step = 0;
}

static const struct chief_io io = {.epoch = io_epoch,
                                   .to_ps = io_to_ps,
                                   .to_worker = io_to_worker,
                                   .find_cut = io_find_cut,
                                   .publish = io_publish,
                                   .discard = io_discard,
                                   .finish = io_finish,
                                   .final = io_final,
                                   .ended = io_ended,
                                   .say = io_say,
                                   .restored = io_restored,
                                   .random = io_random,
                                   .journal = io_journal,
                                   .kept = io_kept};

/* ---- connections to ps ---- */

static void on_redial(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    if (e->b == k->control_token[e->a])
        sim_dial(sim, CONN_CONTROL, 0, (uint32_t)e->a, &k->proc, &sim->ps[e->a].proc, e->b);
}

static void dial(struct sim_worker *k, uint32_t ps, int64_t us)
{
    k->control[ps] = NULL;
    struct sim_event *e = sim_after(sim_of(k), us, &k->proc, on_redial);
    e->a = ps;
    e->b = ++k->control_token[ps];
}

void sim_chief_dialed(struct sim *sim, struct sim_worker *k, uint32_t ps, uint64_t token,
                      struct sim_conn *c)
{
    if (token != k->control_token[ps]) {
        sim_close(sim, c, DIALER);
        return;
    }
    if (!c) {
        dial(k, ps, 20000 + (int64_t)sim_below(sim, 200000));
        return;
    }
    k->control[ps] = c;
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    m.role = GRADWIRE__ROLE__CHIEF;
    m.shard = -1;
    m.ps_index = ps;
    sim_send(sim, c, ACCEPTOR, FRAME_HELLO, &m.base);
}

/* ---- messages ---- */

static void on_control(struct sim *sim, struct sim_worker *k, struct sim_conn *c,
                       const struct sim_message *m, ProtobufCMessage *head)
{
    if (k->control[c->to] != c)
        return;
    if (m->type == FRAME_HELLO_REPLY) {
        c->answered = true;
        chief_on_ps_up(k->chief, c->to, (const Gradwire__HelloReply *)head, sim_ms(sim));
    } else {
        chief_on_ps(k->chief, c->to, (enum frame_type)m->type, head, sim_ms(sim));
    }
}

/* A hello of a process that was killed may come behind that of the next one. */
static void replaced(struct sim *sim, struct sim_conn *c)
{
    enum { FIRST_LIFE = 2 };
    struct sim_proc *p = c->proc[DIALER];
    if (p->life == FIRST_LIFE)
        sim_fail(sim, "worker %u is to be replaced, and is the only one there was", p->index);
    else if (c->life[DIALER] == p->life)
        sim_exit(sim, p, 138);
}

static void on_member(struct sim *sim, struct sim_worker *k, struct sim_conn *c,
                      const struct sim_message *m, ProtobufCMessage *head)
{
    struct errmsg e = {""};
    uint32_t worker = c->from;
    if (m->type == FRAME_HELLO) {
        if (chief_is_replaced(k->chief, worker, (const Gradwire__Hello *)head)) {
            replaced(sim, c);
            return;
        }
        if (k->members[worker] != c && sim_open(k->members[worker], ACCEPTOR)) {
            sim_close(sim, k->members[worker], ACCEPTOR);
            chief_on_worker_down(k->chief, worker, sim_ms(sim));
        }
        k->members[worker] = c;
        if (chief_on_worker_up(k->chief, worker, (const Gradwire__Hello *)head, sim_ms(sim), &e))
            sim_fail(sim, "worker %u is refused: %s", worker, e.text);
    } else if (k->members[worker] == c) {
        chief_on_worker(k->chief, worker, (enum frame_type)m->type, head, sim_ms(sim));
    }
}

void sim_chief_message(struct sim *sim, struct sim_conn *c, const struct sim_message *m,
                       ProtobufCMessage *head)
{
    struct sim_worker *k = &sim->worker[0];
    if (c->kind == CONN_CONTROL)
        on_control(sim, k, c, m, head);
    else
        on_member(sim, k, c, m, head);
    sim_worker_pump(sim, k);
}

void sim_chief_lost(struct sim *sim, struct sim_conn *c)
{
    struct sim_worker *k = &sim->worker[0];
    if (c->kind == CONN_CONTROL && k->control[c->to] == c) {
        if (c->answered)
            chief_on_ps_down(k->chief, c->to, sim_ms(sim));
        dial(k, c->to, 20000 + (int64_t)sim_below(sim, 200000));
    } else if (c->kind == CONN_MEMBER && k->members[c->from] == c) {
        k->members[c->from] = NULL;
        chief_on_worker_down(k->chief, c->from, sim_ms(sim));
    }
    sim_worker_pump(sim, k);
}

/* ---- the end ---- */

static void on_evaluated(struct sim *sim, struct sim_event *e)
{
    const struct sim_worker *k = &sim->worker[0];
    uint64_t epochs = session_place(k->session).epochs;
    (void)e;
    sim_trace(sim, "chief: evaluated");
    if (sim->config.keeps && k->terms->sync && !k->terms->feedback && !sim->best_excused &&
        sim->best_epoch != epochs)
        sim_fail(sim, "the job ends with epoch %" PRIu64 ", and epoch %" PRIu64 " is the best",
                 epochs, sim->best_epoch);
    chief_on_evaluated(sim->worker[0].chief, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
}

static void on_step(struct sim *sim, struct sim_event *e)
{
    if (e->b)
        chief_enough(sim->worker[0].chief, e->a, e->b, sim_ms(sim));
    chief_on_step(sim->worker[0].chief, e->a, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
}

static void on_keep(struct sim *sim, struct sim_event *e)
{
    chief_keep(sim->worker[0].chief, e->a, e->b, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
}

static void on_back(struct sim *sim, struct sim_event *e)
{
    chief_go_back(sim->worker[0].chief, e->a, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
}

/* As epoch_end.c. */
static bool goes_back(struct sim_worker *k)
{
    struct generation g = k->terms->generation;
    k->goes_back = k->goes_back && generation_equal(g, k->back_generation);
    if (k->goes_back || !k->unkept_step)
        return k->goes_back;
    k->goes_back = session_step(k->session) > k->unkept_step;
    k->back_generation = g;
    if (!k->goes_back) {
        k->unkept_step = 0;
        return false;
    }
    sim_seen.gone_back++;
    letter(k, ACCEPTOR, on_back)->a = k->unkept_step;
    return true;
}

static void on_noted(struct sim *sim, struct sim_event *e)
{
    sim->noted_step = e->a;
    sim->worker[0].noting = false;
    sim_worker_pump(sim, &sim->worker[0]);
}

/* The epoch is evaluated, and the best. */
static void end_epoch(struct sim *sim, struct sim_worker *k)
{
    uint64_t step = session_step(k->session);
    k->kept_step = step;
    k->kept_epoch = session_place(k->session).epochs;
    k->kept_generation = k->terms->generation;
    k->noting = true;
    sim_after(sim, 1 + (int64_t)sim_below(sim, 3000), &k->proc, on_noted)->a = step;
    if (step <= sim->best_step)
        return;
    k->keeping = k->keep_open = true;
    struct sim_event *e = letter(k, ACCEPTOR, on_keep);
    e->a = ++k->keep_asks;
    e->b = step;
}

/* Sync. True: the next step must not begin. */
static bool keeps(struct sim *sim, struct sim_worker *k)
{
    const struct session *s = k->session;
    uint64_t step = session_step(s);
    if (!sim->config.keeps || k->terms->feedback || session_phase(s) != SESSION_READY)
        return false;
    if (goes_back(k))
        return true;
    bool same = generation_equal(k->terms->generation, k->kept_generation);
    k->keeping = k->keeping && same;
    k->keep_open = k->keep_open && same;
    if (step && session_place(s).steps == 0 && (step != k->kept_step || !same)) {
        if (k->keep_open)
            return true;
        end_epoch(sim, k);
    }
    return k->noting || k->keeping;
}

/* As process_chief.c: the best epoch of a chief that was killed may be in a published cut. */
static void look_for_best(struct sim *sim, struct sim_worker *k)
{
    k->noting = k->keeping = k->keep_open = k->goes_back = false;
    k->kept_generation = (struct generation){0, 0};
    k->unkept_step = 0;
    if (sim->noted_step <= sim->best_step)
        return;
    for (const struct sim_manifest *m = sim->manifests; m; m = m->next) {
        if (m->m.step == sim->noted_step) {
            sim_seen.adopted++;
            keep_best(sim, sim->best_epoch + 1, m->m.step);
            return;
        }
    }
    k->unkept_step = sim->noted_step;
}

static void tell_step(struct sim_worker *k)
{
    const struct session_terms *terms = k->terms;
    uint64_t step = session_step(k->session);
    if (!terms->sync || session_phase(k->session) < SESSION_READY ||
        (step == k->told_step && generation_equal(terms->generation, k->told_generation)))
        return;
    k->told_step = step;
    k->told_generation = terms->generation;
    struct sim_event *e = letter(k, ACCEPTOR, on_step);
    e->a = step;
    e->b = terms->settings.redo && session_is_at_end(k->session) ? terms->generation.number : 0;
}

static bool averages_are_here(struct sim_worker *k)
{
    if (session_take_averages(k->session))
        return true;
    session_pull_averages(k->session);
    return false;
}

/* Sync: before an epoch's first step, as the evaluation of what the last one made. */
static void look_at_averages(struct sim *sim, struct sim_worker *k)
{
    const struct session *s = k->session;
    struct generation g = k->terms->generation;
    uint64_t step = session_step(s);
    if (!sim->config.settings.use_ema || !k->terms->sync || session_phase(s) != SESSION_READY ||
        session_place(s).steps || session_is_at_end(s) ||
        (k->averaged_step == step && generation_equal(k->averaged_generation, g)) ||
        !averages_are_here(k))
        return;
    k->averaged_step = step;
    k->averaged_generation = g;
    sim_check_averages(sim, g, step, k->averages);
}

static void look_at_epoch(struct sim *sim, const struct sim_worker *k)
{
    const struct session *s = k->session;
    if (!k->terms->sync || session_phase(s) != SESSION_READY)
        return;
    uint64_t epochs = session_place(s).epochs;
    if (epochs > 0)
        sim_check_epoch(sim, k->terms->generation, session_step(s), epochs - 1, s);
}

bool sim_chief_between(struct sim *sim, struct sim_worker *k)
{
    look_at_epoch(sim, k);
    look_at_averages(sim, k);
    return !keeps(sim, k);
}

/* The event that ends an epoch reports it, and no later one; a rollback may go back before some that were reported. */
static void check_epochs(struct sim *sim, struct sim_worker *k)
{
    const Gradwire__Settings *s = &sim->config.settings;
    const struct chief_facts f = chief_facts(k->chief);
    uint64_t over = f.steps / s->batches_per_epoch;
    if (s->update == GRADWIRE__UPDATE__SYNC || !f.running || over >= s->epochs)
        return;
    if (over > k->epochs_told && k->unreached.park != UNPARKED)
        return; /* told when it is welcomed */
    if (over > k->epochs_told)
        sim_fail(sim, "epoch %" PRIu64 " is over with batch %" PRIu64 ", and it was not told", over,
                 f.steps);
    k->epochs_told = over;
}

void sim_chief_pump(struct sim *sim, struct sim_worker *k)
{
    tell_step(k);
    check_epochs(sim, k);
    const struct session *s = k->session;
    bool averaged = sim->config.settings.use_ema;
    if (!k->finishing || k->keep_open ||
        !(k->terms->sync ? session_phase(s) == SESSION_READY && session_is_at_end(s)
                         : session_is_final(s)) ||
        (averaged && !averages_are_here(k)))
        return;
    k->finishing = false;
    sim->has_learned = true;
    memcpy(sim->learned, averaged ? k->averages : k->w, sim->config.elems * sizeof(float));
    (void)sim_after(sim, 1000 + (int64_t)sim_below(sim, 20000), &k->proc, on_evaluated);
}

/* ---- life ---- */

/* An arrival of any worker says, or no longer says, that it reads its data: it changes no decision. */
static void hear_arrival(struct sim *sim)
{
    int64_t tick = sim_ms(sim) / 100;
    chief_on_worker_loads(sim->worker[0].chief, (uint32_t)(tick % (sim->config.workers + 1)),
                          tick / 7 % 2, sim_ms(sim));
}

static void on_tick(struct sim *sim, struct sim_event *e)
{
    hear_arrival(sim);
    chief_tick(sim->worker[0].chief, sim_ms(sim));
    sim_worker_pump(sim, &sim->worker[0]);
    if (e->proc->up)
        (void)sim_after(sim, 100000, e->proc, on_tick);
}

void sim_move_chief(struct sim *sim)
{
    journal_close(&sim->journal);
    sim->moves++;
}

void sim_shorten(struct sim *sim, uint64_t epochs)
{
    sim->shortened = true;
    sim->config.settings.epochs = epochs;
}

void sim_chief_start(struct sim *sim, struct sim_worker *k)
{
    struct errmsg e = {""};
    if (sim->config.turns)
        sim->config.settings.clip_norm = sim->config.settings.clip_norm > 0 ? 0 : 1e30f;
    look_for_best(sim, k);
    (void)snprintf(k->journal, sizeof k->journal, "journal %u", sim->moves);
    struct chief_config config = {.layout = &sim->layout,
                                  .settings = sim->config.settings,
                                  .ps = sim->config.ps,
                                  .workers = sim->config.workers,
                                  .checkpoint.every_steps = sim->config.every_steps,
                                  .checkpoint.every_seconds = sim->config.every_seconds,
                                  .timeouts.start_s = 300,
                                  .timeouts.worker_rejoin_s = sim->config.worker_rejoin_s,
                                  .timeouts.ps_rejoin_s = SIM_PS_REJOIN_S,
                                  .training.max_recoveries = 1000,
                                  .training.max_rejected = 1000,
                                  .training.monitor =
                                      sim->config.keeps ? MONITOR_LOSS : MONITOR_NONE,
                                  .journal = &sim->journal,
                                  .past = {.journal = k->journal, .from = UINT64_MAX},
                                  .window_batches = sim_stream_window(&sim->config),
                                  .unkept_step = k->unkept_step};
    if (chief_new(&k->chief, &config, &io, k, sim_ms(sim), &e)) {
        sim_fail(sim, "no chief: %s", e.text);
        return;
    }
    k->finishing = false;
    k->epochs_told = 0;
    k->model_written = false;
    k->told_generation = k->averaged_generation = (struct generation){0, 0};
    k->member = sim_connect(sim, CONN_MEMBER, 0, 0, &k->proc, &k->proc);
    k->chief_up_due = true;
    Gradwire__Hello hello = GRADWIRE__HELLO__INIT;
    k->members[0] = k->member;
    if (chief_on_worker_up(k->chief, 0, &hello, sim_ms(sim), &e))
        sim_fail(sim, "the chief's own session is refused: %s", e.text);
    for (uint32_t i = 0; i < sim->config.ps; i++)
        dial(k, i, (int64_t)sim_below(sim, 1000));
    (void)sim_after(sim, 100000, &k->proc, on_tick);
}

void sim_chief_stop(struct sim *sim, struct sim_worker *k)
{
    for (uint32_t i = 0; i < SIM_PS_MAX; i++) {
        if (sim_open(k->control[i], DIALER))
            sim_close(sim, k->control[i], DIALER);
        k->control[i] = NULL;
    }
    for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++) {
        if (sim_open(k->members[i], ACCEPTOR))
            sim_close(sim, k->members[i], ACCEPTOR);
        k->members[i] = NULL;
    }
    chief_free(k->chief);
    k->chief = NULL;
}
