/* Tables of rows by key: which tables exist, from the layers that look up in them; their settings in the section
 * `tables`; and what excludes tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/words.h"
#include "common/parameters/layout.h"
#include "job/keys.h"
#include "job/read.h"

/* ---- tables from the layers ---- */

static uint32_t dim_of(const struct job_layer *l)
{
    return l->kind == LAYER_LINEAR      ? 1
           : l->kind == LAYER_EMBEDDING ? l->embedding.output_dim
                                        : l->embedding_bag.output_dim;
}

/* A table's name is a key in the section `tables`. */
static enum err add_table(struct job_reader *r, const struct job_node *at, struct job_layer *layer)
{
    /* keras/src/layers/core/embedding.py: "uniform"; TensorFlow's wide model starts at 0. */
    static const struct job_weights uniform = {
        .initializer = INIT_RANDOM_UNIFORM, .init_value = 0.05f, .init_other = -0.05f};
    static const struct job_weights zeros = {.initializer = INIT_ZEROS};
    struct job *job = r->job;
    uint32_t dim = dim_of(layer);
    if (job->model.tables == ROW_TABLES_MAX)
        return REFUSE_LAYER(r, at, "more than %d tables", ROW_TABLES_MAX);
    if (strchr(layer->table_name, '.'))
        return REFUSE_LAYER(r, at,
                            "its table would have the name %s; set table to a name without .",
                            layer->table_name);
    if (dim > ROW_DIM_MAX)
        return REFUSE_LAYER(r, at, "rows of length %u; allowed: up to %d", dim, ROW_DIM_MAX);
    struct job_table *t = &job->model.table[job->model.tables];
    *t = (struct job_table){.dim = dim, .init = layer->kind == LAYER_LINEAR ? zeros : uniform};
    memcpy(t->name, layer->table_name, sizeof t->name);
    layer->table = job->model.tables++;
    return ERR_OK;
}

static enum err find_table(struct job_reader *r)
{
    struct job *job = r->job;
    struct job_layer *layer = &job->model.layer[r->layer];
    const struct job_node *at = r->at[r->layer].layer;
    if (!layer->table_name[0])
        memcpy(layer->table_name, layer->name, sizeof layer->table_name);
    for (uint32_t t = 0; t < job->model.tables; t++) {
        const struct job_table *table = &job->model.table[t];
        if (strcmp(table->name, layer->table_name) != 0)
            continue;
        layer->table = t;
        if (table->dim != dim_of(layer))
            return REFUSE_LAYER(r, at,
                                "it looks up rows of length %u in table %s, and an earlier layer "
                                "gives them the length %u; give it a table of its own",
                                dim_of(layer), table->name, table->dim);
        return ERR_OK;
    }
    return add_table(r, at, layer);
}

static enum err find_tables(struct job_reader *r)
{
    enum err err = ERR_OK;
    for (r->layer = 0; r->layer < r->job->model.layers && !err; r->layer++)
        if (job_layer_looks_up(&r->job->model.layer[r->layer]))
            err = find_table(r);
        else if (r->job->model.layer[r->layer].table_name[0])
            err = REFUSE_LAYER(
                r, r->at[r->layer].layer,
                "with input_dim its rows are in the model, not in a table; remove one of the two");
    return err;
}

/* ---- lists of keys ---- */

/* A set of columns, one bit each. */
struct column_set {
    uint64_t bits[JOB_COLUMNS_MAX / 64];
};

static void collect_columns(const struct job *job, struct column_set *set)
{
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        for (uint32_t k = 0; k < l->lookups; k++) {
            uint32_t column = job->model.lookup[l->first_lookup + k].column;
            set[l->table].bits[column / 64] |= UINT64_C(1) << (column % 64);
        }
    }
}

