/* An evaluation: threads take blocks of rows in turn, look up their tables' rows, and run the model forward; the sums of the
 * blocks are added in their order. The first error stops all threads. */
#include "evaluate/evaluate.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/dataset.h"
#include "evaluate/ranking.h"
#include "model/metric.h"

enum { ROWS = 250 /* of a block */ };

/* ---- the rows of tables that blocks look up ---- */

/* All compute threads collect the keys; the rows are read for a window of blocks, and each thread copies those of its block. */

enum { WINDOW_BLOCKS = 32 };

/* The rows of one thread's block. */
struct row_lane {
    struct row_values own;
    struct leaf_rows rows;
    struct row_misses *misses; /* (lookups) of all blocks */
};

struct eval_rows {
    const struct row_layout *layout;
    struct source *source;
    struct pool *pool;
    struct row_lane *lane; /* (threads) */
    /* (gathered_n) of the blocks of a window whose keys are collected, then one of each thread */
    struct leaf_buffer **gathered;
    uint32_t gathered_n;
    struct leaf keys[WINDOW_BLOCKS]; /* for blocks [first, end), at most WINDOW_BLOCKS of them */
    uint64_t first, end;
    bool kept;   /* `keys` has those of the whole window */
    bool counts; /* the lookups that find nothing */
    struct row_values rows, joined;
    atomic_ullong next;
    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};

static enum err eval_rows_make(struct eval_rows *r, struct errmsg *e)
{
    enum err err = ERR_OK;
    const uint32_t threads = pool_threads(r->pool);
    r->lane = mem_zalloc(threads, sizeof *r->lane);
    r->gathered_n = threads > WINDOW_BLOCKS ? threads : WINDOW_BLOCKS;
    r->gathered = mem_zalloc(r->gathered_n, sizeof *r->gathered);
    for (uint32_t i = 0; r->lane && i < threads; i++)
        row_values_init(&r->lane[i].own, r->layout);
    for (uint32_t i = 0; r->lane && i < threads && !err; i++) {
        r->lane[i].misses = mem_zalloc(r->source->form.schema->lookups, sizeof *r->lane[i].misses);
        err = r->lane[i].misses ? ERR_OK : ERR_NOMEM;
    }
    if (err || !r->lane || !r->gathered)
        return err_memory_for(e, "evaluation");
    for (uint32_t i = 0; i < r->gathered_n && !err; i++)
        err = leaf_buffer_new(&r->gathered[i], &r->source->form, ROWS, LEAF_LOOKUPS, e);
    return err;
}

static void eval_rows_free(struct eval_rows *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; r->lane && i < pool_threads(r->pool); i++) {
        row_values_close(&r->lane[i].own);
        mem_free(r->lane[i].misses);
    }
    for (uint32_t i = 0; r->gathered && i < r->gathered_n; i++)
        leaf_buffer_free(r->gathered[i]);
    mem_free(r->gathered);
    row_values_close(&r->rows);
    row_values_close(&r->joined);
    mem_free(r->lane);
    mem_free(r);
}

/* All arguments must outlive it. Errors: ERR_NOMEM. */
static enum err eval_rows_new(struct eval_rows **out, const struct row_layout *layout,
                              struct source *source, struct pool *pool, struct errmsg *e)
{
    assert(pool_threads(pool) >= 1);
    struct eval_rows *r = mem_zalloc(1, sizeof *r);
    if (!r)
        return err_memory_for(e, "evaluation");
    r->layout = layout;
    r->source = source;
    r->pool = pool;
    row_values_init(&r->rows, layout);
    row_values_init(&r->joined, layout);
    enum err err = eval_rows_make(r, e);
    if (err) {
        eval_rows_free(r);
        return err;
    }
    *out = r;
    return ERR_OK;
}

static enum err gather_block(struct source *s, uint64_t block, struct leaf_buffer *to,
                             struct leaf *leaf, struct errmsg *e)
{
    return source_block(s, block * ROWS, ROWS, to, leaf, e);
}

