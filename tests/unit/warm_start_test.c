#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/process/files.h"
#include "common/base/mem.h"
#include "tests/lib/folder.h"
#include "worker/warm_start/warm_start.h"

enum { ELEMS = 3 * (1 << 22) / 2 + 16 }; /* two files, the second one shorter */

static uint64_t elems = ELEMS; /* of the job */
static char dir[FOLDER_BYTES], checkpoints[96];
static float *w, *average;

static int begin(void **state)
{
    (void)state;
    if (folder_make(dir) != 0)
        return -1;
    (void)snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", dir);
    w = mem_floats(ELEMS);
    average = mem_floats(ELEMS);
    for (int i = 0; w && average && i < ELEMS; i++) {
        w[i] = (float)i;
        average[i] = (float)(i % 1000) + 0.5f;
    }
    return w && average ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    mem_free(w);
    mem_free(average);
    return folder_remove(dir);
}

static void put_file(const char *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", dir, folder);
    assert_true(mkdir(path, 0755) == 0 || access(path, F_OK) == 0);
    (void)snprintf(path, sizeof path, "%s/%s/%s", dir, folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

static bool there(const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static int remove_cut(unsigned cut)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r %s/cut-%010u", checkpoints, cut);
    return system(command);
}

static char was[] = "model.layers[0].dense.units = 3\noptimizer = adam\ntraining.seed = 1\n";
static char is[] = "model.layers[0].dense.units = 3\noptimizer = adam\ntraining.seed = 2\n";
static const uint8_t fingerprint[32] = {9};

/* adam with a moving average: the slots m, v, average. */
static struct job job_of(const char *run)
{
    struct job job = {.optimizer = {.kind = OPT_ADAM, .use_ema = true},
                      .training = {.microbatches = 2},
                      .identity_text = is};
    (void)snprintf(job.checkpoint.run, sizeof job.checkpoint.run, "%s", run);
    return job;
}

/* A block of one tensor, valid until the next call. */
static const struct layout *of(uint64_t n)
{
    static struct tensor t;
    static struct layout l;
    t = (struct tensor){.name = "all", .rank = 1, .shape = {(uint32_t)n}, .elems = n};
    l = (struct layout){.tensors = n > 0, .tensor = &t, .elems = n};
    return &l;
}

static void write_final(uint64_t cut, const char *run)
{
    uint32_t threads[] = {1};
    struct checkpoint_file file;
    struct errmsg e = {""};
    struct checkpoint_shard s = {
        .generation = 5, .elems = elems, .slots = 3, .w = w, .slot = {w, w, average}};
    struct manifest m = {.cut = cut,
                         .generation = 5,
                         .uuid = "3b241101-e2bb-4255-8caf-4136c566a962",
                         .final = true,
                         .step = 100,
                         .t = 100,
                         .total_elems = elems,
                         .slots = 3,
                         .microbatches = 4,
                         .mark = 7,
                         .eval = {.valid = true},
                         .seconds = 3,
                         .identity_text = was,
                         .files = 1,
                         .file = &file,
                         .ps = 1,
                         .ps_threads = threads};
    (void)snprintf(m.run, sizeof m.run, "%s", run);
    assert_int_equal(
        checkpoint_write_shard((struct cut){folder_place(checkpoints), cut}, &s, &file, &e),
        ERR_OK);
    assert_int_equal(checkpoint_publish(folder_place(checkpoints), &m, &e), ERR_OK);
}

static struct manifest loaded(uint64_t cut)
{
    struct manifest m;
    struct errmsg e = {""};
    if (checkpoint_load((struct cut){folder_place(checkpoints), cut}, &m, &e))
        fail_msg("%s", e.text);
    return m;
}

static void it_is_due_behind_a_job_that_is_done_and_of_another_run(void **state)
{
    (void)state;
    struct manifest m = {.final = true, .run = "monday"};
    struct job job = job_of("tuesday");
    assert_true(warm_start_is_due(&job, &m));
    m.final = false;
    assert_false(warm_start_is_due(&job, &m));
    m.final = true;
    job = job_of("monday");
    assert_false(warm_start_is_due(&job, &m));
    job = job_of("");
    assert_false(warm_start_is_due(&job, &m));
}

static void a_field_that_makes_another_key_is_warned_of(void **state)
{
    (void)state;
    char words[400] = "";
    struct errmsg e = {""};
    struct job job = job_of("tuesday");
    char now[] = "model.layers[0].dense.units = 3\noptimizer = adam\ndata.trim = true\n"
                 "data.columns[0].key.name = user\n";
    const struct warm_start s = {&job,      fingerprint, dir, folder_place(checkpoints),
                                 of(ELEMS), NULL,        "{}"};
    write_final(7, "monday");
    struct manifest old = loaded(7);
    mem_free(old.identity_text);
    old.identity_text = mem_strdup("model.layers[0].dense.units = 3\noptimizer = adam\n"
                                   "data.trim = false\ndata.columns[1].key.name = user\n");
    job.identity_text = now;
    log_init("test", LOG_WARN);
    if (warm_start_begin(&s, &old, &e))
        fail_msg("%s", e.text);
    log_last_words(false, words, sizeof words);
    log_init("test", LOG_ERROR);
    assert_non_null(strstr(words, "run \"tuesday\": data.trim was false, is true: a field that is "
                                  "read in another way makes another key"));
    manifest_close(&old);
}

static void it_has_the_learned_weights_and_nothing_else_of_the_old_job(void **state)
{
    (void)state;
    struct errmsg e = {""};
    struct job job = job_of("tuesday");
    const struct warm_start s = {&job,      fingerprint, dir, folder_place(checkpoints),
                                 of(ELEMS), NULL,        "{}"};
    write_final(6, "sunday");
    write_final(7, "monday");
    put_file("checkpoints", "journal");
    put_file("best", "weights.safetensors");
    put_file("best/tables", "ids.safetensors");
    put_file("model", "weights.safetensors");
    struct manifest old = loaded(7);
    if (warm_start_begin(&s, &old, &e))
        fail_msg("%s", e.text);
    struct manifest m = loaded(8);
    assert_int_equal(checkpoint_verify(folder_place(checkpoints), &m, &e), ERR_OK);
    assert_string_equal(m.run, "tuesday");
    assert_string_not_equal(m.uuid, old.uuid);
    assert_int_equal(strlen(m.uuid), 36);
    assert_false(m.final || m.eval.valid || m.step || m.t || m.mark || m.seconds > 0);
    assert_int_equal(m.microbatches, 2);
    assert_string_equal(m.identity_text, is);
    assert_memory_equal(m.data_fingerprint, fingerprint, sizeof fingerprint);
    char *encoding;
    size_t bytes;
    assert_int_equal(checkpoint_read_encoding(folder_place(checkpoints), &m, &encoding, &bytes, &e),
                     ERR_OK);
    assert_string_equal(encoding, "{}");
    mem_free(encoding);
    assert_int_equal(m.files, 2);
    float *got = mem_floats(ELEMS), *slot[OPTIMIZER_SLOTS_MAX] = {0};
    for (int i = 0; i < 3; i++)
        slot[i] = mem_floats(ELEMS);
    assert_int_equal(checkpoint_read(folder_place(checkpoints), &m, 0, ELEMS, got, slot, &e),
                     ERR_OK);
    assert_memory_equal(got, average, ELEMS * sizeof *got);
    assert_memory_equal(slot[2], average, ELEMS * sizeof *got);
    for (int i = 0; i < ELEMS; i++)
        assert_true(slot[0][i] == 0 && slot[1][i] == 0);
    mem_free(got);
    for (int i = 0; i < 3; i++)
        mem_free(slot[i]);
    assert_true(there("model/weights.safetensors"));
    assert_false(there("checkpoints/journal") || there("best/weights.safetensors") ||
                 there("best/tables"));
    assert_false(there("checkpoints/cut-0000000006") || there("checkpoints/cut-0000000007"));
    manifest_close(&m);
    manifest_close(&old);
}

static void new_rows_have_first_values_and_the_others_what_was_learned(void **state)
{
    (void)state;
    enum { WIDTH = 16, ROWS = 4 };
    struct errmsg e = {""};
    struct job job = job_of("tuesday");
    struct tensor t = {.name = "k", .rank = 2, .shape = {ROWS, WIDTH}, .init = INIT_ONES};
    struct layout l = {0};
    uint8_t flags[] = {0, 1, 0, 1}, *fresh[] = {flags};
    const struct warm_start s = {&job, fingerprint, dir, folder_place(checkpoints),
                                 &l,   fresh,       NULL};
    float got[ROWS * WIDTH], m_slot[ROWS * WIDTH], mean[ROWS * WIDTH],
        *slot[OPTIMIZER_SLOTS_MAX] = {m_slot, NULL, mean};
    assert_int_equal(layout_add(&l, &t, &e), ERR_OK);
    elems = 2 * WIDTH;
    write_final(7, "monday");
    elems = ELEMS;
    struct manifest old = loaded(7);
    if (warm_start_begin(&s, &old, &e))
        fail_msg("%s", e.text);
    struct manifest m = loaded(8);
    assert_int_equal(m.total_elems, ROWS * WIDTH);
    assert_int_equal(checkpoint_read(folder_place(checkpoints), &m, 0, ROWS * WIDTH, got, slot, &e),
                     ERR_OK);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(got[i] == average[i] && got[2 * WIDTH + i] == average[WIDTH + i]);
        assert_true(got[WIDTH + i] == 1 && got[3 * WIDTH + i] == 1);
    }
    assert_memory_equal(mean, got, sizeof got);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(m_slot[i] == 0);
    manifest_close(&m);
    manifest_close(&old);
    layout_close(&l);
}

/* ---- tables ---- */

enum { KEYS = 40000, BUCKET_KEYS = 100, CLOCK = 70 }; /* more rows than one read takes */
static const struct checkpoint_table TABLE[2] = {{"deep", 3, 3, 0}, {"wide", 1, 1, 0}};

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct beginnings begun; /* of the job that is done */
static uint64_t floors[2];      /* stamps of rows are above it, in each table */

/* Key k of table t: weights k + t + j, a stamp of k % 50, and k + 1 updates. */
static void write_final_tables(uint64_t dense, uint32_t keys)
{
    static uint64_t mixed[KEYS];
    struct checkpoint_file file;
    struct row_copy c;
    struct errmsg e = {""};
    for (uint64_t k = 0; k < keys; k++)
        mixed[k] = key_mix(k);
    qsort(mixed, keys, sizeof *mixed, ascending);
    row_copy_init(&c, TABLE, 2, (struct bucket_range){0, ROW_BUCKETS}, CLOCK);
    for (uint32_t i = 0, n; i < keys; i += n) {
        for (n = 1; i + n < keys && key_bucket(mixed[i + n]) == key_bucket(mixed[i]);)
            n++;
        assert_true(n <= BUCKET_KEYS);
        for (uint32_t t = 0; t < 2; t++) {
            uint32_t width = TABLE[t].dim + TABLE[t].slots, count[BUCKET_KEYS];
            uint64_t stamp[BUCKET_KEYS];
            float values[BUCKET_KEYS * 6];
            for (uint32_t j = 0; j < n; j++) {
                uint64_t k = key_unmix(mixed[i + j]);
                stamp[j] = k % 50;
                count[j] = (uint32_t)k + 1;
                for (uint32_t d = 0; d < width; d++)
                    values[j * width + d] = (float)(k + t + d);
            }
            struct row_group g = {
                key_bucket(mixed[i]), t, n, mixed + i, stamp, count, values, NULL, 0};
            assert_int_equal(row_copy_add(&c, &g), ERR_OK);
        }
    }
    struct checkpoint_shard s = {
        .generation = 5, .elems = dense, .slots = 1, .w = w, .slot = {w}, .rows = &c.head};
    struct manifest m = {.cut = 7,
                         .generation = 5,
                         .final = true,
                         .step = 100,
                         .tables = true,
                         .total_elems = dense,
                         .slots = 1,
                         .run = "monday",
                         .identity_text = was,
                         .files = 1,
                         .begun = begun,
                         .file = &file};
    if (checkpoint_write_shard((struct cut){folder_place(checkpoints), 7}, &s, &file, &e) ||
        checkpoint_publish(folder_place(checkpoints), &m, &e))
        fail_msg("%s", e.text);
    row_copy_close(&c);
}

/* The optimizers of each table's rows in the new job, whose tables have the reverse order: the deep ones row by row. */
static const struct job_table NEXT[2] = {
    {.name = "wide",
     .dim = 1,
     .optimizer = {.kind = OPT_ADAGRAD, .initial_accumulator_value = 0.5f}},
    {.name = "deep",
     .dim = 3,
     .optimizer = {.kind = OPT_ADAGRAD, .initial_accumulator_value = 0.25f, .rowwise = true}}};

static struct job job_of_tables(void)
{
    struct job job = job_of("tuesday");
    job.optimizer = (struct optimizer){.kind = OPT_ADAGRAD};
    job.model.tables = 2;
    memcpy(job.model.table, NEXT, sizeof NEXT);
    return job;
}

static enum err take_row(void *ctx, const struct row_group *g, struct errmsg *e)
{
    uint32_t *rows = ctx, dim = TABLE[g->table].dim;
    (void)e;
    for (uint32_t i = 0; i < g->rows; i++, (*rows)++) {
        uint64_t k = key_unmix(g->mixed[i]);
        assert_int_equal(g->stamp[i], k % 50);
        assert_true(g->stamp[i] > floors[g->table] || floors[g->table] == 0);
        assert_int_equal(g->count[i], 0);
        const float *row = g->values + (size_t)i * (dim + 1);
        for (uint32_t j = 0; j < dim; j++)
            assert_true(row[j] == (float)(k + g->table + j));
        assert_true(row[dim] == (g->table == 0 ? 0.25f : 0.5f)); /* one slot in each of the two */
    }
    return ERR_OK;
}

static void rows_of_tables_keep_their_weights_and_stamps_alone(void **state)
{
    (void)state;
    struct job job = job_of_tables();
    const uint64_t dense[] = {ELEMS, 64, 0};
    for (int i = 0; i < 3; i++) {
        const struct warm_start s = {&job,         fingerprint, dir, folder_place(checkpoints),
                                     of(dense[i]), NULL,        NULL};
        struct errmsg e = {""};
        uint32_t rows = 0;
        write_final_tables(dense[i], KEYS);
        struct manifest old = loaded(7);
        struct checkpoint_tables before, after;
        assert_int_equal(checkpoint_read_tables(folder_place(checkpoints), &old, &before, &e),
                         ERR_OK);
        if (warm_start_begin(&s, &old, &e))
            fail_msg("%s", e.text);
        struct manifest m = loaded(8);
        assert_int_equal(m.files, dense[i] == ELEMS ? 2 : 1);
        assert_int_equal(checkpoint_verify(folder_place(checkpoints), &m, &e), ERR_OK);
        assert_int_equal(checkpoint_read_tables(folder_place(checkpoints), &m, &after, &e), ERR_OK);
        assert_memory_equal(after.digest, before.digest, sizeof after.digest);
        assert_int_equal(after.clock, CLOCK);
        if (checkpoint_read_rows(folder_place(checkpoints), &m,
                                 (struct bucket_range){0, ROW_BUCKETS},
                                 &(struct row_sink){.rows = take_row, .ctx = &rows}, &e))
            fail_msg("%s", e.text);
        assert_int_equal(rows, 2 * KEYS);
        manifest_close(&m);
        manifest_close(&old);
        assert_int_equal(remove_cut(8), 0);
    }
}

/* Keys 0 to KEYS - 1 have stamps up to `floor`: so many. */
static uint32_t keys_up_to(uint64_t floor)
{
    return floor ? KEYS / 50 * (uint32_t)(floor + 1) : 0;
}

static void rows_that_were_not_seen_since_an_old_enough_run_began_go(void **state)
{
    (void)state;
    enum { DAY = 86400 };
    uint64_t now = (uint64_t)clock_wall_ms() / 1000, clock[] = {10, 30, 49};
    uint64_t date[] = {now - 100 * DAY, now - 40 * DAY, now - 10 * DAY};
    /* unseen_days of wide and deep, and the clocks up to which they go; `deep` stands first in the checkpoint */
    static const struct {
        uint32_t wide, deep;
        uint64_t wide_floor, deep_floor;
    } t[] = {{0, 0, 0, 0},    {30, 0, 30, 0}, {0, 60, 0, 10},
             {5, 30, 49, 30}, {5, 5, 49, 49}, {11, 101, 30, 0}};
    begun = (struct beginnings){.runs = 3, .date = date, .clock = clock};
    write_final_tables(64, KEYS);
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct job job = job_of_tables();
        const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                     of(64), NULL,        NULL};
        struct errmsg e = {""};
        uint32_t rows = 0, wide = keys_up_to(t[i].wide_floor), deep = keys_up_to(t[i].deep_floor);
        job.model.table[0].unseen_days = t[i].wide;
        job.model.table[1].unseen_days = t[i].deep;
        floors[0] = t[i].deep_floor;
        floors[1] = t[i].wide_floor;
        struct manifest old = loaded(7);
        int hold;
        assert_int_equal(checkpoint_hold((struct cut){folder_place(checkpoints), 7}, &hold, &e),
                         ERR_OK);
        if (warm_start_begin(&s, &old, &e))
            fail_msg("%s", e.text);
        place_release(hold);
        struct manifest m = loaded(8);
        assert_int_equal(checkpoint_verify(folder_place(checkpoints), &m, &e), ERR_OK);
        if (checkpoint_read_rows(folder_place(checkpoints), &m,
                                 (struct bucket_range){0, ROW_BUCKETS},
                                 &(struct row_sink){.rows = take_row, .ctx = &rows}, &e))
            fail_msg("%s", e.text);
        assert_int_equal(rows, 2 * KEYS - wide - deep);
        assert_int_equal(m.counted, 2);
        assert_int_equal(m.table[0].evicted, wide);
        assert_int_equal(m.table[0].rows, KEYS - wide);
        assert_int_equal(m.table[1].evicted, deep);
        assert_int_equal(m.table[1].rows, KEYS - deep);
        assert_int_equal(m.begun.runs, 4); /* this run's own comes behind them */
        assert_memory_equal(m.begun.date, date, sizeof date);
        assert_memory_equal(m.begun.clock, clock, sizeof clock);
        assert_true(m.begun.date[3] >= now && m.begun.clock[3] == CLOCK);
        manifest_close(&m);
        manifest_close(&old);
        assert_int_equal(remove_cut(8), 0);
    }
    memset(floors, 0, sizeof floors);
    begun = (struct beginnings){.runs = 0};
}

