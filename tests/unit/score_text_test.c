/* The lines of predictions: which columns, which class is the best, what needs quotes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/texts.h"
#include "model_cli/array_file.h"
#include "model_cli/score_text.h"

static const char *const names[] = {"id", "a,b"};
static const struct csv_keep keep = {.name = names, .columns = 2};

/* The header and one row, with the second of the kept texts as given. */
static void shows(const struct score_columns *c, const float *z, const char *kept, const char *text)
{
    struct text t = {.at = NULL};
    const struct csv_text fields[] = {{"7", 1}, {kept, (uint32_t)strlen(kept)}};
    score_text_header(c, &t);
    score_text_row(c, fields, z, &t);
    text_add(&t, "", 1);
    assert_false(t.failed);
    assert_string_equal(t.at, text);
    text_close(&t);
}

static void one_output_is_a_prediction_or_a_score(void **state)
{
    const float z[] = {0.1F};
    (void)state;
    shows(&(struct score_columns){.kind = SCORE_VALUE, .outputs = 1}, z, "",
          "prediction\n0.100000001\n");
    shows(&(struct score_columns){.kind = SCORE_BINARY,
                                  .outputs = 1,
                                  .names = "no" TEXTS_JOINT "yes"},
          z, "", "score\n0.100000001\n");
    shows(&(struct score_columns){.kind = SCORE_BINARY, .outputs = 1}, NULL, "", "score\n\n");
}

static void the_best_class_has_its_first_name(void **state)
{
    const float z[] = {0.25F, 0.5F, 0.25F};
    struct score_columns c = {.kind = SCORE_CLASSES,
                              .outputs = 3,
                              .names = "low" TEXTS_JOINT "a,b\n|c" TEXTS_JOINT "high|x"};
    (void)state;
    shows(&c, z, "", "class,score\n\"a,b\n\",0.5\n");
    c.names = NULL;
    shows(&c, z, "", "class,score\n1,0.5\n");
    c.all = true;
    shows(&c, z, "", "class,0,1,2\n1,0.25,0.5,0.25\n");
    shows(&c, NULL, "", "class,0,1,2\n,,,\n");
}

static void the_best_come_first_and_equal_ones_by_number(void **state)
{
    const float z[] = {0.25F, 0.5F, 0.25F, NAN};
    struct score_columns c = {.kind = SCORE_CLASSES, .outputs = 4, .top = 4};
    (void)state;
    shows(&c, z, "",
          "class_1,score_1,class_2,score_2,class_3,score_3,class_4,score_4\n"
          "1,0.5,0,0.25,2,0.25,3,nan\n");
    c.top = 1;
    shows(&c, NULL, "", "class_1,score_1\n,\n");
}

static void kept_texts_are_quoted_where_csv_needs_it(void **state)
{
    const float z[] = {1};
    const struct score_columns c = {.kind = SCORE_VALUE, .outputs = 1, .keep = &keep};
    static const char *const texts[][2] = {
        {"x", "x"},           {"", ""},         {"a\"b", "\"a\"\"b\""}, {"a,b", "\"a,b\""},
        {"a\nb", "\"a\nb\""}, {" a", "\" a\""}, {"a b", "a b"},         {"a\r", "\"a\r\""}};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char line[80];
        (void)snprintf(line, sizeof line, "id,\"a,b\",prediction\n7,%s,1\n", texts[i][1]);
        shows(&c, z, texts[i][0], line);
    }
}

static void names_of_the_scores_are_those_of_the_first_line(void **state)
{
    struct score_columns c = {.kind = SCORE_CLASSES,
                              .outputs = 3,
                              .keep = &keep,
                              .names = "low" TEXTS_JOINT "a,b,c" TEXTS_JOINT "q\"x"};
    (void)state;
    assert_true(score_text_named(&c, "class") && score_text_named(&c, "score"));
    assert_false(score_text_named(&c, "low") || score_text_named(&c, "id"));
    c.all = true;
    assert_true(score_text_named(&c, "class") && score_text_named(&c, "low"));
    assert_true(score_text_named(&c, "a,b,c") && score_text_named(&c, "q\"x"));
    assert_false(score_text_named(&c, "score") || score_text_named(&c, "b"));
    assert_int_equal(score_text_named(&c, "class"), 1);
    c.names = "low" TEXTS_JOINT "class" TEXTS_JOINT "top";
    assert_int_equal(score_text_named(&c, "class"), 2);
    c.all = false;
    c.top = 2;
    assert_true(score_text_named(&c, "class_1") && score_text_named(&c, "score_2"));
    assert_false(score_text_named(&c, "class") || score_text_named(&c, "class_3"));
    c = (struct score_columns){.kind = SCORE_BINARY, .outputs = 1};
    assert_true(score_text_named(&c, "score"));
    assert_false(score_text_named(&c, "prediction"));
}

static void floats_are_written_as_they_are(void **state)
{
    const float z[] = {1.5F, -2};
    struct text t = {.at = NULL};
    const struct score_columns c = {.kind = SCORE_CLASSES, .outputs = 2, .floats = true};
    float got[4];
    (void)state;
    score_text_row(&c, NULL, z, &t);
    score_text_row(&c, NULL, NULL, &t);
    assert_int_equal(t.bytes, sizeof got);
    memcpy(got, t.at, sizeof got);
    assert_memory_equal(got, z, sizeof z);
    assert_true(isnan(got[2]) && isnan(got[3]));
    text_close(&t);
}

static void a_header_of_npy_has_a_fixed_size(void **state)
{
    struct text t = {.at = NULL};
    (void)state;
    static const uint32_t most[NPY_RANK_MAX] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    npy_file_header(&t, "<f4", 0, 0, NULL);
    npy_file_header(&t, "<i8", UINT64_MAX, NPY_RANK_MAX, most);
    assert_int_equal(t.bytes, 2 * NPY_HEADER_BYTES);
    assert_memory_equal(t.at, "\x93NUMPY\x01\x00\xb6\x00{'descr': '<f4', ", 27);
    assert_non_null(memmem(t.at, NPY_HEADER_BYTES, "'shape': (0,), }  ", 18));
    assert_int_equal(t.at[NPY_HEADER_BYTES - 1], '\n');
    assert_int_equal(t.at[2 * NPY_HEADER_BYTES - 1], '\n');
    text_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_output_is_a_prediction_or_a_score),
        cmocka_unit_test(the_best_class_has_its_first_name),
        cmocka_unit_test(the_best_come_first_and_equal_ones_by_number),
        cmocka_unit_test(kept_texts_are_quoted_where_csv_needs_it),
        cmocka_unit_test(names_of_the_scores_are_those_of_the_first_line),
        cmocka_unit_test(floats_are_written_as_they_are),
        cmocka_unit_test(a_header_of_npy_has_a_fixed_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
