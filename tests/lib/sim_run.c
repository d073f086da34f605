/* Configurations, faults, and the run itself. */
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/sim.h"

enum {
    SIM_BOUND_US = 400 * 1000000
}; /* virtual time in which every job ends once faults have stopped */

/* ---- configurations ---- */

static void settings_random(struct sim_config *c, uint64_t key, bool sync)
{
    Gradwire__Settings *s = &c->settings;
    gradwire__settings__init(s);
    s->update = sync ? GRADWIRE__UPDATE__SYNC : GRADWIRE__UPDATE__ASYNC;
    s->optimizer = sync ? (uint32_t)(rng_u64(key, 20) % OPTIMIZER_KINDS) : OPT_SGD;
    s->learning_rate = sync ? 0.05f : 0.125f;
    s->momentum = sync && rng_u64(key, 21) % 2 ? 0.9f : 0.0f;
    s->nesterov = rng_u64(key, 22) % 2;
    s->beta_1 = 0.9f;
    s->beta_2 = 0.999f;
    s->epsilon = 1e-7f;
    s->amsgrad = rng_u64(key, 27) % 2;
    s->rho = 0.9f;
    s->schedule = sync && rng_u64(key, 30) % 2 ? SCHEDULE_COSINE_DECAY : SCHEDULE_CONSTANT;
    s->decay_steps = 1 + (uint32_t)(rng_u64(key, 31) % 32);
    s->warmup_steps = sync ? (uint32_t)(rng_u64(key, 32) % 8) : 0;
    s->centered = rng_u64(key, 28) % 2;
    s->initial_accumulator_value = 0.1f;
    s->learning_rate_power = -0.5f;
    s->l1_regularization_strength = 0.01f;
    s->weight_decay = sync && rng_u64(key, 29) % 2 ? 0.01f : 0.0f;
    s->seed = c->seed;
    s->microbatches = 1u << rng_u64(key, 23) % 4;
    s->batch_size = 4 * s->microbatches;
    s->batches_per_epoch = 1 + rng_u64(key, 24) % 8;
    s->epochs = 1 + rng_u64(key, 25) % 4;
    s->metrics = (uint32_t)(rng_u64(key, 26) % (SUMS_MAX + 1));
    s->clip_norm = sync && rng_u64(key, 27) % 3 == 0 ? 0.5f + 4 * rng_unit(key, 28) : 0;
    if (sync)
        s->gradient_accumulation_steps = 1 + (uint32_t)(rng_u64(key, 33) % 3);
    s->use_ema = rng_u64(key, 34) % 3 == 0;
    if (sync && s->metrics > 1)
        s->progressive = (uint32_t)(rng_u64(key, 36) % s->metrics);
    s->ema_momentum = 0.9f;
    s->ema_overwrite_frequency = sync && rng_u64(key, 35) % 2 ? 3 : 0;
}

static void numbers_random(struct sim_config *c, uint64_t key)
{
    c->ps = 1 + (uint32_t)(rng_u64(key, 0) % 3);
    c->workers = 1 + (uint32_t)(rng_u64(key, 1) % 4);
    for (uint32_t i = 0; i < SIM_PS_MAX; i++)
        c->threads[i] = 1 + (uint32_t)(rng_u64(key, 2 + i) % 2);
}