static void no_memory_for_rows_leaves_the_old_job_as_it_was(void **state)
{
    (void)state;
    struct job job = job_of_tables();
    const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                 of(64), NULL,        NULL};
    write_final_tables(64, 100);
    long fired = 0;
    for (bool more = true; more; fired += more) {
        struct manifest old = loaded(7);
        struct errmsg e = {""};
        mem_fail_at(fired);
        enum err err = warm_start_begin(&s, &old, &e);
        more = mem_fail_fired();
        mem_fail_at(-1);
        manifest_close(&old);
        if (!err)
            break; /* the allocation that failed was for removing the old cut */
        assert_int_equal(err, ERR_NOMEM);
        assert_false(there("checkpoints/cut-0000000008/manifest.gw"));
    }
    assert_true(fired > 30);
}

static void a_job_without_a_table_of_the_old_one_is_refused(void **state)
{
    (void)state;
    struct job job = job_of_tables();
    const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                 of(64), NULL,        NULL};
    struct errmsg e = {""};
    write_final_tables(64, 100);
    job.model.tables = 1;
    struct manifest old = loaded(7);
    assert_int_equal(warm_start_begin(&s, &old, &e), ERR_INPUT);
    assert_string_equal(e.text,
                        "checkpoint 7 has rows of table deep, but the job has no such table");
    manifest_close(&old);
}

