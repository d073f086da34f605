/* The scores of an evaluation in order: an exact auc, in memory or sorted in a file. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/idx_files.h"
#include "tests/lib/spill_file.h"
#include "evaluate/evaluate.h"
#include "evaluate/ranking.h"
#include "tests/lib/gathered.h"

/* A run of one thread is 1,024 rows, and two runs are merged at a time. */
enum { ROOM_BYTES = 12 << 10, RUN_ROWS = 1024, MANY = 60000, MIB_ROWS = (1 << 20) / 24 };

static struct spill *spill_of(uint32_t memory_mb)
{
    struct job job = {.data = {.memory_mb = memory_mb}};
    struct spill *s = NULL;
    struct errmsg e;
    assert_int_equal(spill_new(&s, &job, &e), ERR_OK);
    return s;
}

/* Many ties; positives score higher by a little. Weights whose sums depend on their order. */
static struct scored *draw(uint64_t seed, uint64_t n, bool weights)
{
    struct scored *rows = mem_zalloc(n + 1, sizeof *rows);
    assert_non_null(rows);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = rng_key(seed, RNG_TEST, i, 0);
        rows[i].positive = rng_u64(key, 0) % 3 == 0;
        rows[i].score = (float)(rng_u64(key, 1) % (n / 16 + 1) + rows[i].positive * n / 64) / 7.0f;
        rows[i].weight = weights ? (float)ldexp((double)(rng_u64(key, 2) % (1 << 24)),
                                                (int)(rng_u64(key, 3) % 60) - 60)
                                 : 1.0f;
    }
    return rows;
}

static double by_pairs(const struct scored *rows, uint64_t n)
{
    double won = 0.0, pairs = 0.0;
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < n && rows[i].positive; k++) {
            if (rows[k].positive)
                continue;
            double pair = (double)rows[i].weight * (double)rows[k].weight;
            pairs += pair;
            won += pair * (rows[i].score > rows[k].score    ? 1.0
                           : rows[i].score == rows[k].score ? 0.5
                                                            : 0.0);
        }
    return won / pairs;
}

static void add_row(void *ctx, const struct scored *row)
{
    metric_auc.add_scored(ctx, row);
}

static enum err auc_by(struct ranking *r, double *auc, struct errmsg *e)
{
    _Alignas(max_align_t) char ranked[METRIC_RANKED_BYTES] = {0};
    enum err err = ranking_walk(r, add_row, ranked, e);
    if (!err)
        *auc = metric_auc.value_of_scored(ranked);
    return err;
}

static enum err rank(struct ranking *r, const struct scored *rows, uint64_t n, uint32_t threads,
                     double *auc, struct errmsg *e)
{
    enum err err = ERR_OK;
    ranking_begin(r);
    for (uint64_t i = 0; i < n && !err; i += 250) {
        uint32_t block = n - i < 250 ? (uint32_t)(n - i) : 250;
        err = ranking_add(r, (uint32_t)(i / 250) % threads, rows + i, block, e);
    }
    return err ? err : auc_by(r, auc, e);
}

/* memory_mb 0: without a spill. */
static double auc_of(const struct scored *rows, uint64_t n, uint32_t threads, uint32_t memory_mb,
                     bool in_file)
{
    struct spill *s = memory_mb ? spill_of(memory_mb) : NULL;
    struct ranking *r = NULL;
    struct errmsg e = {""};
    double auc = -1.0, again = -1.0;
    if (ranking_new(&r, n, threads, s, ROOM_BYTES, &e))
        fail_msg("%s", e.text);
    assert_int_equal(ranking_is_in_file(r), in_file);
    assert_int_equal(rank(r, rows, n, threads, &auc, &e), ERR_OK);
    assert_int_equal(rank(r, rows, n, threads, &again, &e), ERR_OK);
    assert_memory_equal(&auc, &again, sizeof auc);
    ranking_free(r);
    spill_unref(s);
    return auc;
}

static void the_auc_is_the_share_of_weighted_pairs_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int weights = 0; weights < 2; weights++) {
            struct scored *rows = draw(seed, 600, weights);
            double wanted = by_pairs(rows, 600), got = auc_of(rows, 600, 2, 1, false);
            assert_true(wanted > 0.0 && wanted < 1.0 && fabs(got - wanted) < 1e-12);
            mem_free(rows);
        }
}

