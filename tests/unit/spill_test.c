/* Rows of csv beyond data.memory_mb, in a file: the same rows, and what its disk can do wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/spill_file.h"
#include "data/dataset.h"
#include "evaluate/evaluate.h"
#include "worker/step/gradient.h"
#include "tests/lib/gathered.h"

/* A chunk of such rows has 18 cells x 16,384 x 4 bytes = 1.125 MiB, and 1.375 MiB until four of the numbers are scaled:
 * none fits in one MiB, two in three. */
enum { NUMBERS = 16, CELLS = NUMBERS + 2, ROWS = 3 * TABLE_CHUNK_ROWS - 100, EVAL_ROWS = 500 };
enum { ALL_IN_FILE = 1, TWO_IN_MEMORY = 3, ALL_IN_MEMORY = 64, ROW_BYTES = 200 };

struct fixture {
    struct idx_files files;
    char folder[300];
    struct job job;
    struct dataset train, eval;
    struct errmsg e;
};

static size_t write_rows(char *out, uint64_t seed, uint64_t rows)
{
    static const char *const words[] = {"red", "green", "blue", "?"};
    size_t n = 0;
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t key = rng_key(seed, RNG_TEST, row, 0);
        n += (size_t)sprintf(out + n, "%s", words[rng_u64(key, NUMBERS) % 4]);
        for (unsigned i = 0; i < NUMBERS; i++)
            n += (size_t)sprintf(out + n, ",%u", (unsigned)(rng_u64(key, i) % 1000));
        n += (size_t)sprintf(out + n, row % 997 == 5 ? ",bad\n" : ",%u\n", (unsigned)(row % 5));
    }
    return n;
}

static void put_rows(struct fixture *f, const char *name, uint64_t seed, uint64_t rows)
{
    char *text = malloc(rows * ROW_BYTES);
    assert_non_null(text);
    size_t n = write_rows(text, seed, rows);
    idx_files_write(&f->files, name, (struct bytes){(uint8_t *)text, n});
    free(text);
}

static void setup(struct fixture *f, uint64_t rows)
{
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    snprintf(f->folder, sizeof f->folder, "%s/rows", f->files.dir);
    assert_int_equal(mkdir(f->folder, 0700), 0);
    put_rows(f, "a.csv", 1, rows);
    put_rows(f, "a.eval", 2, EVAL_ROWS);
}