static void one_that_could_not_be_written_leaves_the_old_job_as_it_was(void **state)
{
    (void)state;
    struct job job = job_of("tuesday");
    const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                 of(64), NULL,        NULL};
    elems = 64;
    write_final(7, "monday");
    put_file("checkpoints", "journal");
    for (int i = 0, failed = 1; failed; i++) {
        struct manifest old = loaded(7);
        struct errmsg e = {""};
        files_fail_at(i, 28); /* ENOSPC */
        failed = warm_start_begin(&s, &old, &e) != ERR_OK;
        files_fail_at(-1, 0);
        manifest_close(&old);
        struct manifest m = loaded(failed ? 7 : 8);
        assert_true(m.final == (failed != 0));
        assert_false(failed && there("checkpoints/cut-0000000008/manifest.gw"));
        manifest_close(&m);
        assert_true(i > 0 || failed);
        if (i == 0) /* its blocks could not be written */
            assert_true(there("checkpoints/journal"));
    }
    elems = ELEMS;
}

static void what_one_that_died_left_of_the_old_job_goes(void **state)
{
    (void)state;
    struct job job = job_of("tuesday");
    const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                 of(64), NULL,        NULL};
    struct errmsg e = {""};
    elems = 64;
    write_final(7, "monday");
    struct manifest old = loaded(7);
    if (warm_start_begin(&s, &old, &e))
        fail_msg("%s", e.text);
    write_final(7, "monday");
    struct manifest m = loaded(8);
    warm_start_settle(&job, folder_place(checkpoints), &old); /* not ours */
    assert_true(there("checkpoints/cut-0000000007"));
    write_final(9, "tuesday");
    warm_start_settle(&job, folder_place(checkpoints),
                      &m); /* not the newest: a damaged one would be all that stays */
    assert_true(there("checkpoints/cut-0000000007"));
    assert_int_equal(remove_cut(9), 0);
    warm_start_settle(&job, folder_place(checkpoints), &m);
    assert_false(there("checkpoints/cut-0000000007"));
    assert_true(there("checkpoints/cut-0000000008/manifest.gw"));
    manifest_close(&m);
    manifest_close(&old);
    elems = ELEMS;
}