static void a_sort_in_the_file_gives_the_bits_of_one_in_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct scored *rows = draw(seed, MANY, true);
        double memory = auc_of(rows, MANY, 1, 0, false);
        for (uint32_t threads = 1; threads < 6; threads += 2) {
            double file = auc_of(rows, MANY, threads, 1, true);
            assert_memory_equal(&file, &memory, sizeof file);
        }
        mem_free(rows);
    }
}

/* Runs that end where a merge, a pass or a buffer does. */
static void rows_that_just_fill_their_runs_are_all_counted(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {RUN_ROWS * 43, RUN_ROWS * 64, RUN_ROWS * 64 + 1,
                                     RUN_ROWS * 48 - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_true(sizes[i] > MIB_ROWS);
        struct scored *rows = draw(i, sizes[i], true);
        double memory = auc_of(rows, sizes[i], 1, 0, false),
               file = auc_of(rows, sizes[i], 1, 1, true);
        assert_memory_equal(&file, &memory, sizeof file);
        mem_free(rows);
    }
}

static void one_class_or_no_weight_has_no_auc(void **state)
{
    (void)state;
    const struct scored all[] = {{1, 1, true}, {2, 1, true}},
                        none[] = {{1, 0, true}, {2, 1, false}};
    const struct scored lost[] = {{1, 1, true}, {2, 1, false}, {NAN, 1, true}};
    const struct scored zero[] = {{1, 1, true}, {2, 0, false}, {0, 3, false}, {1, 1, false}};
    assert_true(isnan(auc_of(all, 2, 1, 1, false)));
    assert_true(isnan(auc_of(all, 0, 1, 1, false)));
    assert_true(isnan(auc_of(none, 2, 1, 1, false)));
    assert_true(isnan(auc_of(lost, 3, 1, 1, false)));
    assert_true(auc_of(lost, 2, 1, 1, false) == 0.0);
    assert_true(auc_of(zero, 4, 1, 1, false) == 3.5 / 4);
}

static void a_score_that_is_nan_spoils_its_own_evaluation_alone(void **state)
{
    (void)state;
    struct ranking *r = NULL;
    struct errmsg e;
    double auc = 0;
    const struct scored rows[] = {{1, 1, true}, {0, 1, false}, {NAN, 1, true}};
    assert_int_equal(ranking_new(&r, 3, 1, NULL, ROOM_BYTES, &e), ERR_OK);
    assert_int_equal(rank(r, rows, 3, 1, &auc, &e), ERR_OK);
    assert_true(isnan(auc));
    assert_int_equal(rank(r, rows, 2, 1, &auc, &e), ERR_OK);
    assert_true(auc == 1.0);
    ranking_free(r);
}

static void every_fault_of_the_disk_is_told(void **state)
{
    (void)state;
    struct scored *rows = draw(1, MANY, true);
    int fired = 1;
    for (long n = 0; fired; n += n < 4 ? 1 : 97) {
        struct spill *s = spill_of(1);
        struct ranking *r = NULL;
        struct errmsg e = {""};
        double auc = 0;
        spill_fail_at(n, EIO);
        enum err err = ranking_new(&r, MANY, 2, s, ROOM_BYTES, &e);
        if (!err)
            err = rank(r, rows, MANY, 2, &auc, &e);
        fired = spill_fail_fired();
        spill_fail_at(-1, 0);
        assert_int_equal(err, fired ? ERR_DISK : ERR_OK);
        assert_int_equal(strstr(e.text, "Input/output error") != NULL, fired);
        if (r) { /* leftover contents do no harm */
            assert_int_equal(rank(r, rows, MANY, 2, &auc, &e), ERR_OK);
            assert_true(auc > 0.5 && auc < 1.0);
        }
        ranking_free(r);
        spill_unref(s);
    }
    mem_free(rows);
}

/* Of the first rows and of the last ones of runs, of all their bytes but the unused ones. */
static void a_changed_bit_of_the_file_is_told(void **state)
{
    (void)state;
    struct scored *rows = draw(1, MANY, true);
    for (int i = 0; i < 60; i++) {
        struct spill *s = spill_of(1);
        struct ranking *r = NULL;
        struct errmsg e = {""};
        double auc = 0;
        assert_int_equal(ranking_new(&r, MANY, 1, s, ROOM_BYTES, &e), ERR_OK);
        ranking_begin(r);
        assert_int_equal(ranking_add(r, 0, rows, MANY, &e), ERR_OK);
        spill_file_flip(8 * (i * 977 * (int)sizeof *rows + i % 9) + i % 8);
        assert_int_equal(auc_by(r, &auc, &e), ERR_DISK);
        assert_non_null(
            strstr(e.text, "(data.spill) cannot be read back: their checksum does not match"));
        ranking_free(r);
        spill_unref(s);
    }
    mem_free(rows);
}

