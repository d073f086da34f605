/* A pass of a trained model: in parts, and compared with an evaluation. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "tests/lib/models.h"
#include "tests/lib/trial.h"
#include "model/model.h"

enum { ROWS = LEAF_ROWS, WIDE_IN = 600, OUTPUTS = 5 };

static void dense_layers(struct job *j)
{
    models_start(j, WIDE_IN, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_dense(j, 37, ACT_RELU);
    models_dense(j, 33, ACT_TANH);
    j->model.layer[1].use_bias = false;
    models_dense(j, OUTPUTS, ACT_LINEAR);
}

static void embedding_and_bag(struct job *j)
{
    models_start(j, 3, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    (void)models_lookup(j, LAYER_EMBEDDING, models_table(j, 2, 0), 2);
    models_dense(j, 7, ACT_RELU);
    models_read(j, 1, 0);
    models_dense(j, OUTPUTS, ACT_LINEAR);
}

static void bags(struct job *j)
{
    models_start(j, 3, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_lookup(j, LAYER_EMBEDDING_BAG, models_table(j, 4, 0), 3)->embedding_bag.mode = BAG_MEAN;
    models_dense(j, OUTPUTS, ACT_LINEAR);
}

static void convolution(struct job *j)
{
    models_start(j, 12, 12, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true);
    models_reshape(j, 12, 12, 1);
    (void)models_conv2d(j, 16, 3, 3, ACT_RELU);
    (void)models_pooling(j, LAYER_MAX_POOLING2D, 2, 2);
    models_flatten(j);
    models_dense(j, OUTPUTS, ACT_LINEAR);
}

static void (*const MODELS[])(struct job *) = {dense_layers, embedding_and_bag, bags, convolution};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static void predict(struct trial *t, uint32_t rows_max, float *out)
{
    struct model_run *run;
    struct packed *packed;
    struct errmsg e;
    const struct leaf of = {.n = ROWS,
                            .x = t->x,
                            .keys = model_layout(t->m)->rows ? &t->leaf.keys : NULL,
                            .rows = &t->leaf.rows};
    assert_int_equal(model_run_new(&run, t->m, rows_max, &e), ERR_OK);
    assert_int_equal(packed_new(&packed, t->m, t->w, &e), ERR_OK);
    assert_int_equal(model_predict(run, packed, &of, out, &e), ERR_OK);
    packed_free(packed);
    model_run_free(run);
}

static void parts_of_the_rows_have_the_bits_of_all_rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct trial t;
        float all[ROWS * OUTPUTS], parts[ROWS * OUTPUTS];
        trial_init(&t, MODELS[i], ROWS, 3);
        predict(&t, ROWS, all);
        for (uint32_t rows_max = 1; rows_max < ROWS; rows_max++) {
            predict(&t, rows_max, parts);
            assert_memory_equal(parts, all, sizeof all);
        }
        trial_close(&t);
    }
}

static void scores_are_the_outputs_of_an_evaluation(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        struct trial t;
        float out[ROWS * OUTPUTS];
        struct sums sums = {0};
        trial_init(&t, MODELS[i], ROWS, 3);
        predict(&t, ROWS, out);
        model_eval(t.run, t.w,
                   &(struct leaf){.n = ROWS,
                                  .x = t.x,
                                  .y = t.y,
                                  .keys = model_layout(t.m)->rows ? &t.leaf.keys : NULL,
                                  .rows = &t.leaf.rows},
                   &sums);
        const float *z = model_run_outputs(t.run, 0);
        for (int k = 0; k < ROWS * OUTPUTS; k++)
            if (!(fabsf(z[k] - out[k]) < 4e-6f * fmaxf(1, fabsf(z[k]))))
                fail_msg("model %d: score %d is %.9g, not %.9g", i, k, (double)out[k],
                         (double)z[k]);
        trial_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_the_rows_have_the_bits_of_all_rows),
        cmocka_unit_test(scores_are_the_outputs_of_an_evaluation),
    };
    openblas_set_num_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
