/* data.synthetic: clicks: what is drawn, its text, and how well the model does that drew it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "data/dataset.h"
#include "data/drawn/drawn.h"

static struct job click_job(const char *keys)
{
    char text[1024];
    struct job job;
    struct errmsg e;
    (void)snprintf(text, sizeof text,
                   "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                   "optimizer: sgd\n"
                   "worker: {threads: 2}\n"
                   "data: {format: synthetic, synthetic: clicks, synthetic_fields: 2, %s, "
                   "columns: [label, number: a, number, number, number, number, number, number, "
                   "number, number, number, number, number, number: m, ignore, ignore]}\n",
                   keys);
    if (job_parse(&job, text, strlen(text), "j.yaml", "/", NULL, 0, &e))
        fail_msg("%s", e.text);
    return job;
}

static struct clicks model_of(uint32_t fields, uint32_t keys, uint32_t rank)
{
    static struct job job; /* large */
    struct clicks c;
    job.data.synthetic_fields = fields;
    job.data.synthetic_keys = keys;
    job.data.synthetic_interaction = rank;
    clicks_init(&c, &job);
    return c;
}

/* The fingerprint was made on x86-64 by gcc -O0; the text is the same on any machine. `before`: by an earlier release. */
static void the_clicks_are_the_same_text_everywhere(void **state)
{
    (void)state;
    struct job job = click_job("synthetic_train_rows: 5000, synthetic_eval_rows: 700");
    struct dataset train, eval;
    struct errmsg e;
    char text[2 * sizeof train.contents.fingerprint + 1];
    if (dataset_load(&train, &job, 0, 2, &e) || dataset_load_eval(&eval, &job, &train, 2, &e))
        fail_msg("%s", e.text);
    assert_int_equal(train.rows, 5000);
    assert_int_equal(eval.rows, 700);
    assert_int_equal(train.features, CLICKS_NUMBERS);
    contents_hex(&train.contents, text);
    assert_string_equal(text, "7833142afb978c180e85ce718381c3edc0f2905e232913e9ac6b9b6347d37833");
    assert_int_equal(dataset_know_before(&train, &job, 0, &e), ERR_OK);
    assert_true(contents_same_hex(
        &train.contents, "ad08e6c7aaad41889ecbe3915e21465f09571f8c0e1add31a89c34a3cc662b02"));
    assert_memory_not_equal(train.contents.fingerprint, eval.contents.fingerprint,
                            sizeof eval.contents.fingerprint);
    dataset_close(&eval);
    dataset_close(&train);
    job_close(&job);
}

static void a_row_of_clicks_depends_on_its_number_alone(void **state)
{
    (void)state;
    struct drawn many = {.kind = SYNTHETIC_CLICKS, .delimiter = '\t', .rows = 3000}, few;
    char a[8192], b[8192];
    many.clicks = model_of(26, 1000, 4);
    few = many;
    few.rows = 10;
    size_t n = drawn_read(&few, a, sizeof a), got = 0;
    assert_in_range(n, 10 * 26 * 9, 10 * CLICKS_LINE_BYTES);
    while (got < n) /* in small reads */
        got += drawn_read(&many, b + got, n - got < 7 ? n - got : 7);
    assert_memory_equal(a, b, n);
    assert_int_equal(drawn_read(&few, a, sizeof a), 0);
}

static void a_line_has_the_label_13_numbers_and_a_word_for_each_field(void **state)
{
    (void)state;
    const struct clicks c = model_of(JOB_CLICK_FIELDS_MAX, 1000000000, 4);
    char line[CLICKS_LINE_BYTES];
    for (uint64_t row = 0; row < 20000; row++) {
        struct click drawn;
        size_t n = clicks_write(&c, line, '|', 0, row), bars = 0;
        clicks_draw(&c, 0, row, &drawn);
        assert_in_range(n, 1, CLICKS_LINE_BYTES);
        assert_int_equal(line[n - 1], '\n');
        assert_int_equal(line[0], drawn.clicked ? '1' : '0');
        for (size_t i = 0; i < n; i++)
            bars += line[i] == '|';
        assert_int_equal(bars, CLICKS_NUMBERS + JOB_CLICK_FIELDS_MAX);
        for (size_t f = 1; f <= JOB_CLICK_FIELDS_MAX; f++)
            assert_int_equal(line[n - 9 * f - 1], '|');
    }
}