static void it_survives_every_allocation_that_fails(void **state)
{
    (void)state;
    struct scored *rows = draw(1, MANY, false);
    int fired = 1;
    for (long n = 0; fired; n++) {
        struct spill *s = spill_of(1);
        struct ranking *r = NULL;
        struct errmsg e;
        double auc = 0;
        mem_fail_at(n);
        enum err err = ranking_new(&r, MANY, 2, s, ROOM_BYTES, &e);
        if (!err)
            err = rank(r, rows, MANY, 2, &auc, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        ranking_free(r);
        spill_unref(s);
    }
    mem_free(rows);
}

/* ---- an evaluation ---- */

static void put_csv(struct idx_files *files, uint64_t rows)
{
    char *text = malloc(rows * 16);
    size_t n = 0;
    assert_non_null(text);
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t key = rng_key(3, RNG_TEST, row, 0);
        unsigned x = (unsigned)(rng_u64(key, 0) % 1000);
        unsigned y = rng_u64(key, 1) % 1500 < x;
        n += (size_t)sprintf(text + n, row % 997 == 5 ? "?,%u\n" : "%u,%u\n",
                             row % 997 == 5 ? y : x, y);
    }
    idx_files_write(files, "a.csv", (struct bytes){(uint8_t *)text, n});
    free(text);
}

static struct sums evaluate(const struct idx_files *files, uint32_t memory_mb)
{
    char text[1024];
    struct job job = {0};
    struct dataset train, eval;
    struct model *model = NULL;
    struct pool *pool = NULL;
    struct dataset_source eval_source;
    struct evaluator *v = NULL;
    struct sums sums;
    struct errmsg e;
    int n = snprintf(text, sizeof text,
                     "model: {input: {shape: [1]}, layers: [dense: 1], loss: {binary_crossentropy: "
                     "{from_logits: true}}, metrics: [auc]}\noptimizer: sgd\n"
                     "data: {format: csv, train: '%s/a.csv', eval: '%s/a.csv', memory_mb: %u, "
                     "bad_rows: skip, columns: [number: x, label: y]}\n",
                     files->dir, files->dir, memory_mb);
    if (job_parse(&job, text, (size_t)n, "j.yaml", "/", NULL, 0, &e) ||
        dataset_load(&train, &job, 0, 2, &e) || dataset_load_eval(&eval, &job, &train, 2, &e) ||
        model_new(&model, &job, &e) || pool_new(&pool, 2, &e) ||
        evaluator_new(&v, &job, model, source_over(&eval_source, &eval, NULL), pool, &e))
        fail_msg("%s", e.text);
    float *w = mem_floats(model_layout(model)->elems);
    assert_non_null(w);
    w[0] = 0.5f;
    assert_int_equal(evaluator_run(v, w, NULL, &sums, &e), ERR_OK);
    mem_free(w);
    evaluator_free(v);
    pool_free(pool);
    model_free(model);
    dataset_close(&eval);
    dataset_close(&train);
    job_close(&job);
    return sums;
}

static void an_evaluation_beyond_memory_mb_has_the_same_auc(void **state)
{
    (void)state;
    struct idx_files files;
    idx_files_init(&files);
    put_csv(&files, MANY);
    struct sums memory = evaluate(&files, 64), file = evaluate(&files, 1);
    assert_true(memory.examples < MANY && memory.metric[0] > 0.7 && memory.metric[0] < 0.9);
    assert_memory_equal(&memory.metric[0], &file.metric[0], sizeof(double));
    idx_files_close(&files);
}

int main(void)
{
    log_init("ranking_test", LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_auc_is_the_share_of_weighted_pairs_in_order),
        cmocka_unit_test(a_sort_in_the_file_gives_the_bits_of_one_in_memory),
        cmocka_unit_test(rows_that_just_fill_their_runs_are_all_counted),
        cmocka_unit_test(one_class_or_no_weight_has_no_auc),
        cmocka_unit_test(a_score_that_is_nan_spoils_its_own_evaluation_alone),
        cmocka_unit_test(every_fault_of_the_disk_is_told),
        cmocka_unit_test(a_changed_bit_of_the_file_is_told),
        cmocka_unit_test(it_survives_every_allocation_that_fails),
        cmocka_unit_test(an_evaluation_beyond_memory_mb_has_the_same_auc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
