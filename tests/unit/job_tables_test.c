/* Key columns, ranges of names, columns as inputs of layers, and tables. */
#include "job/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "job/range.h"

/* Wide & deep over 3 numbers and 4 key columns, one of them with several values. */
static const char wide_deep[] =
    "model:\n"
    "  input: {shape: auto}\n"
    "  layers:\n"
    "    - linear: {inputs: \"C{1..3}\", name: wide}\n"
    "    - embedding: {inputs: \"C{1..3}\", table: ids, output_dim: 10, name: e}\n"
    "    - embedding_bag: {inputs: tags, output_dim: 4, mode: sqrtn, name: bag}\n"
    "    - dense: {inputs: [e, bag, \"I{1..2}\", colour], units: 8, activation: relu}\n"
    "    - dense: {units: 1, name: deep}\n"
    "    - add: [wide, deep]\n"
    "    - sigmoid\n"
    "  loss: binary_crossentropy\n"
    "tables: {ids: {initializer: {random_normal: {stddev: 0.01}}}}\n"
    "optimizer: adagrad\n"
    "data:\n"
    "  format: csv\n"
    "  train: a.csv\n"
    "  columns:\n"
    "    - label: y\n"
    "    - number: {name: \"I{1..3}\", scale: standard}\n"
    "    - category: colour\n"
    "    - key: {name: \"C{1..3}\", buckets: 1000}\n"
    "    - keys: {name: tags, max_values: 5, separator: \";\", weights: true}\n"
    "    - ignore\n";

static enum err parse(struct job *job, const char *text, const char *set, struct errmsg *e)
{
    return job_parse(job, text, strlen(text), "j.yaml", "/jobs", &set, set ? 1 : 0, e);
}

static struct job parsed(const char *set)
{
    struct job job;
    struct errmsg e = {""};
    if (parse(&job, wide_deep, set, &e))
        fail_msg("%s", e.text);
    return job;
}

static void refused(const char *set, const char *why)
{
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(parse(&job, wide_deep, set, &e), ERR_INPUT);
    assert_string_equal(e.text, why);
}

static void refused_with(const char *const *sets, size_t n, const char *why)
{
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, n, &e),
                     ERR_INPUT);
    assert_string_equal(e.text, why);
}

static void a_range_in_a_name_is_as_many_names(void **state)
{
    (void)state;
    struct job_range r;
    char name[8];
    assert_int_equal(job_range_parse(&r, "C{1..26}x"), ERR_OK);
    assert_int_equal(job_range_count(&r), 26);
    assert_int_equal(job_range_name(&r, 26, name, sizeof name), ERR_OK);
    assert_string_equal(name, "C26x");
    assert_int_equal(job_range_name(&r, 26, name, 4), ERR_TOOBIG);
    assert_int_equal(job_range_parse(&r, "plain"), ERR_OK);
    assert_int_equal(job_range_count(&r), 1);
    assert_int_equal(job_range_name(&r, 0, name, sizeof name), ERR_OK);
    assert_string_equal(name, "plain");
    static const char *const wrong[] = {"C{1..}",   "C{3..2}",       "C{..2}",           "C{01..2}",
                                        "C{1..2",   "C{1..2}{3..4}", "C{1..100000}",     "C{-1..2}",
                                        "C{a..b}x", "C{1...2}",      "C{1..99999999999}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(job_range_parse(&r, wrong[i]), ERR_INPUT);
}

static void a_brace_after_a_backslash_is_of_the_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first;
        uint32_t count;
    } of[] = {{"C\\{1..26}", "C{1..26}", 1},
              {"\\{..}", "{..}", 1},
              {"a\\{b}.. {1..3}", "a{b}.. 1", 3},
              {"{1..3}\\{..}", "1{..}", 3},
              {"a\\{b}", "a\\{b}", 1} /* no range could be meant */};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct job_range r;
        char name[16];
        assert_int_equal(job_range_parse(&r, of[i].text), ERR_OK);
        assert_int_equal(job_range_count(&r), of[i].count);
        assert_int_equal(job_range_name(&r, r.first, name, sizeof name), ERR_OK);
        assert_string_equal(name, of[i].first);
    }
    static const char text[] =
        "name: t\nmodel:\n  input: {shape: auto}\n  layers:\n"
        "    - linear: {inputs: ['k\\{1..2}', 'k\\{3..4}']}\n    - dense: {inputs: [linear, "
        "'x\\{1..3}'], units: 1}\n  loss: mean_squared_error\ndata:\n  format: csv\n  train: a\n"
        "  columns: [number: 'x\\{1..3}', key: 'k\\{1..2}', key: 'k\\{3..4}', label: y]\n"
        "optimizer: sgd\n";
    struct job job, again;
    struct errmsg e;
    if (parse(&job, text, NULL, &e) || parse(&again, job.canonical, NULL, &e))
        fail_msg("%s", e.text);
    assert_string_equal(again.identity_text, job.identity_text);
    job_close(&again);
    assert_int_equal(job.data.csv.columns, 4);
    assert_string_equal(job.data.csv.column[0].name, "x{1..3}");
    assert_string_equal(job.data.csv.column[1].name, "k{1..2}");
    assert_string_equal(job.data.csv.column[1].key.space, "k{1..2}");
    job_close(&job);
}

static void columns_of_a_range_have_the_same_options(void **state)
{
    (void)state;
    struct job job = parsed(NULL);
    const struct job_column *c = job.data.csv.column;
    assert_int_equal(job.data.csv.columns, 10);
    assert_string_equal(c[1].name, "I1");
    assert_string_equal(c[3].name, "I3");
    assert_int_equal(c[3].scale, SCALE_STANDARD);
    assert_int_equal(c[3].item, 1);
    assert_string_equal(c[7].name, "C3");
    assert_int_equal(c[7].kind, COLUMN_KEY);
    assert_string_equal(c[7].key.space, "C3");
    assert_true(c[7].key.hash && c[7].key.buckets == 1000);
    assert_int_equal(c[7].key.missing, KEY_MISSING_EMPTY);
    assert_int_equal(c[8].kind, COLUMN_KEYS);
    assert_int_equal(c[8].key.max_values, 5);
    assert_string_equal(c[8].key.separator, ";");
    assert_true(c[8].key.weights);
    assert_int_equal(c[8].key.missing, KEY_MISSING_NONE);
    job_close(&job);
    job = parsed("data.columns[3]={key: {name: \"C{1..3}\", space: ids, missing: none}}");
    assert_string_equal(job.data.csv.column[5].key.space, "ids");
    assert_string_equal(job.data.csv.column[7].key.space, "ids");
    job_close(&job);
}