static void gather_keys_of_blocks(void *ctx, uint32_t thread)
{
    struct eval_rows *r = ctx;
    uint64_t block;
    (void)thread;
    while ((block = atomic_fetch_add(&r->next, 1)) < r->end) {
        struct errmsg e;
        enum err err = gather_block(r->source, block, r->gathered[block - r->first],
                                    &r->keys[block - r->first], &e);
        if (err && !atomic_exchange(&r->failed, true)) {
            r->err = err;
            r->e = e;
        }
    }
}

/* Add the keys of blocks [first, end), at most WINDOW_BLOCKS, to r->rows. */
static enum err eval_rows_add_keys(struct eval_rows *r, uint64_t first, uint64_t end,
                                   struct errmsg *e)
{
    struct key_list list[ROW_TABLES_MAX];
    const struct leaf_keys had = {.lists = r->layout->lists, .list = list};
    const struct leaf_keys *leaf[WINDOW_BLOCKS + 1] = {&had};
    r->first = first;
    r->end = end;
    atomic_store(&r->next, first);
    atomic_store(&r->failed, false);
    pool_run(r->pool, gather_keys_of_blocks, r);
    if (atomic_load(&r->failed))
        return err_set(e, r->err, "%s", r->e.text);
    for (uint32_t i = 0; i < r->layout->lists; i++)
        list[i] = (struct key_list){r->rows.list[i].keys, r->rows.list[i].mixed};
    for (uint64_t i = 0; i < end - first; i++)
        leaf[i + 1] = r->keys[i].keys;
    enum err err = row_values_want(&r->joined, leaf, (uint32_t)(end - first) + 1, e);
    if (err)
        return err;
    struct row_values was = r->rows;
    r->rows = r->joined;
    r->joined = was;
    return ERR_OK;
}

/* Collect the keys of blocks [first, end), and read their rows. Errors: ERR_NOMEM, ERR_DISK; the reader's. Thread:
 * the pool's owner; the reader is called on it. */
static enum err eval_rows_read(struct eval_rows *r, const struct row_reader *reader, uint64_t first,
                               uint64_t end, struct errmsg *e)
{
    enum err err = row_values_want(&r->rows, NULL, 0, e);
    for (uint64_t at = first; at < end && !err; at += WINDOW_BLOCKS)
        err = eval_rows_add_keys(r, at, end - at < WINDOW_BLOCKS ? end : at + WINDOW_BLOCKS, e);
    r->kept = end - first <= WINDOW_BLOCKS;
    return err ? err : reader->read(reader->ctx, &r->rows, e);
}

static enum err eval_rows_copy(struct eval_rows *r, struct row_lane *l,
                               const struct leaf_keys *keys, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < r->layout->lists && !err; i++) {
        err = row_values_reserve(&l->own, i, keys->list[i].keys, e);
        uint32_t found =
            err ? 0 : row_values_copy(&r->rows, i, &keys->list[i], l->own.w, l->own.absent[i]);
        assert(err || found == keys->list[i].keys);
        (void)found;
    }
    for (uint32_t t = 0; t < r->layout->tables; t++)
        l->rows.w[t] = l->own.w[t];
    return err;
}

/* Set the keys and rows of *x for a block of that window; valid until the thread's next call. Errors: ERR_NOMEM,
 * ERR_DISK. Thread: the pool's thread `thread`. */
static enum err eval_rows_set(struct eval_rows *r, uint32_t thread, uint64_t block, struct leaf *x,
                              struct errmsg *e)
{
    struct row_lane *l = &r->lane[thread];
    struct leaf again = {.keys = NULL};
    enum err err = ERR_OK;
    if (!r->kept)
        err = gather_block(r->source, block, r->gathered[thread], &again, e);
    x->keys = r->kept ? r->keys[block - r->first].keys : again.keys;
    x->rows = &l->rows;
    if (!err)
        err = eval_rows_copy(r, l, x->keys, e);
    const struct table_schema *s = r->source->form.schema;
    for (uint32_t i = 0; i < s->lookups && !err && r->counts; i++) {
        const uint32_t list = s->lookup[i].list;
        row_misses_count(&l->misses[i], &x->keys->column[i], x->n, &x->keys->list[list],
                         l->own.absent[list]);
    }
    return err;
}

/* ---- keys without a row ---- */

