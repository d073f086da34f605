/* Layers over tables: formulas by hand, the order of sums to the bit, what is refused. gradient_test has the slopes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/lib/models.h"
#include "tests/lib/trial.h"
#include "model/model.h"

enum { ROWS = 6, NONE = -1 };

/* ---- one layer behind a sum of its outputs ---- */

/* One lookup of a table of two columns; the output is linear, so that a mean squared error's gradient is plain. */
static void one_bag(struct job *j, enum bag_mode mode)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_lookup(j, LAYER_EMBEDDING_BAG, models_table(j, 2, 0), 1)->embedding_bag.mode = mode;
    models_dense(j, 1, ACT_LINEAR);
}
static void one_sum(struct job *j)
{
    one_bag(j, BAG_SUM);
}
static void one_mean(struct job *j)
{
    one_bag(j, BAG_MEAN);
}
static void one_sqrtn(struct job *j)
{
    one_bag(j, BAG_SQRTN);
}

/* Row k of the table is (10^k, 2 10^k). */
static void set_rows(struct drawn_leaf *l)
{
    for (uint32_t k = 0; k < LEAF_KEYS; k++) {
        l->w[0][k * 2] = (float)pow(10, k);
        l->w[0][k * 2 + 1] = 2.0f * (float)pow(10, k);
    }
}

/* The output for row 0 of the data: that of dense by (1, 1000000), so that both columns can be read off. */
static void bag_of(void (*make)(struct job *), const int at[LEAF_WIDTH],
                   const float weight[LEAF_WIDTH], double out[2])
{
    struct trial t = {.made = false};
    trial_init(&t, make, 1, 1);
    set_rows(&t.leaf);
    for (int i = 0; i < LEAF_WIDTH; i++)
        t.leaf.at[0][i] = at[i] == NONE ? LOOKUP_NONE : (uint32_t)at[i];
    t.leaf.column[0] = (struct lookup_column){
        .width = LEAF_WIDTH, .count = t.leaf.count[0], .at = t.leaf.at[0], .weight = weight};
    t.leaf.count[0][0] = LEAF_WIDTH;
    for (int c = 0; c < 2; c++) {
        struct sums sums = {0};
        memset(t.w, 0, t.elems * sizeof *t.w);
        t.w[c] = 1.0f;
        t.leaf.rows.dw[0] = NULL; /* an evaluation has none */
        model_eval(
            t.run, t.w,
            &(struct leaf){.n = 1, .x = t.x, .y = t.y, .keys = &t.leaf.keys, .rows = &t.leaf.rows},
            &sums);
        out[c] = (double)model_run_outputs(t.run, 0)[0];
    }
    trial_close(&t);
}

static void assert_bag(void (*make)(struct job *), const int at[LEAF_WIDTH],
                       const float weight[LEAF_WIDTH], double first)
{
    double out[2];
    bag_of(make, at, weight, out);
    if (fabs(out[0] - first) > 1e-6 * fabs(first) || fabs(out[1] - 2 * first) > 2e-6 * fabs(first))
        fail_msg("a bag is (%.9g, %.9g), should be (%.9g, %.9g)", out[0], out[1], first, 2 * first);
}

static void a_bag_is_the_sum_of_its_rows_or_their_mean_or_by_the_root_of_squares(void **state)
{
    (void)state;
    const int at[] = {0, 2, 1}, twice[] = {1, 1, 0};
    const float weight[] = {1, 3, 2};
    assert_bag(one_sum, at, NULL, 111);
    assert_bag(one_mean, at, NULL, 37);
    assert_bag(one_sqrtn, at, NULL, 111 / sqrt(3));
    assert_bag(one_sum, at, weight, 321);
    assert_bag(one_mean, at, weight, 321.0 / 6);
    assert_bag(one_sqrtn, at, weight, 321 / sqrt(14));
    assert_bag(one_sum, twice, NULL, 21);
    assert_bag(one_mean, twice, NULL, 7);
}