static void layers_look_up_keys_and_select_features_of_the_columns_that_they_name(void **state)
{
    (void)state;
    struct job job = parsed(NULL);
    const struct job_layer *l = job.model.layer;
    assert_int_equal(job.model.lookups, 7);
    assert_int_equal(l[0].lookups, 3);
    assert_int_equal(l[1].first_lookup, 3);
    assert_int_equal(l[1].inputs, 0);
    assert_int_equal(job.model.lookup[5].column, 7);
    assert_int_equal(job.model.lookup[6].column, 8);
    assert_int_equal(l[2].embedding_bag.mode, BAG_SQRTN);
    assert_int_equal(l[3].inputs, 3);
    assert_true(l[3].input[0] == 2 && l[3].input[1] == 3);
    assert_int_equal(l[3].input[2], JOB_INPUT_SELECTION);
    assert_int_equal(job.model.selections, 1);
    assert_int_equal(job.model.selection[0].columns, 3);
    assert_int_equal(job.model.selected[0], 1);
    assert_int_equal(job.model.selected[2], 4);
    assert_true(job_layer_looks_up(&l[1]) && !job_layer_looks_up(&l[3]));
    job_close(&job);
}

static void tables_of_the_same_columns_share_a_list(void **state)
{
    (void)state;
    struct job job = parsed(NULL);
    const struct job_table *t = job.model.table;
    assert_int_equal(job.model.tables, 3);
    assert_int_equal(job.model.lists, 2);
    assert_string_equal(t[0].name, "wide");
    assert_int_equal(t[0].dim, 1);
    assert_int_equal(t[0].init.initializer, INIT_ZEROS);
    assert_string_equal(t[1].name, "ids");
    assert_int_equal(t[1].dim, 10);
    assert_int_equal(t[1].init.initializer, INIT_RANDOM_NORMAL);
    assert_true(t[1].init.init_value == 0.01f && t[1].init.init_other == 0);
    assert_string_equal(t[2].name, "bag");
    assert_int_equal(t[2].init.initializer, INIT_RANDOM_UNIFORM);
    assert_true(t[2].init.init_value == 0.05f && t[2].init.init_other == -0.05f);
    assert_true(t[0].list == 0 && t[1].list == 0 && t[2].list == 1);
    assert_true(job.model.lookup[0].list == 0 && job.model.lookup[6].list == 1);
    assert_true(job_has_tables(&job));
    job_close(&job);
    job = parsed("model.layers[0].linear.inputs=[C1]");
    assert_int_equal(job.model.lists, 3);
    assert_true(job.model.lookup[0].list == 0 && job.model.lookup[1].list == 1);
    job_close(&job);
}

static void two_layers_may_share_a_table(void **state)
{
    (void)state;
    struct job job = parsed("model.layers[2].embedding_bag={inputs: [tags, C1], output_dim: 10, "
                            "table: ids, name: bag}");
    assert_int_equal(job.model.tables, 2);
    assert_int_equal(job.model.layer[2].table, 1);
    assert_int_equal(job.model.lists, 2);
    job_close(&job);
    refused("model.layers[2].embedding_bag.table=ids",
            "j.yaml:6: model.layers[2]: it looks up rows of length 4 in table ids, and an earlier "
            "layer gives them the length 10; give it a table of its own");
}

static void what_is_written_of_tables_reads_back_the_same(void **state)
{
    static const char *const sets[] = {
        NULL,
        "data.columns[3]={key: {name: \"C{1..3}\", hash: false, missing: {key: "
        "18446744073709551615}}}",
        "model.layers[0].linear.inputs=[C2]",
        "tables.wide.initializer=ones",
        "tables.wide={min_count: 3, unadmitted: initial, sketch_mb: 5}",
        "tables.wide={probability: 0.25, unseen_steps: 1000}",
        "tables.bag.regularizer={l1_l2: {l1: 0.5, l2: 2}}",
        "tables.wide={optimizer: {rmsprop: {momentum: 0.5}}, warmup_steps: 4}",
        "tables.bag={learning_rate: 2, learning_rate_schedule: {cosine_decay: {decay_steps: 9}}}",
        "tables.bag={optimizer: ftrl, learning_rate_schedule: {piecewise_constant_decay: "
        "{boundaries: [5], values: [1, 2]}}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct job once = parsed(sets[i]), twice;
        struct errmsg e = {""};
        if (parse(&twice, once.canonical, NULL, &e))
            fail_msg("%s\n%s", e.text, once.canonical);
        assert_string_equal(once.canonical, twice.canonical);
        assert_string_equal(once.identity_text, twice.identity_text);
        assert_non_null(strstr(once.identity_text, "dense.inputs = [e, bag, I1, I2, colour]\n"));
        assert_non_null(strstr(once.identity_text, "tables.ids.initializer = random_normal\n"));
        job_close(&once);
        job_close(&twice);
    }
}

static void rows_have_a_bound_and_what_is_done_at_it(void **state)
{
    (void)state;
    struct job job = parsed("ps={memory: 4096, when_full: evict}");
    assert_int_equal(job.ps.memory, 4096);
    assert_int_equal(job.ps.when_full, ROW_FULL_EVICT);
    job_close(&job);
    job = parsed("ps.memory=1");
    assert_int_equal(job.ps.when_full, ROW_FULL_STOP);
    job_close(&job);
    refused("ps.when_full=refuse",
            "--set ps.when_full: it has no effect without ps.memory; set that, or remove it");
}

static void key_columns_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    refused("data.columns[3].key.hash=false",
            "j.yaml:21: data.columns[3]: with hash: false a missing value has no key; write "
            "missing: none, or missing: {key: 0}");
    refused("data.columns[3].key.missing={key: 3}",
            "j.yaml:21: data.columns[3]: missing: {key: ...} needs hash: false; allowed with hash: "
            "true: empty, none");
    refused(
        "data.columns[3]={key: {name: \"C{1..3}\", hash: false, missing: none, space: x}}",
        "--set data.columns[3]: its space is part of the hash, and hash is false; remove space");
    refused("data.columns[3]=key", "--set data.columns[3]: data.columns[3].key.name: it is "
                                   "missing; allowed: text in UTF-8 of at most 4096 bytes");
    refused("data.columns[4]={keys: tags}",
            "--set data.columns[4]: data.columns[4].keys.max_values: it is missing; allowed: "
            "integer from 1 to 4096");
    refused("data.columns[4].keys.separator=\"\"",
            "j.yaml:22: data.columns[4]: its separator is empty");
    refused("data.columns[4].keys.separator=:",
            "j.yaml:22: data.columns[4]: its separator is :, which marks a value's weight; choose "
            "another, or remove weights");
    refused_with(
        (const char *const[]){"data.quotes=false", "data.columns[4].keys.separator=\", \""}, 2,
        "j.yaml:22: data.columns[4]: its separator contains data.delimiter, which no field can "
        "contain with data.quotes: false; choose another");
    refused("data.comment=\",x\"", "--set data.comment: it begins with data.delimiter, so rows "
                                   "whose first field is empty would be comments; choose another");
    refused("data.comment='\"'",
            "--set data.comment: it begins with a quote, so rows whose first field is in quotes "
            "would be comments; choose another, or data.quotes: false");
    refused("data.columns[1].number.name=I{1..",
            "j.yaml:19: data.columns[1]: its name, I{1.., is "
            "not a valid range; write a range like C{1..26}, or \\{ for a { of the name");
    refused("data.columns[1].number.name=I{1..65536}",
            "j.yaml:19: data.columns[1]: more than 65536 columns");
    refused("data.columns[1].number.name=C{3..4}",
            "j.yaml:21: data.columns[3]: its name, C3, is also the name of data.columns[1]; rename "
            "one of them");
}

