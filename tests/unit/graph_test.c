/* The graph of a trained model: its inputs and names, and the tables that are not inside. Its values are tested by
 * tests/interop. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "formats/graph/graph.h"
#include "formats/onnx/onnx.h"
#include "predict/table_file.h"
#include "proto/formats/onnx.pb-c.h"
#include "common/process/files.h"
#include "tests/lib/trained.h"

enum { NAMES_BYTES = 1024, PATH_BYTES = 128, ALLOCATIONS_MAX = 4000 };

static const char rows[] = "1,2,a,u,x y,7\n0,,b,,,8\n1,4,a,v,z,9\n";

/* %s: layers; columns of keys; options of tables */
static const char csv_job[] =
    "model: {input: {shape: auto}, loss: mean_squared_error, layers: [%s]}\n"
    "data:\n"
    "  format: csv\n"
    "  train: train.txt\n"
    "  eval: eval.txt\n"
    "  columns:\n"
    "    - label: y\n"
    "    - number: {scale: standard}\n"
    "    - category: word\n"
    "%s"
    "optimizer: sgd\n"
    "%s\n";
static const char image_job[] =
    "model:\n"
    "  input: {shape: [28, 28, 1]}\n"
    "  layers:\n"
    "    - conv2d: {filters: 4, kernel_size: 3, padding: same, activation: selu}\n"
    "    - batch_normalization\n"
    "    - max_pooling2d: 2\n"
    "    - conv2d: {filters: 4, kernel_size: 3, name: a}\n"
    "    - conv2d: {filters: 4, kernel_size: 1, name: b}\n"
    "    - add: [a, b]\n"
    "    - concatenate: {inputs: [a, add], name: c}\n"
    "    - softplus\n"
    "    - global_average_pooling2d\n"
    "    - dense: 10\n"
    "  loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"
    "data: {format: synthetic, scale: 255, synthetic_train_rows: 2, synthetic_eval_rows: 2}\n"
    "optimizer: sgd\n";

static struct trained trained;
static struct folder folder;
static struct graph *graph;
static struct errmsg e;

/* uses: the columns of keys that layers look up, of "stib": site, tags, id, both (a cross). */
static void open_model(const char *uses, const char *layers, const char *tables)
{
    static const char *const column[] = {
        "key: {name: site, missing: none}", "keys: {name: tags, separator: ' ', max_values: 3}",
        "key: {name: id, hash: false, missing: {key: 0}}", "cross: {name: both, of: [site, id]}"};
    char job[2048], keys[512];
    size_t n = 0;
    for (int i = 0; i < 4; i++)
        if (strchr(uses, "stib"[i]) || i < 3)
            n += (size_t)snprintf(keys + n, sizeof keys - n, "    - %s\n",
                                  strchr(uses, "stib"[i]) ? column[i] : "ignore");
    (void)snprintf(job, sizeof job, csv_job, layers, keys, tables);
    trained_init(&trained, *layers ? job : image_job, *layers ? rows : NULL, *layers ? rows : NULL);
    if (folder_open(&folder, trained.model_dir, &e))
        fail_msg("%s", e.text);
}

static void make_graph(uint64_t tables_inside_bytes)
{
    const struct graph_options options = {tables_inside_bytes, onnx_key_bytes};
    if (graph_new(&graph, &folder, &options, &e))
        fail_msg("%s", e.text);
}

static void close_model(void)
{
    graph_free(graph);
    graph = NULL;
    folder_close(&folder);
    trained_close(&trained);
}

/* The inputs and the output: "site/weights tags -> dense". */
static const char *names_of(const struct graph *g)
{
    static char names[NAMES_BYTES];
    size_t n = 0;
    for (uint32_t i = 0; i < g->inputs; i++)
        n += (size_t)snprintf(names + n, NAMES_BYTES - n, "%s ", g->value[g->input[i].value].name);
    (void)snprintf(names + n, NAMES_BYTES - n, "-> %s", g->value[g->output].name);
    return names;
}

