/* Tables of the simulated job: the keys of each leaf, a toy gradient by them, and the plain loop's rows after each step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/rows/key.h"
#include "tests/lib/sim.h"

const struct row_layout sim_row_layout = {
    .lists = 2,
    .tables = 3,
    .table = {
        {.name = "a", .dim = 2, .list = 0, .init = INIT_RANDOM_UNIFORM, .init_value = 0.5f},
        {.name = "b", .dim = 1, .list = 0, .init = INIT_ZEROS},
        {.name = "c", .dim = SIM_DIM_MAX, .list = 1, .init = INIT_RANDOM_NORMAL, .init_value = 1}}};

struct sim_rows_seen sim_rows_seen;

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Half of the keys lie close together, so that some parts have many and some have none. */
void sim_rows_init(struct sim *sim)
{
    const struct sim_config *c = &sim->config;
    for (uint32_t list = 0; list < sim_row_layout.lists; list++) {
        for (uint32_t i = 0; i < SIM_KEYS; i++) {
            uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, 7000 + list, 0), i);
            sim->rows.mixed[list][i] = i % 2 ? r : r >> 8;
        }
        qsort(sim->rows.mixed[list], SIM_KEYS, sizeof(uint64_t), ascending);
    }
    sim->rows.state = calloc(sim->oracle.steps + 1, sizeof *sim->rows.state);
}

void sim_rows_close(struct sim *sim)
{
    free(sim->rows.state);
}

bool sim_leaf_has(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t list,
                  uint32_t key)
{
    uint64_t r = rng_u64(rng_key(c->seed, RNG_TEST, batch, 8000 + leaf * 2 + list), key);
    uint32_t one_in = key == 3 ? 2 : 5;
    return sim_examples(c, batch, leaf) > 0 && r % one_in == 0;
}

static void gradient(const struct sim_config *c, uint64_t batch, uint32_t leaf, uint32_t table,
                     uint32_t key, const float *w, float *g)
{
    uint64_t stream = rng_key(c->seed, RNG_TEST, batch, 9000 + leaf);
    float n = (float)sim_examples(c, batch, leaf);
    for (uint32_t i = 0; i < sim_row_layout.table[table].dim; i++) {
        float noise = rng_unit(stream, (table * SIM_KEYS + key) * SIM_DIM_MAX + i) - 0.5f;
        g[i] =
            c->gradient == SIM_IDS ? n * (float)(1 + batch * 7 % 13) : n * (w[i] * 0.125f + noise);
    }
}

bool sim_row_gradient(const struct sim_config *c, uint64_t batch, struct tree_node node,
                      uint32_t table, uint32_t key, const float *w, float *g)
{
    uint32_t list = sim_row_layout.table[table].list;
    if (node.level == 0) {
        if (!sim_leaf_has(c, batch, node.index, list, key))
            return false;
        gradient(c, batch, node.index, table, key, w, g);
        return true;
    }
    float right[SIM_DIM_MAX];
    struct tree_node l = {node.level - 1, node.index * 2}, r = {node.level - 1, node.index * 2 + 1};
    bool has_left = sim_row_gradient(c, batch, l, table, key, w, g);
    bool has_right = sim_row_gradient(c, batch, r, table, key, w, right);
    for (uint32_t i = 0; has_right && i < sim_row_layout.table[table].dim; i++)
        g[i] = has_left ? g[i] + right[i] : right[i];
    return has_left || has_right;
}

/* ---- the plain loop ---- */

static void read_row(const struct sim *sim, uint32_t table, uint32_t key, const struct sim_row *r,
                     float *w)
{
    const struct row_table_spec *spec = &sim->layout.rows->table[table];
    if (r->there)
        memcpy(w, r->w, spec->dim * sizeof *w);
    else
        row_first_value(spec, sim->config.settings.seed, sim->rows.mixed[spec->list][key], w);
}

/* One update of one row: the first one makes it. */
static void update_row(const struct sim *sim, const struct optimizer *o, uint32_t table,
                       uint32_t key, const float *g, float inv_n, uint64_t clock, struct sim_row *r)
{
    uint32_t dim = sim_row_layout.table[table].dim;
    float *slot[OPTIMIZER_SLOTS_MAX] = {0};
    read_row(sim, table, key, r, r->w);
    for (uint32_t k = 0; k < optimizer_slots(o); k++) {
        slot[k] = r->slot[k];
        for (uint32_t i = 0; i < dim && !r->there; i++)
            r->slot[k][i] = optimizer_slot_initial(o, k);
    }
    r->there = true;
    r->count++;
    r->stamp = clock;
    optimizer_apply(o, r->count, (struct optimizer_factors){inv_n, 1, 1}, r->w, r->w, slot, g, dim);
}