static void set_job(struct fixture *f, unsigned memory_mb, unsigned threads, const char *folder)
{
    char text[4096];
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
        "optimizer: sgd\n"
        "worker: {threads: %u}\n"
        "data: {format: csv, train: '%s/a.csv', eval: '%s/a.eval', memory_mb: %u, spill: '%s', "
        "bad_rows: skip, columns: [category: {name: c}",
        threads, f->files.dir, f->files.dir, memory_mb, folder ? folder : f->folder);
    for (unsigned i = 0; i < NUMBERS; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, ", number: {name: x%u, scale: %s}", i,
                              i % 8 == 0   ? "standard"
                              : i % 8 == 4 ? "min_max"
                                           : "none");
    n += (size_t)snprintf(text + n, sizeof text - n, ", label: y]}\n");
    job_close(&f->job);
    if (job_parse(&f->job, text, n, "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void load(struct fixture *f, unsigned memory_mb, unsigned threads)
{
    set_job(f, memory_mb, threads, NULL);
    if (dataset_load(&f->train, &f->job, 0, 0, &f->e) ||
        dataset_load_eval(&f->eval, &f->job, &f->train, 0, &f->e))
        fail_msg("%s", f->e.text);
}

static void unload(struct fixture *f)
{
    dataset_close(&f->train);
    dataset_close(&f->eval);
}

static void teardown(struct fixture *f)
{
    unload(f);
    job_close(&f->job);
    assert_int_equal(rmdir(f->folder), 0); /* nothing was left in it */
    idx_files_close(&f->files);
}

/* ---- the same rows ---- */

struct gathered {
    uint32_t n;
    float x[256 * (NUMBERS + 4)], y[256];
};

static void gather(struct gathered *g, const struct dataset *d, const uint64_t *rows, uint32_t n)
{
    struct errmsg e;
    memset(g, 0, sizeof *g);
    if (gathered_rows(d, rows, n, g->x, g->y, &g->n, &e))
        fail_msg("%s", e.text);
}

/* Runs as evaluation asks for them, and rows as training does; over the borders of chunks. */
static void same_rows(const struct dataset *a, const struct dataset *b)
{
    static struct gathered one, other;
    uint64_t rows[250];
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->bad_rows, b->bad_rows);
    assert_int_equal(a->features, b->features);
    assert_memory_equal(a->contents.fingerprint, b->contents.fingerprint,
                        sizeof a->contents.fingerprint);
    for (uint64_t first = 0; first < 2 * a->rows; first += 250) {
        for (uint64_t i = 0; i < 250; i++)
            rows[i] = first < a->rows ? (first + i) % a->rows : rng_u64(7, first + i) % a->rows;
        gather(&one, a, rows, 250);
        gather(&other, b, rows, 250);
        assert_memory_equal(&one, &other, sizeof one);
        assert_in_range(one.n, 200, 250);
    }
}

static void same_schema(const struct table_schema *a, const struct table_schema *b)
{
    assert_int_equal(a->inputs, b->inputs);
    for (uint32_t i = 0; i < a->inputs; i++) {
        assert_memory_equal(&a->input[i].shift, &b->input[i].shift, sizeof(double));
        assert_memory_equal(&a->input[i].divisor, &b->input[i].divisor, sizeof(double));
        assert_memory_equal(&a->input[i].fill, &b->input[i].fill, sizeof(double));
        assert_int_equal(a->input[i].words.count, b->input[i].words.count);
    }
}

static void where_rows_are_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, ROWS);
    load(&f, ALL_IN_MEMORY, 1);
    struct dataset train = f.train, eval = f.eval;
    assert_int_equal(table_spilled_bytes(&train.table), 0);
    f.train = f.eval = (struct dataset){.rows = 0};
    for (unsigned threads = 1; threads <= 4; threads++)
        for (unsigned memory_mb = ALL_IN_FILE; memory_mb <= TWO_IN_MEMORY; memory_mb += 2) {
            load(&f, memory_mb, threads);
            uint64_t there = memory_mb == ALL_IN_FILE ? 0 : 2 * TABLE_CHUNK_ROWS;
            assert_int_equal(table_spilled_bytes(&f.train.table), (ROWS - there) * CELLS * 4);
            assert_int_equal(table_spilled_bytes(&f.eval.table), EVAL_ROWS * CELLS * 4);
            same_rows(&f.train, &train);
            same_rows(&f.eval, &eval);
            same_schema(f.train.table.schema, train.table.schema);
            assert_int_equal(dataset_check_classes(&f.train, 5, &f.e), ERR_OK);
            assert_int_equal(dataset_check_classes(&f.train, 4, &f.e), ERR_INPUT);
            assert_non_null(strstr(f.e.text, "a label is 4"));
            unload(&f);
        }
    dataset_close(&train);
    dataset_close(&eval);
    teardown(&f);
}

/* ---- bytes that change in the file ---- */

static void gather_is_refused(struct fixture *f, uint64_t row, bool refused)
{
    float x[NUMBERS + 4], y;
    uint32_t there;
    f->e.text[0] = 0;
    assert_int_equal(gathered_rows(&f->train, &row, 1, x, &y, &there, &f->e),
                     refused ? ERR_DISK : ERR_OK);
    if (refused && (!strstr(f->e.text, f->folder) ||
                    !strstr(f->e.text, "(data.spill) cannot be read back: their checksum "
                                       "does not match")))
        fail_msg("%s", f->e.text);
}

static void a_row_of_which_any_bit_has_changed_is_not_read(void **state)
{
    (void)state;
    enum { FILE_ROW = (CELLS + 1) * 4, ROW = 17 };
    struct fixture f;
    setup(&f, 1000);
    load(&f, ALL_IN_FILE, 2);
    for (int bit = 8 * ROW * FILE_ROW; bit < 8 * (ROW + 1) * FILE_ROW; bit++) {
        spill_file_flip(bit);
        gather_is_refused(&f, ROW, true);
        spill_file_flip(bit);
    }
    gather_is_refused(&f, ROW, false);
    teardown(&f);
}