static void the_fields_share_all_keys_out_and_each_has_one(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {26, 1000}, {26, 1000000}, {1, 7}, {64, 64}, {64, 1000000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct clicks c = model_of(cases[i][0], cases[i][1], 0);
        uint64_t sum = 0;
        for (uint32_t f = 0; f < c.fields; f++) {
            assert_true(c.field[f].keys >= 1);
            sum += c.field[f].keys;
        }
        assert_int_equal(sum, cases[i][1]);
    }
}

/* Key k of n: log(1 + 1/k) / log(n + 1). */
static void keys_are_drawn_by_the_law_of_zipf(void **state)
{
    (void)state;
    enum { ROWS = 200000, KEYS = 50 };
    const struct clicks c = model_of(1, KEYS, 0);
    double chi = 0, seen[KEYS + 1] = {0};
    struct click row;
    for (uint64_t i = 0; i < ROWS; i++) {
        clicks_draw(&c, 0, i, &row);
        assert_in_range(row.key[0], 1, KEYS);
        seen[row.key[0]]++;
    }
    for (int k = 1; k <= KEYS; k++) {
        double wanted = ROWS * log(1 + 1.0 / k) / log(KEYS + 1);
        chi += (seen[k] - wanted) * (seen[k] - wanted) / wanted;
    }
    assert_true(chi < 49 + 4 * sqrt(2 * 49.0)); /* 49 degrees of freedom, 4 deviations */
}

static void each_key_of_a_field_has_a_word_of_its_own(void **state)
{
    (void)state;
    enum { KEYS = 300, WORD = 9 };
    const struct clicks c = model_of(1, KEYS, 0);
    static char word[KEYS + 1][WORD];
    char line[CLICKS_LINE_BYTES];
    struct click row;
    for (uint64_t i = 0; i < 50000; i++) {
        size_t n = clicks_write(&c, line, '\t', 1, i);
        clicks_draw(&c, 1, i, &row);
        char *is = word[row.key[0]];
        line[n - 1] = '\0';
        assert_true(!*is || strcmp(is, line + n - WORD) == 0);
        memcpy(is, line + n - WORD, WORD);
    }
    for (int a = 1; a <= KEYS; a++)
        for (int b = 1; b < a; b++)
            assert_true(*word[a] && strcmp(word[a], word[b]) != 0);
}

/* The logits of keys (1, 1), (1, 2), (2, 1), (2, 2) of two fields. */
static void four_logits(const struct clicks *c, double logit[2][2])
{
    bool there[2][2] = {{false}};
    struct click row;
    for (uint64_t i = 0; i < 10000; i++) {
        clicks_draw(c, 0, i, &row);
        if (row.key[0] > 2 || row.key[1] > 2)
            continue;
        logit[row.key[0] - 1][row.key[1] - 1] = row.logit;
        there[row.key[0] - 1][row.key[1] - 1] = true;
    }
    assert_true(there[0][0] && there[0][1] && there[1][0] && there[1][1]);
}

static void keys_count_each_alone_but_with_an_interaction(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank <= 4; rank++) {
        const struct clicks c = model_of(2, 10, rank);
        double z[2][2];
        four_logits(&c, z);
        double together = fabs(z[0][0] - z[0][1] - z[1][0] + z[1][1]);
        assert_true(fabs(z[0][0] - z[1][1]) > 0.01);
        assert_true(rank ? together > 0.01 : together < 1e-12);
    }
}

/* Two keys add the product of a number of each: no key's own square is in it. */
static void an_interaction_of_rank_1_is_a_product(void **state)
{
    (void)state;
    const struct clicks alone = model_of(2, 10, 0), together = model_of(2, 10, 1);
    double a[2][2], z[2][2];
    four_logits(&alone, a);
    four_logits(&together, z);
    for (int i = 0; i < 4; i++)
        z[i / 2][i % 2] -= a[i / 2][i % 2];
    assert_true(fabs(z[0][0]) > 1e-3 && fabs(z[1][1]) > 1e-3);
    assert_true(fabs(z[0][0] * z[1][1] - z[0][1] * z[1][0]) < 1e-12);
}