static void separators_that_are_words_of_a_delimiter_are_doubted(void **state)
{
    (void)state;
    static const char *const of[][2] = {{"tab", "\\t"}, {"comma", ","}, {"tabs", NULL}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char set[64], wanted[160];
        struct errmsg text = {""};
        (void)snprintf(set, sizeof set, "data.columns[4].keys.separator=%s", of[i][0]);
        struct job job = parsed(set);
        assert_int_equal(job_doubts_separators(&job, &text), of[i][1] != NULL);
        (void)snprintf(wanted, sizeof wanted,
                       "data.columns[4]: its separator is the text %s, and not the character; for "
                       "that write separator: \"%s\"",
                       of[i][0], of[i][1] ? of[i][1] : "");
        assert_string_equal(text.text, of[i][1] ? wanted : "");
        job_close(&job);
    }
}

static void tables_of_the_same_columns_are_neighbors(void **state)
{
    (void)state;
    refused("model.layers=[{linear: {inputs: C1, name: a}}, {linear: {inputs: C2, name: b}}, "
            "{embedding: {inputs: C1, output_dim: 4, name: c}}, {concatenate: [a, b, c]}, dense: "
            "1, sigmoid]",
            "model.layers: the tables a and c are looked up by the same columns, and b, between "
            "them, by others: put the layers of the same columns one after the other");
}

static void a_cross_is_of_key_columns(void **state)
{
    (void)state;
    struct job job = parsed("data.columns[4]={cross: {name: tags, of: [C1, C3], buckets: 9}}"),
               again;
    struct errmsg e = {""};
    uint32_t of[JOB_CROSS_MAX];
    const struct job_column *x = &job.data.csv.column[8];
    assert_int_equal(x->kind, COLUMN_CROSS);
    assert_int_equal(job_cross_columns(&job.data.csv, x, of), 2);
    assert_true(of[0] == 5 && of[1] == 7);
    assert_string_equal(x->key.space, "tags");
    assert_non_null(strstr(job.identity_text, "cross.of = \"C1\", \"C3\"\n"));
    if (parse(&again, job.canonical, NULL, &e))
        fail_msg("%s", e.text);
    assert_string_equal(again.identity_text, job.identity_text);
    job_close(&again);
    job_close(&job);
}

static void a_cross_of_what_is_no_key_column_is_refused(void **state)
{
    static const char *const other[] = {"I1", "tags", "x", "nobody"};
    (void)state;
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        char set[128], why[128];
        (void)snprintf(set, sizeof set, "data.columns[5]={cross: {name: x, of: [C1, %s]}}",
                       other[i]);
        (void)snprintf(why, sizeof why,
                       "--set data.columns[5]: its of names %s, and there is no column - key: %s",
                       other[i], other[i]);
        refused(set, why);
    }
    refused("data.columns[5]={cross: {name: x, of: [C1]}}",
            "--set data.columns[5]: its of must name 2 to 8 key columns, like of: [C1, C2]");
    refused("data.columns[5]={cross: {name: x, of: []}}",
            "--set data.columns[5]: data.columns[5].cross.of: the list is empty; fill it, or "
            "remove it");
    refused("data.columns[5]={cross: {name: x, of: [C1, C1]}}",
            "--set data.columns[5]: 'C1' occurs twice in its of");
}

static void warned(const char *const *sets, size_t n, const char *names)
{
    struct job job;
    struct errmsg e = {""};
    char out[500], want[200];
    if (job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, n, &e))
        fail_msg("%s", e.text);
    const char *got = job_unread_warning(&job, out, sizeof out);
    (void)snprintf(want, sizeof want, "data.columns: no layer reads %s: ", names);
    if (!*names)
        assert_null(got);
    else if (!got || strncmp(got, want, strlen(want)) != 0)
        fail_msg("%s", got ? got : "no warning");
    job_close(&job);
}

static void a_key_of_the_file_without_a_value_is_warned_of(void **state)
{
    static const struct {
        const char *lines, *said;
    } of[] = {{"  eval:\n", "j.yaml:15: data.eval: it has no value, and is as if it was not there: "
                            "give it one, or remove it"},
              {"  validation: # {share: 0.1}\n", "j.yaml:15: data.validation: it has no value"},
              {"  eval: null\n", ""},
              {"  eval: b.csv\n", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *data = strstr(wide_deep, "  format: csv\n");
        const int before = (int)(data - wide_deep);
        struct job job;
        struct errmsg e = {""};
        char text[2 * sizeof wide_deep];
        (void)snprintf(text, sizeof text, "%.*s%s%s", before, wide_deep, of[i].lines, data);
        if (parse(&job, text, NULL, &e))
            fail_msg("%s", e.text);
        if (strncmp(job.no_value, of[i].said, strlen(of[i].said)) != 0 ||
            (!*of[i].said && *job.no_value))
            fail_msg("%s", job.no_value);
        job_close(&job);
    }
}

static void columns_that_no_layer_reads_are_warned_of(void **state)
{
    (void)state;
    static const char all[] = "model.layers[3].dense.inputs=[e, bag, input]",
                      none[] = "model.layers[3].dense.inputs=[e, bag]";
    warned(NULL, 0, "I3");
    warned((const char *const[]){all}, 1, "");
    warned((const char *const[]){none}, 1, "I1, I2, I3 and 1 more");
}

static void columns_among_inputs_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refused("model.layers[3].dense.inputs=[e, bag, I9]",
            "--set model.layers[3].dense.inputs: model.layers[3]: no layer and no column is called "
            "I9; name a layer before this one, or input");
    refused("model.layers[3].dense.inputs=[e, bag, \"I{1..4}\"]",
            "--set model.layers[3].dense.inputs: model.layers[3]: no column is called I4");
    refused("model.layers[3].dense.inputs=[e, bag, \"I{4..1}\"]",
            "--set model.layers[3].dense.inputs: model.layers[3]: 'I{4..1}' is not a valid range; "
            "write a range like C{1..26}, or \\{ for a { of the name");
    refused("model.layers[3].dense.inputs=[e, bag, C1]",
            "--set model.layers[3].dense.inputs: model.layers[3]: column C1 holds keys; only "
            "embedding, embedding_bag and linear look them up");
    refused("model.layers[3].dense.inputs=[e, bag, y]",
            "--set model.layers[3].dense.inputs: model.layers[3]: column y is not an input: it is "
            "the label");
    refused_with((const char *const[]){"data.columns[5]={weight: w}",
                                       "model.layers[3].dense.inputs=[e, bag, w]"},
                 2,
                 "--set model.layers[3].dense.inputs: model.layers[3]: column w is not an input: "
                 "it is the weight of rows");
    refused("model.layers[0].linear.inputs=[I1]",
            "--set model.layers[0].linear.inputs: model.layers[0]: it looks up keys, and column I1 "
            "holds none; to make it one, write - key: I1");
    refused("model.layers[0].linear.inputs=[C1, C1]",
            "--set model.layers[0].linear.inputs: model.layers[0]: column C1 occurs twice in its "
            "inputs");
    refused("model.layers[0].linear.inputs=input",
            "--set model.layers[0].linear.inputs: model.layers[0]: it looks up keys of columns, "
            "and input is not a column; name key columns in its inputs");
    refused("model.layers[0]={linear: {name: wide}}",
            "--set model.layers[0]: wide looks up keys; name key columns in its inputs, like C1 or "
            "C{1..26}");
    refused("model.layers[1].embedding.inputs=[\"C{1..3}\", tags]",
            "--set model.layers[1].embedding.inputs: model.layers[1]: column tags has several keys "
            "a row; use embedding_bag, which combines their rows");
    refused("model.layers[2].embedding_bag.inputs=[C1]",
            "j.yaml:22: data.columns[4]: no layer looks up the keys of tags; name it in the inputs "
            "of an embedding, embedding_bag or linear, or write - ignore: tags");
}