/* A write that went to another place, or to none. */
static void a_row_in_the_place_of_another_and_a_hole_are_not_read(void **state)
{
    (void)state;
    enum { FILE_ROW = (CELLS + 1) * 4 };
    static const uint8_t zeros[FILE_ROW];
    uint8_t other[FILE_ROW];
    struct fixture f;
    setup(&f, 1000);
    load(&f, ALL_IN_FILE, 1);
    int fd = spill_file();
    assert_int_equal(pread(fd, other, FILE_ROW, 3 * FILE_ROW), FILE_ROW);
    assert_int_equal(pwrite(fd, other, FILE_ROW, 4 * FILE_ROW), FILE_ROW);
    assert_int_equal(pwrite(fd, zeros, FILE_ROW, 0), FILE_ROW);
    gather_is_refused(&f, 3, false);
    gather_is_refused(&f, 4, true);
    gather_is_refused(&f, 0, true);
    teardown(&f);
}

static int names_in(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static void the_file_has_no_name_and_outlives_the_training_part(void **state)
{
    (void)state;
    static struct gathered before, after;
    struct fixture f;
    const uint64_t rows[] = {0, 1, EVAL_ROWS - 1};
    setup(&f, 1000);
    load(&f, ALL_IN_FILE, 2);
    assert_int_equal(names_in(f.folder), 0);
    gather(&before, &f.eval, rows, 3);
    dataset_close(&f.train);
    gather(&after, &f.eval, rows, 3);
    assert_memory_equal(&before, &after, sizeof before);
    teardown(&f);
}

static void memory_is_one_budget_for_both_parts(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 2 * TABLE_CHUNK_ROWS);
    load(&f, TWO_IN_MEMORY, 1);
    assert_int_equal(table_spilled_bytes(&f.train.table), 0);
    assert_int_equal(table_spilled_bytes(&f.eval.table), EVAL_ROWS * CELLS * 4);
    dataset_close(&f.eval);
    dataset_close(&f.train);
    put_rows(&f, "a.csv", 1,
             TABLE_CHUNK_ROWS + 1); /* the second chunk keeps no more than its row */
    load(&f, TWO_IN_MEMORY, 1);
    assert_int_equal(table_spilled_bytes(&f.eval.table), 0);
    teardown(&f);
}

/* A chunk of them has fewer rows: those that there are have room, and those beyond are found behind them. */
static void a_few_wide_rows_stay_in_memory(void **state)
{
    (void)state;
    enum { WIDE = 1500, WIDE_ROWS = 1100 };
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    struct fixture f;
    setup(&f, 1);
    char *text = malloc(WIDE_ROWS * (4 * WIDE + 2)), *end = text;
    assert_non_null(text);
    for (unsigned row = 0; row < WIDE_ROWS; row++) {
        for (unsigned i = 0; i < WIDE; i++)
            end += sprintf(end, "%u,", (row + i) % 100);
        end += sprintf(end, "%u\n", row % 2);
    }
    idx_files_write(&f.files, "a.csv", (struct bytes){(uint8_t *)text, (size_t)(end - text)});
    free(text);
    for (unsigned memory_mb = ALL_IN_FILE; memory_mb <= 8; memory_mb += 7) {
        char job[8 * WIDE];
        size_t n = (size_t)snprintf(
            job, sizeof job,
            "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\noptimizer: sgd\n"
            "data: {format: csv, train: '%s/a.csv', memory_mb: %u, spill: '%s', columns: [",
            f.files.dir, memory_mb, f.folder);
        for (unsigned i = 0; i < WIDE; i++)
            n += (size_t)sprintf(job + n, "number,");
        n += (size_t)sprintf(job + n, "label]}\n");
        job_close(&f.job);
        if (job_parse(&f.job, job, n, "j.yaml", "/", NULL, 0, &f.e) ||
            dataset_load(&f.train, &f.job, 0, 0, &f.e))
            fail_msg("%s", f.e.text);
        assert_int_equal(table_spilled_bytes(&f.train.table),
                         memory_mb == ALL_IN_FILE ? WIDE_ROWS * (WIDE + 1) * 4
                                                  : 4 * (WIDE + 1) * (WIDE_ROWS - 1024));
        for (uint64_t row = 0; row < WIDE_ROWS; row++) {
            const uint32_t *cells;
            uint64_t one = 1;
            assert_int_equal(
                table_look(&f.train.table, row, &one, buffer, TABLE_ROW_CELLS_MAX, &cells, &f.e),
                ERR_OK);
            assert_true(schema_float(cells[7]) == (float)((row + 7) % 100));
            assert_true(schema_float(cells[WIDE]) == (float)(row % 2));
        }
        dataset_close(&f.train);
    }
    teardown(&f);
}

