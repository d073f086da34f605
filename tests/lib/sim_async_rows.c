/* Async and ssp with tables: who applied each part of each batch; and, where rates go by staleness, each row that a push
 * updates recomputed from what it was right before, its gradient, and how many updates of its part came since the worker
 * was sent rows last. No other row may move by a push. */
#include <inttypes.h>
#include <string.h>

#include "ps/core/shard_state.h"
#include "ps/rows/row_grads.h"
#include "tests/lib/sim.h"

static bool is_on(const struct sim_thread *t)
{
    return t->core->rows.on && t->core->mode != &shard_mode_sync;
}

void sim_async_rows_entered(struct sim_thread *t, const Gradwire__Enter *m)
{
    if (m->mode != GRADWIRE__ENTER_MODE__TAKEOVER)
        t->rows = (struct sim_thread_rows){.before = {{{false}}}};
}

void sim_async_rows_sent(struct sim_thread *t, const struct shard_peer *to)
{
    if (is_on(t))
        memcpy(t->rows.sent_t[to->worker], t->core->async.part_t, sizeof t->rows.sent_t[0]);
}

static void read_all(const struct sim_thread *t, struct sim_thread_row row[SIM_TABLES][SIM_KEYS])
{
    const struct sim *sim = t->sim;
    for (uint32_t i = 0; i < SIM_TABLES; i++) {
        const struct row_table_spec *spec = &sim->layout.rows->table[i];
        const struct row_table *table = t->core->rows.tables.table[i];
        for (uint32_t key = 0; key < SIM_KEYS; key++) {
            uint64_t mixed = sim->rows.mixed[spec->list][key];
            struct bucket_range of = t->core->rows.tables.buckets;
            uint32_t at;
            row[i][key] = (struct sim_thread_row){.there = false};
            if (key_bucket(mixed) < of.first || key_bucket(mixed) >= of.end)
                continue;
            row[i][key].there = row_table_find(table, &mixed, 1, &at) == 1;
            if (row[i][key].there)
                memcpy(row[i][key].w, row_weights(table, at), spec->dim * sizeof(float));
            else
                row_first_value(spec, sim->config.settings.seed, mixed, row[i][key].w);
        }
    }
}

void sim_async_rows_pushing(struct sim_thread *t)
{
    if (!is_on(t))
        return;
    memcpy(t->rows.part_t, t->core->async.part_t, sizeof t->rows.part_t);
    memcpy(t->rows.part_clock, t->core->async.part_clock, sizeof t->rows.part_clock);
    if (t->sim->config.settings.staleness_rate)
        read_all(t, t->rows.before);
}

/* On this shard or another some parts of the batch are applied as another worker pushed them. */
static bool others_began(const struct sim *sim, uint64_t name, uint32_t worker)
{
    for (uint32_t i = 0; i < sim->config.ps * SIM_THREADS_MAX; i++) {
        const struct sim_ps *ps = &sim->ps[i / SIM_THREADS_MAX];
        const uint8_t *by = ps->thread[i % SIM_THREADS_MAX].rows.by[name % SIM_IDS_MAX];
        for (uint32_t p = 0; i % SIM_THREADS_MAX < ps->threads && p < ROW_PARTS; p++)
            if (by[p] && by[p] != 1 + worker)
                return true;
    }
    return false;
}

static void note_parts(struct sim_thread *t, const struct shard_peer *from,
                       const Gradwire__RowsPush *m)
{
    uint8_t *by = t->rows.by[m->name % SIM_IDS_MAX];
    bool applied = false, others = others_began(t->sim, m->name, from->worker);
    for (uint32_t p = m->first_part; p < m->first_part + m->parts; p++) {
        if (t->core->async.part_clock[p] == t->rows.part_clock[p])
            continue;
        by[p] = (uint8_t)(1 + from->worker);
        applied = true;
    }
    sim_rows_seen.half_redone += applied && others;
}

/* Recomputes the rows of one part after the push. */
static void expect_part(const struct sim_thread *t, const struct shard_peer *from,
                        const Gradwire__RowsPush *m, uint32_t part, const struct row_grads *g,
                        struct sim_thread_row row[SIM_TABLES][SIM_KEYS])
{
    const struct sim *sim = t->sim;
    struct optimizer o = {.kind = OPT_SGD, .learning_rate = sim->config.settings.learning_rate};
    uint64_t t_before = t->rows.part_t[part];
    o.staleness = t_before - t->rows.sent_t[from->worker][part];
    sim_rows_seen.stale += o.staleness > 1;
    for (uint32_t i = 0; i < SIM_TABLES; i++) {
        uint32_t list = sim_row_layout.table[i].list, dim = sim_row_layout.table[i].dim;
        for (uint32_t k = 0; k < g->keys[list]; k++) {
            uint32_t key = sim_rows_place(sim, list, g->mixed[list][k]);
            struct sim_thread_row *r = &row[i][key];
            r->there = true;
            optimizer_apply(&o, t_before + 1,
                            (struct optimizer_factors){1.0f / (float)m->examples, 1, 1}, r->w, r->w,
                            NULL, g->g[i] + (size_t)k * dim, dim);
        }
    }
}

static void check_rows(struct sim_thread *t, const struct shard_peer *from,
                       const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes)
{
    struct sim_thread_row now[SIM_TABLES][SIM_KEYS];
    struct shard_sections sections = {.held = NULL};
    struct errmsg e;
    if (body && shard_rows_sections(t->core, from, m, body, bytes, &sections, &e))
        sim_fail(t->sim, "a push of rows does not parse: %s", e.text);
    for (uint32_t i = 0; sections.held && i < m->parts; i++) {
        struct row_grads g;
        row_grads_view(&g, t->sim->layout.rows, sections.at[i]);
        if (t->core->async.part_t[m->first_part + i] > t->rows.part_t[m->first_part + i])
            expect_part(t, from, m, m->first_part + i, &g, t->rows.before);
    }
    buffer_unref(sections.held);
    read_all(t, now);
    for (uint32_t i = 0; i < SIM_TABLES; i++)
        for (uint32_t key = 0; key < SIM_KEYS; key++)
            if (memcmp(&now[i][key], &t->rows.before[i][key], sizeof now[i][key]) != 0)
                sim_fail(t->sim,
                         "worker %u's batch %" PRIu64 ": key %u of table %s is %a, it should be %a",
                         from->worker, (uint64_t)m->name, key, sim_row_layout.table[i].name,
                         (double)now[i][key].w[0], (double)t->rows.before[i][key].w[0]);
}

void sim_async_rows_pushed(struct sim_thread *t, const struct shard_peer *from,
                           const Gradwire__RowsPush *m, struct buffer *body, uint64_t bytes)
{
    if (!is_on(t) ||
        !generation_equal(msg_generation_get(m->generation), shard_facts(t->core).generation))
        return;
    note_parts(t, from, m);
    if (t->sim->config.settings.staleness_rate && !t->sim->failed)
        check_rows(t, from, m, body, bytes);
}
