/* A source that makes its rows up, from their numbers alone: nothing is loaded. It trains and is evaluated as the same rows in a
 * file are, to the bit, by everything above the interface of sources: loader, gradients, evaluation.
 * starts programs */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/math/kernels.h"
#include "common/math/optimizer.h"
#include "evaluate/evaluate.h"
#include "export/export.h"
#include "tests/lib/gathered.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/learned.h"
#include "worker/step/gradient.h"

/* The last batch of an epoch is short. Rows from ROWS on are evaluated. */
enum { ROWS = 1003, EVAL_ROWS = 611, FEATURES = 5, LEAVES = 4, THREADS = 2, LINE_BYTES = 100 };

/* ---- the rows ---- */

static bool is_absent(uint64_t row)
{
    return row % 50 == 7;
}

/* A multiple of 1/64: its text is the same number. */
static float number_of(uint64_t row, uint32_t feature)
{
    return (float)(rng_u64(row, feature) % 256) / 64 - 2;
}

static float label_of(uint64_t row)
{
    return number_of(row, 0) + number_of(row, 1) * number_of(row, 2) > 0 ? 1 : 0;
}

/* ---- the source ---- */

struct made_up {
    struct source source;
    uint64_t first; /* the number of its row 0 */
    atomic_ullong wanted;
};

static void add_row(const struct made_up *m, uint64_t row, struct leaf_buffer *buffer)
{
    if (is_absent(m->first + row))
        return;
    float *x = leaf_buffer_add_numbers(buffer, label_of(m->first + row));
    for (uint32_t i = 0; i < FEATURES; i++)
        x[i] = number_of(m->first + row, i);
}

static enum err make_leaf(struct source *s, uint64_t id, uint32_t leaf, struct leaf_buffer *buffer,
                          struct leaf *out, struct errmsg *e)
{
    uint64_t *rows = leaf_buffer_numbers(buffer);
    uint32_t n = order_leaf(&s->order, id, leaf, rows);
    leaf_buffer_clear(buffer);
    for (uint32_t i = 0; i < n; i++)
        add_row((struct made_up *)s, rows[i], buffer);
    return leaf_buffer_finish(buffer, out, e);
}

static enum err make_block(struct source *s, uint64_t first, uint32_t n, struct leaf_buffer *buffer,
                           struct leaf *out, struct errmsg *e)
{
    leaf_buffer_clear(buffer);
    for (uint32_t i = 0; i < n; i++)
        add_row((struct made_up *)s, first + i, buffer);
    return leaf_buffer_finish(buffer, out, e);
}

static void note_wanted(struct source *s, uint64_t id, uint64_t end_id, uint32_t first_leaf,
                        uint32_t leaves)
{
    (void)first_leaf;
    atomic_store(&((struct made_up *)s)->wanted, (end_id - id) * leaves);
}

static struct made_up made_up(uint64_t first, uint64_t rows)
{
    static const struct source_type type = {make_leaf, make_block, note_wanted, NULL};
    return (struct made_up){.source = {.type = &type, .rows = rows, .form = {.features = FEATURES}},
                            .first = first};
}

/* ---- the same rows in files, and a job for them ---- */

struct fixture {
    struct idx_files files;
    char path[300]; /* of the job */
    struct job job;
    struct model *model;
    struct pool *pool;
    struct order order;
    struct errmsg e;
};

static void must(struct fixture *f, enum err err)
{
    if (err)
        fail_msg("%s", f->e.text);
}

static void write_text(struct fixture *f, const char *name, const char *text)
{
    idx_files_write(&f->files, name, (struct bytes){(uint8_t *)(uintptr_t)text, strlen(text)});
}

static void write_rows(struct fixture *f, const char *name, uint64_t first, uint64_t rows)
{
    char *text = mem_zalloc(rows, LINE_BYTES), *at = text;
    assert_non_null(text);
    for (uint64_t row = first; row < first + rows; row++) {
        for (uint32_t i = 0; i < FEATURES; i++)
            at += sprintf(at, "%.9g,", (double)number_of(row, i));
        at += sprintf(at, "%s\n", is_absent(row) ? "no label" : label_of(row) > 0 ? "1" : "0");
    }
    write_text(f, name, text);
    mem_free(text);
}

static void write_job(struct fixture *f)
{
    char text[2000];
    snprintf(text, sizeof text,
             "model: {input: {shape: [%d]}, loss: binary_crossentropy, metrics: [accuracy, auc],\n"
             "  layers: [dense: {units: 9, activation: relu}, dropout: 0.2, dense: 1, sigmoid]}\n"
             "optimizer: {adam: {learning_rate: 0.01}}\n"
             "training: {epochs: 3, batch_size: 64, microbatches: %d}\nworker: {threads: %d}\n"
             "data: {format: csv, train: '%s/train.csv', eval: '%s/eval.csv', bad_rows: skip,\n"
             "  columns: [number: a, number: b, number: c, number: d, number: e, label: y]}\n",
             FEATURES, LEAVES, THREADS, f->files.dir, f->files.dir);
    write_text(f, "job.yaml", text);
    (void)snprintf(f->path, sizeof f->path, "%s", idx_files_path(&f->files, "job.yaml"));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    write_rows(f, "train.csv", 0, ROWS);
    write_rows(f, "eval.csv", ROWS, EVAL_ROWS);
    write_job(f);
    must(f, job_load(&f->job, f->path, NULL, 0, &f->e));
    must(f, model_new(&f->model, &f->job, &f->e));
    must(f, pool_new(&f->pool, THREADS, &f->e));
    f->order = (struct order){ROWS, f->job.training.batch_size, f->job.training.seed, LEAVES, 0};
}