/* ---- small stacks ---- */

static void *load_and_look(void *ctx)
{
    static float x[NUMBERS + 4];
    struct fixture *f = ctx;
    uint32_t n;
    float y;
    enum err err = dataset_load(&f->train, &f->job, 0, 0, &f->e);
    if (!err)
        err = dataset_check_classes(&f->train, 5, &f->e);
    if (!err)
        err = gathered_rows(&f->train, &(uint64_t){1}, 1, x, &y, &n, &f->e);
    return err ? f->e.text : NULL;
}

/* As where ulimit -s is small: the buffer for the widest row of any table is not on a stack. */
static void rows_in_the_file_need_no_large_stack(void **state)
{
    (void)state;
    struct fixture f;
    pthread_attr_t own, small;
    pthread_t thread;
    void *why;
#ifdef __SANITIZE_THREAD__ /* the sanitizer's own data do not fit in a small stack */
    skip();
#endif
    setup(&f, ROWS);
    set_job(&f, ALL_IN_FILE, 2, NULL);
    f.job.data.validation.share = 0.25;
    assert_int_equal(pthread_getattr_default_np(&own), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 512 << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0); /* of the loader's threads, too */
    assert_int_equal(pthread_create(&thread, NULL, load_and_look, &f), 0);
    assert_int_equal(pthread_join(thread, &why), 0);
    assert_int_equal(pthread_setattr_default_np(&own), 0);
    if (why)
        fail_msg("%s", (const char *)why);
    assert_true(table_spilled_bytes(&f.train.table) > 0);
    teardown(&f);
}

/* ---- disks that fail ---- */

static void every_failure_of_the_file_is_reported(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, TABLE_CHUNK_ROWS + 1000);
    set_job(&f, ALL_IN_FILE, 1, NULL);
    int fired = 1, writes = 0, reads = 0;
    for (long n = 0; fired; n++) {
        struct dataset d;
        spill_fail_at(n, ENOSPC);
        enum err err = dataset_load(&d, &f.job, 0, 0, &f.e);
        fired = spill_fail_fired();
        spill_fail_at(-1, 0);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            dataset_close(&d);
            break;
        }
        assert_true(err == ERR_INPUT || err == ERR_DISK);
        *(err == ERR_INPUT ? &writes : &reads) += 1;
        assert_non_null(strstr(f.e.text, f.folder));
        assert_non_null(strstr(f.e.text, strerror(ENOSPC)));
        assert_non_null(strstr(f.e.text, "data.spill"));
        assert_true(err == ERR_DISK || strstr(f.e.text, "1 MiB of data.memory_mb"));
    }
    assert_true(writes > 5 && reads > 5);
    assert_int_equal(err_exit_code(ERR_INPUT), 2);
    assert_int_equal(err_exit_code(ERR_DISK), 138);
    teardown(&f);
}