enum { FOUND_FEW = 100 /* one lookup in so many */ };

/* The first table of the list that has a row for each learned key; NULL: each can lack some (admission). */
static const char *table_of_list(const struct row_layout *layout, uint32_t list)
{
    for (uint32_t t = 0; t < layout->tables; t++)
        if (layout->table[t].list == list && !row_admission_on(&layout->table[t].admission))
            return layout->table[t].name;
    return NULL;
}

static bool finds_too_few(const struct table_schema *s, const struct row_layout *layout,
                          const struct row_misses *m, uint32_t lookup)
{
    const uint64_t found = m->lookups - m->missed;
    const bool cross = s->key[s->lookup[lookup].key].kind == COLUMN_CROSS;
    return m->kept == ROW_MISSES_KEPT && table_of_list(layout, s->lookup[lookup].list) &&
           (found == 0 || (!cross && found < m->lookups / FOUND_FEW));
}

/* The rows whose key is a missing value's, which has no row, if they are more than a quarter, and not a few; 0: they are not. */
static uint64_t rows_without_value(const struct table_key *k, const struct row_layout *layout,
                                   const struct row_misses *m, uint32_t list)
{
    enum { FEW = 20 };
    uint64_t key;
    if (k->kind == COLUMN_CROSS || !table_of_list(layout, list) ||
        !word_key_missing(&k->options, k->seed, &key))
        return 0;
    for (uint32_t i = 0; i < m->kept; i++)
        if (m->mixed[i] == key_mix(key) && m->times[i] >= FEW && m->times[i] > m->rows / 4)
            return m->times[i];
    return 0;
}

static bool has_row(const struct row_layout *layout, uint32_t list, uint64_t key,
                    const struct row_reader *rows)
{
    struct row_values v;
    struct errmsg e;
    bool has = false;
    row_values_init(&v, layout);
    if (!row_values_reserve(&v, list, 1, &e)) {
        v.list[list].mixed[0] = key_mix(key);
        has = !rows->read(rows->ctx, &v, &e) && !v.absent[list][0];
    }
    row_values_close(&v);
    return has;
}

/* In libsvm, of rows whose indices are shifted by one, 0 or the one above the largest is new. */
static void say_first_index(const struct job *job, const struct row_layout *layout,
                            const struct row_misses *m, uint32_t list,
                            const struct row_reader *rows)
{
    bool zero_is_new = false;
    char what[120];
    for (uint32_t i = 0; i < m->kept; i++)
        zero_is_new |= key_unmix(m->mixed[i]) == 0;
    if (zero_is_new)
        (void)snprintf(what, sizeof what, "it has the index 0, which the model has not learned");
    else if (m->kept == 1 && !m->zeros && m->rows >= ROW_MISSES_KEPT &&
             has_row(layout, list, 0, rows))
        (void)snprintf(what, sizeof what,
                       "it lacks the index 0, which the model has learned, and %" PRIu64 " is new",
                       key_unmix(m->mixed[0]));
    else
        return;
    log_warn("%s: %s: do indices count from 0 here, and from 1, as in LIBSVM, in data.train, or "
             "in reverse? Write both files from the same number",
             dataset_eval_name(job), what);
}

void evaluator_say_misses(const struct job *job, const struct table_schema *schema,
                          const struct row_layout *layout, const struct row_misses *misses,
                          const struct row_reader *rows)
{
    if (job->data.format == DATA_LIBSVM && schema->lookups && !schema->key[0].options.buckets &&
        table_of_list(layout, schema->lookup[0].list))
        say_first_index(job, layout, &misses[0], schema->lookup[0].list, rows);
    for (uint32_t i = 0; i < schema->lookups; i++) {
        const struct row_misses *m = &misses[i];
        const struct table_key *key = &schema->key[schema->lookup[i].key];
        bool says = finds_too_few(schema, layout, m, i);
        uint64_t blank = rows_without_value(key, layout, m, schema->lookup[i].list);
        for (uint32_t k = 0; k < i && (says || blank); k++)
            if (schema->lookup[k].key == schema->lookup[i].key) {
                says = says && !finds_too_few(schema, layout, &misses[k], k);
                if (rows_without_value(key, layout, &misses[k], schema->lookup[k].list))
                    blank = 0;
            }
        if (blank)
            log_warn("%s: column %s: %" PRIu64 " of %" PRIu64
                     " rows have no value, of which the model has learned nothing, as no row of "
                     "data.train lacked one: check the files, and data.missing",
                     dataset_eval_name(job), SHOWN(key->name), blank, m->rows);
        if (says)
            log_warn("%s: column %s: of %" PRIu64 " lookups in table %s, %" PRIu64
                     " find a row: the model has not learned keys such as %" PRIu64
                     "%s. Check that the column is the one of data.train, with values written as "
                     "there (case, blanks, prefixes)",
                     dataset_eval_name(job), SHOWN(key->name), m->lookups,
                     table_of_list(layout, schema->lookup[i].list), m->lookups - m->missed,
                     key_unmix(m->mixed[0]),
                     key->kind == COLUMN_CROSS || key->options.hash ? " (a hash)" : "");
    }
}