void sim_config_random(struct sim_config *c, uint64_t seed, bool sync)
{
    uint64_t key = rng_key(seed, RNG_TEST, 100, sync);
    *c = (struct sim_config){.seed = seed, .gradient = sync ? SIM_TOY : SIM_IDS};
    numbers_random(c, key);
    settings_random(c, key, sync);
    uint64_t chunks = rng_u64(key, 11) % (rng_u64(key, 10) % 2 ? 5 : 24);
    if (rng_u64(key, 30) % 3 == 0) {
        c->settings.nan_guard = rng_u64(key, 31) % 2 ? NAN_GUARD_SKIP : NAN_GUARD_ROLLBACK;
        c->broken_one_in = 1 + (uint32_t)(rng_u64(key, 32) % 12);
    }
    c->turns = sync && c->settings.clip_norm == 0 && c->broken_one_in == 0 && rng_u64(key, 36) % 2;
    c->elems = (1024 * chunks + 16 * (1 + rng_u64(key, 12) % 64));
    c->every_steps = rng_u64(key, 13) % 4 ? 1 + (uint32_t)(rng_u64(key, 14) % 8) : 0;
    c->every_seconds = rng_u64(key, 18) % 5 ? 0 : 1;
    if (rng_u64(key, 61) % 5 == 0)
        c->every_steps = c->every_seconds = CHECKPOINT_AUTO;
    c->keeps = sync && rng_u64(key, 60) % 3 == 0;
    c->worker_rejoin_s = 1 + (uint32_t)(rng_u64(key, 15) % 3);
    c->delay_us = rng_u64(key, 16) % 3 ? 500 : 20000;
    c->compute_us = rng_u64(key, 17) % 3 ? 1000 : 20000;
}