static void inputs_are_the_columns_that_layers_read_in_the_order_of_the_columns(void **state)
{
    (void)state;
    open_model("ti",
               "embedding_bag: {inputs: [id, tags], output_dim: 2, name: e},"
               "dense: {inputs: [e, word], units: 1, name: out}",
               "");
    make_graph(UINT64_MAX);
    assert_string_equal(names_of(graph), "word tags tags/weights id -> out");
    close_model();
    open_model("sib",
               "linear: {inputs: [both, site, id], name: w}, dense: {inputs: [w, input], units: 1}",
               "");
    make_graph(UINT64_MAX);
    assert_string_equal(names_of(graph),
                        "column_2 word site site/weights id both both/weights -> dense");
    close_model();
}

static void a_table_that_is_too_large_goes_in_as_the_output_of_its_layer(void **state)
{
    (void)state;
    open_model("ti",
               "embedding: {inputs: [id], output_dim: 2, name: small},"
               "embedding_bag: {inputs: [tags, id], output_dim: 300, name: large},"
               "dense: {inputs: [small, large, word], units: 1}",
               "");
    make_graph(1000);
    assert_string_equal(names_of(graph), "word id large -> dense");
    const struct graph_input *in = &graph->input[2];
    assert_int_equal(in->source, GRAPH_VECTORS);
    assert_int_equal(in->layer, 1);
    assert_int_equal(graph->value[in->value].dim[1], 600);
    assert_string_equal(in->why, "its table is larger than --tables_mb");
    close_model();
}

static void
a_table_whose_first_values_are_normal_is_not_inside_unless_absent_keys_are_zeros(void **state)
{
    static const char layers[] =
        "embedding: {inputs: [id], output_dim: 2, name: e}, dense: {inputs: [e], units: 1}";
    (void)state;
    open_model("i", layers, "tables: {e: {initializer: random_normal}}");
    make_graph(UINT64_MAX);
    assert_string_equal(names_of(graph), "e -> dense");
    assert_non_null(strstr(graph->input[0].why, "first value"));
    close_model();
    open_model("i", layers, "tables: {e: {initializer: random_normal, min_count: 2}}");
    make_graph(UINT64_MAX);
    assert_string_equal(names_of(graph), "id -> dense");
    close_model();
}

static void a_graph_that_would_return_an_input_is_refused(void **state)
{
    static const struct graph_options nothing_inside = {0};
    (void)state;
    open_model("t", "linear: {inputs: [tags], name: w}", "");
    assert_int_equal(graph_new(&graph, &folder, &nothing_inside, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "nothing to compute"));
    make_graph(UINT64_MAX);
    assert_string_equal(names_of(graph), "tags tags/weights -> w");
    close_model();
}