static void eval_rows_begin(struct eval_rows *r, bool counts)
{
    const uint32_t lookups = r->source->form.schema->lookups;
    r->counts = counts;
    for (uint32_t k = 0; k < pool_threads(r->pool); k++)
        memset(r->lane[k].misses, 0, lookups * sizeof *r->lane[k].misses);
}

/* The evaluation is complete. */
static void eval_rows_say_misses(struct eval_rows *r, const struct job *job,
                                 const struct row_reader *rows)
{
    const struct table_schema *s = r->source->form.schema;
    struct row_misses *all = r->lane[0].misses;
    for (uint32_t k = 1; k < pool_threads(r->pool); k++)
        for (uint32_t i = 0; i < s->lookups; i++)
            row_misses_join(&all[i], &r->lane[k].misses[i]);
    evaluator_say_misses(job, s, r->layout, all, rows);
}

/* ---- an evaluation ---- */

/* One thread's memory. */
struct lane {
    struct model_run *run;
    struct leaf_buffer *buffer; /* of values */
    struct leaf leaf;           /* the block that it evaluates */
};

struct evaluator {
    const struct job *job;
    const struct model *model;
    struct source *source;
    struct pool *pool;
    struct lane *lane; /* (threads) */
    const float *w;
    struct eval_rows *rows; /* NULL: the model has no tables */
    uint64_t blocks, end;   /* end: of the blocks whose rows are read */
    atomic_ullong next;
    atomic_bool stopped;
    struct sums *sums;                      /* one for each block */
    struct ranking *ranking[JOB_HEADS_MAX]; /* NULL: no metric of the head needs METRIC_SCORES */
    bool said_undefined[METRICS_MAX];
    bool counted;       /* by an evaluation, what lookups find */
    atomic_bool failed; /* the setter also sets err and e */
    enum err err;
    struct errmsg e;
};

static enum err make_lanes(struct evaluator *v, uint32_t threads, struct errmsg *e)
{
    assert(model_labels(v->model) == 1); /* the source has one label */
    enum err err = v->lane && v->sums ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; !err && i < threads; i++) {
        struct lane *l = &v->lane[i];
        err = leaf_buffer_new(&l->buffer, &v->source->form, ROWS, LEAF_VALUES, e);
        if (!err)
            err = model_run_new(&l->run, v->model, ROWS, e);
    }
    return err ? err_set(e, err, "no memory for evaluation") : ERR_OK;
}

static enum err evaluator_make(struct evaluator *v, uint32_t threads, struct errmsg *e)
{
    const struct row_layout *rows = model_layout(v->model)->rows;
    enum err err = make_lanes(v, threads, e);
    if (!err && rows)
        err = eval_rows_new(&v->rows, rows, v->source, v->pool, e);
    for (uint32_t h = 0; h < v->job->model.heads && !err; h++)
        if (metric_is_needed(v->job, h, METRIC_SCORES))
            err = ranking_new(&v->ranking[h], v->source->rows * v->job->model.head[h].labels,
                              threads, v->source->spill, RANKING_ROOM_BYTES, e);
    return err;
}