static void tables_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refused("tables.idz={}", "--set tables.idz: tables: no layer looks up in a table called idz; "
                             "did you mean ids?");
    refused("tables=ids", "--set tables: it must be a map, like {ids: {initializer: zeros}}");
    refused("tables.ids.initializer=glorot_uniform",
            "--set tables.ids.initializer: 'glorot_uniform' is unknown; allowed: zeros, ones, "
            "constant, random_normal, random_uniform, truncated_normal");
    refused(
        "tables.ids.initializer={random_uniform: {minval: 1, maxval: 0}}",
        "j.yaml:12: tables.ids: its initializer is from 1 to 0; minval must not be above maxval");
    refused(
        "tables.ids.initializer={random_uniform: {minval: -3e38, maxval: 3e38}}",
        "j.yaml:12: tables.ids: the numbers of its initializer are too large for float32, which "
        "ends at 3.4e38: |minval| + |maxval| is 6e+38");
    refused(
        "tables.ids.initializer={random_normal: {mean: -1e38, stddev: 1e38}}",
        "j.yaml:12: tables.ids: the numbers of its initializer are too large for float32, which "
        "ends at 3.4e38: |mean| + 10 stddev is 1.1e+39");
    refused("model.layers[1].embedding.table=a.b",
            "j.yaml:5: model.layers[1]: its table would have the name a.b; set table to a name "
            "without .");
    refused("model.layers[1].embedding.output_dim=5000",
            "j.yaml:5: model.layers[1]: rows of length 5000; allowed: up to 4096");
    refused("model.layers[1]={embedding: {inputs: colour, input_dim: 5, table: ids, output_dim: "
            "10, name: e}}",
            "--set model.layers[1]: with input_dim its rows are in the model, not in a table; "
            "remove one of the two");
}

/* ---- embeddings with rows of their own ---- */

static enum err with_ids(struct job *job, const char *columns, const char *layers, struct errmsg *e)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "model:\n  input: {shape: auto}\n  layers:\n%s    - dense: 1\n"
                   "  loss: mean_squared_error\noptimizer: sgd\n"
                   "data:\n  format: csv\n  train: a.csv\n  columns:\n    - label: y\n%s",
                   layers, columns);
    return parse(job, text, NULL, e);
}

#define TOWN "    - category: {name: town, encode: id}\n"
#define AGE "    - number: {name: age, buckets: {borders: [18, 30]}, encode: id}\n"
#define SIZE "    - number: {name: size}\n"
#define COLOUR "    - category: colour\n"
#define OWN_ROWS "    - embedding: {input_dim: 9, output_dim: 4, name: e}\n    - flatten\n"

static void ids_that_overlap_are_refused_with_the_table_that_does_it(void **state)
{
    (void)state;
    static const struct {
        const char *columns, *layers, *why;
    } cases[] = {
        {TOWN AGE, OWN_ROWS,
         "j.yaml:4: model.layers[0]: e has one set of rows for the ids of town, age, and id 1 of "
         "each would be the same row; make each of them a column - key: NAME, and look it up in a "
         "table: - embedding: {inputs: [town, age], output_dim: 4}"},
        {TOWN SIZE, OWN_ROWS,
         "j.yaml:4: model.layers[0]: e has one set of rows for the ids of town and for size, which "
         "has no ids; make each of them a column - key: NAME, and look it up in a table: - "
         "embedding: {inputs: [town], output_dim: 4}"},
        {COLOUR TOWN, OWN_ROWS,
         "j.yaml:4: model.layers[0]: e has one set of rows for the ids of town and for colour, "
         "which has no ids; make each of them a column - key: NAME, and look it up in a table: - "
         "embedding: {inputs: [town], output_dim: 4}"},
        {TOWN AGE "    - category: {name: street, encode: id}\n" SIZE,
         "    - flatten\n    - reshape: [4]\n" OWN_ROWS,
         "j.yaml:6: model.layers[2]: e has one set of rows for the ids of town, age, .., and id 1 "
         "of each would be the same row; make each of them a column - key: NAME, and look it up in "
         "a table: - embedding: {inputs: [town, age, ..], output_dim: 4}"},
        {TOWN AGE SIZE,
         "    - dense: {inputs: [size], units: 1, name: d}\n"
         "    - embedding: {inputs: [town, age], input_dim: 9, output_dim: 4, name: e}\n"
         "    - flatten: {inputs: e, name: f}\n    - concatenate: [d, f]\n",
         "j.yaml:5: model.layers[1]: e has one set of rows for the ids of town, age, and id 1 of "
         "each would be the same row; make each of them a column - key: NAME, and look it up in a "
         "table: - embedding: {inputs: [town, age], output_dim: 4}"},
        {"    - number: {name: size, missing: {value: 9}}\n", OWN_ROWS,
         "j.yaml:4: model.layers[0]: e has rows 0 to 8, but a missing number of column size is 9: "
         "see its missing: {value: ..}"},
        {"    - number: {name: size, missing: {value: 0.999999999}}\n", OWN_ROWS,
         "j.yaml:4: model.layers[0]: e has rows 0 to 8, but a missing number of column size is "
         "0.999999999: see its missing: {value: ..}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job job;
        struct errmsg e = {""};
        assert_int_equal(with_ids(&job, cases[i].columns, cases[i].layers, &e), ERR_INPUT);
        assert_string_equal(e.text, cases[i].why);
    }
}

static void one_id_or_numbers_alone_may_have_rows_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *columns, *layers;
    } cases[] = {
        {TOWN, OWN_ROWS},
        {SIZE "    - number: age\n", OWN_ROWS},
        {TOWN "    - weight: w\n    - ignore\n", OWN_ROWS},
        {TOWN SIZE "    - key: user\n",
         "    - embedding: {inputs: [town], input_dim: 9, output_dim: 4, name: e}\n"
         "    - flatten: {inputs: e, name: f}\n"
         "    - linear: {inputs: user, name: u}\n"
         "    - dense: {inputs: [f, u, size], units: 2}\n"},
        {TOWN AGE, "    - dense: 4\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job job;
        struct errmsg e = {""};
        if (with_ids(&job, cases[i].columns, cases[i].layers, &e))
            fail_msg("%s", e.text);
        job_close(&job);
    }
}