static void only_what_the_job_can_mend_is_wrong_input(void **state)
{
    (void)state;
    static const struct {
        int error;
        enum err code;
    } of[] = {{ENOENT, ERR_INPUT}, {ENOSPC, ERR_INPUT}, {EMFILE, ERR_FILES},
              {ENFILE, ERR_FILES}, {ENOMEM, ERR_NOMEM}, {EIO, ERR_DISK}};
    struct fixture f;
    setup(&f, 1000);
    set_job(&f, ALL_IN_FILE, 1, NULL);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (long n = 0; n < 2; n++) { /* making the file, the first write */
            spill_fail_at(n, of[i].error);
            assert_int_equal(dataset_load(&f.train, &f.job, 0, 0, &f.e), of[i].code);
            spill_fail_at(-1, 0);
            assert_non_null(strstr(f.e.text, f.folder));
            assert_non_null(strstr(f.e.text, strerror(of[i].error)));
            assert_non_null(strstr(f.e.text, "data.spill"));
        }
    f.train = (struct dataset){.rows = 0};
    teardown(&f);
}

static void who_asks_for_rows_that_cannot_be_read_is_told(void **state)
{
    (void)state;
    struct fixture f;
    struct dataset_source source;
    struct loader *l;
    struct leaf m = {.n = 77};
    float x[NUMBERS + 4], y;
    const uint64_t row = 17;
    uint32_t there;
    setup(&f, 1000);
    load(&f, ALL_IN_FILE, 2);
    spill_fail_at(0, EIO);
    assert_int_equal(gathered_rows(&f.train, &row, 1, x, &y, &there, &f.e), ERR_DISK);
    assert_int_equal(spill_fail_fired(), 1);
    assert_non_null(strstr(f.e.text, "cannot be read back: Input/output error"));
    spill_fail_at(0, EIO);
    assert_int_equal(dataset_check_classes(&f.train, 5, &f.e), ERR_DISK);

    const struct order order = {.rows = 1000, .batch_size = 10, .seed = 1, .microbatches = 1};
    assert_int_equal(loader_new(&l, source_over(&source, &f.train, &order), 2, &f.e), ERR_OK);
    f.e.text[0] = 0;
    spill_fail_at(0, EIO); /* asked for */
    assert_int_equal(loader_get(l, 0, 0, &m, &f.e), ERR_DISK);
    assert_non_null(strstr(f.e.text, "cannot be read back: Input/output error"));
    assert_int_equal(m.n, 77);
    f.e.text[0] = 0;
    spill_fail_at(0, EIO); /* ahead, or asked for before that */
    loader_want(l, 1, 2, 0, 1);
    assert_int_equal(loader_get(l, 1, 0, &m, &f.e), ERR_DISK);
    assert_non_null(strstr(f.e.text, "cannot be read back: Input/output error"));
    for (uint64_t id = 2; id < 3 * JOB_MICROBATCHES_MAX; id++) { /* no slot was lost */
        assert_int_equal(loader_get(l, id, 0, &m, &f.e), ERR_OK);
        loader_release(l, &m);
    }
    loader_free(l);
    teardown(&f);
}

static void nobody_waits(void *ctx, struct gradient_node *n, uint64_t from, uint64_t to)
{
    (void)ctx, (void)n, (void)from, (void)to;
}