enum err evaluator_new(struct evaluator **out, const struct job *job, const struct model *model,
                       struct source *source, struct pool *pool, struct errmsg *e)
{
    struct evaluator *v = mem_zalloc(1, sizeof *v);
    uint32_t threads = pool_threads(pool);
    if (!v)
        return err_memory_for(e, "evaluation");
    v->job = job;
    v->model = model;
    v->source = source;
    v->pool = pool;
    v->blocks = (source->rows + ROWS - 1) / ROWS;
    v->lane = mem_zalloc(threads, sizeof *v->lane);
    v->sums = mem_zalloc(v->blocks, sizeof *v->sums);
    enum err err = evaluator_make(v, threads, e);
    if (err) {
        evaluator_free(v);
        return err;
    }
    *out = v;
    return ERR_OK;
}

void evaluator_free(struct evaluator *v)
{
    if (!v)
        return;
    for (uint32_t i = 0; v->lane && i < pool_threads(v->pool); i++) {
        model_run_free(v->lane[i].run);
        leaf_buffer_free(v->lane[i].buffer);
    }
    mem_free(v->lane);
    mem_free(v->sums);
    eval_rows_free(v->rows);
    for (uint32_t h = 0; h < JOB_HEADS_MAX; h++)
        ranking_free(v->ranking[h]);
    mem_free(v);
}

/* Add the scores of a head in the thread's last pass, over these examples. */
static enum err rank_block(struct evaluator *v, uint32_t thread, uint32_t head,
                           const struct leaf *x, struct errmsg *e)
{
    struct scored scored[ROWS];
    enum err err = ERR_OK;
    for (uint32_t label = 0; label < v->job->model.head[head].labels && !err; label++) {
        uint32_t n = metric_scores(v->lane[thread].run, head, label, x, scored);
        err = ranking_add(v->ranking[head], thread, scored, n, e);
    }
    return err;
}

static enum err evaluate_block(struct evaluator *v, uint32_t thread, uint64_t block,
                               struct errmsg *e)
{
    struct lane *l = &v->lane[thread];
    struct leaf *leaf = &l->leaf;
    enum err err = gather_block(v->source, block, l->buffer, leaf, e);
    if (err)
        return err;
    v->sums[block] = (struct sums){0};
    if (leaf->n == 0)
        return ERR_OK;
    if (v->rows)
        err = eval_rows_set(v->rows, thread, block, leaf, e);
    if (err)
        return err;
    model_eval(l->run, v->w, leaf, &v->sums[block]);
    for (uint32_t h = 0; h < v->job->model.heads && !err; h++)
        if (v->ranking[h])
            err = rank_block(v, thread, h, leaf, e);
    return err;
}

static void evaluate_blocks(void *ctx, uint32_t thread)
{
    struct evaluator *v = ctx;
    uint64_t block;
    while (!atomic_load(&v->stopped) && (block = atomic_fetch_add(&v->next, 1)) < v->end) {
        struct errmsg e;
        enum err err = evaluate_block(v, thread, block, &e);
        if (err && !atomic_exchange(&v->failed, true)) {
            v->err = err;
            v->e = e;
        }
        if (err)
            evaluator_stop(v);
    }
}

void evaluator_stop(struct evaluator *v)
{
    atomic_store(&v->stopped, true);
}

/* Add all blocks' sums, in their order. */
static struct sums join_blocks(const struct evaluator *v)
{
    struct sums all = {0};
    for (uint64_t i = 0; i < v->blocks; i++)
        sums_add(&all, &v->sums[i]);
    return all;
}

/* The metrics that need METRIC_SCORES, while the rows are visited. */
struct ranked {
    uint32_t metrics;
    uint32_t head; /* the one with the rows */
    const struct job_metric *metric;
    const struct metric_type *type[METRICS_MAX]; /* NULL: it needs something else */
    _Alignas(max_align_t) char of[METRICS_MAX][METRIC_RANKED_BYTES];
};

static void add_scored(void *ctx, const struct scored *row)
{
    struct ranked *r = ctx;
    for (uint32_t i = 0; i < r->metrics; i++)
        if (r->type[i] && r->metric[i].head == r->head)
            r->type[i]->add_scored(r->of[i], row);
}