/* Of rows with about the same logit as many clicked as it says. */
static void the_logit_is_that_of_a_click(void **state)
{
    (void)state;
    enum { ROWS = 200000, GROUPS = 8 };
    const struct clicks c = model_of(26, 1000, 4);
    double wanted[GROUPS] = {0}, clicked[GROUPS] = {0}, variance[GROUPS] = {0}, spread = 0;
    struct click row;
    for (uint64_t i = 0; i < ROWS; i++) {
        clicks_draw(&c, 0, i, &row);
        double p = 1 / (1 + exp(-row.logit));
        int group = (int)(p * GROUPS);
        wanted[group] += p;
        variance[group] += p * (1 - p);
        clicked[group] += row.clicked;
        spread += (row.logit + 1.2) * (row.logit + 1.2) / ROWS;
    }
    for (int i = 0; i < GROUPS; i++)
        assert_true(fabs(clicked[i] - wanted[i]) < 4 * sqrt(variance[i]));
    assert_true(spread > 1 && spread < 6); /* 2.6 on the average of all models */
}

/* The same as planted_measure, row by row and pair by pair. */
static void measure_slowly(const struct clicks *c, uint32_t rows, double *auc, double *logloss)
{
    struct click *row = mem_zalloc(rows, sizeof *row);
    double pairs = 0, area = 0;
    assert_non_null(row);
    *logloss = 0;
    for (uint32_t i = 0; i < rows; i++) {
        clicks_draw(c, 1, i, &row[i]);
        double p = 1 / (1 + exp(-row[i].logit));
        *logloss -= log(row[i].clicked ? p : 1 - p) / rows;
    }
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < rows; k++) {
            if (!row[i].clicked || row[k].clicked)
                continue;
            pairs++;
            area += row[i].logit > row[k].logit ? 1 : row[i].logit < row[k].logit ? 0 : 0.5;
        }
    *auc = area / pairs;
    mem_free(row);
}

static void the_planted_scores_are_those_of_the_probabilities_on_the_eval_rows(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank <= 4; rank += 4) {
        char keys[128];
        (void)snprintf(keys, sizeof keys,
                       "synthetic_eval_rows: 3000, synthetic_keys: 500, synthetic_interaction: %u",
                       rank);
        struct job job = click_job(keys);
        const struct clicks c = model_of(2, 500, rank);
        double auc, logloss, slow_auc, slow_logloss;
        struct errmsg e;
        measure_slowly(&c, 3000, &slow_auc, &slow_logloss);
        assert_int_equal(planted_measure(&job, &auc, &logloss, &e), ERR_OK);
        assert_true(fabs(auc - slow_auc) < 1e-4);
        assert_true(fabs(logloss - slow_logloss) < 1e-12);
        assert_true(auc > 0.6 && auc < 0.95);
        job_close(&job);
    }
}

static void one_row_has_no_planted_auc(void **state)
{
    (void)state;
    struct job job = click_job("synthetic_eval_rows: 1");
    double auc, logloss;
    struct errmsg e;
    assert_int_equal(planted_measure(&job, &auc, &logloss, &e), ERR_OK);
    assert_true(isnan(auc) && logloss > 0);
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clicks_are_the_same_text_everywhere),
        cmocka_unit_test(a_row_of_clicks_depends_on_its_number_alone),
        cmocka_unit_test(a_line_has_the_label_13_numbers_and_a_word_for_each_field),
        cmocka_unit_test(the_fields_share_all_keys_out_and_each_has_one),
        cmocka_unit_test(keys_are_drawn_by_the_law_of_zipf),
        cmocka_unit_test(each_key_of_a_field_has_a_word_of_its_own),
        cmocka_unit_test(keys_count_each_alone_but_with_an_interaction),
        cmocka_unit_test(an_interaction_of_rank_1_is_a_product),
        cmocka_unit_test(the_logit_is_that_of_a_click),
        cmocka_unit_test(the_planted_scores_are_those_of_the_probabilities_on_the_eval_rows),
        cmocka_unit_test(one_row_has_no_planted_auc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