static void rows_of_a_table_travel_in_fewer_bits_where_it_says_so(void **state)
{
    (void)state;
    struct job job = parsed("tables.ids.compression={push: int8, reply: bf16}");
    assert_int_equal(job.model.table[0].push, ROW_CODEC_NONE);
    assert_int_equal(job.model.table[1].push, ROW_CODEC_INT8);
    assert_int_equal(job.model.table[1].reply, ROW_CODEC_BF16);
    char why[JOB_INEXACT_BYTES];
    assert_false(job_is_exact(&job, 2, why));
    assert_string_equal(why, "tables.ids.compression.push: int8");
    job.model.table[1].push = ROW_CODEC_NONE;
    assert_false(job_is_exact(&job, 2, why));
    assert_string_equal(why, "tables.ids.compression.reply: bf16");
    job_close(&job);
    refused("tables.ids.compression.reply=int8",
            "--set tables.ids.compression.reply: 'int8' is unknown; allowed: none, fp16, bf16");
    refused("tables.ids.compression.push=zstd",
            "--set tables.ids.compression.push: 'zstd' is unknown; allowed: none, fp16, bf16, "
            "int8");
}

static void a_table_admits_by_a_count_or_by_a_coin(void **state)
{
    (void)state;
    struct job job = parsed(NULL);
    assert_true(job.model.table[0].min_count == 1 && job.model.table[0].probability == 1);
    job_close(&job);
    job = parsed("tables.ids={min_count: 2, unadmitted: initial}");
    assert_int_equal(job.model.table[1].min_count, 2);
    assert_int_equal(job.model.table[1].sketch_mb, 16);
    assert_int_equal(job.model.table[1].unadmitted, UNADMITTED_INITIAL);
    job_close(&job);
    refused("tables.ids={min_count: 2, probability: 0.5}",
            "--set tables.ids: tables.ids.probability: it excludes min_count, which is 2; remove "
            "one of the two");
    refused("tables.ids={unadmitted: initial}",
            "--set tables.ids: tables.ids.unadmitted: it has no effect, because every touch makes "
            "a row; set min_count above 1 or probability below 1, or remove it");
    refused("tables.ids={probability: 0.5, sketch_mb: 2}",
            "--set tables.ids: tables.ids.sketch_mb: it has no effect without min_count above 1; "
            "set that, or remove it");
    refused("tables.ids.min_count=256",
            "--set tables.ids.min_count: '256' is not allowed; allowed: integer from 1 to 255");
    refused(
        "tables.ids.probability=0",
        "--set tables.ids.probability: '0' is not allowed; allowed: number above 0 and up to 1");
}

static void what_does_not_go_with_tables_is_refused_by_its_key(void **state)
{
    static const struct {
        const char *set, *why;
    } cases[] = {
        {"training.update=geo",
         "--set training.update: with tables of rows by key (layers over key "
         "columns) allowed: sync, async, ssp"},
        {"optimizer=lamb", "--set optimizer: lamb needs the norms of complete tensors, and a table "
                           "of rows by key has none; choose another"},
        {"optimizer={adam: {use_ema: true}}",
         "--set optimizer: optimizer.adam.use_ema: rows of tables have no average; remove it"},
        {"training.gradient_accumulation_steps=2",
         "--set training.gradient_accumulation_steps: it does not work with tables of rows by key; "
         "remove it"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i].set, cases[i].why);
    const char *sets[2] = {"optimizer=sgd", "compression.push=top_k"};
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, 2, &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.text, "does not work with tables of rows by key"));
}

static void what_bounds_an_update_goes_with_tables(void **state)
{
    static const char *const sets[] = {"training.clip_norm=1",
                                       "training.nan_guard=skip",
                                       "sync={replicas_to_aggregate: 2}",
                                       "sync={replicas_to_aggregate: 2, dropped: redo}",
                                       "training={update: async, staleness_rate: true}",
                                       "training={update: async, clip_norm: 1, nan_guard: stop}"};
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct job job = parsed(sets[i]);
        job_close(&job);
    }
}

/* ---- what updates rows ---- */

static void a_table_has_the_jobs_optimizer_unless_it_has_its_own(void **state)
{
    (void)state;
    struct job job = parsed("training={learning_rate: 0.25, warmup_steps: 3}");
    const struct job_table *t = job.model.table;
    for (uint32_t i = 0; i < job.model.tables; i++) {
        assert_int_equal(t[i].optimizer.kind, OPT_ADAGRAD);
        assert_true(t[i].optimizer.learning_rate == 0.25f);
        assert_true(t[i].optimizer.initial_accumulator_value == 0.1f);
        assert_int_equal(t[i].optimizer.schedule.warmup_steps, 3);
        assert_false(t[i].own_optimizer || t[i].own_rate || t[i].own_schedule || t[i].own_warmup);
    }
    assert_null(strstr(job.identity_text, "tables.ids.optimizer"));
    assert_null(strstr(job.canonical, "    learning_rate"));
    job_close(&job);
}