/* Logged once, because it is the same in each epoch. */
static void say_undefined(struct evaluator *v, const struct sums *sums, uint32_t i, double value)
{
    const struct job_metric *metric = &v->job->model.metric[i];
    const char *why = metric_type_of(metric->kind)->undefined, *of = "";
    if (job_has_weights(v->job)) {
        bool weighs = metric_examples(v->job, metric->head, sums->metric, sums->examples) > 0;
        why = weighs ? why : "have weight 0";
        of = weighs ? " with a weight above 0" : "";
    }
    if (!why || !isnan(value) || !isfinite(sums->loss) || sums->examples == 0 ||
        v->said_undefined[i])
        return;
    log_warn("eval: %s is not defined, and shown as \"-\": all rows of %s%s %s", metric->name,
             dataset_eval_name(v->job), of, why);
    v->said_undefined[i] = true;
}

/* Compute the job's metrics from the sums over all rows, and from the rows in order. */
static enum err make_metrics(struct evaluator *v, const struct sums *sums, double *metric,
                             struct errmsg *e)
{
    const struct job *job = v->job;
    struct ranked ranked = {.metrics = job->model.metrics, .metric = job->model.metric};
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < job->model.metrics; i++) {
        const struct metric_type *type = metric_type_of(job->model.metric[i].kind);
        ranked.type[i] = type->needs == METRIC_SCORES ? type : NULL;
    }
    for (; ranked.head < job->model.heads && !err; ranked.head++)
        if (v->ranking[ranked.head])
            err = ranking_walk(v->ranking[ranked.head], add_scored, &ranked, e);
    if (err)
        return err_wrap(e, err, "evaluation: ");
    for (uint32_t i = 0; i < job->model.metrics; i++) {
        const struct metric_type *type = ranked.type[i];
        metric[i] = type ? type->value_of_scored(ranked.of[i])
                         : metric_value(job, i, sums->metric, sums->examples);
        say_undefined(v, sums, i, metric[i]);
    }
    return ERR_OK;
}

/* Run window by window if rows are read, otherwise all blocks. */
static enum err run_windows(struct evaluator *v, const struct row_reader *rows, struct errmsg *e)
{
    bool parts = v->rows && !rows->in_one_pass && v->blocks > WINDOW_BLOCKS;
    uint64_t window = parts ? WINDOW_BLOCKS : v->blocks;
    for (uint64_t first = 0; first < v->blocks && !atomic_load(&v->stopped); first = v->end) {
        v->end = v->blocks - first < window ? v->blocks : first + window;
        enum err err = v->rows ? eval_rows_read(v->rows, rows, first, v->end, e) : ERR_OK;
        if (err)
            return err_wrap(e, err, "evaluation: ");
        atomic_store(&v->next, first);
        pool_run(v->pool, evaluate_blocks, v);
    }
    return v->err ? err_set(e, v->err, "evaluation: %s", v->e.text) : ERR_OK;
}

enum err evaluator_run(struct evaluator *v, const float *w, const struct row_reader *rows,
                       struct sums *out, struct errmsg *e)
{
    assert(!v->rows || rows);
    v->w = w;
    if (v->rows)
        eval_rows_begin(v->rows, !v->counted && !rows->untrained);
    for (uint32_t h = 0; h < v->job->model.heads; h++)
        if (v->ranking[h])
            ranking_begin(v->ranking[h]);
    atomic_store(&v->stopped, false);
    atomic_store(&v->failed, false);
    v->err = ERR_OK;
    enum err err = run_windows(v, rows, e);
    for (uint32_t i = 0; i < pool_threads(v->pool) && !err; i++)
        err = model_run_fault(v->lane[i].run, e);
    if (err)
        return err;
    const struct sums sums = join_blocks(v);
    struct sums all = {.examples = sums.examples, .loss = sums.loss};
    if (all.examples > 0)
        all.loss = all.loss / all.examples + model_penalty(v->model, w);
    err = make_metrics(v, &sums, all.metric, e);
    if (!err && v->rows && v->rows->counts) {
        v->counted = true;
        eval_rows_say_misses(v->rows, v->job, rows);
    }
    if (!err)
        *out = all;
    return err;
}
