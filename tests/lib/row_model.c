#include "tests/lib/row_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "common/rows/key.h"
#include "common/rows/row_layout.h"

/* The optimizer of a table's rows: its own sgd, or the job's. */
static struct optimizer updates_of(const struct rig *c, uint32_t table)
{
    const struct row_table_spec *t = &c->layout.rows->table[table];
    return t->has_optimizer ? t->optimizer
                            : (struct optimizer){.learning_rate = c->settings.learning_rate,
                                                 .momentum = c->settings.momentum};
}

static void model_first(struct rig *c, struct row_model *m, uint32_t table, uint32_t k)
{
    row_first_value(&c->layout.rows->table[table], RIG_SEED, c->key[k], m->w[table][k]);
    m->there[table][k] = true;
}

void row_model_step(struct rig *c, struct row_model *m, const struct rig_grads *sum,
                    uint32_t examples)
{
    for (uint32_t i = 0; i < RIG_TABLES && examples; i++) {
        const struct optimizer o = updates_of(c, i);
        for (uint32_t k = 0; k < RIG_KEYS; k++) {
            if (!sum->touched[rig_list[i]][k])
                continue;
            if (!m->there[i][k])
                model_first(c, m, i, k);
            for (uint32_t j = 0; j < rig_dim[i]; j++) {
                float mean = sum->g[i][k][j] * (1.0f / (float)examples), *v = &m->v[i][k][j];
                *v = *v * o.momentum - mean * o.learning_rate;
                m->w[i][k][j] += *v;
            }
        }
    }
}

struct rig_grads row_model_sum(const struct rig_grads leaf[RIG_LEAVES], struct tree_node of)
{
    if (of.level == 0)
        return leaf[of.index];
    struct rig_grads a = row_model_sum(leaf, (struct tree_node){of.level - 1, of.index * 2});
    struct rig_grads b = row_model_sum(leaf, (struct tree_node){of.level - 1, of.index * 2 + 1});
    struct rig_grads out = a;
    for (uint32_t i = 0; i < RIG_TABLES; i++)
        for (uint32_t k = 0; k < RIG_KEYS; k++)
            for (uint32_t j = 0; j < rig_dim[i] && b.touched[rig_list[i]][k]; j++)
                out.g[i][k][j] =
                    a.touched[rig_list[i]][k] ? a.g[i][k][j] + b.g[i][k][j] : b.g[i][k][j];
    for (uint32_t list = 0; list < RIG_LISTS; list++)
        for (uint32_t k = 0; k < RIG_KEYS; k++)
            out.touched[list][k] = a.touched[list][k] || b.touched[list][k];
    return out;
}

void row_model_check(const struct rig *c, uint32_t shard, const struct rig_sent *s,
                     const struct row_model *m)
{
    struct bucket_range of = bucket_shard(shard, c->shards);
    const uint8_t *at = s->body;
    assert_int_equal(s->type, FRAME_ROWS);
    assert_false(s->gone);
    for (uint32_t i = 0; i < RIG_TABLES; i++) {
        uint32_t n = 0, mine[RIG_KEYS], marks[RIG_KEYS / 32 + 1];
        for (uint32_t k = 0; k < RIG_KEYS; k++)
            if (key_bucket(c->key[k]) >= of.first && key_bucket(c->key[k]) < of.end)
                mine[n++] = k;
        memcpy(marks, at, (n + 31) / 32 * sizeof *marks);
        at += (n + 31) / 32 * sizeof *marks;
        for (uint32_t q = 0; q < n; q++) {
            bool there = marks[q / 32] >> q % 32 & 1;
            assert_int_equal(there, m->there[i][mine[q]]);
            if (!there)
                continue;
            assert_memory_equal(at, m->w[i][mine[q]], rig_dim[i] * sizeof(float));
            at += rig_dim[i] * sizeof(float);
        }
    }
    assert_int_equal((uint64_t)(at - s->body), s->bytes);
}

void row_model_check_now(struct rig *c, const struct row_model *m)
{
    for (uint32_t i = 0; i < c->shards; i++) {
        c->node[i].logged = 0;
        rig_ask(c, i, 0, 1, rig_step(c, i));
        row_model_check(c, i, rig_last(c, i), m);
    }
}
