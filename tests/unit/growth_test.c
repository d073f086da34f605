#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "worker/warm_start/warm_start.h"

/* Columns a (1 feature), b (3, the last one new) and c (2, the last one new). */
static const uint8_t FRESH[] = {0, 0, 0, 1, 0, 1};

static struct model *model_of(struct job *job, const char *layers)
{
    char text[2048];
    struct model *m;
    struct errmsg e = {""};
    snprintf(text, sizeof text,
             "model: {input: {shape: [6]}, loss: mse, layers: [%s]}\noptimizer: sgd\n"
             "data: {format: csv, train: a.csv, columns: [number: a, category: b, category: c, "
             "label: y]}\n",
             layers);
    if (job_parse(job, text, strlen(text), "j.yaml", "/", NULL, 0, &e))
        fail_msg("%s", e.text);
    const uint32_t feature[] = {0, 1, 4}, width[] = {1, 3, 2};
    for (int i = 0; i < 3; i++) {
        job->data.csv.column[i].feature = feature[i];
        job->data.csv.column[i].width = width[i];
    }
    if (model_new(&m, job, &e))
        fail_msg("%s", e.text);
    return m;
}

/* wanted: of each tensor, joined by blanks: the flags of its rows, or -. */
static void grows(const char *layers, const char *wanted)
{
    struct job job;
    struct model_growth g;
    struct errmsg e = {""};
    char got[256] = "";
    struct model *m = model_of(&job, layers);
    if (model_growth_init(&g, m, FRESH, &e))
        fail_msg("%s", e.text);
    const struct layout *l = model_layout(m);
    for (uint32_t i = 0; i < l->tensors; i++) {
        size_t n = strlen(got);
        n += (size_t)snprintf(got + n, sizeof got - n, i ? " " : "");
        for (uint32_t row = 0; g.fresh[i] && row < l->tensor[i].shape[0]; row++)
            n += (size_t)snprintf(got + n, sizeof got - n, "%u", g.fresh[i][row]);
        if (!g.fresh[i])
            (void)snprintf(got + n, sizeof got - n, "-");
    }
    assert_string_equal(got, wanted);
    model_growth_close(&g);
    model_free(m);
    job_close(&job);
}

static void refuses(const char *layers, const char *layer)
{
    struct job job;
    struct model_growth g;
    struct errmsg e = {""};
    char wanted[128];
    struct model *m = model_of(&job, layers);
    assert_int_equal(model_growth_init(&g, m, FRESH, &e), ERR_INPUT);
    snprintf(wanted, sizeof wanted,
             "layer %s reads the features of words, and new words would change its output", layer);
    if (strncmp(e.text, wanted, strlen(wanted)) != 0)
        fail_msg("%s", e.text);
    model_growth_close(&g);
    model_free(m);
    job_close(&job);
}

static void new_features_are_rows_of_the_layers_that_read_them(void **state)
{
    (void)state;
    grows("dense: 2, dense: 1", "000101 - - -");
    grows("dropout: 0.5, activation: tanh, dense: 1", "000101 -");
    grows("dense: {units: 1, inputs: [c, a]}", "010 -");
    grows("dense: {units: 1, inputs: [a]}", "- -");
    grows("dense: {units: 2, inputs: [b], name: d}, dense: {units: 1, inputs: [d, c, a]}",
          "001 - 00010 -");
    grows("dense: {units: 2, inputs: [a], name: d}, "
          "concatenate: {inputs: [input, d], name: all}, dense: {units: 1, inputs: [all]}",
          "- - 00010100 -");
}

static void layers_that_would_change_for_the_others_are_refused_by_name(void **state)
{
    (void)state;
    refuses("batch_normalization: {name: norm}, dense: 1", "norm");
    refuses("layer_normalization: {name: norm}, dense: 1", "norm");
    refuses("activation: {activation: sigmoid, name: act}, dense: 1", "act");
    refuses("activation: {activation: softmax, name: act}, dense: 1", "act");
    refuses("add: {inputs: [input, input], name: twice}, dense: 1", "twice");
    refuses("embedding: {input_dim: 9, output_dim: 2, name: rows}, flatten, dense: 1", "rows");
}

static void the_new_block_says_where_each_element_was(void **state)
{
    (void)state;
    struct layout l = {0};
    struct block_map map;
    struct errmsg e = {""};
    const struct tensor first = {.name = "a", .rank = 2, .shape = {6, 8}},
                        second = {.name = "b", .rank = 1, .shape = {5}};
    uint8_t flags[] = {0, 0, 0, 1, 0, 1}, *fresh[] = {flags, NULL};
    assert_int_equal(layout_add(&l, &first, &e), ERR_OK);
    assert_int_equal(layout_add(&l, &second, &e), ERR_OK);
    assert_int_equal(block_map_init(&map, &l, fresh, &e), ERR_OK);
    static const struct block_run wanted[] = {
        {0, 24, 0}, {24, 8, BLOCK_MAP_NEW}, {32, 8, 24}, {40, 8, BLOCK_MAP_NEW}, {48, 5, 32}};
    assert_int_equal(map.runs, 5);
    for (int i = 0; i < 5; i++)
        assert_true(map.run[i].at == wanted[i].at && map.run[i].n == wanted[i].n &&
                    map.run[i].from == wanted[i].from);
    assert_int_equal(map.old_elems, 48); /* 32, and 5 with the gap behind them */
    block_map_close(&map);
    assert_int_equal(block_map_init(&map, &l, NULL, &e), ERR_OK);
    assert_int_equal(map.old_elems, l.elems);
    block_map_close(&map);
    layout_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_features_are_rows_of_the_layers_that_read_them),
        cmocka_unit_test(layers_that_would_change_for_the_others_are_refused_by_name),
        cmocka_unit_test(the_new_block_says_where_each_element_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