static void a_place_without_a_key_is_not_there(void **state)
{
    (void)state;
    const int some[] = {1, NONE, 2}, none[] = {NONE, NONE, NONE};
    assert_bag(one_sum, some, NULL, 110);
    assert_bag(one_mean, some, NULL, 55);
    assert_bag(one_sqrtn, some, NULL, 110 / sqrt(2));
    assert_bag(one_sum, none, NULL, 0);
    assert_bag(one_mean, none, NULL, 0);
    assert_bag(one_sqrtn, none, NULL, 0);
}

static void a_weight_that_is_not_above_0_counts_in_a_sum_alone(void **state)
{
    (void)state;
    const int at[] = {0, 2, 1};
    const float weight[] = {2, -1, 0}, zero[] = {0, 0, 0};
    assert_bag(one_sum, at, weight, 2 - 100);
    assert_bag(one_mean, at, weight, 1);
    assert_bag(one_sqrtn, at, weight, 1);
    assert_bag(one_mean, at, zero, 0);
    assert_bag(one_sqrtn, at, zero, 0);
}

/* ---- several lookups ---- */

static void two_fields(struct job *j)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    (void)models_lookup(j, LAYER_EMBEDDING, models_table(j, 2, 0), 2);
    models_dense(j, 1, ACT_LINEAR);
}

static void an_embedding_has_its_columns_rows_side_by_side(void **state)
{
    (void)state;
    struct trial t = {.made = false};
    trial_init(&t, two_fields, 1, 1);
    set_rows(&t.leaf);
    t.leaf.at[0][0] = 1;
    t.leaf.at[1][0] = 3;
    const double want[] = {10, 20, 1000, 2000};
    for (int c = 0; c < 4; c++) {
        memset(t.w, 0, t.elems * sizeof *t.w);
        t.w[c] = 1.0f;
        (void)trial_loss(&t);
        assert_true((double)model_run_outputs(t.run, 0)[0] == want[c]);
    }
    trial_close(&t);
}

static void logistic(struct job *j)
{
    models_start(j, 0, 0, LOSS_BINARY_CROSSENTROPY, false);
    models_lookup(j, LAYER_LINEAR, models_table(j, 1, 0), 3)->use_bias = true;
    models_activation(j, ACT_SIGMOID);
}

/* So the loss has taken the sigmoid in. */
static void logistic_regression_works_on_the_sum_of_weights_and_the_bias(void **state)
{
    (void)state;
    struct trial t = {.made = false};
    trial_init(&t, logistic, 1, 1);
    t.w[0] = 0.5f;
    for (uint32_t k = 0; k < LEAF_KEYS; k++)
        t.leaf.w[0][k] = (float)(k + 1);
    t.leaf.at[0][0] = 1;
    t.leaf.at[1][0] = LOOKUP_NONE;
    t.leaf.at[2][0] = 4;
    (void)trial_loss(&t);
    assert_true(model_run_outputs(t.run, 0)[0] == 7.5f);
    trial_close(&t);
}

/* ---- the order of sums ---- */

