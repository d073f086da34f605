#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/formats/export.h"

static const char csv_job[] = "model:\n"
                              "  input: {shape: auto}\n"
                              "  layers:\n"
                              "    - embedding: {inputs: site, output_dim: 2, name: vectors}\n"
                              "    - dense: {inputs: [vectors, age], units: 1, name: %s}\n"
                              "  loss: mean_squared_error\n"
                              "data:\n"
                              "  format: csv\n"
                              "  train: a.csv\n"
                              "  columns: [number: age, key: site, ignore: spare, label: y]\n"
                              "optimizer: sgd\n";
static const char large_job[] = "model:\n"
                                "  input: {shape: [3]}\n"
                                "  layers: [embedding: {input_dim: 16000000, output_dim: 40}, "
                                "flatten, dense: 1]\n"
                                "  loss: mean_squared_error\n"
                                "data: {format: npy, train: [a.npy, b.npy]}\n"
                                "optimizer: sgd\n";

static struct job job;
static struct errmsg e;

static void parse(const char *fmt, const char *last)
{
    char text[1024];
    job_close(&job);
    int n = snprintf(text, sizeof text, fmt, last);
    if (job_parse(&job, text, (size_t)n, "job.yaml", ".", NULL, 0, &e))
        fail_msg("%s", e.text);
}

static void a_column_that_goes_in_must_not_have_the_name_of_the_output(void **state)
{
    static const char *const clash[] = {"age", "site"}, *const fits[] = {"y", "spare", "answer"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        parse(csv_job, clash[i]);
        assert_int_equal(export_check(&job, EXPORT_ONNX, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "onnx: the column \""));
        assert_int_equal(export_check(&job, EXPORT_SAVEDMODEL, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "savedmodel: the column \""));
        assert_int_equal(export_check(&job, EXPORT_KERAS, &e), ERR_OK);
        assert_int_equal(export_check(&job, EXPORT_SAFETENSORS, &e), ERR_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        parse(csv_job, fits[i]);
        for (int f = 0; f < EXPORT_FORMATS; f++)
            assert_int_equal(export_check(&job, (enum export_format)f, &e), ERR_OK);
    }
}

static void a_file_of_protobuf_has_at_most_2_gib(void **state)
{
    (void)state;
    parse("%s", large_job);
    assert_int_equal(export_check(&job, EXPORT_ONNX, &e), ERR_INPUT);
    assert_non_null(
        strstr(e.text, "onnx: with the rows of layer embedding the file would have 2441 MiB"));
    assert_int_equal(export_check(&job, EXPORT_KERAS, &e), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_that_goes_in_must_not_have_the_name_of_the_output),
        cmocka_unit_test(a_file_of_protobuf_has_at_most_2_gib),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