static void teardown(struct fixture *f)
{
    pool_free(f->pool);
    model_free(f->model);
    job_close(&f->job);
    idx_files_close(&f->files);
}

/* ---- training on any source ---- */

static void no_one_waits(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    (void)ctx, (void)n, (void)from, (void)to;
}

/* One batch, all leaves of which make one node; *w and its slots are changed. */
static void train_batch(struct fixture *f, struct gradient *g, uint64_t id, float *w,
                        float *const slot[OPTIMIZER_SLOTS_MAX])
{
    const struct layout *l = model_layout(f->model);
    const struct session_task task = {
        .kind = TASK_COMPUTE, .name = id, .batch = id, .count = {LEAVES}, .runs = 1};
    uint32_t nodes;
    must(f, gradient_compute(g, &task, w, NULL, no_one_waits, NULL, &f->e));
    const float *dw = gradient_nodes(g, &nodes)->value;
    const struct optimizer_factors mean = {1.0f / (float)gradient_sums(g).examples, 1, 1};
    assert_int_equal(nodes, 1);
    for (uint32_t i = 0; i < l->tensors; i++) {
        uint64_t at = l->tensor[i].offset_elems;
        float *part[OPTIMIZER_SLOTS_MAX];
        for (uint32_t k = 0; k < OPTIMIZER_SLOTS_MAX; k++)
            part[k] = slot[k] + at;
        optimizer_apply(&f->job.optimizer, id + 1, mean, w + at, w + at, part, dw + at,
                        (size_t)l->tensor[i].elems);
    }
}

static void train(struct fixture *f, struct source *source, float *w)
{
    uint64_t elems = model_layout(f->model)->elems;
    uint64_t end = f->job.training.epochs * order_batches(&source->order);
    float *slot[OPTIMIZER_SLOTS_MAX];
    struct loader *loader;
    struct gradient *g;
    for (uint32_t i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        assert_non_null(slot[i] = mem_floats(elems));
    must(f, loader_new(&loader, source, 2 * LEAVES, &f->e));
    must(f, gradient_new(&g, f->model, f->pool, loader, NULL, order_leaf_rows_max(&source->order),
                         f->job.training.seed, &f->e));
    loader_want(loader, 0, end, 0, LEAVES);
    layout_init_values(model_layout(f->model), f->job.training.seed, 0, elems, w);
    for (uint64_t id = 0; id < end; id++)
        train_batch(f, g, id, w, slot);
    gradient_free(g);
    loader_free(loader);
    for (uint32_t i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        mem_free(slot[i]);
}

/* The result of a training, and its evaluation. */
struct outcome {
    char digest[LEARNED_DIGEST_BYTES];
    struct sums eval;
};

static void learn(struct fixture *f, struct source *rows, struct source *eval, struct outcome *out)
{
    float *w = mem_floats(model_layout(f->model)->elems);
    struct evaluator *v;
    assert_non_null(w);
    memset(out, 0, sizeof *out);
    train(f, rows, w);
    export_digest(model_layout(f->model), w, NULL, out->digest);
    must(f, evaluator_new(&v, &f->job, f->model, eval, f->pool, &f->e));
    must(f, evaluator_run(v, w, NULL, &out->eval, &f->e));
    evaluator_free(v);
    mem_free(w);
}

static void learn_from_made_up_rows(struct fixture *f, struct outcome *out)
{
    struct made_up rows = made_up(0, ROWS), eval = made_up(ROWS, EVAL_ROWS);
    rows.source.order = f->order;
    learn(f, &rows.source, &eval.source, out);
    assert_int_equal(rows.wanted, f->job.training.epochs * order_batches(&f->order) * LEAVES);
}

static void learn_from_files(struct fixture *f, struct outcome *out)
{
    struct dataset data, eval;
    struct dataset_source rows, eval_rows;
    must(f, dataset_load(&data, &f->job, 0, 2, &f->e));
    must(f, dataset_load_eval(&eval, &f->job, &data, 2, &f->e));
    assert_int_equal(data.rows, ROWS);
    assert_int_equal(data.bad_rows, ROWS / 50);
    learn(f, source_over(&rows, &data, &f->order), source_over(&eval_rows, &eval, NULL), out);
    dataset_close(&eval);
    dataset_close(&data);
}

/* ---- the tests ---- */

static void rows_that_a_source_makes_up_are_learned_as_those_of_a_file(void **state)
{
    (void)state;
    struct fixture f;
    struct outcome made, read;
    setup(&f);
    learn_from_made_up_rows(&f, &made);
    learn_from_files(&f, &read);
    assert_string_equal(made.digest, read.digest);
    assert_memory_equal(&made.eval, &read.eval, sizeof made.eval);
    assert_true(made.eval.metric[1] > 0.6); /* auc */
    teardown(&f);
}

static void a_job_that_reads_those_rows_ends_with_the_same_digest(void **state)
{
    (void)state;
    struct fixture f;
    struct outcome made;
    char digest[LEARNED_DIGEST_BYTES];
    setup(&f);
    learn_from_made_up_rows(&f, &made);
    learned_by_processes(f.path, NULL, 0, digest);
    assert_string_equal(made.digest, digest);
    teardown(&f);
}

int main(void)
{
    openblas_set_num_threads(1);
    kernels_flush_denormals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_a_source_makes_up_are_learned_as_those_of_a_file),
        cmocka_unit_test(a_job_that_reads_those_rows_ends_with_the_same_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