static int by_time(const void *a, const void *b)
{
    const struct sim_fault *x = a, *y = b;
    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

void sim_faults_random(struct sim_config *c)
{
    uint64_t key = rng_key(c->seed, RNG_TEST, 101, 0);
    c->faults = 1 + (uint32_t)(rng_u64(key, 0) % 8);
    c->reshape = true;
    uint64_t within = rng_u64(key, 1) % 2 ? 500000 : 4000000;
    for (uint32_t i = 0; i < c->faults; i++)
        c->fault[i] =
            (struct sim_fault){(int64_t)(rng_u64(key, 2 + 2 * i) % within),
                               (enum sim_fault_kind)(rng_u64(key, 3 + 2 * i) % FAULT_KINDS)};
    qsort(c->fault, c->faults, sizeof *c->fault, by_time);
}

/* ---- life and death ---- */

struct sim_seen sim_seen;

static void start(struct sim *sim, struct sim_proc *p)
{
    if (p->up || sim->over)
        return;
    p->life++;
    p->exited = false;
    p->frozen_us = 0;
    sim_trace(sim, "%s %u starts", p->role == SIM_PS ? "ps" : "worker", p->index);
    if (p->role == SIM_PS)
        sim_ps_start(sim, &sim->ps[p->index]);
    else
        sim_worker_start(sim, &sim->worker[p->index]);
}

static void stop(struct sim *sim, struct sim_proc *p)
{
    if (!p->up)
        return;
    if (p->role == SIM_PS)
        sim_ps_stop(sim, &sim->ps[p->index]);
    else
        sim_worker_stop(sim, &sim->worker[p->index]);
    p->life++;
}

/* A process that looks for the final cut at its start finds it: nothing is left to do. */
static bool finished(const struct sim *sim)
{
    const struct sim_manifest *m = sim_disk_newest(sim);
    const Gradwire__Settings *s = &sim->config.settings;
    if (!m || !m->m.final ||
        (s->redo ? manifest_epochs(&m->m, s->batches_per_epoch) < s->epochs
                 : m->m.step < s->epochs * s->batches_per_epoch))
        return false;
    for (uint32_t i = 0; i < sim->config.ps; i++)
        if (!sim->ps[i].proc.up)
            return true;
    return false;
}

static void on_start(struct sim *sim, struct sim_event *e)
{
    struct sim_proc *p = e->p;
    if (p->life != e->a)
        return;
    if (p == &sim->worker[0].proc && finished(sim)) {
        sim->facts = (struct chief_facts){.running = false};
        sim->over = true;
        return;
    }
    start(sim, p);
}

static void start_later(struct sim *sim, struct sim_proc *p, int64_t us)
{
    struct sim_event *e = sim_after(sim, us, NULL, on_start);
    e->p = p;
    e->a = p->life;
}

/* Messages on their way may be lost with their sender. */
static void lose_suffixes(struct sim *sim, const struct sim_proc *p)
{
    for (struct sim_conn *c = sim->conns; c; c = c->next)
        if ((sim_open(c, 0) && c->proc[0] == p) || (sim_open(c, 1) && c->proc[1] == p))
            if (c->cut_us == INT64_MAX && sim_chance(sim, 2))
                c->cut_us = sim->now_us + (int64_t)sim_below(sim, 3000);
}

bool sim_kill(struct sim *sim, struct sim_proc *p, int64_t restart_us)
{
    if (!p->up)
        return false;
    sim->died = true;
    sim_seen.deaths += p->role == SIM_WORKER && p->index;
    sim_trace(sim, "%s %u is killed", p->role == SIM_PS ? "ps" : "worker", p->index);
    lose_suffixes(sim, p);
    stop(sim, p);
    if (restart_us >= 0)
        start_later(sim, p, restart_us);
    return true;
}

void sim_join(struct sim *sim)
{
    for (uint32_t i = sim->config.workers - sim->config.late; i < sim->config.workers; i++)
        start_later(sim, &sim->worker[i].proc, (int64_t)sim_below(sim, 20000));
    sim->last_fault_us = sim->now_us;
}

bool sim_leave(struct sim *sim, struct sim_worker *k)
{
    sim->last_fault_us = sim->now_us;
    if (!k->proc.up || k->proc.index == 0)
        return false;
    k->proc.away = true;
    sim_seen.leaves++;
    sim_worker_go(sim, k);
    return true;
}

void sim_restart_all(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_PS_MAX; i++)
        sim_kill(sim, &sim->ps[i].proc, -1);
    for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++)
        sim_kill(sim, &sim->worker[i].proc, -1);
    if (sim->config.reshape && sim_chance(sim, 2))
        numbers_random(&sim->config, rng_key(sim->config.seed, RNG_TEST, 102, sim->rounds));
    sim->rounds++;
    for (uint32_t i = 0; i < sim->config.ps; i++) {
        sim->ps[i].proc.life++; /* a start that was due is not */
        start_later(sim, &sim->ps[i].proc, (int64_t)sim_below(sim, 300000));
    }
    for (uint32_t i = 0; i < sim->config.workers; i++) {
        sim->worker[i].proc.life++;
        sim->worker[i].proc.away = false;
        start_later(sim, &sim->worker[i].proc, (int64_t)sim_below(sim, 300000));
    }
    for (uint32_t i = sim->config.ps; i < SIM_PS_MAX; i++)
        sim->ps[i].proc.life++;
    for (uint32_t i = sim->config.workers; i < SIM_WORKERS_MAX; i++)
        sim->worker[i].proc.life++;
}

/* A ps is done, and the chief that said so is gone: the one that came after it would look in vain for the ps. */
static bool ended_before(const struct sim *sim, const struct sim_proc *p, int code)
{
    struct chief_facts facts;
    if (p->role != SIM_PS || code != 0 || !sim->worker[0].proc.up || !finished(sim))
        return false;
    facts = chief_facts(sim->worker[0].chief);
    return !facts.running;
}

/* The job was interrupted. A process that ends with the chief has nothing that the last cut lacks. */
static void resume(struct sim *sim)
{
    bool died = sim->died;
    sim_restart_all(sim);
    sim->died = died;
}

void sim_exit(struct sim *sim, struct sim_proc *p, int code)
{
    if (!p->up)
        return;
    sim_trace(sim, "%s %u exits with %d", p->role == SIM_PS ? "ps" : "worker", p->index, code);
    stop(sim, p);
    p->exited = true;
    p->exit_code = code;
    bool chief = p == &sim->worker[0].proc;
    if (ended_before(sim, p, code)) {
        sim->facts = (struct chief_facts){.running = false};
        sim->over = true;
    } else if (code == 1 && sim_flaw_is_told(sim)) {
        sim_flaw_mend(sim);
        resume(sim);
    } else if (chief && code == 143)
        resume(sim);
    else if (chief)
        sim->over = true;
    else if (code >= 128 && !p->away)
        start_later(sim, p, 100000 + (int64_t)sim_below(sim, 4000000));
}

