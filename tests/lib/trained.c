#include "tests/lib/trained.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "common/rows/key.h"
#include "common/rows/row_values.h"
#include "export/export.h"
#include "export/table_export.h"
#include "tests/lib/gathered.h"

enum { PATH_BYTES = 256, ABSENT_EACH = 3 };

static void must(const struct trained *t, enum err err)
{
    if (err)
        fail_msg("%s", t->e.text);
}

static void path_of(const char *dir, const char *name, char path[static PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%s", dir, name);
}

static void write_text(struct trained *t, const char *dir, const char *name, const char *text)
{
    char path[PATH_BYTES];
    path_of(dir, name, path);
    if (text)
        must(t, files_write(path, text, strlen(text), &t->e));
}

/* ---- its data and its model ---- */

static void read_data(struct trained *t, const char *job)
{
    must(t, job_parse(&t->job, job, strlen(job), "job.yaml", t->dir, NULL, 0, &t->e));
    must(t, dataset_load(&t->train, &t->job, 0, 0, &t->e));
    must(t, dataset_load_eval(&t->eval, &t->job, &t->train, 0, &t->e));
    dataset_tell(&t->train, &t->job);
}

static void make_model(struct trained *t)
{
    must(t, model_new(&t->model, &t->job, &t->e));
    const struct layout *l = model_layout(t->model);
    t->w = mem_floats(l->elems);
    assert_non_null(t->w);
    layout_init_values(l, 7, 0, l->elems, t->w);
    for (uint32_t i = 0; i < l->tensors; i++) {
        const struct tensor *of = &l->tensor[i];
        float low = of->role == TENSOR_STATISTIC ? 0 : -0.5f; /* a variance has to be above 0 */
        for (uint64_t k = 0; k < of->elems; k++)
            t->w[of->offset_elems + k] += 0.1f * (rng_unit(rng_u64(3, i), k) + low);
    }
}

/* ---- its tables ---- */

void trained_rows(const struct trained *t, uint32_t table, const uint64_t *mixed, uint32_t n,
                  float *w)
{
    const struct row_table_spec *of = &model_layout(t->model)->rows->table[table];
    for (uint32_t k = 0; k < n; k++, w += of->dim)
        for (uint32_t i = 0; i < of->dim; i++)
            if (mixed[k] % ABSENT_EACH)
                w[i] = rng_unit(rng_u64(mixed[k], table), i) - 0.5f;
            else
                row_absent_value(of, t->job.training.seed, mixed[k], w);
}

static void write_table(struct trained *t, uint32_t table, const struct row_value_keys *keys)
{
    const struct row_table_spec *of = &model_layout(t->model)->rows->table[table];
    struct table_export *x;
    float row[ROW_DIM_MAX];
    must(t, table_export_new(&x, of->dim, keys->keys, 1 << 20, t->train.table.spill, &t->e));
    for (uint32_t i = 0; i < keys->keys; i++) {
        if (keys->mixed[i] % ABSENT_EACH == 0)
            continue;
        trained_rows(t, table, &keys->mixed[i], 1, row);
        must(t, table_export_add(x, key_unmix(keys->mixed[i]), 1, row, &t->e));
    }
    must(t, table_export_write(x, folder_place(t->model_dir), of->name, TABLE_EXPORT_FILE_BYTES,
                               &t->e));
    table_export_free(x);
}

static struct leaf_buffer *all_keys(struct trained *t, const struct dataset *d,
                                    const struct leaf_keys **keys)
{
    struct leaf_buffer *room;
    uint32_t n = (uint32_t)d->rows;
    uint64_t *all = mem_zalloc(n, sizeof *all);
    assert_non_null(all);
    for (uint64_t i = 0; i < n; i++)
        all[i] = i;
    must(t, gathered_buffer(&room, d->table.schema, n, &t->e));
    must(t, gathered_keys(d, all, n, room, keys, &t->e));
    mem_free(all);
    return room;
}

static void write_tables(struct trained *t)
{
    const struct row_layout *rows = model_layout(t->model)->rows;
    const struct leaf_keys *keys[2];
    struct row_values both;
    if (!rows)
        return;
    struct leaf_buffer *train = all_keys(t, &t->train, &keys[0]);
    struct leaf_buffer *eval = all_keys(t, &t->eval, &keys[1]);
    row_values_init(&both, rows);
    must(t, row_values_want(&both, keys, 2, &t->e));
    for (uint32_t i = 0; i < rows->tables; i++)
        write_table(t, i, &both.list[rows->table[i].list]);
    row_values_close(&both);
    leaf_buffer_free(train);
    leaf_buffer_free(eval);
}

static void write_model(struct trained *t)
{
    const struct place *at = folder_place(t->model_dir);
    must(t, export_safetensors(at, model_layout(t->model), t->w, NULL, 0, &t->e));
    write_text(t, t->model_dir, "job.yaml", t->job.canonical);
    if (t->train.table.schema)
        must(t, export_encoding(at, &t->job, t->train.table.schema, &t->e));
    write_tables(t);
    struct dataset_source source;
    dataset_source_init(&source, &t->eval, NULL);
    const struct model_manifest m = {
        .job = &t->job, .model = t->model, .data = &t->train, .eval = &source.source, .digest = ""};
    must(t, model_manifest_write(&m, at, &t->e));
}

static void make_all(struct trained *t, const char *job)
{
    openblas_set_num_threads(1); /* as in every program: the bits depend on it */
    (void)snprintf(t->model_dir, sizeof t->model_dir, "%s/model", t->dir);
    must(t, files_mkdirs(t->model_dir, &t->e));
    read_data(t, job);
    make_model(t);
    write_model(t);
}

void trained_init(struct trained *t, const char *job, const char *train, const char *eval)
{
    *t = (struct trained){.e = {""}};
    assert_int_equal(folder_make(t->dir), 0);
    write_text(t, t->dir, "train.txt", train);
    write_text(t, t->dir, "eval.txt", eval);
    make_all(t, job);
}

void trained_here(struct trained *t, const char *job)
{
    *t = (struct trained){.e = {""}, .dir = "."};
    make_all(t, job);
}

void trained_close(struct trained *t)
{
    mem_free(t->w);
    model_free(t->model);
    dataset_close(&t->eval);
    dataset_close(&t->train);
    job_close(&t->job);
    if (strcmp(t->dir, ".") != 0) /* the caller's */
        (void)folder_remove(t->dir);
}

/* ---- its forward pass ---- */

static const struct leaf_keys *keys_of(struct trained *t, const uint64_t *rows, uint32_t n,
                                       struct leaf_buffer **room, struct leaf_rows *of)
{
    const struct row_layout *layout = model_layout(t->model)->rows;
    const struct leaf_keys *keys;
    if (!layout)
        return NULL;
    must(t, gathered_buffer(room, t->eval.table.schema, n, &t->e));
    must(t, gathered_keys(&t->eval, rows, n, *room, &keys, &t->e));
    for (uint32_t i = 0; i < layout->tables; i++) {
        const struct key_list *list = &keys->list[layout->table[i].list];
        float *w = mem_floats((size_t)list->keys * layout->table[i].dim);
        assert_non_null(w);
        trained_rows(t, i, list->mixed, list->keys, w);
        of->w[i] = w;
    }
    return keys;
}

void trained_outputs(struct trained *t, uint32_t first, uint32_t n, float *out)
{
    uint64_t *rows = mem_zalloc(n, sizeof *rows);
    float *x = mem_floats((size_t)n * t->eval.features), *y = mem_floats(n);
    struct leaf_buffer *room = NULL;
    struct leaf_rows of = {.w = {NULL}};
    struct model_run *run;
    struct sums sums = {0};
    uint32_t there;
    assert_true(rows && x && y);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = first + i;
    must(t, gathered_rows(&t->eval, rows, n, x, y, &there, &t->e));
    assert_int_equal(there, n);
    must(t, model_run_new(&run, t->model, n, &t->e));
    const struct leaf_keys *keys = keys_of(t, rows, n, &room, &of);
    model_eval(run, t->w, &(struct leaf){.n = n, .x = x, .y = y, .keys = keys, .rows = &of}, &sums);
    must(t, model_run_fault(run, &t->e));
    memcpy(out, model_run_outputs(run, 0), (size_t)n * model_outputs(t->model) * sizeof *out);
    model_run_free(run);
    leaf_buffer_free(room);
    for (uint32_t i = 0; i < ROW_TABLES_MAX; i++)
        mem_free((void *)(uintptr_t)of.w[i]);
    mem_free(rows);
    mem_free(x);
    mem_free(y);
}