/* Two layers look up in one table; the second one's gradient is the first one's times a weight. */
static void two_layers_of_one_table(struct job *j)
{
    models_start(j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    uint32_t table = models_table(j, 1, 0);
    (void)models_lookup(j, LAYER_LINEAR, table, 2);
    (void)models_lookup(j, LAYER_LINEAR, table, 3);
    models_dense(j, 1, ACT_LINEAR);
    models_merge(j, LAYER_ADD, 1, 3);
}

static void add_gradient(float *g, const struct trial *t, uint32_t lookup, uint32_t row, float dy)
{
    uint32_t at = t->leaf.at[lookup][row];
    if (at != LOOKUP_NONE)
        g[at] += dy;
}

static void sum_gradients(const struct trial *t, bool by_example, float g[LEAF_KEYS])
{
    const float *z = model_run_outputs(t->run, 0);
    memset(g, 0, LEAF_KEYS * sizeof *g);
    for (uint32_t i = 0; i < 5 * ROWS; i++) {
        uint32_t row = by_example ? i / 5 : i % ROWS, lookup = by_example ? i % 5 : i / ROWS;
        float dy = 2.0f * (z[row] - t->y[row]);
        add_gradient(g, t, lookup, row, lookup < 2 ? dy : dy * t->w[0]);
    }
}

static void gradients_of_a_row_are_added_by_example_and_then_by_lookup(void **state)
{
    (void)state;
    bool told_apart = false;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        float want[LEAF_KEYS], other[LEAF_KEYS];
        struct trial t = {.made = false};
        trial_init(&t, two_layers_of_one_table, ROWS, seed);
        (void)trial_loss(&t);
        sum_gradients(&t, true, want);
        sum_gradients(&t, false, other);
        assert_memory_equal(t.leaf.dw[0], want, sizeof want);
        told_apart = told_apart || memcmp(want, other, sizeof want) != 0;
        trial_close(&t);
    }
    assert_true(told_apart);
}

static void a_gradient_is_added_to_what_is_there(void **state)
{
    (void)state;
    struct trial t = {.made = false};
    trial_init(&t, logistic, ROWS, 3);
    (void)trial_loss(&t);
    float once = t.leaf.dw[0][2];
    struct sums sums = {0};
    model_train(
        t.run, t.w,
        &(struct leaf){.n = ROWS, .x = t.x, .y = t.y, .keys = &t.leaf.keys, .rows = &t.leaf.rows},
        0, t.dw, &sums, NULL, NULL);
    assert_true(once != 0.0f && fabsf(t.leaf.dw[0][2] - 2.0f * once) <= 1e-6f);
    trial_close(&t);
}

/* ---- the layout ---- */

static void a_model_lays_its_tables_out(void **state)
{
    (void)state;
    struct job j;
    struct model *m;
    models_start(&j, 0, 0, LOSS_MEAN_SQUARED_ERROR, false);
    uint32_t wide = models_table(&j, 1, 0), deep = models_table(&j, 4, 0),
             bag = models_table(&j, 3, 1);
    j.model.table[wide].init = (struct job_weights){.initializer = INIT_ZEROS};
    j.model.table[bag].init = (struct job_weights){
        .initializer = INIT_RANDOM_NORMAL, .init_value = 0.5f, .init_other = 2};
    (void)models_lookup(&j, LAYER_LINEAR, wide, 3);
    (void)models_lookup(&j, LAYER_EMBEDDING, deep, 3);
    (void)models_lookup(&j, LAYER_EMBEDDING_BAG, bag, 1);
    models_merge(&j, LAYER_CONCATENATE, 1, 2);
    models_merge(&j, LAYER_CONCATENATE, 4, 3);
    models_dense(&j, 1, ACT_LINEAR);
    assert_int_equal(model_new(&m, &j, NULL), ERR_OK);
    const struct row_layout *rows = model_layout(m)->rows;
    assert_true(rows->tables == 3 && rows->lists == 2 && model_features(m) == 0);
    const struct row_table_spec *t = rows->table;
    assert_string_equal(t[1].name, "table_1");
    assert_true(t[0].dim == 1 && t[1].dim == 4 && t[2].dim == 3);
    assert_true(t[0].list == 0 && t[1].list == 0 && t[2].list == 1);
    assert_true(t[0].init == INIT_ZEROS && t[1].init == INIT_RANDOM_UNIFORM);
    assert_true(t[1].init_value == 0.05f && t[1].init_center == 0.0f);
    assert_true(t[2].init == INIT_RANDOM_NORMAL && t[2].init_value == 0.5f &&
                t[2].init_center == 2.0f);
    model_free(m);
    models_close(&j);
}

