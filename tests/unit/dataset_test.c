#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "tests/lib/idx_files.h"
#include "data/dataset.h"
#include "tests/lib/gathered.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE };

static struct job synthetic_job(uint32_t train_rows, uint32_t eval_rows)
{
    struct job job = idx_job(SIDE, SIDE, NULL);
    job.data.format = DATA_SYNTHETIC;
    job.data.synthetic_train_rows = train_rows;
    job.data.synthetic_eval_rows = eval_rows;
    return job;
}

static struct dataset must_load(const struct job *job, int eval)
{
    struct dataset d;
    struct errmsg e = {""};
    if (dataset_load(&d, job, eval, 10, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return d;
}

static void synthetic_row_depends_on_its_number_alone(void **state)
{
    (void)state;
    struct job few = synthetic_job(50, 1), many = synthetic_job(200, 1);
    few.training.seed = 7;
    struct dataset a = must_load(&few, 0), b = must_load(&many, 0);
    assert_int_equal(a.rows, 50);
    assert_int_equal(b.rows, 200);
    assert_memory_equal(a.x, b.x, 50 * PIXELS);
    assert_memory_equal(a.labels, b.labels, 50);
    dataset_close(&a);
    dataset_close(&b);
}

static void synthetic_parts_share_no_row(void **state)
{
    (void)state;
    struct job job = synthetic_job(300, 300);
    struct dataset train = must_load(&job, 0), eval = must_load(&job, 1);
    for (uint64_t i = 0; i < train.rows; i++)
        for (uint64_t k = 0; k < eval.rows; k++)
            assert_memory_not_equal(train.x + i * PIXELS, eval.x + k * PIXELS, PIXELS);
    dataset_close(&train);
    dataset_close(&eval);
}

static void synthetic_digits_come_equally_often(void **state)
{
    (void)state;
    struct job job = synthetic_job(10000, 1);
    struct dataset d = must_load(&job, 0);
    unsigned count[10] = {0};
    assert_int_equal((int)d.seen.max, 9);
    for (uint64_t i = 0; i < d.rows; i++)
        count[d.labels[i]]++;
    for (int digit = 0; digit < 10; digit++)
        assert_in_range(count[digit], 880, 1120); /* four standard deviations */
    dataset_close(&d);
}

/* The bytes of the first 1000 rows, drawn once on x86-64 by gcc -O3: the same on any machine. */
static void synthetic_digits_are_the_same_bytes_everywhere(void **state)
{
    (void)state;
    struct job job = synthetic_job(1000, 1);
    struct dataset d = must_load(&job, 0);
    char text[2 * sizeof d.contents.fingerprint + 1];
    for (size_t i = 0; i < sizeof d.contents.fingerprint; i++)
        snprintf(text + 2 * i, 3, "%02x", d.contents.fingerprint[i]);
    assert_string_equal(text, "7cc6bec9435b75bf5707f2efdc9f7ce1b80399e3229a7a23abb5e147cd9997b5");
    dataset_close(&d);
}

static void dataset_refuses_a_shape_that_is_not_the_models_and_names_both(void **state)
{
    (void)state;
    struct job job = synthetic_job(10, 10);
    struct dataset d;
    struct errmsg e;
    job.model.shape[1] = 32;
    assert_int_equal(dataset_load(&d, &job, 1, 10, &e), ERR_INPUT);
    assert_string_equal(e.text, "data.eval: data.format: synthetic has rows of shape [28, 28], "
                                "model.input.shape is [28, 32]");
    job.model.rank = 1;
    job.model.shape[0] = PIXELS;
    assert_int_equal(dataset_load(&d, &job, 1, 10, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "[28, 28], model.input.shape is [784]"));
}

static void dataset_rows_may_have_a_channel_of_one_in_the_model(void **state)
{
    (void)state;
    struct job job = synthetic_job(10, 10);
    struct dataset d;
    struct errmsg e;
    job.model.rank = 3;
    job.model.shape[2] = 1;
    assert_int_equal(dataset_load(&d, &job, 1, 10, &e), ERR_OK);
    assert_int_equal(d.features, PIXELS);
    dataset_close(&d);
    job.model.shape[2] = 2;
    assert_int_equal(dataset_load(&d, &job, 1, 10, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "[28, 28], model.input.shape is [28, 28, 2]"));
}

static void dataset_refuses_synthetic_digits_for_fewer_classes(void **state)
{
    (void)state;
    struct job job = synthetic_job(10, 10);
    struct dataset d;
    struct errmsg e;
    assert_int_equal(dataset_load(&d, &job, 0, 9, &e), ERR_INPUT);
    assert_string_equal(e.text, "data.train: synthetic digits have 10 classes, the model has 9");
}

static void dataset_says_which_key_names_no_file(void **state)
{
    (void)state;
    struct job job = idx_job(SIDE, SIDE, NULL);
    struct dataset d;
    struct errmsg e;
    assert_int_equal(dataset_load(&d, &job, 1, 10, &e), ERR_INPUT);
    assert_string_equal(e.text, "data.eval: no file is named");
}

static void dataset_without_classes_takes_labels_as_values(void **state)
{
    (void)state;
    static const uint32_t image_dims[] = {2, 1, 2}, label_dims[] = {2};
    struct idx_files files;
    struct bytes images = idx_bytes(3, image_dims, 0, 1, 256);
    struct bytes labels = idx_bytes(1, label_dims, 255, 0, 256);
    char pattern[600];
    idx_files_init(&files);
    idx_files_write(&files, "a", images);
    idx_files_write(&files, "b", labels);
    snprintf(pattern, sizeof pattern, "%s", idx_files_path(&files, "*"));
    struct job job = idx_job(1, 2, pattern);
    struct dataset d;
    struct errmsg e;
    assert_int_equal(dataset_load(&d, &job, 0, 0, &e), ERR_OK);
    assert_int_equal((int)d.seen.max, 255);
    dataset_close(&d);
    idx_files_close(&files);
    bytes_free(&images);
    bytes_free(&labels);
}

static void dataset_gather_scales_the_rows_named(void **state)
{
    (void)state;
    struct job job = synthetic_job(20, 1);
    struct dataset d = must_load(&job, 0);
    static const uint64_t rows[] = {19, 0, 7, 7};
    float *x = mem_floats(4 * PIXELS), y[4];
    assert_non_null(x);
    uint32_t there;
    assert_int_equal(gathered_rows(&d, rows, 4, x, y, &there, NULL), ERR_OK);
    assert_int_equal(there, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(y[i] == (float)d.labels[rows[i]]);
        for (size_t k = 0; k < PIXELS; k++) {
            float wanted = (float)d.x[rows[i] * PIXELS + k] * (1.0F / 255.0F);
            assert_true(x[i * PIXELS + k] == wanted);
        }
    }
    mem_free(x);
    dataset_close(&d);
}

/* ---- the real files, if they are available ---- */
static void mnist_loads_whole(void **state)
{
    (void)state;
    const char *data = getenv("GRADWIRE_DATA");
    if (!data) {
        print_message("GRADWIRE_DATA is not set: MNIST is not read\n");
        skip();
    }
    char train[1024], eval[1024];
    snprintf(train, sizeof train, "%s/mnist/train-*.gz", data);
    snprintf(eval, sizeof eval, "%s/mnist/t10k-*.gz", data);
    struct job job = idx_job(SIDE, SIDE, train);
    job.data.eval = eval;
    struct dataset t = must_load(&job, 0), v = must_load(&job, 1);
    assert_int_equal(t.rows, 60000);
    assert_int_equal(v.rows, 10000);
    static const uint8_t first[] = {5, 0, 4, 1, 9}, first_eval[] = {7, 2, 1, 0, 4};
    assert_memory_equal(t.labels, first, sizeof first); /* the sets' well-known first digits */
    assert_memory_equal(v.labels, first_eval, sizeof first_eval);
    uint64_t sum = 0;
    for (size_t i = 0; i < 60000 * (size_t)PIXELS; i++)
        sum += t.x[i];
    assert_in_range(sum * 10000 / (255 * 60000 * (uint64_t)PIXELS), 1306, 1307); /* mean 0.1307 */
    dataset_close(&t);
    dataset_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synthetic_row_depends_on_its_number_alone),
        cmocka_unit_test(synthetic_parts_share_no_row),
        cmocka_unit_test(synthetic_digits_come_equally_often),
        cmocka_unit_test(synthetic_digits_are_the_same_bytes_everywhere),
        cmocka_unit_test(dataset_rows_may_have_a_channel_of_one_in_the_model),
        cmocka_unit_test(dataset_refuses_a_shape_that_is_not_the_models_and_names_both),
        cmocka_unit_test(dataset_refuses_synthetic_digits_for_fewer_classes),
        cmocka_unit_test(dataset_says_which_key_names_no_file),
        cmocka_unit_test(dataset_without_classes_takes_labels_as_values),
        cmocka_unit_test(dataset_gather_scales_the_rows_named),
        cmocka_unit_test(mnist_loads_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
