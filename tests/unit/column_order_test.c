#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "job/job.h"

static const char WAS[] = "data.scale = 1\n"
                          "data.columns[0] = number\n"
                          "data.columns[0].number.name = age\n"
                          "data.columns[0].number.scale = standard\n"
                          "data.columns[1].label.name = rich\n"
                          "data.columns[2].category.name = town\n"
                          "data.columns[3].number.name = size\n";

/* "": nothing is wrong with it. */
static void compares(const char *is, const char *why)
{
    struct errmsg e = {""};
    assert_int_equal(column_order_compare(WAS, is, &e), *why ? ERR_INPUT : ERR_OK);
    assert_string_equal(e.text, why);
}

static void inputs_at_their_places_may_stand_beside_other_labels_and_keys(void **state)
{
    (void)state;
    compares(WAS, "");
    compares("", "");
    compares("data.columns[0].label.name = rich\ndata.columns[1].number.name = age\n"
             "data.columns[2].key.name = size\ndata.columns[3].category.name = town\n",
             "");
}

static void one_of_another_name_is_not_compared(void **state)
{
    (void)state;
    compares("data.columns[0].number.name = years\ndata.columns[1].category.name = town", "");
}

static void inputs_that_change_places_are_refused_naming_the_first(void **state)
{
    (void)state;
    compares("data.columns[0].number.name = size\ndata.columns[1].category.name = town\n"
             "data.columns[2].number.name = age\n",
             "column age was input column 1, is now input column 3, and would get another column's "
             "weights; restore the order of the columns");
    compares("data.columns[0].category.name = town\n",
             "column town was input column 2, is now input column 1, and would get another "
             "column's weights; restore the order of the columns");
}

static void columns_without_names_keep_their_places(void **state)
{
    (void)state;
    static const char two[] = "data.columns[0].number.name = \n"
                              "data.columns[1].number.name = \n";
    struct errmsg e = {""};
    assert_int_equal(column_order_compare(two, two, &e), ERR_OK);
}

static void a_name_has_line_ends(void **state)
{
    (void)state;
    static const char was[] = "data.columns[0].number.name = a\n\tb\n"
                              "data.columns[1].number.name = a\n\tc\n";
    static const char moved[] = "data.columns[0].number.name = a\n\tc\n"
                                "data.columns[1].number.name = a\n\tb\n";
    struct errmsg e = {""};
    assert_int_equal(column_order_compare(was, was, &e), ERR_OK);
    assert_int_equal(column_order_compare(was, moved, &e), ERR_INPUT);
    assert_non_null(
        strstr(e.text, "column a<U+000A><U+0009>b was input column 1, is now input column 2"));
}

static void differs(enum err (*compare)(const char *, const char *, struct errmsg *),
                    const char *was, const char *is, const char *why)
{
    struct errmsg e = {""};
    assert_int_equal(compare(was, is, &e), *why ? ERR_INPUT : ERR_OK);
    assert_string_equal(e.text, why);
}

static void a_scale_that_changes_is_named_with_its_column(void **state)
{
    (void)state;
    static const char none[] = "data.columns[1].number.name = age\n";
    static const char min_max[] = "data.columns[0].label.name = rich\n"
                                  "data.columns[1].number.scale = min_max\n"
                                  "data.columns[1].number.name = age\n";
    differs(column_scale_compare, WAS, WAS, "");
    differs(column_scale_compare, WAS, min_max, "column age had scale standard, has min_max now");
    differs(column_scale_compare, none, min_max, "column age had scale none, has min_max now");
    differs(column_scale_compare, min_max, "data.columns[0].number.name = years\n", "");
    differs(column_scale_compare, "data.columns[1].number.scale = none\n", none, "");
}

static void classes_that_change_places_are_refused_and_new_names_are_not(void **state)
{
    (void)state;
    static const char was[] = "data.columns[1].label.classes = \"no\", \"yes\", \"*\"\n";
    differs(class_order_compare, was, was, "");
    differs(class_order_compare, was, "", "");
    differs(class_order_compare, was, "data.columns[0].label.classes = \"n\", \"y\", \"*\"", "");
    differs(class_order_compare, was, "data.columns[0].label.classes = \"no\", \"*\", \"yes\"",
            "class \"yes\" was class 1, is class 2 now, and would get another class's weights; "
            "restore the order of the label's classes");
}