static void an_input_with_the_name_of_the_output_is_refused(void **state)
{
    static const struct graph_options all_inside = {.tables_inside_bytes = UINT64_MAX};
    (void)state;
    open_model("", "dense: {inputs: [word], units: 1, name: word}", "");
    assert_int_equal(graph_new(&graph, &folder, &all_inside, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "give two values the name \"word\""));
    close_model();
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void nodes_read_only_what_is_there_and_names_are_distinct(void **state)
{
    (void)state;
    open_model("st",
               "embedding_bag: {inputs: [tags, site], output_dim: 3, mode: sqrtn, name: e},"
               "dense: {inputs: [e, input], units: 1}",
               "");
    make_graph(UINT64_MAX);
    bool *there = mem_zalloc(graph->values, sizeof *there);
    const char **name = mem_zalloc(graph->values, sizeof *name);
    assert_true(there && name);
    for (uint32_t i = 0; i < graph->values; i++) {
        there[i] = graph->value[i].data != NULL;
        name[i] = graph->value[i].name;
    }
    for (uint32_t i = 0; i < graph->inputs; i++)
        there[graph->input[i].value] = true;
    for (uint32_t i = 0; i < graph->nodes; i++) {
        const struct graph_node *n = &graph->node[i];
        for (uint32_t k = 0; k < n->inputs; k++)
            assert_true(there[graph->input_of_node[n->first_input + k]]);
        assert_false(there[n->output]);
        there[n->output] = true;
    }
    qsort(name, graph->values, sizeof *name, by_text);
    for (uint32_t i = 0; i < graph->values; i++)
        assert_true(*name[i] && (i == 0 || strcmp(name[i - 1], name[i]) != 0));
    mem_free(there);
    mem_free(name);
    close_model();
}

/* tests/interop has the values. */
static void a_number_that_training_requires_is_looked_at_last(void **state)
{
    (void)state;
    open_model("", "dense: 1", "");
    make_graph(UINT64_MAX);
    assert_int_not_equal(graph->node[graph->nodes - 1].op, GRAPH_SELECT);
    graph_free(graph);
    folder.schema->input[0].missing = MISSING_REFUSE;
    make_graph(UINT64_MAX);
    const struct graph_node *last = &graph->node[graph->nodes - 1];
    assert_int_equal(last->op, GRAPH_SELECT);
    assert_int_equal(last->output, graph->output);
    assert_true(isnan(*(const float *)graph_input_of(graph, last, 1)->data) != 0);
    close_model();
}

static void without_memory_no_graph_is_made_and_nothing_leaks(void **state)
{
    static const struct graph_options all_inside = {.tables_inside_bytes = UINT64_MAX};
    (void)state;
    open_model("st",
               "embedding_bag: {inputs: [tags, site], output_dim: 3, name: e},"
               "dense: {inputs: [e, input], units: 1}",
               "");
    folder.schema->input[0].missing = MISSING_REFUSE;
    long n = 0;
    for (enum err err = ERR_NOMEM; err; n++) {
        assert_true(n < ALLOCATIONS_MAX);
        mem_fail_at(n);
        err = graph_new(&graph, &folder, &all_inside, &e);
        mem_fail_at(-1);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    assert_true(n > 20);
    close_model();
}

/* ---- ONNX ---- */

static const char *onnx_path(void)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/m.onnx", trained.dir);
    return path;
}

static uint64_t told_bytes;

static void told(const char *path, uint64_t bytes)
{
    assert_string_equal(path, onnx_path());
    told_bytes = bytes;
}

static Onnx__Model *write_and_read(void)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    if (onnx_write(onnx_path(), graph, told, &e) ||
        files_read_regular(onnx_path(), 1 << 24, &data, &bytes, &e))
        fail_msg("%s", e.text);
    assert_int_equal(told_bytes, bytes);
    Onnx__Model *m = onnx__model__unpack(NULL, bytes, data);
    mem_free(data);
    assert_non_null(m);
    return m;
}

static uint32_t count(const Onnx__Model *m, const char *op)
{
    uint32_t n = 0;
    for (size_t i = 0; i < m->graph->n_node; i++)
        n += strcmp(m->graph->node[i]->op_type, op) == 0;
    return n;
}

static void onnx_moves_the_channels_once_for_a_whole_chain_of_images(void **state)
{
    (void)state;
    open_model("", "", "");
    make_graph(0);
    Onnx__Model *m = write_and_read();
    assert_int_equal(count(m, "Conv"), 3);
    assert_int_equal(count(m, "MaxPool"), 1);
    assert_int_equal(count(m, "Concat"), 1);
    assert_int_equal(count(m, "Transpose"), 1);
    assert_string_equal(m->graph->output[0]->name, "dense");
    assert_int_equal(m->graph->n_input, 1);
    onnx__model__free_unpacked(m, NULL);
    close_model();
}

/* The bytes of all that an ONNX file has of tables: rows (.., dim), keys and numbers. */
static size_t bytes_of_tables(const Onnx__Model *m, int64_t dim)
{
    size_t bytes = 0;
    for (size_t i = 0; i < m->graph->n_initializer; i++) {
        const Onnx__Tensor *t = m->graph->initializer[i];
        bytes += t->n_dims == 2 && t->dims[1] == dim ? t->raw_data.len : 0;
    }
    for (size_t i = 0; i < m->graph->n_node; i++)
        for (size_t k = 0; k < m->graph->node[i]->n_attribute; k++)
            if (m->graph->node[i]->attribute[k]->n_ints)
                bytes += onnx__attribute__get_packed_size(m->graph->node[i]->attribute[k]);
    return bytes;
}