static void options_of_a_tables_optimizer_are_its_own(void **state)
{
    (void)state;
    const char *sets[] = {"tables={wide: {optimizer: {ftrl: {l1_regularization_strength: 0.5}}}, "
                          "ids: {optimizer: {adagrad: {learning_rate: 0.5, rowwise: true}}}}",
                          "training.learning_rate=0.25"};
    struct job job;
    struct errmsg e = {""};
    if (job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, 2, &e))
        fail_msg("%s", e.text);
    const struct optimizer *wide = &job.model.table[0].optimizer,
                           *ids = &job.model.table[1].optimizer,
                           *bag = &job.model.table[2].optimizer;
    assert_true(wide->kind == OPT_FTRL && wide->l1 == 0.5f && wide->l2 == 0);
    assert_true(wide->learning_rate == 0.001f && wide->initial_accumulator_value == 0.1f);
    assert_true(wide->learning_rate_power == -0.5f && !wide->rowwise);
    assert_true(ids->kind == OPT_ADAGRAD && ids->rowwise && ids->learning_rate == 0.5f);
    assert_true(bag->kind == OPT_ADAGRAD && !bag->rowwise && bag->learning_rate == 0.25f);
    assert_false(job.optimizer.rowwise);
    assert_non_null(strstr(job.identity_text, "tables.wide.optimizer = ftrl\n"));
    assert_non_null(strstr(job.identity_text, "tables.ids.optimizer.adagrad.rowwise = true\n"));
    assert_null(strstr(job.identity_text, "tables.bag.optimizer"));
    assert_null(strstr(job.identity_text, "learning_rate ="));
    job_close(&job);
    job = parsed("optimizer={adagrad: {rowwise: true}}");
    assert_true(job.optimizer.rowwise && job.model.table[2].optimizer.rowwise);
    job_close(&job);
}

static void a_table_may_have_a_rate_and_a_schedule_beside_the_jobs_optimizer(void **state)
{
    (void)state;
    static const char decays[] = "training={learning_rate: 0.25, warmup_steps: 3, "
                                 "learning_rate_schedule: {cosine_decay: {decay_steps: 9}}}";
    const char *sets[] = {decays, "tables={ids: {learning_rate: 2}, bag: {warmup_steps: 0, "
                                  "learning_rate_schedule: constant}}"};
    struct job job;
    struct errmsg e = {""};
    if (job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, 2, &e))
        fail_msg("%s", e.text);
    const struct optimizer *wide = &job.model.table[0].optimizer,
                           *ids = &job.model.table[1].optimizer,
                           *bag = &job.model.table[2].optimizer;
    assert_true(wide->learning_rate == 0.25f && ids->learning_rate == 2);
    assert_true(ids->kind == OPT_ADAGRAD && ids->schedule.kind == SCHEDULE_COSINE_DECAY);
    assert_true(ids->schedule.decay_steps == 9 && ids->schedule.warmup_steps == 3);
    assert_true(bag->schedule.kind == SCHEDULE_CONSTANT && bag->schedule.warmup_steps == 0);
    assert_true(bag->learning_rate == 0.25f);
    assert_non_null(strstr(job.canonical, "  bag:"));
    job_close(&job);
}

/* Whichever stands first. */
static void a_rate_beside_the_optimizer_holds_wherever_it_stands(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "tables={ids: {learning_rate: 0.5, optimizer: {sgd: {momentum: 0.5}}}}",
        "tables={ids: {optimizer: {sgd: {momentum: 0.5}}, learning_rate: 0.5}}",
        "tables={ids: {optimizer: {sgd: {momentum: 0.5, learning_rate: 0.5}}}}",
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct job job = parsed(sets[i]);
        assert_true(job.model.table[1].optimizer.learning_rate == 0.5f);
        job_close(&job);
    }
    const char *both[] = {"tables={ids: {optimizer: {sgd: {learning_rate: 1}}}}",
                          "tables.ids.learning_rate=2"};
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", both, 2, &e),
                     ERR_INPUT);
    assert_string_equal(
        e.text, "--set tables.ids.learning_rate: tables.ids.optimizer.sgd.learning_rate is another "
                "name of this key, and is also set, by --set tables; remove one of the two");
}

static void updates_of_rows_that_cannot_be_are_refused(void **state)
{
    (void)state;
#define AT "--set tables.ids"
    static const char lamb[] = "lamb needs the norms of complete tensors, and a table of rows by "
                               "key has none; choose another";
    char why[256];
    (void)snprintf(why, sizeof why, "--set tables.ids.optimizer: %s", lamb);
    refused("tables.ids.optimizer=lamb", why);
    (void)snprintf(why, sizeof why, "--set tables.ids: tables.ids.optimizer: %s", lamb);
    refused("tables.ids={optimizer: {lamb: {beta_1: 0.5}}}", why);
    refused(
        "tables.ids.optimizer={adam: {use_ema: true}}", AT
        ".optimizer: tables.ids.optimizer.adam.use_ema: rows of tables have no average; remove it");
    refused("tables.ids.optimizer={sgd: {exclude_from_weight_decay: [ids]}}",
            AT ".optimizer: tables.ids.optimizer.sgd.exclude_from_weight_decay: to exclude all "
               "rows of this table, set its weight_decay: 0");
    refused("tables.ids.optimizer={sgd: {rowwise: true}}",
            AT ".optimizer: tables.ids.optimizer.sgd.rowwise: unknown key; allowed: learning_rate, "
               "weight_decay, momentum, nesterov");
    refused("tables.ids.optimizer={sgd: {nesterov: true}}",
            AT ".optimizer: tables.ids.optimizer.sgd.nesterov: it has no effect while momentum is "
               "0; set momentum, or remove it");
    refused("tables.ids.optimizer=adagard",
            AT ".optimizer: 'adagard' is unknown, did you mean adagrad? allowed: sgd, adam, "
               "adagrad, adamw, ftrl, rmsprop");
    refused("tables.ids.learning_rate=0",
            AT ".learning_rate: '0' is not allowed; allowed: number above 0");
    refused("tables.ids={learning_rate: 1, optimizer: {sgd: {learning_rate: 1}}}",
            AT ": tables.ids.learning_rate: tables.ids.optimizer.sgd.learning_rate is another "
               "name of this key, and is also set, by " AT "; remove one of the two");
    refused("tables.ids.learning_rate_schedule=cosine_decay",
            AT ".learning_rate_schedule: tables.ids.learning_rate_schedule.cosine_decay."
               "decay_steps: it is missing; allowed: integer from 1 to 4294967295");
    refused("tables.ids.learning_rate_schedule={cosine_decay: {decay_steps: 9, warmup_steps: 3}}",
            AT
            ".learning_rate_schedule: tables.ids.learning_rate_schedule.cosine_decay.warmup_steps: "
            "it has no effect without warmup_target; set that too, or use tables.ids.warmup_steps, "
            "which climbs to the rate");
    refused("tables.ids={learning_rate: 1, learning_rate_schedule: {piecewise_constant_decay: "
            "{boundaries: [5], values: [1, 2]}}}",
            AT
            ": tables.ids.learning_rate: piecewise_constant_decay has its own values; remove it");
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(parse(&job, wide_deep, "tables.ids.gradient_accumulation_steps=2", &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.text, AT ".gradient_accumulation_steps: unknown key; allowed: "));
#undef AT
}