/* ---- faults ---- */

static struct sim_conn *some_conn(struct sim *sim)
{
    uint64_t n = 0;
    struct sim_conn *found = NULL;
    for (struct sim_conn *c = sim->conns; c; c = c->next)
        if (sim_open(c, 0) && sim_open(c, 1) && c->proc[0] != c->proc[1] &&
            sim_chance(sim, (uint32_t)++n))
            found = c;
    return found;
}

static void break_all(struct sim *sim)
{
    for (struct sim_conn *c = sim->conns; c; c = c->next)
        if (sim_open(c, 0) && sim_open(c, 1) && c->proc[0] != c->proc[1])
            sim_break(sim, c);
}

static int64_t restart_us(struct sim *sim)
{
    return 100000 + (int64_t)sim_below(sim, sim_chance(sim, 3) ? 6000000 : 300000);
}

static void on_fault(struct sim *sim, struct sim_event *e)
{
    enum sim_fault_kind kind = (enum sim_fault_kind)e->a;
    struct sim_worker *k =
        &sim->worker[sim->config.workers > 1 ? 1 + sim_below(sim, sim->config.workers - 1) : 0];
    struct sim_ps *ps = &sim->ps[sim_below(sim, sim->config.ps)];
    struct sim_conn *c;
    int64_t until_us;
    sim_trace(sim, "fault %d", (int)kind);
    if (sim->over)
        return;
    switch (kind) {
    case FAULT_KILL_WORKER:
        if (k->proc.index)
            sim_kill(sim, &k->proc, restart_us(sim));
        break;
    case FAULT_KILL_PS:
        sim_kill(sim, &ps->proc, restart_us(sim));
        break;
    case FAULT_KILL_CHIEF:
        sim_kill(sim, &sim->worker[0].proc, restart_us(sim));
        break;
    case FAULT_KILL_ALL:
        sim_restart_all(sim);
        break;
    case FAULT_BREAK:
        c = some_conn(sim);
        if (c)
            sim_break(sim, c);
        break;
    case FAULT_BREAK_ALL:
        break_all(sim);
        break;
    case FAULT_GO_WORKER:
        if (k->proc.index && k->proc.up)
            sim_worker_go(sim, k);
        break;
    case FAULT_GO_PS:
        if (ps->proc.up)
            sim_ps_go(sim, ps);
        break;
    case FAULT_GO_CHIEF:
        if (sim->worker[0].proc.up)
            sim_worker_go(sim, &sim->worker[0]);
        break;
    case FAULT_SAVE_FAILS:
        sim->save_failures = sim->failures_given ? 0 : 2;
        sim->failures_given = true;
        break;
    case FAULT_PUBLISH_FAILS:
        sim->publish_failures = sim->failures_given ? 0 : 2;
        sim->failures_given = true;
        break;
    case FAULT_CORRUPT:
        sim_disk_corrupt(sim);
        break;
    case FAULT_FREEZE_WORKER:
        until_us = sim->now_us + (int64_t)sim_below(sim, 15000000);
        if (k->proc.index && until_us > k->proc.frozen_us)
            k->proc.frozen_us = until_us; /* never sooner: what was put off keeps its order */
        break;
    case FAULT_KINDS:
        break;
    }
    sim->last_fault_us = sim->now_us;
}

/* ---- a run ---- */