void sim_rows_next_step(struct sim *sim, const struct optimizer *o, uint64_t step,
                        uint32_t examples)
{
    const struct sim_config *c = &sim->config;
    struct tree_node root = {(uint32_t)__builtin_ctz(c->settings.microbatches), 0};
    sim->rows.state[step + 1] = sim->rows.state[step];
    for (uint32_t t = 0; t < sim_row_layout.tables && examples; t++) {
        for (uint32_t key = 0; key < SIM_KEYS; key++) {
            struct sim_row *r = &sim->rows.state[step + 1].row[t][key];
            float w[SIM_DIM_MAX], g[SIM_DIM_MAX];
            read_row(sim, t, key, r, w);
            if (sim_row_gradient(c, step, root, t, key, w, g))
                update_row(sim, o, t, key, g, 1.0f / (float)examples, step + 1, r);
        }
    }
}

/* ---- what is right ---- */

uint32_t sim_rows_place(const struct sim *sim, uint32_t list, uint64_t mixed)
{
    for (uint32_t key = 0; key < SIM_KEYS; key++)
        if (sim->rows.mixed[list][key] == mixed)
            return key;
    return SIM_KEYS;
}

/* A row that some of the batches may have made, each once. */
static bool is_possible(const struct sim *sim, uint32_t table, uint32_t key, float first, float is)
{
    const struct sim_config *c = &sim->config;
    struct tree_node root = {(uint32_t)__builtin_ctz(c->settings.microbatches), 0};
    float most = 0, w[SIM_DIM_MAX] = {0}, g[SIM_DIM_MAX];
    for (uint64_t id = 0; id < c->settings.epochs * c->settings.batches_per_epoch; id++)
        if (sim_row_gradient(c, id, root, table, key, w, g))
            most += c->settings.learning_rate * g[0] / (float)sim_batch_examples(c, id);
    float by = (first - is) / c->settings.learning_rate;
    return by >= 0 && first - is <= most && by == (float)(uint32_t)by;
}

void sim_check_rows(struct sim *sim, uint64_t step, const struct row_values *v)
{
    bool sync = sim->config.settings.update == GRADWIRE__UPDATE__SYNC;
    const struct sim_row absent = {.there = false};
    for (uint32_t t = 0; t < sim_row_layout.tables; t++) {
        uint32_t list = sim_row_layout.table[t].list, dim = sim_row_layout.table[t].dim;
        for (uint32_t i = 0; i < v->list[list].keys; i++) {
            float want[SIM_DIM_MAX];
            const float *is = v->w[t] + (size_t)i * dim;
            uint32_t key = sim_rows_place(sim, list, v->list[list].mixed[i]);
            read_row(sim, t, key, sync ? &sim->rows.state[step].row[t][key] : &absent, want);
            sim_rows_seen.reads += !sync;
            for (uint32_t k = 0; k < dim && !sync && is_possible(sim, t, key, want[k], is[k]); k++)
                want[k] = is[k];
            if (memcmp(want, is, dim * sizeof *want) != 0)
                sim_fail(sim, "step %" PRIu64 ": key %u of table %s is %a, it should be %a", step,
                         key, sim_row_layout.table[t].name, (double)is[0], (double)want[0]);
        }
    }
}

/* ---- cuts ---- */

struct cut_rows {
    struct sim *sim;
    const struct manifest *m;
    uint32_t slots;
    bool sync;
    struct sim_rows_state want;
    bool found[SIM_TABLES][SIM_KEYS];
};

/* Async: the rows that the resolved batches make, each once; sums are exact in any order. */
static void rows_of_ids(struct cut_rows *c, const struct optimizer *o)
{
    struct sim *sim = c->sim;
    struct tree_node root = {(uint32_t)__builtin_ctz(sim->config.settings.microbatches), 0};
    struct ids done;
    if (ids_unpack(&done, c->m->mark, c->m->window_bits, c->m->window_bits_bytes))
        sim_fail(sim, "cut %" PRIu64 ": its resolved ids do not unpack", c->m->cut);
    for (uint64_t id = 0; id < ids_end(&done) && !sim->failed; id++) {
        for (uint32_t i = 0; ids_has(&done, id) && i < SIM_TABLES * SIM_KEYS; i++) {
            uint32_t t = i / SIM_KEYS, key = i % SIM_KEYS;
            struct sim_row *r = &c->want.row[t][key];
            float w[SIM_DIM_MAX], g[SIM_DIM_MAX];
            read_row(sim, t, key, r, w);
            if (sim_row_gradient(&sim->config, id, root, t, key, w, g))
                update_row(sim, o, t, key, g, 1.0f / (float)sim_batch_examples(&sim->config, id),
                           id + 1, r);
        }
    }
}