static void a_table_has_a_regularizer_as_layers_have(void **state)
{
    (void)state;
    struct job job = parsed("tables={wide: {regularizer: l2}, ids: {regularizer: {l1_l2: {l1: "
                            "0.5}}}}");
    const struct job_table *t = job.model.table;
    assert_true(t[0].init.regularizer == REGULARIZER_L2 && t[0].init.l2 == 0.01f);
    assert_true(t[0].init.l1 == 0 && t[0].init.initializer == INIT_ZEROS);
    assert_true(t[1].init.l1 == 0.5f && t[1].init.l2 == 0);
    assert_true(t[1].init.init_value == 0.05f && t[1].init.init_other == -0.05f);
    assert_true(t[2].init.regularizer == REGULARIZER_NONE && t[2].init.l1 == 0 &&
                t[2].init.l2 == 0);
    job_close(&job);
    refused("tables.ids.regularizer={l2: -1}",
            "--set tables.ids.regularizer: tables.ids.regularizer.l2.l2: '-1' is not allowed; "
            "allowed: number from 0");
    struct errmsg e = {""};
    assert_int_equal(job_identity_compare("", "tables.ids.regularizer = none\n", &e), ERR_OK);
    assert_int_equal(job_identity_compare("", "tables.ids.regularizer = l2\n", &e), ERR_INPUT);
}

static void rowwise_without_tables_is_refused(void **state)
{
    static const char plain[] = "model: {input: {shape: [4]}, layers: [dense: 1], loss: mse}\n"
                                "data: {format: synthetic}\n"
                                "optimizer: {adagrad: {rowwise: true}}\n";
    (void)state;
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(parse(&job, plain, NULL, &e), ERR_INPUT);
    assert_string_equal(e.text, "j.yaml:3: optimizer.adagrad.rowwise: it is for rows of tables by "
                                "key, and no layer looks up in a table; remove it");
}

static void a_table_whose_name_is_excluded_is_not_decayed(void **state)
{
    (void)state;
    struct job job = parsed("optimizer={adamw: {exclude_from_weight_decay: [ids]}}");
    assert_true(job.model.table[1].optimizer.weight_decay == 0);
    assert_true(job.model.table[0].optimizer.weight_decay == 0.004f);
    assert_null(strstr(job.identity_text, "tables.ids.optimizer"));
    job_close(&job);
    const char *sets[] = {"optimizer={adamw: {exclude_from_weight_decay: [ids]}}",
                          "tables={ids: {optimizer: adamw}}"};
    struct errmsg e = {""};
    if (job_parse(&job, wide_deep, strlen(wide_deep), "j.yaml", "/jobs", sets, 2, &e))
        fail_msg("%s", e.text);
    assert_true(job.model.table[1].optimizer.weight_decay == 0.004f);
    job_close(&job);
}

/* "" if the job with `new` can resume from the checkpoint of the job with `old`. */
static void goes_on(const char *old, const char *new, const char *why)
{
    struct job was = parsed(old), is = parsed(new);
    struct errmsg e = {""};
    enum err err = job_identity_compare(was.identity_text, is.identity_text, &e);
    assert_string_equal(e.text, why);
    assert_int_equal(err, *why ? ERR_INPUT : ERR_OK);
    job_close(&was);
    job_close(&is);
}

static void a_resumed_job_has_the_same_optimizers_at_any_rate(void **state)
{
    (void)state;
    goes_on("tables={ids: {optimizer: {sgd: {momentum: 0.5}}}}",
            "tables={ids: {optimizer: {sgd: {momentum: 0.5}}, learning_rate: 9, warmup_steps: 2}}",
            "");
    goes_on(NULL, "tables.ids.learning_rate=0.5", "");
    goes_on("tables.ids.optimizer=sgd", "tables.ids.optimizer=adagrad",
            "tables.ids.optimizer was sgd, is adagrad");
    goes_on("tables.ids.optimizer={sgd: {momentum: 0.5}}", "tables.ids.optimizer=sgd",
            "tables.ids.optimizer.sgd.momentum was 0.5, is 0");
    goes_on(NULL, "tables.ids.optimizer=sgd", "tables.ids.optimizer was not there, is sgd");
    goes_on("tables.ids.optimizer=sgd", NULL, "tables.ids.optimizer was sgd, is not there");
}

static void a_key_of_a_table_with_its_default_is_of_an_older_releases_job(void **state)
{
    (void)state;
    struct errmsg e = {""};
    static const char was[] = "tables.ids.optimizer = adagrad\n";
    assert_int_equal(job_identity_compare(was,
                                          "tables.ids.optimizer = adagrad\n"
                                          "tables.ids.optimizer.adagrad.rowwise = false\n",
                                          &e),
                     ERR_OK);
    assert_int_equal(job_identity_compare(was,
                                          "tables.ids.optimizer = adagrad\n"
                                          "tables.ids.optimizer.adagrad.rowwise = true\n",
                                          &e),
                     ERR_INPUT);
    assert_string_equal(e.text, "tables.ids.optimizer.adagrad.rowwise was not there, is true");
}

/* "" where a new run may begin with what the old one has learned. */
static void begins_with(const char *old, const char *new, const char *why)
{
    struct job was = parsed(old), is = parsed(new);
    struct errmsg e = {""};
    enum err err = job_identity_compare_model(was.identity_text, is.identity_text, &e);
    assert_int_equal(err, *why ? ERR_INPUT : ERR_OK);
    assert_string_equal(e.text, why);
    job_close(&was);
    job_close(&is);
}

static void a_new_run_makes_the_keys_of_its_columns_as_the_old_one_did(void **state)
{
    (void)state;
    begins_with(NULL, NULL, "");
    begins_with(NULL,
                "data.columns=[{key: {name: \"C{1..3}\", buckets: 1000}}, {label: y}, {number: "
                "\"I{1..3}\"}, {category: colour}, {keys: {name: tags, max_values: 9}}]",
                "");
    begins_with(NULL, "data.columns[3]={key: {name: \"C{1..3}\", buckets: 10}}",
                "the keys of column C1: buckets was 1000, is 10, so no row would be found; restore "
                "the earlier value");
    begins_with(NULL, "data.columns[3]={key: {name: \"C{1..3}\", hash: false, missing: none}}",
                "the keys of column C1: hash was true, is false, so no row would be found; restore "
                "the earlier value");
    begins_with(NULL, "data.columns[4]={keys: {name: tags, max_values: 5, space: words}}",
                "the keys of column tags: space was tags, is words, so no row would be found; "
                "restore the earlier value");
    begins_with(NULL, "data.columns[3]={key: {name: \"C{1..3}\", buckets: 1000, missing: none}}",
                "the keys of column C1: missing was empty, is none, so no row of a missing value "
                "would be found; restore the earlier value");
    begins_with("data.columns[3]={key: {name: \"C{1..3}\", hash: false, missing: {key: 3}}}",
                "data.columns[3]={key: {name: \"C{1..3}\", hash: false, missing: {key: 4}}}",
                "the keys of column C1: missing.key.key was 3, is 4, so no row of a missing value "
                "would be found; restore the earlier value");
}