static void a_class_of_several_names_and_a_label_of_numbers_are_compared_too(void **state)
{
    (void)state;
    static const char several[] = "data.columns[1].label.classes = \"a|b\", \"c|d\"\n";
    static const char ones[] = "data.columns[1].label.classes = \"1\", \"0\"\n";
    static const char in_order[] = "data.columns[1].label.classes = \"0|no\", \"1\"\n";
    differs(class_order_compare, several, "data.columns[0].label.classes = \"b\", \"d|c|x\"", "");
    differs(class_order_compare, several, "data.columns[0].label.classes = \"d|c\", \"b|a\"",
            "class \"a\" was class 0, is class 1 now, and would get another class's weights; "
            "restore the order of the label's classes");
    differs(class_order_compare, several, "data.columns[0].label.classes = \"x|c\"",
            "class \"c\" was class 1, is class 0 now, and would get another class's weights; "
            "restore the order of the label's classes");
    differs(class_order_compare, "", ones,
            "class \"1\" was class 1, is class 0 now, and would get another class's weights; "
            "restore the order of the label's classes");
    differs(class_order_compare, ones, "",
            "class \"1\" was class 0, is class 1 now, and would get another class's weights; "
            "restore the order of the label's classes");
    differs(class_order_compare, "", in_order, "");
    differs(class_order_compare, in_order, "", "");
}

static void a_name_that_looks_like_a_key_is_only_a_name(void **state)
{
    (void)state;
    static const char was[] = "data.columns[0].key.name = a].number.name = b\n"
                              "data.columns[1].ignore.name = a].label.classes = \"no\", \"yes\"\n"
                              "data.columns[2].number.name = b\n"
                              "data.columns[3].number.name = a].category.name = c\n"
                              "data.columns[4].label.classes = \"yes\", \"no\"\n";
    static const char is[] = "data.columns[0].number.name = b\n"
                             "data.columns[1].number.name = c\n"
                             "data.columns[4].label.classes = \"yes\", \"no\"\n";
    differs(column_order_compare, was, is, "");
    differs(class_order_compare, was, is, "");
}

/* The order of the classes of two jobs, and whether their identities are equal. */
static bool classes_compare(const char *was, const char *is, const char *why)
{
    const char *const classes[] = {was, is};
    struct job job[2];
    struct errmsg e = {""};
    for (int i = 0; i < 2; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "model: {input: {shape: auto}, layers: [dense: 3], loss: "
                       "{sparse_categorical_crossentropy: {from_logits: true}}}\noptimizer: "
                       "sgd\ndata: {format: csv, train: a, "
                       "columns: [number: a, label: {name: y, classes: [%s]}]}\n",
                       classes[i]);
        if (job_parse(&job[i], text, strlen(text), "j.yaml", "/", NULL, 0, &e))
            fail_msg("%s", e.text);
    }
    differs(class_order_compare, job[0].identity_text, job[1].identity_text, why);
    bool same = strcmp(job[0].identity_text, job[1].identity_text) == 0;
    job_close(&job[0]);
    job_close(&job[1]);
    return same;
}

static void a_name_of_a_class_can_have_quotes_and_commas(void **state)
{
    (void)state;
    static const char moved[] = "class \"c\" was class 0, is class 1 now, and would get another "
                                "class's weights; restore the order of the label's classes";
    static const char *const names[] = {
        "'a\", \"b'",           "'a\", '", "'\", \"'", "'\", \", \"'",
        "\"a\\\", \\\"\\x1f\"", "'a\\'",   "'a\"'",    "'\"a'"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char was[64], is[64];
        (void)snprintf(was, sizeof was, "c, %s", names[i]);
        (void)snprintf(is, sizeof is, "%s, c", names[i]);
        assert_true(classes_compare(was, was, ""));
        assert_false(classes_compare(was, is, moved));
    }
    assert_false(classes_compare("'a\", \"b', c", "c, 'a\", \"b'",
                                 "class \"a\", \"b\" was class 0, is class 1 now, and would get "
                                 "another class's weights; restore the order of the label's "
                                 "classes"));
    assert_false(classes_compare("'a\", \"b', c", "a, b, d", ""));
    assert_false(classes_compare("'a\", \"b'", "a, b", ""));
    assert_false(classes_compare("\"a\\\", \\\"\\x1f\", b", "\"a\\x1f\", b, c", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_line_ends),
        cmocka_unit_test(inputs_at_their_places_may_stand_beside_other_labels_and_keys),
        cmocka_unit_test(one_of_another_name_is_not_compared),
        cmocka_unit_test(inputs_that_change_places_are_refused_naming_the_first),
        cmocka_unit_test(columns_without_names_keep_their_places),
        cmocka_unit_test(a_scale_that_changes_is_named_with_its_column),
        cmocka_unit_test(classes_that_change_places_are_refused_and_new_names_are_not),
        cmocka_unit_test(a_name_that_looks_like_a_key_is_only_a_name),
        cmocka_unit_test(a_name_of_a_class_can_have_quotes_and_commas),
        cmocka_unit_test(a_class_of_several_names_and_a_label_of_numbers_are_compared_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