static void training_and_evaluation_end_with_the_disks_word(void **state)
{
    (void)state;
    enum { LEAVES = 4 };
    struct fixture f;
    struct model *model;
    struct pool *pool;
    struct dataset_source source;
    struct loader *l;
    struct gradient *g;
    struct dataset_source eval_source;
    struct evaluator *v;
    struct sums sums;
    setup(&f, 1000);
    load(&f, ALL_IN_FILE, 2);
    f.job.model.rank = f.train.rank;
    memcpy(f.job.model.shape, f.train.shape, sizeof f.job.model.shape);
    const struct order order = {.rows = 1000, .batch_size = 64, .seed = 1, .microbatches = LEAVES};
    const struct session_task task = {.kind = TASK_COMPUTE, .count = {LEAVES}, .runs = 1};
    if (model_new(&model, &f.job, &f.e) || pool_new(&pool, 2, &f.e) ||
        loader_new(&l, source_over(&source, &f.train, &order), 8, &f.e) ||
        gradient_new(&g, model, pool, l, NULL, 64 / LEAVES + 1, 1, &f.e) ||
        evaluator_new(&v, &f.job, model, source_over(&eval_source, &f.eval, NULL), pool, &f.e))
        fail_msg("%s", f.e.text);
    float *w = mem_floats(model_layout(model)->elems);
    assert_non_null(w);
    for (int round = 0; round < 2; round++) {
        spill_fail_at(round ? -1 : 1, EIO); /* the second read of two threads */
        enum err err = gradient_compute(g, &task, w, NULL, nobody_waits, NULL, &f.e);
        assert_int_equal(err, round ? ERR_OK : ERR_DISK);
        spill_fail_at(round ? -1 : 1, EIO);
        err = evaluator_run(v, w, NULL, &sums, &f.e);
        assert_int_equal(err, round ? ERR_OK : ERR_DISK);
        if (!round)
            assert_non_null(strstr(f.e.text, "cannot be read back: Input/output error"));
    }
    spill_fail_at(-1, 0);
    assert_in_range(sums.examples, 450, EVAL_ROWS);
    mem_free(w);
    evaluator_free(v);
    gradient_free(g);
    loader_free(l);
    pool_free(pool);
    model_free(model);
    teardown(&f);
}

static void a_file_that_may_not_grow_is_reported(void **state)
{
    (void)state;
    struct fixture f;
    struct rlimit old, little = {.rlim_cur = 100000};
    setup(&f, ROWS / 3);
    set_job(&f, ALL_IN_FILE, 2, NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    little.rlim_max = old.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    enum err err = dataset_load(&f.train, &f.job, 0, 0, &f.e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(err, ERR_INPUT);
    char wanted[512];
    snprintf(wanted, sizeof wanted,
             "data.train: %s: File too large: rows beyond the 1 MiB of data.memory_mb go to a file "
             "there, 1 MiB of them so far: set data.spill to a directory with more room, or raise "
             "data.memory_mb",
             f.folder);
    assert_string_equal(f.e.text, wanted);
    f.train = (struct dataset){.rows = 0};
    teardown(&f);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct fixture f;
    char folder[400];
    setup(&f, 1000);
    snprintf(folder, sizeof folder, "%s/none", f.folder);
    set_job(&f, ALL_IN_FILE, 2, folder);
    assert_int_equal(dataset_load(&f.train, &f.job, 0, 0, &f.e), ERR_INPUT);
    assert_non_null(strstr(f.e.text, "/rows/none: No such file or directory: "));
    set_job(&f, ALL_IN_MEMORY, 2, folder); /* nobody needs it */
    assert_int_equal(dataset_load(&f.train, &f.job, 0, 0, &f.e), ERR_OK);
    teardown(&f);
}

static void it_survives_every_allocation_that_fails(void **state)
{
    (void)state;
    struct fixture f;
    int fired = 1;
    setup(&f, 1000);
    set_job(&f, ALL_IN_FILE, 1, NULL);
    for (long n = 0; fired; n++) {
        mem_fail_at(n);
        enum err err = dataset_load(&f.train, &f.job, 0, 0, &f.e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
    }
    teardown(&f);
}

int main(void)
{
    log_init("spill_test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_rows_are_changes_nothing),
        cmocka_unit_test(a_row_of_which_any_bit_has_changed_is_not_read),
        cmocka_unit_test(a_row_in_the_place_of_another_and_a_hole_are_not_read),
        cmocka_unit_test(the_file_has_no_name_and_outlives_the_training_part),
        cmocka_unit_test(memory_is_one_budget_for_both_parts),
        cmocka_unit_test(a_few_wide_rows_stay_in_memory),
        cmocka_unit_test(rows_in_the_file_need_no_large_stack),
        cmocka_unit_test(every_failure_of_the_file_is_reported),
        cmocka_unit_test(only_what_the_job_can_mend_is_wrong_input),
        cmocka_unit_test(who_asks_for_rows_that_cannot_be_read_is_told),
        cmocka_unit_test(training_and_evaluation_end_with_the_disks_word),
        cmocka_unit_test(a_file_that_may_not_grow_is_reported),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(it_survives_every_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