/* A cut that is newer than the newest usable one is damaged, and its number is taken all the same. */
static void a_damaged_cut_does_not_outlast_it(void **state)
{
    (void)state;
    struct job job = job_of("tuesday");
    const struct warm_start s = {&job,   fingerprint, dir, folder_place(checkpoints),
                                 of(64), NULL,        NULL};
    struct errmsg e = {""};
    elems = 64;
    write_final(7, "monday");
    write_final(8, "monday");
    write_final(9, "monday");
    put_file("checkpoints/cut-0000000008", "shard-0.gw");
    put_file("checkpoints/cut-0000000009", "shard-0.gw");
    struct manifest old = loaded(7);
    if (warm_start_begin(&s, &old, &e))
        fail_msg("%s", e.text);
    struct manifest m = loaded(10);
    assert_string_equal(m.run, "tuesday");
    assert_false(there("checkpoints/cut-0000000007") || there("checkpoints/cut-0000000009"));
    manifest_close(&m);
    manifest_close(&old);
    elems = ELEMS;
}

static void another_model_is_refused_by_name(void **state)
{
    (void)state;
    struct job job = job_of("tuesday");
    char other[] = "model.layers[0].dense.units = 4\noptimizer = adam\n";
    const struct warm_start s = {&job,      fingerprint, dir, folder_place(checkpoints),
                                 of(ELEMS), NULL,        NULL};
    struct errmsg e = {""};
    char want[256];
    write_final(7, "monday");
    struct manifest old = loaded(7);
    job.identity_text = other;
    assert_int_equal(warm_start_begin(&s, &old, &e), ERR_INPUT);
    (void)snprintf(want, sizeof want,
                   "run \"tuesday\" would begin with the weights in %s, which has another model: "
                   "model.layers[0].dense.units was 3, is 4",
                   dir);
    assert_string_equal(e.text, want);
    job.identity_text = is;
    const struct warm_start larger = {&job,           fingerprint, dir, folder_place(checkpoints),
                                      of(ELEMS + 16), NULL,        NULL};
    assert_int_equal(warm_start_begin(&larger, &old, &e), ERR_INPUT);
    assert_false(there("checkpoints/cut-0000000008"));
    manifest_close(&old);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_due_behind_a_job_that_is_done_and_of_another_run),
        TEST(a_field_that_makes_another_key_is_warned_of),
        TEST(it_has_the_learned_weights_and_nothing_else_of_the_old_job),
        TEST(new_rows_have_first_values_and_the_others_what_was_learned),
        TEST(rows_of_tables_keep_their_weights_and_stamps_alone),
        TEST(rows_that_were_not_seen_since_an_old_enough_run_began_go),
        TEST(no_memory_for_rows_leaves_the_old_job_as_it_was),
        TEST(a_job_without_a_table_of_the_old_one_is_refused),
        TEST(one_that_could_not_be_written_leaves_the_old_job_as_it_was),
        TEST(what_one_that_died_left_of_the_old_job_goes),
        TEST(a_damaged_cut_does_not_outlast_it),
        TEST(another_model_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
