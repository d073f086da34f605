#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "job/tree.h"

static void assert_json(const char *yaml, const char *want)
{
    struct job_node *root;
    struct errmsg e;
    assert_int_equal(job_tree_parse(&root, yaml, strlen(yaml), "it", NULL, &e), ERR_OK);
    json_t *json = job_tree_json(root);
    assert_non_null(json);
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, want);
    free(text);
    json_decref(json);
    job_tree_free(root);
}

static void plain_scalars_become_numbers_and_words_and_quoted_ones_stay_text(void **state)
{
    (void)state;
    assert_json("a: 12\nb: -0.5\nc: 1e-3\nd: true\ne: false\nf: null\ng: ~\nh:\n",
                "{\"a\":12,\"b\":-0.5,\"c\":0.001,\"d\":true,\"e\":false,\"f\":null,\"g\":null,"
                "\"h\":null}");
    assert_json("a: \"12\"\nb: 'true'\nc: \"\"\n", "{\"a\":\"12\",\"b\":\"true\",\"c\":\"\"}");
}

static void what_json_has_no_number_for_stays_text(void **state)
{
    (void)state;
    assert_json("[007, 0x1F, +1, nan, inf, .5, 1., 1 2, -, e, 1e999, relu, 9999999999999999999]",
                "[\"007\",\"0x1F\",\"+1\",\"nan\",\"inf\",\".5\",\"1.\",\"1 2\",\"-\",\"e\","
                "\"1e999\",\"relu\",\"9999999999999999999\"]");
}

static void lists_and_maps_keep_their_order(void **state)
{
    (void)state;
    assert_json(
        "layers: [{dense: {units: 3, name: z}}, flatten, {dropout: {}}]\nempty: []\n",
        "{\"layers\":[{\"dense\":{\"units\":3,\"name\":\"z\"}},\"flatten\",{\"dropout\":{}}],"
        "\"empty\":[]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_become_numbers_and_words_and_quoted_ones_stay_text),
        cmocka_unit_test(what_json_has_no_number_for_stays_text),
        cmocka_unit_test(lists_and_maps_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