static void make_row_layout(struct sim *sim, bool exact)
{
    struct row_layout *l = sim->layout.rows = mem_zalloc(1, sizeof *l);
    *l = sim_row_layout;
    for (uint32_t i = 0; i < l->tables; i++)
        l->table[i].admission = sim->config.admission[i];
    for (uint32_t i = 0; i < l->tables; i++)
        l->table[i].unseen_steps = sim->config.unseen_steps[i];
    for (uint32_t i = 0; i < l->tables && exact; i++) {
        l->table[i].init = i ? INIT_CONSTANT : INIT_ZEROS;
        l->table[i].init_value = (float)i;
    }
    if (!exact)
        sim_rows_own_optimizers(l);
}

static void make_layout(struct sim *sim)
{
    struct errmsg e;
    bool exact = sim->config.gradient == SIM_IDS;
    uint32_t elems = (uint32_t)sim->config.elems, first = elems / 3 / 16 * 16;
    struct tensor a = {.name = "a",
                       .rank = 1,
                       .shape = {first ? first : elems},
                       .init = exact ? INIT_CONSTANT : INIT_GLOROT_UNIFORM,
                       .init_value = exact ? 2.0f : 1.0f};
    struct tensor b = a;
    if (sim->config.tables)
        make_row_layout(sim, exact);
    memcpy(b.name, "b", 2);
    b.shape[0] = elems - first;
    if (layout_add(&sim->layout, &a, &e) || (first && layout_add(&sim->layout, &b, &e)) ||
        sim->layout.elems != elems)
        abort();
}

struct sim *sim_new(const struct sim_config *config)
{
    struct sim *sim = calloc(1, sizeof *sim);
    sim->config = *config;
    if (config->settings.update == GRADWIRE__UPDATE__GEO)
        sim->config.settings.use_ema = false; /* refused there */
    sim->key = rng_key(config->seed, RNG_TEST, 103, 0);
    sim->tracing = getenv("GRADWIRE_SIM_TRACE") != NULL;
    make_layout(sim);
    sim_oracle_init(sim);
    sim->learned = calloc(config->elems, sizeof(float));
    sim->withheld = calloc(config->elems, sizeof(double));
    for (uint32_t i = 0; i < SIM_PS_MAX; i++)
        sim->ps[i].proc = (struct sim_proc){.sim = sim, .role = SIM_PS, .index = i, .life = 1};
    for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++)
        sim->worker[i].proc =
            (struct sim_proc){.sim = sim, .role = SIM_WORKER, .index = i, .life = 1};
    for (uint32_t i = 0; i < config->ps; i++)
        start_later(sim, &sim->ps[i].proc, (int64_t)sim_below(sim, 20000));
    for (uint32_t i = 0; i < config->workers - config->late; i++)
        start_later(sim, &sim->worker[i].proc, (int64_t)sim_below(sim, 20000));
    for (uint32_t i = 0; i < config->faults; i++)
        sim_after(sim, config->fault[i].at_us, NULL, on_fault)->a = config->fault[i].kind;
    return sim;
}

void sim_free(struct sim *sim)
{
    sim->over = true;
    for (uint32_t i = 0; i < SIM_PS_MAX; i++)
        stop(sim, &sim->ps[i].proc);
    for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++)
        stop(sim, &sim->worker[i].proc);
    sim_queue_close(sim);
    sim_net_close(sim);
    sim_disk_close(sim);
    sim_oracle_close(sim);
    sim_backup_close(sim);
    sim_stale_close(sim);
    free(sim->learned);
    free(sim->withheld);
    free(sim->update);
    layout_close(&sim->layout);
    free(sim);
}