static void
a_table_that_columns_and_layers_share_is_in_the_file_once_and_found_by_one_node(void **state)
{
    static const char one[] =
        "embedding: {inputs: [id], output_dim: 5, name: e}, dense: {inputs: [e], units: 1}";
    static const char more[] =
        "embedding_bag: {inputs: [tags, site, id], output_dim: 5, name: e},"
        "embedding_bag: {inputs: [id, both], output_dim: 5, table: e, name: f},"
        "dense: {inputs: [e, f], units: 1}";
    (void)state;
    open_model("i", one, "");
    make_graph(UINT64_MAX);
    Onnx__Model *m = write_and_read();
    assert_int_equal(count(m, "Slice"), 0);
    onnx__model__free_unpacked(m, NULL);
    close_model();
    open_model("stib", more, "");
    make_graph(UINT64_MAX);
    m = write_and_read();
    assert_int_equal(count(m, "LabelEncoder"), 1);
    assert_int_equal(count(m, "Gather"), 5);
    uint64_t rows_in = table_file_rows(folder.table[0]);
    assert_in_range(bytes_of_tables(m, 5), rows_in * 5 * sizeof(float), rows_in * 36 + 100);
    onnx__model__free_unpacked(m, NULL);
    close_model();
}

static void tables_mb_is_compared_with_the_bytes_in_the_file(void **state)
{
    static const char layers[] =
        "embedding_bag: {inputs: [tags], output_dim: 300, name: e}, dense: {inputs: [e], units: 1}";
    (void)state;
    open_model("t", layers, "");
    uint64_t bytes = 0, key;
    float row[300];
    for (uint64_t i = 0; i < table_file_rows(folder.table[0]); i++) {
        table_file_row(folder.table[0], i, &key, row);
        bytes += sizeof row + 1; /* the number */
        for (uint64_t left = key, first = 1; first || left; first = 0, left >>= 7)
            bytes++;
    }
    make_graph(bytes);
    assert_string_equal(names_of(graph), "tags tags/weights -> dense");
    Onnx__Model *m = write_and_read();
    assert_in_range(bytes_of_tables(m, 300), bytes, bytes + 100);
    onnx__model__free_unpacked(m, NULL);
    graph_free(graph);
    make_graph(bytes - 1);
    assert_string_equal(names_of(graph), "e -> dense");
    close_model();
}

static void onnx_without_memory_is_an_error_and_leaves_no_file(void **state)
{
    (void)state;
    open_model("", "", "");
    make_graph(0);
    long n = 0;
    for (enum err err = ERR_NOMEM; err; n++) {
        assert_true(n < ALLOCATIONS_MAX);
        mem_fail_at(n);
        err = onnx_write(onnx_path(), graph, told, &e);
        mem_fail_at(-1);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && access(onnx_path(), F_OK) != 0));
    }
    assert_true(n > 20);
    close_model();
}

static void onnx_refuses_a_model_that_protobuf_cannot_hold(void **state)
{
    (void)state;
    open_model("", "dense: {inputs: [word], units: 1}", "");
    make_graph(0);
    for (uint32_t i = 0; i < graph->values; i++) /* only lengths are read before the refusal */
        if (!strcmp(graph->value[i].name, "dense/kernel"))
            graph->value[i].dim[0] = 600000000;
    assert_int_equal(onnx_write(onnx_path(), graph, told, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "would have 2288 MiB"));
    assert_int_not_equal(access(onnx_path(), F_OK), 0);
    close_model();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_the_columns_that_layers_read_in_the_order_of_the_columns),
        cmocka_unit_test(a_table_that_is_too_large_goes_in_as_the_output_of_its_layer),
        cmocka_unit_test(
            a_table_whose_first_values_are_normal_is_not_inside_unless_absent_keys_are_zeros),
        cmocka_unit_test(a_graph_that_would_return_an_input_is_refused),
        cmocka_unit_test(an_input_with_the_name_of_the_output_is_refused),
        cmocka_unit_test(nodes_read_only_what_is_there_and_names_are_distinct),
        cmocka_unit_test(a_number_that_training_requires_is_looked_at_last),
        cmocka_unit_test(without_memory_no_graph_is_made_and_nothing_leaks),
        cmocka_unit_test(onnx_moves_the_channels_once_for_a_whole_chain_of_images),
        cmocka_unit_test(
            a_table_that_columns_and_layers_share_is_in_the_file_once_and_found_by_one_node),
        cmocka_unit_test(tables_mb_is_compared_with_the_bytes_in_the_file),
        cmocka_unit_test(onnx_without_memory_is_an_error_and_leaves_no_file),
        cmocka_unit_test(onnx_refuses_a_model_that_protobuf_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