/* Async: batches come in any order, so the stamp is that of one at least as late as the row has updates. */
static bool same_row(const struct cut_rows *c, uint32_t t, const struct sim_row *want,
                     const struct row_group *g, uint32_t i)
{
    uint32_t dim = sim_row_layout.table[t].dim;
    const float *is = g->values + (size_t)i * dim * (1 + c->slots);
    bool same = want->there && g->count[i] == want->count &&
                memcmp(is, want->w, dim * sizeof *is) == 0 &&
                (c->sync ? g->stamp[i] == want->stamp
                         : g->stamp[i] >= want->count && g->stamp[i] <= c->m->step);
    for (uint32_t k = 0; k < c->slots; k++)
        same = same && memcmp(is + dim * (1 + k), want->slot[k], dim * sizeof *is) == 0;
    return same;
}

static enum err take_group(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct cut_rows *c = ctx;
    const struct row_table_spec *spec = &sim_row_layout.table[g->table];
    for (uint32_t i = 0; i < g->rows; i++) {
        uint32_t key = sim_rows_place(c->sim, spec->list, g->mixed[i]);
        if (key == SIM_KEYS || c->found[g->table][key] || key_bucket(g->mixed[i]) != g->bucket)
            return err_set(e, ERR_CORRUPT, "a key of table %s that is none, or is there twice",
                           spec->name);
        c->found[g->table][key] = true;
        const struct sim_row *want = &c->want.row[g->table][key];
        if (!same_row(c, g->table, want, g, i))
            return err_set(e, ERR_CORRUPT,
                           "key %u of table %s: %u updates, stamp %" PRIu64
                           ", %a; should be %u, %" PRIu64 ", %a",
                           key, spec->name, g->count[i], g->stamp[i],
                           (double)g->values[(size_t)i * spec->dim * (1 + c->slots)], want->count,
                           want->stamp, (double)want->w[0]);
    }
    sim_rows_seen.cut_rows += g->rows;
    return ERR_OK;
}

static bool all_buckets(const struct manifest *m)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < m->files; i++) {
        if (m->file[i].first_bucket != end || m->file[i].clock != m->step)
            return false;
        end = m->file[i].end_bucket;
    }
    return end == ROW_BUCKETS;
}

void sim_check_cut_rows(struct sim *sim, const struct manifest *m, const struct optimizer *o)
{
    struct cut_rows c = {.sim = sim, .m = m, .slots = optimizer_slots(o)};
    struct checkpoint_table table[SIM_TABLES];
    struct checkpoint_rows_wanted w = {.buckets = {0, ROW_BUCKETS},
                                       .tables = SIM_TABLES,
                                       .table = table,
                                       .sink = {take_group, &c}};
    struct errmsg e = {""};
    for (uint32_t t = 0; t < SIM_TABLES; t++) {
        const struct row_table_spec *spec = &sim_row_layout.table[t];
        table[t] = (struct checkpoint_table){.dim = spec->dim, .slots = spec->dim * c.slots};
        memcpy(table[t].name, spec->name, sizeof table[t].name);
    }
    c.sync = sim->config.settings.update == GRADWIRE__UPDATE__SYNC;
    if (c.sync)
        c.want = sim->rows.state[m->step];
    else
        rows_of_ids(&c, o);
    if (!all_buckets(m) || sim_disk_read_rows(sim, m, &w, &e))
        sim_fail(sim, "cut %" PRIu64 " of step %" PRIu64 ": %s", m->cut, m->step,
                 e.text[0] ? e.text : "its files have other buckets, or another clock");
    for (uint32_t i = 0; i < SIM_TABLES * SIM_KEYS && !sim->failed; i++)
        if (c.want.row[i / SIM_KEYS][i % SIM_KEYS].there && !c.found[i / SIM_KEYS][i % SIM_KEYS])
            sim_fail(sim, "cut %" PRIu64 " of step %" PRIu64 " has no key %u of table %s", m->cut,
                     m->step, i % SIM_KEYS, sim_row_layout.table[i / SIM_KEYS].name);
    sim_rows_seen.cuts++;
}