/* Lists which process waits for what. */
void sim_waits(struct sim *sim, char *out, size_t bytes)
{
    size_t n = 0;
    char text[256];
    out[0] = '\0';
#define ADD(...)                                                                                   \
    n += (size_t)snprintf(out + (n < bytes ? n : bytes), n < bytes ? bytes - n : 0, __VA_ARGS__)
    if (sim->worker[0].proc.up) {
        chief_waits_for(sim->worker[0].chief, sim_ms(sim), text, sizeof text);
        ADD("\n  chief: %s", text);
    }
    for (uint32_t i = 0; i < sim->config.workers; i++) {
        if (!sim->worker[i].proc.up) {
            ADD("\n  worker %u: down", i);
            continue;
        }
        session_waits_for(sim->worker[i].session, text, sizeof text);
        ADD("\n  worker %u: %s", i, text);
    }
    for (uint32_t i = 0; i < sim->config.ps; i++) {
        if (!sim->ps[i].proc.up)
            ADD("\n  ps %u: down", i);
        for (uint32_t k = 0; k < sim->ps[i].threads; k++) {
            shard_waits_for(sim->ps[i].thread[k].core, text, sizeof text);
            ADD("\n  ps %u, thread %u: %s", i, k, text);
        }
    }
#undef ADD
}

static bool bounded(struct sim *sim)
{
    if (sim->now_us - sim->last_fault_us < SIM_BOUND_US)
        return true;
    char text[1500];
    sim_waits(sim, text, sizeof text);
    sim_fail(sim, "the job does not end:%s", text);
    return false;
}

bool sim_run_until(struct sim *sim, bool (*until)(struct sim *))
{
    while (!sim->over && !sim->failed && bounded(sim)) {
        if (until && until(sim))
            return true;
        if (!sim_next(sim))
            sim_fail(sim, "nothing is left to happen");
    }
    return false;
}

void sim_run(struct sim *sim)
{
    (void)sim_run_until(sim, NULL);
    if (!sim->failed)
        sim_check_end(sim);
}

/* ---- many runs ---- */

uint64_t sim_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t sim_runs(uint64_t runs, uint64_t short_runs)
{
    bool few = getenv("GRADWIRE_SHORT") || getenv("GRADWIRE_EMULATED");
    return sim_number("GRADWIRE_SIM_RUNS", few ? short_runs : runs);
}

void sim_try(const struct sim_config *config, const char *what, uint64_t seed)
{
    struct sim *sim = sim_new(config);
    sim_run(sim);
    char failure[sizeof sim->failure];
    memcpy(failure, sim->failure, sizeof failure);
    bool failed = sim->failed;
    sim_free(sim);
    if (failed)
        fail_msg("%s: GRADWIRE_SIM_SEED=%" PRIu64 " (%u ps, %u workers, %u leaves): %s", what, seed,
                 config->ps, config->workers, config->settings.microbatches, failure);
}

static void run_one(const char *name, uint64_t seed, Gradwire__Update update, bool faults)
{
    struct sim_config config;
    sim_config_random(&config, seed, update == GRADWIRE__UPDATE__SYNC);
    config.settings.update = update;
    config.settings.geo_every = 1 + (uint32_t)(seed % 5);
    config.settings.geo_merge =
        seed % 2 ? GRADWIRE__GEO_MERGE__AVERAGE : GRADWIRE__GEO_MERGE__PADDLE;
    if (faults)
        sim_faults_random(&config);
    sim_try(&config, name, seed);
}

void sim_sweep_mode(const char *name, uint64_t base, uint32_t runs, Gradwire__Update update,
                    bool faults)
{
    if (getenv("GRADWIRE_SIM_SEED")) {
        run_one(name, sim_number("GRADWIRE_SIM_SEED", 0), update, faults);
        return;
    }
    uint64_t n = sim_runs(runs, runs / SIM_SHORT);
    for (uint64_t i = 0; i < n; i++)
        run_one(name, base + i, update, faults);
    print_message("%s: seeds %" PRIu64 "..%" PRIu64 "\n", name, base, base + n - 1);
}

void sim_sweep(const char *name, uint64_t base, uint32_t runs, bool sync, bool faults)
{
    sim_sweep_mode(name, base, runs, sync ? GRADWIRE__UPDATE__SYNC : GRADWIRE__UPDATE__ASYNC,
                   faults);
}