static void number_lists(struct job *job, const struct column_set *set)
{
    job->model.lists = 0;
    for (uint32_t t = 0; t < job->model.tables; t++) {
        uint32_t same = 0;
        while (memcmp(&set[same], &set[t], sizeof *set) != 0)
            same++;
        job->model.table[t].list = same < t ? job->model.table[same].list : job->model.lists++;
    }
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        for (uint32_t k = 0; k < l->lookups; k++)
            job->model.lookup[l->first_lookup + k].list = job->model.table[l->table].list;
    }
}

/* A plan names the tables of a list one after the other. */
static enum err check_lists(struct job_reader *r)
{
    const struct job_table *table = r->job->model.table;
    for (uint32_t t = 1; t < r->job->model.tables; t++) {
        uint32_t same = 0;
        if (table[t].list >= table[t - 1].list)
            continue;
        while (table[same].list != table[t].list)
            same++;
        return err_set(
            r->e, ERR_INPUT,
            "model.layers: the tables %s and %s are looked up by the same columns, and %s, between "
            "them, by others: put the layers of the same columns one after the other",
            table[same].name, table[t].name, table[t - 1].name);
    }
    return ERR_OK;
}

static enum err settle_lists(struct job_reader *r)
{
    struct column_set *set = mem_zalloc(ROW_TABLES_MAX, sizeof *set);
    if (!set)
        return err_memory(r->e);
    collect_columns(r->job, set);
    number_lists(r->job, set);
    mem_free(set);
    return check_lists(r);
}

/* ---- a table's update settings: optimizer, rate, schedule and warm-up ---- */

/* Those that the table does not give come from the job. If the table gives an optimizer, all options of this optimizer come from the
 * table. */

static struct job_updates updates_of(struct job_reader *r)
{
    return (struct job_updates){&r->job->model.table[r->table].optimizer,
                                JOB_TABLE_PREFIX ".optimizer", JOB_TABLE_PREFIX};
}

#define NO_NORMS                                                                                   \
    "lamb needs the norms of complete tensors, and a table of rows by key has none; choose "       \
    "another"
#define NO_AVERAGE "rows of tables have no average; remove it"

/* Words that the job's optimizer has and a table's has not. */
static const struct {
    const char *word, *why;
} not_of_tables[] = {
    {"lamb", NO_NORMS},
    {"use_ema", NO_AVERAGE},
    {"ema_momentum", NO_AVERAGE},
    {"ema_overwrite_frequency", NO_AVERAGE},
    {"exclude_from_weight_decay", "to exclude all rows of this table, set its weight_decay: 0"},
};

static enum err refuse_word(struct job_reader *r, const struct job_node *at, const char *path,
                            const char *word)
{
    for (size_t i = 0; i < sizeof not_of_tables / sizeof not_of_tables[0]; i++)
        if (word && strcmp(not_of_tables[i].word, word) == 0)
            return job_refuse(r, at, path, "%s", not_of_tables[i].why);
    return ERR_OK;
}

/* Refuses options that tables do not have; `node` is the table's map, or NULL. */
static enum err job_refuse_table_options(struct job_reader *r, const struct job_node *node)
{
    const char *group = JOB_TABLE_PREFIX ".optimizer";
    char path[2 * JOB_PATH_MAX];
    const struct job_node *o = node ? job_tree_child(node, "optimizer") : NULL;
    const struct job_node *kind = o && o->kind == NODE_MAP ? o->child : NULL;
    enum err err = o ? refuse_word(r, o, group, kind ? kind->key : o->text) : ERR_OK;
    const struct job_node *c = kind && kind->kind == NODE_MAP ? kind->child : NULL;
    for (; c && !err; c = c->next) {
        (void)snprintf(path, sizeof path, "%s.%.*s.%.*s", group, JOB_NAME_MAX, kind->key,
                       JOB_NAME_MAX, c->key);
        err = refuse_word(r, c, path, c->key);
    }
    return err;
}

