#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/tensorflow/saved_model.h"
#include "proto/formats/tensorflow.pb-c.h"
#include "tests/lib/every_op.h"
#include "tests/lib/folder.h"

enum { PATH_BYTES = FOLDER_BYTES + 64 };

static const char *in_folder(const char *name)
{
    static char path[4][PATH_BYTES];
    static int next;
    char *p = path[next++ % 4];
    (void)snprintf(p, PATH_BYTES, "%s/%s", folder_dir, name);
    return p;
}

static uint8_t *slurp(const char *name, size_t *bytes)
{
    struct errmsg e;
    uint8_t *data;
    if (files_read_regular(in_folder(name), 1 << 24, &data, bytes, &e))
        fail_msg("%s", e.text);
    return data;
}

static void write_model(const char *name, const struct graph *g)
{
    struct errmsg e;
    if (saved_model_write(in_folder(name), g, NULL, &e))
        fail_msg("%s", e.text);
}

/* The entries of the tests' directory. */
static int entries(void)
{
    int n = 0;
    DIR *d = opendir(folder_dir);
    assert_non_null(d);
    for (struct dirent *at; (at = readdir(d));)
        n += at->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void saved_model_has_the_same_bytes_each_time(void **state)
{
    (void)state;
    size_t bytes[2];
    write_model("one", every_op_graph());
    write_model("deep/er/two/", every_op_graph());
    uint8_t *a = slurp("one/saved_model.pb", &bytes[0]);
    uint8_t *b = slurp("deep/er/two/saved_model.pb", &bytes[1]);
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(a, b, bytes[0]);
    mem_free(a);
    mem_free(b);
}

static Tensorflow__SavedModel *read_model(void)
{
    size_t bytes;
    write_model("read", every_op_graph());
    uint8_t *data = slurp("read/saved_model.pb", &bytes);
    Tensorflow__SavedModel *m = tensorflow__saved_model__unpack(NULL, bytes, data);
    mem_free(data);
    assert_non_null(m);
    assert_int_equal(m->n_meta_graphs, 1);
    return m;
}

static void the_signature_names_the_inputs_and_the_output(void **state)
{
    (void)state;
    Tensorflow__SavedModel *m = read_model();
    const Tensorflow__MetaGraph *meta = m->meta_graphs[0];
    assert_string_equal(meta->meta_info_def->tags[0], "serve");
    assert_int_equal(meta->n_signature_def, 2);
    assert_string_equal(meta->signature_def[0]->key, "serving_default");
    const Tensorflow__Signature *s = meta->signature_def[0]->value;
    const struct graph *g = every_op_graph();
    assert_int_equal(s->n_inputs, g->inputs);
    for (uint32_t i = 0; i < g->inputs; i++)
        assert_string_equal(s->inputs[i]->key, g->value[g->input[i].value].name);
    assert_int_equal(s->n_outputs, 1);
    assert_string_equal(s->outputs[0]->key, "every op");
    assert_int_equal(s->outputs[0]->value->tensor_shape->dim[0]->size, -1);
    assert_string_equal(meta->signature_def[1]->key, "__saved_model_init_op");
    assert_string_equal(meta->signature_def[1]->value->outputs[0]->value->name, "init");
    tensorflow__saved_model__free_unpacked(m, NULL);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_allowed(const char *name)
{
    return strchr(LETTERS, name[0]) && strspn(name, LETTERS "0123456789_./-") == strlen(name);
}

static size_t find(const Tensorflow__Graph *g, const char *name)
{
    size_t i = 0;
    while (i < g->n_node && strcmp(g->node[i]->name, name + (name[0] == '^')) != 0)
        i++;
    return i;
}

static void a_node_has_a_name_of_its_own_and_reads_earlier_nodes(void **state)
{
    (void)state;
    Tensorflow__SavedModel *m = read_model();
    const Tensorflow__Graph *g = m->meta_graphs[0]->graph_def;
    for (size_t i = 0; i < g->n_node; i++) {
        const Tensorflow__Node *node = g->node[i];
        assert_true(is_allowed(node->name));
        assert_int_equal(find(g, node->name), i);
        for (size_t k = 0; k < node->n_input; k++)
            assert_true(find(g, node->input[k]) < i);
    }
    tensorflow__saved_model__free_unpacked(m, NULL);
}

static void a_saved_model_replaces_only_its_own_file(void **state)
{
    (void)state;
    struct errmsg e;
    write_model("mine", every_op_graph());
    assert_int_equal(files_write(in_folder("mine/saved_model.pb"), "x", 1, &e), ERR_OK);
    write_model("mine", every_op_graph());
    size_t bytes;
    mem_free(slurp("mine/saved_model.pb", &bytes));
    assert_true(bytes > 1);

    assert_int_equal(mkdir(in_folder("other"), 0777), 0);
    assert_int_equal(files_write(in_folder("other/file"), "x", 1, &e), ERR_OK);
    assert_int_equal(saved_model_write(in_folder("other"), every_op_graph(), NULL, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "other files, such as file"));
    assert_int_equal(saved_model_write(in_folder("other/file"), every_op_graph(), NULL, &e),
                     ERR_INPUT);
    assert_non_null(strstr(e.text, "Not a directory"));
    assert_int_equal(saved_model_write("", every_op_graph(), NULL, &e), ERR_INPUT);
}

/* A complete directory stays if it has its name and only that did not reach the disk. */
static void a_failed_write_leaves_nothing_or_the_complete_directory(void **state)
{
    (void)state;
    struct errmsg e;
    const int before = entries();
    int fired = 1, complete = 0;
    for (long i = 0; fired; i++) {
        files_fail_at(i, ENOSPC);
        enum err err = saved_model_write(in_folder("failed"), every_op_graph(), NULL, &e);
        fired = files_fail_fired();
        files_fail_at(-1, 0);
        assert_int_equal(err, fired ? ERR_IO : ERR_OK);
        if (access(in_folder("failed/saved_model.pb"), F_OK) != 0)
            continue;
        complete++;
        write_model("good", every_op_graph());
        size_t bytes[2];
        uint8_t *a = slurp("failed/saved_model.pb", &bytes[0]);
        uint8_t *b = slurp("good/saved_model.pb", &bytes[1]);
        assert_int_equal(bytes[0], bytes[1]);
        mem_free(a);
        mem_free(b);
        assert_int_equal(files_remove_folder(in_folder("failed"), &e), ERR_OK);
        assert_int_equal(files_remove_folder(in_folder("good"), &e), ERR_OK);
        assert_int_equal(entries(), before);
    }
    assert_int_equal(complete, 2);
}

static void without_memory_nothing_is_written(void **state)
{
    (void)state;
    struct errmsg e;
    const int before = entries();
    int fired = 1;
    long i = 0;
    for (; fired; i++) {
        mem_fail_at(i);
        enum err err = saved_model_write(in_folder("starved"), every_op_graph(), NULL, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
        assert_int_equal(entries(), before + !fired);
    }
    assert_true(i > 3);
}

static void a_model_larger_than_protobuf_allows_is_refused(void **state)
{
    (void)state;
    struct errmsg e;
    static const float first[1];
    static const uint32_t sum[] = {0, 1};
    static struct graph_value value[] = {
        {.type = GRAPH_F32, .rank = 1, .dim = {GRAPH_ROWS}, .name = "x"},
        {.type = GRAPH_F32,
         .rank = 1,
         .dim = {1 << 29},
         .data = first,
         .name = "c"}, /* never read */
        {.type = GRAPH_F32, .rank = 1, .dim = {GRAPH_ROWS}, .name = "y"},
    };
    static struct graph_node node = {.op = GRAPH_ADD, .inputs = 2, .output = 2};
    static struct graph_input input = {.source = GRAPH_NUMBER};
    const struct graph g = {.values = 3,
                            .nodes = 1,
                            .inputs = 1,
                            .value = value,
                            .node = &node,
                            .input_of_node = (uint32_t *)sum,
                            .input = &input,
                            .output = 2};
    assert_int_equal(saved_model_write(in_folder("large"), &g, NULL, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "would have 2048 MiB"));
}

/* Inputs with these names; NULL: there are fewer. */
static enum err check_names(const char *a, const char *b, const char *c, struct errmsg *e)
{
    const struct graph_value value[] = {{.name = a}, {.name = b}, {.name = c}};
    const struct graph_input input[] = {{.value = 0}, {.value = 1}, {.value = 2}};
    const struct graph g = {.value = (struct graph_value *)value,
                            .input = (struct graph_input *)input,
                            .inputs = !a   ? 0
                                      : !b ? 1
                                      : !c ? 2
                                           : 3};
    return saved_model_check_names(&g, e);
}

/* tests/interop/savedmodel_test.py loads such models. */
static void names_that_are_one_parameter_or_none_in_python_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *c, *why;
    } of[] = {{"class", NULL, NULL, "the input \"class\" has the name of a keyword of Python"},
              {"x", "None", NULL, "the input \"None\" has the name of a keyword of Python"},
              {"a-b", "b", "a_b", "have one name, a_b, in Python"},
              {"1st", "arg_1st", NULL, "have one name, arg_1st, in Python"},
              {"?", "!", NULL, "have one name, arg__, in Python"},
              {"in \u20ac", "in $", NULL, "have one name, in__, in Python"},
              {"x", "area m\u00b2", NULL, "the input \"area m\u00b2\" has a numeral"},
              {"CO\u2082", NULL, NULL, "the input \"CO\u2082\" has a numeral"},
              {"\u00bd", NULL, NULL, "the input \"\u00bd\" has a numeral"}};
    struct errmsg e;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        assert_int_equal(check_names(of[i].a, of[i].b, of[i].c, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, of[i].why));
    }
    assert_int_equal(check_names(NULL, NULL, NULL, &e), ERR_OK);
    assert_int_equal(check_names("class_", "Class", "-class", &e), ERR_OK);
    assert_int_equal(check_names("\u00e9", "e", "capital-gain", &e), ERR_OK);
    assert_int_equal(check_names("\u00b5g", "\u4e8c\u20ac", "\u4e8c", &e), ERR_OK);
    int fired = 1;
    for (long n = 0; fired; n++) {
        mem_fail_at(n);
        enum err err = check_names("a", "b", NULL, &e);
        fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_int_equal(err, fired ? ERR_NOMEM : ERR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_model_has_the_same_bytes_each_time),
        cmocka_unit_test(the_signature_names_the_inputs_and_the_output),
        cmocka_unit_test(a_node_has_a_name_of_its_own_and_reads_earlier_nodes),
        cmocka_unit_test(a_saved_model_replaces_only_its_own_file),
        cmocka_unit_test(a_failed_write_leaves_nothing_or_the_complete_directory),
        cmocka_unit_test(without_memory_nothing_is_written),
        cmocka_unit_test(a_model_larger_than_protobuf_allows_is_refused),
        cmocka_unit_test(names_that_are_one_parameter_or_none_in_python_are_named),
    };
    return cmocka_run_group_tests_name("saved_model", tests, folder_setup, folder_teardown);
}
