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
    const struct row_table_spec *spec = &sim_row_layout.table[table];
    if (r->there)
        memcpy(w, r->w, spec->dim * sizeof *w);
    else
        row_first_value(spec, sim->config.settings.seed, sim->rows.mixed[spec->list][key], w);
}

/* One update of one row: the first one makes it. */
static void update_row(const struct sim *sim, const struct optimizer *o, uint32_t table,
                       uint32_t key, const float *g, float inv_n, struct sim_row *r)
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
                update_row(sim, o, t, key, g, 1.0f / (float)examples, r);
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

void sim_check_rows(struct sim *sim, uint64_t step, const struct row_values *v)
{
    for (uint32_t t = 0; t < sim_row_layout.tables; t++) {
        uint32_t list = sim_row_layout.table[t].list, dim = sim_row_layout.table[t].dim;
        for (uint32_t i = 0; i < v->list[list].keys; i++) {
            float want[SIM_DIM_MAX];
            uint32_t key = sim_rows_place(sim, list, v->list[list].mixed[i]);
            read_row(sim, t, key, &sim->rows.state[step].row[t][key], want);
            if (memcmp(want, v->w[t] + (size_t)i * dim, dim * sizeof *want) != 0)
                sim_fail(sim, "step %" PRIu64 ": key %u of table %s is %a, it should be %a", step,
                         key, sim_row_layout.table[t].name, (double)v->w[t][(size_t)i * dim],
                         (double)want[0]);
        }
    }
}