static void inherit_from_job(struct job_table *t, const struct job *job)
{
    const struct schedule schedule = t->optimizer.schedule;
    const float rate = t->optimizer.learning_rate;
    if (!t->own_optimizer)
        t->optimizer = job->optimizer;
    t->optimizer.schedule = t->own_schedule ? schedule : job->optimizer.schedule;
    t->optimizer.schedule.warmup_steps =
        t->own_warmup ? schedule.warmup_steps : job->optimizer.schedule.warmup_steps;
    t->optimizer.learning_rate = t->own_rate ? rate : job->optimizer.learning_rate;
    if (!t->own_optimizer && layout_name_has_part(t->name, job->decay_exclude))
        t->optimizer.weight_decay = 0.0f;
}

static enum err job_settle_table_training(struct job_reader *r)
{
    struct job_table *t = &r->job->model.table[r->table];
    const struct job_updates of = updates_of(r);
    char path[JOB_PATH_MAX];
    bool given;
    t->own_optimizer = job_given(r, JOB_TABLE_PREFIX ".optimizer");
    t->own_schedule = job_given(r, JOB_TABLE_PREFIX ".learning_rate_schedule");
    t->own_warmup = job_given(r, JOB_TABLE_PREFIX ".warmup_steps");
    enum err err = job_settle_rate(r, &of, &given);
    if (!err && t->own_optimizer && !given)
        err = job_read_default(r, job_key_find(job_option_path(&of, "learning_rate", path)));
    if (err)
        return err;
    t->own_rate = t->own_optimizer || given;
    inherit_from_job(t, r->job);
    if (job_given(r, JOB_TABLE_PREFIX ".optimizer.sgd.nesterov") && t->optimizer.nesterov &&
        !(t->optimizer.momentum > 0))
        return job_refuse(r, NULL, JOB_TABLE_PREFIX ".optimizer.sgd.nesterov",
                          "it has no effect while momentum is 0; set momentum, or remove it");
    return job_check_schedule(r, &of);
}

/* ---- a table's admission ---- */

static enum err job_check_admission(struct job_reader *r)
{
    static const char sketch[] = JOB_TABLE_PREFIX ".sketch_mb";
    const struct job_table *t = &r->job->model.table[r->table];
    const bool counted = t->min_count > 1, drawn = t->probability < 1;
    const struct job_rule rules[] = {
        {t->unadmitted != UNADMITTED_ZEROS && !counted && !drawn, JOB_TABLE_PREFIX ".unadmitted",
         NULL,
         "it has no effect, because every touch makes a row; set min_count above 1 or probability "
         "below 1, or remove it"},
        {t->sketch_mb != strtoul(job_key_find(sketch)->fallback, NULL, 10) && !counted, sketch,
         NULL, "it has no effect without min_count above 1; set that, or remove it"},
        {0},
    };
    if (counted && drawn)
        return job_refuse(r, NULL, JOB_TABLE_PREFIX ".probability",
                          "it excludes min_count, which is %u; remove one of the two",
                          t->min_count);
    return job_check_rules(r, NULL, rules);
}

/* ---- the section `tables` ---- */

enum err job_read_tables(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node)
{
    if (node->kind != NODE_MAP && !job_tree_is_null(node))
        return job_refuse(r, node, key->path, "it must be a map, like {ids: {initializer: zeros}}");
    r->tables = node;
    return ERR_OK;
}

static enum err refuse_unknown(struct job_reader *r)
{
    const struct job_node *c = r->tables ? r->tables->child : NULL;
    for (; c; c = c->next) {
        uint32_t t = 0;
        while (t < r->job->model.tables && strcmp(r->job->model.table[t].name, c->key) != 0)
            t++;
        if (t < r->job->model.tables)
            continue;
        struct words near;
        words_init_name(&near, c->key);
        for (t = 0; t < r->job->model.tables; t++)
            words_try(&near, r->job->model.table[t].name);
        return job_refuse(r, c, "tables", "no layer looks up in a table called %.*s%s%s%s",
                          JOB_NAME_MAX, c->key, near.best ? "; did you mean " : "",
                          near.best ? near.best : "", near.best ? "?" : "");
    }
    return ERR_OK;
}