static void a_model_without_tables_has_no_layout_of_rows(void **state)
{
    (void)state;
    struct job j;
    struct model *m;
    models_start(&j, 3, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_dense(&j, 1, ACT_LINEAR);
    assert_int_equal(model_new(&m, &j, NULL), ERR_OK);
    assert_null(model_layout(m)->rows);
    model_free(m);
}

/* ---- what is refused ---- */

static void tables_alone_are_refused(void **state)
{
    (void)state;
    struct job j;
    logistic(&j);
    j.model.layer[0].use_bias = false;
    trial_assert_refused(&j, "at least one weight outside them", "use_bias: true");
    models_close(&j);
}

static void a_layer_of_numbers_is_refused_where_there_are_none(void **state)
{
    (void)state;
    struct job j;
    logistic(&j);
    models_dense(&j, 1, ACT_LINEAR);
    j.model.layer[2].inputs = 1;
    trial_assert_refused(&j, "dense_2 reads the model's input", "number or category column");
    models_close(&j);
}

static void linear_is_refused_over_rows_of_several_weights(void **state)
{
    (void)state;
    struct job j;
    logistic(&j);
    j.model.table[0].dim = 2;
    trial_assert_refused(&j, "lookup_0 takes one weight for each key", "output_dim 1");
    models_close(&j);
}

static void columns_without_features_are_refused(void **state)
{
    (void)state;
    struct job j;
    models_start(&j, 4, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_columns(&j, 3, 2);
    j.data.csv.column[2].width = 0;
    models_dense(&j, 1, ACT_LINEAR);
    models_select(&j, 1, (const uint32_t[]){2});
    trial_assert_refused(&j, "dense_0: the columns that it names have no features", "or too many");
    models_close(&j);
}

/* ---- columns of the input ---- */

static void ids_by_name(struct job *j)
{
    models_start(j, 6, 0, LOSS_MEAN_SQUARED_ERROR, false);
    models_columns(j, 3, 2);
    models_embedding(j, 5, 2);
    models_select(j, 2, (const uint32_t[]){2, 0});
    models_flatten(j);
    models_dense(j, 1, ACT_LINEAR);
}

/* Its table's weights are 0 except in one row, so the output shows how often it was read. */
static void a_layer_reads_the_columns_that_it_names_in_its_order(void **state)
{
    (void)state;
    struct trial t = {.made = false};
    trial_init(&t, ids_by_name, 1, 1);
    const float x[] = {3, 4, 1, 1, 0, 2}, kernel[] = {1, 0, 10, 0, 100, 0, 1000, 0};
    const float of_id[] = {5, 1, 2, 3, 4};
    memcpy(t.x, x, sizeof x);
    for (int id = 0; id < 5; id++)
        t.w[2 * id] = of_id[id];
    memcpy(t.w + 16, kernel, sizeof kernel);
    t.w[32] = 0.0f;
    (void)trial_loss(&t);
    assert_true(model_run_outputs(t.run, 0)[0] == 5.0f + 20.0f + 300.0f + 4000.0f);
    trial_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bag_is_the_sum_of_its_rows_or_their_mean_or_by_the_root_of_squares),
        cmocka_unit_test(a_place_without_a_key_is_not_there),
        cmocka_unit_test(a_weight_that_is_not_above_0_counts_in_a_sum_alone),
        cmocka_unit_test(an_embedding_has_its_columns_rows_side_by_side),
        cmocka_unit_test(logistic_regression_works_on_the_sum_of_weights_and_the_bias),
        cmocka_unit_test(gradients_of_a_row_are_added_by_example_and_then_by_lookup),
        cmocka_unit_test(a_gradient_is_added_to_what_is_there),
        cmocka_unit_test(a_model_lays_its_tables_out),
        cmocka_unit_test(a_model_without_tables_has_no_layout_of_rows),
        cmocka_unit_test(tables_alone_are_refused),
        cmocka_unit_test(a_layer_of_numbers_is_refused_where_there_are_none),
        cmocka_unit_test(linear_is_refused_over_rows_of_several_weights),
        cmocka_unit_test(columns_without_features_are_refused),
        cmocka_unit_test(a_layer_reads_the_columns_that_it_names_in_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