/* "" where the fields of both become the same words. */
static void fields_differ(const char *old, const char *new, const char *why)
{
    struct job was = parsed(old), is = parsed(new);
    struct errmsg e = {""};
    enum err err = job_identity_compare_fields(was.identity_text, is.identity_text, &e);
    assert_string_equal(e.text, why);
    assert_int_equal(err, *why ? ERR_INPUT : ERR_OK);
    begins_with(old, new, ""); /* the files can have changed, too */
    job_close(&was);
    job_close(&is);
}

static void a_new_run_is_told_that_fields_make_other_keys(void **state)
{
    (void)state;
    fields_differ(NULL, NULL, "");
    fields_differ(NULL, "data.trim=true", "data.trim was false, is true");
    fields_differ("data.quotes=false", NULL, "data.quotes was false, is true");
    fields_differ(NULL, "data.escape=backslash", "data.escape was none, is backslash");
    fields_differ(NULL, "data.columns[4]={keys: {name: tags, max_values: 5, weights: true}}",
                  "separator of column tags was \";\", is \",\"");
    fields_differ(NULL, "data.columns[4]={keys: {name: tags, max_values: 5, separator: \";\"}}",
                  "weights of column tags was \"true\", is \"false\"");
    fields_differ(NULL, "data.delimiter=tab", "");
    struct errmsg e;
    static const char no_keys[] = "data.trim = false\ndata.columns[0].number.name = a\n";
    assert_int_equal(job_identity_compare_fields(no_keys, "data.trim = true\n", &e), ERR_OK);
}

/* As many columns as there may be, and each looked up. */
static void a_job_of_many_columns_is_read_again_as_it_is_written_out(void **state)
{
    (void)state;
    static const char many[] =
        "model: {input: {shape: auto}, layers: [linear: {inputs: \"column_{1..4095}\", "
        "name: a}, embedding: {inputs: \"column_{1..4095}\", output_dim: 2}, dense: {units: 1, "
        "name: "
        "b}, add: [a, b]], loss: mse}\n"
        "optimizer: sgd\n"
        "data: {format: csv, train: a, columns: [label: y, key: {name: \"column_{1..4095}\", "
        "space: "
        "all, buckets: 1000000, missing: none}]}\n";
    struct job job, again;
    struct errmsg e = {""};
    if (parse(&job, many, NULL, &e))
        fail_msg("%s", e.text);
    if (parse(&again, job.canonical, NULL, &e))
        fail_msg("%s", e.text);
    assert_string_equal(again.canonical, job.canonical);
    assert_int_equal(job_identity_compare(job.identity_text, again.identity_text, &e), ERR_OK);
    job_close(&again);
    job_close(&job);
}

static void a_job_without_tables_may_have_all_of_them(void **state)
{
    (void)state;
    static const char plain[] = "model: {input: {shape: [4]}, layers: [dense: 1], loss: mse}\n"
                                "data: {format: synthetic}\n"
                                "optimizer: {adam: {use_ema: true}}\n"
                                "training: {clip_norm: 1, nan_guard: skip}\n";
    struct job job;
    struct errmsg e = {""};
    if (parse(&job, plain, NULL, &e))
        fail_msg("%s", e.text);
    assert_false(job_has_tables(&job));
    assert_null(strstr(job.identity_text, "table"));
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_in_a_name_is_as_many_names),
        cmocka_unit_test(a_brace_after_a_backslash_is_of_the_name),
        cmocka_unit_test(columns_of_a_range_have_the_same_options),
        cmocka_unit_test(layers_look_up_keys_and_select_features_of_the_columns_that_they_name),
        cmocka_unit_test(tables_of_the_same_columns_share_a_list),
        cmocka_unit_test(two_layers_may_share_a_table),
        cmocka_unit_test(what_is_written_of_tables_reads_back_the_same),
        cmocka_unit_test(rows_have_a_bound_and_what_is_done_at_it),
        cmocka_unit_test(key_columns_that_make_no_sense_are_refused),
        cmocka_unit_test(separators_that_are_words_of_a_delimiter_are_doubted),
        cmocka_unit_test(tables_of_the_same_columns_are_neighbors),
        cmocka_unit_test(a_cross_is_of_key_columns),
        cmocka_unit_test(a_cross_of_what_is_no_key_column_is_refused),
        cmocka_unit_test(a_key_of_the_file_without_a_value_is_warned_of),
        cmocka_unit_test(columns_that_no_layer_reads_are_warned_of),
        cmocka_unit_test(columns_among_inputs_that_cannot_be_are_refused),
        cmocka_unit_test(tables_that_cannot_be_are_refused),
        cmocka_unit_test(ids_that_overlap_are_refused_with_the_table_that_does_it),
        cmocka_unit_test(one_id_or_numbers_alone_may_have_rows_of_their_own),
        cmocka_unit_test(rows_of_a_table_travel_in_fewer_bits_where_it_says_so),
        cmocka_unit_test(a_table_admits_by_a_count_or_by_a_coin),
        cmocka_unit_test(what_does_not_go_with_tables_is_refused_by_its_key),
        cmocka_unit_test(what_bounds_an_update_goes_with_tables),
        cmocka_unit_test(a_table_has_the_jobs_optimizer_unless_it_has_its_own),
        cmocka_unit_test(options_of_a_tables_optimizer_are_its_own),
        cmocka_unit_test(a_table_may_have_a_rate_and_a_schedule_beside_the_jobs_optimizer),
        cmocka_unit_test(a_rate_beside_the_optimizer_holds_wherever_it_stands),
        cmocka_unit_test(updates_of_rows_that_cannot_be_are_refused),
        cmocka_unit_test(a_table_has_a_regularizer_as_layers_have),
        cmocka_unit_test(rowwise_without_tables_is_refused),
        cmocka_unit_test(a_table_whose_name_is_excluded_is_not_decayed),
        cmocka_unit_test(a_resumed_job_has_the_same_optimizers_at_any_rate),
        cmocka_unit_test(a_key_of_a_table_with_its_default_is_of_an_older_releases_job),
        cmocka_unit_test(a_new_run_makes_the_keys_of_its_columns_as_the_old_one_did),
        cmocka_unit_test(a_new_run_is_told_that_fields_make_other_keys),
        cmocka_unit_test(a_job_of_many_columns_is_read_again_as_it_is_written_out),
        cmocka_unit_test(a_job_without_tables_may_have_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