static enum err tables_read(struct job_reader *r)
{
    struct job_table *t = &r->job->model.table[r->table];
    const struct job_weights usual = t->init;
    const struct job_node *node = r->tables ? job_tree_child(r->tables, t->name) : NULL;
    if (node && node->kind == NODE_SCALAR && job_tree_is_null(node))
        node = NULL;
    if (node && node->kind != NODE_MAP)
        return job_refuse(r, node, JOB_TABLE_PREFIX, "it must be a map, like {initializer: zeros}");
    job_read_forget(r, JOB_TABLE_PREFIX);
    enum err err = job_refuse_table_options(r, node);
    if (!err)
        err = job_read_element(r, JOB_TABLE_PREFIX, node);
    if (!err && !job_given(r, JOB_TABLE_PREFIX ".initializer")) {
        t->init.initializer = usual.initializer;
        t->init.init_value = usual.init_value;
        t->init.init_other = usual.init_other;
    }
    if (!err)
        err = job_check_initializer(r, node, JOB_TABLE_PREFIX, "initializer", &t->init);
    if (!err)
        err = job_check_admission(r);
    return err ? err : job_settle_table_training(r);
}

enum err job_settle_tables(struct job_reader *r)
{
    enum err err = find_tables(r);
    if (!err)
        err = settle_lists(r);
    if (!err)
        err = refuse_unknown(r);
    for (r->table = 0; r->table < r->job->model.tables && !err; r->table++)
        err = tables_read(r);
    return err;
}

/* ---- settings that exclude tables ---- */

static bool is_crossed(const struct job_csv *csv, uint32_t column)
{
    uint32_t of[JOB_CROSS_MAX];
    for (uint32_t i = 0; i < csv->columns; i++) {
        uint32_t n =
            csv->column[i].kind == COLUMN_CROSS ? job_cross_columns(csv, &csv->column[i], of) : 0;
        for (uint32_t k = 0; k < n; k++)
            if (of[k] == column)
                return true;
    }
    return false;
}

static enum err tables_check_columns(struct job_reader *r)
{
    const struct job *job = r->job;
    for (uint32_t i = 0; i < job->data.csv.columns; i++) {
        const struct job_column *c = &job->data.csv.column[i];
        bool used = !job_column_has_keys(c) || is_crossed(&job->data.csv, i);
        for (uint32_t k = 0; k < job->model.lookups && !used; k++)
            used = job->model.lookup[k].column == i;
        if (!used)
            return job_refuse(r, job_column_node(r, i), JOB_COLUMN_PREFIX,
                              "no layer looks up the keys of %s; name it in the inputs of an "
                              "embedding, embedding_bag or linear, or write - ignore: %s",
                              SHOWN(c->name), SHOWN(c->name));
    }
    return ERR_OK;
}

static enum err tables_check_keys(struct job_reader *r)
{
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key))
        if (key->without_tables && !job_key_is_default(key, r->job))
            return job_refuse(r, NULL, key->path, "%s", key->without_tables);
    return ERR_OK;
}

enum err job_check_tables(struct job_reader *r)
{
    const struct job *job = r->job;
    const struct job_updates of = {&r->job->optimizer, "optimizer", "training"};
    char path[JOB_PATH_MAX];
    const struct job_rule rules[] = {
        {job->optimizer.use_ema, job_option_path(&of, "use_ema", path), NULL, NO_AVERAGE},
        {job->training.update == UPDATE_GEO, "training.update", NULL,
         "with tables of rows by key (layers over key columns) allowed: sync, async, ssp"},
        {optimizer_is_trusted(&job->optimizer), "optimizer", NULL, NO_NORMS},
        {job->compression.push == CODEC_TOP_K, "compression.push", NULL,
         "top_k does not work with tables of rows by key; choose another"},
        {job->optimizer.accumulation_steps > 1, "training.gradient_accumulation_steps", NULL,
         "it does not work with tables of rows by key; remove it"},
        {0},
    };
    enum err err = tables_check_columns(r);
    if (err || !job_has_tables(job))
        return err;
    err = job_check_rules(r, NULL, rules);
    return err ? err : tables_check_keys(r);
}
