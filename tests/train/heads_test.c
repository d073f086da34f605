/* A model of two heads: metrics, scores and predictions are each head's own. Their gradients are in gradient_test. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "model/metric.h"
#include "model/model.h"
#include "tests/lib/models.h"
#include "tests/lib/trial.h"

enum { ROWS = 7, CLASSES = 3 };

static void two_heads(struct job *j)
{
    models_start(j, 4, 0, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, false);
    models_dense(j, 5, ACT_TANH);
    models_dense(j, CLASSES, ACT_SOFTMAX);
    models_head_reads(j, 1, (const uint32_t[]){2});
    models_dense(j, 1, ACT_SIGMOID);
    models_read(j, 1, 0);
    models_head(j, LOSS_BINARY_CROSSENTROPY)->masked = true;
    models_metric(j, METRIC_ACCURACY);
    models_metric(j, METRIC_LOGLOSS);
    models_metric(j, METRIC_AUC);
    j->model.metric[1].head = j->model.metric[2].head = 1;
}

static struct leaf examples_of(const struct trial *t)
{
    return (struct leaf){.n = ROWS, .x = t->x, .y = t->y, .present = t->present};
}

static double share_of_largest(const float *z, const float *y)
{
    double right = 0;
    for (uint32_t i = 0; i < ROWS; i++, z += CLASSES) {
        uint32_t best = 0;
        for (uint32_t c = 1; c < CLASSES; c++)
            best = z[c] > z[best] ? c : best;
        right += best == (uint32_t)y[2 * i];
    }
    return right / ROWS;
}

static void metrics_of_a_masked_head_are_means_over_the_labels_that_are_there(void **state)
{
    (void)state;
    struct trial t;
    struct sums sums = {0};
    trial_init(&t, two_heads, ROWS, 1);
    const struct leaf of = examples_of(&t);
    model_eval(t.run, t.w, &of, &sums);
    const float *z = model_run_outputs(t.run, 1);
    double loss = 0, there = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        if (t.present[2 * i + 1]) {
            loss += log1p(exp(t.y[2 * i + 1] > 0.5f ? -(double)z[i] : (double)z[i]));
            there++;
        }
    assert_true(there > 1 && there < ROWS);
    assert_int_equal(metric_sums(&t.job),
                     4); /* one for each metric, and the masked head's labels */
    assert_true(metric_value(&t.job, 0, sums.metric, ROWS) ==
                share_of_largest(model_run_outputs(t.run, 0), t.y));
    assert_true(fabs(metric_value(&t.job, 1, sums.metric, ROWS) - loss / there) < 1e-6);
    assert_true(isnan(metric_value(&t.job, 2, sums.metric, ROWS)));
    trial_close(&t);
}

static void scores_of_a_masked_head_are_those_of_the_labels_that_are_there(void **state)
{
    (void)state;
    struct trial t;
    struct sums sums = {0};
    struct scored scored[ROWS];
    trial_init(&t, two_heads, ROWS, 1);
    const struct leaf of = examples_of(&t);
    model_eval(t.run, t.w, &of, &sums);
    uint32_t n = metric_scores(t.run, 1, 0, &of, scored), at = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        if (t.present[2 * i + 1]) {
            assert_true(scored[at].score == model_run_outputs(t.run, 1)[i]);
            assert_true(scored[at].weight == 1.0f);
            assert_true(scored[at++].positive == (t.y[2 * i + 1] == 1.0f));
        }
    assert_int_equal(at, n);
    assert_true(metric_is_needed(&t.job, 1, METRIC_SCORES) &&
                !metric_is_needed(&t.job, 0, METRIC_SCORES));
    trial_close(&t);
}

static void predictions_are_head_after_head(void **state)
{
    (void)state;
    struct trial t;
    struct packed *packed;
    struct sums sums = {0};
    struct errmsg e;
    float out[ROWS * (CLASSES + 1)];
    trial_init(&t, two_heads, ROWS, 1);
    assert_int_equal(model_outputs(t.m), CLASSES + 1);
    assert_int_equal(packed_new(&packed, t.m, t.w, &e), ERR_OK);
    const struct leaf of = examples_of(&t);
    assert_int_equal(model_predict(t.run, packed, &of, out, &e), ERR_OK);
    model_eval(t.run, t.w, &of, &sums);
    for (uint32_t i = 0; i < ROWS; i++) {
        double z = (double)model_run_outputs(t.run, 1)[i], all = 0;
        for (uint32_t c = 0; c < CLASSES; c++)
            all += (double)out[i * CLASSES + c];
        assert_true(fabs(all - 1) < 1e-6);
        assert_true(fabs((double)out[ROWS * CLASSES + i] - 1 / (1 + exp(-z))) < 1e-6);
    }
    packed_free(packed);
    trial_close(&t);
}

static void heads_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct job job;
    two_heads(&job);
    job.model.head[0].labels = 2;
    trial_assert_refused(&job, "dense_1 gives 3 outputs for 2 labels", "sparse_categorical");
    two_heads(&job);
    models_head(&job, LOSS_MEAN_SQUARED_ERROR);
    models_head_reads(&job, 1, (const uint32_t[]){0});
    trial_assert_refused(&job, "model.loss: head 2", "no layer to read");
    two_heads(&job);
    job.model.metrics = METRICS_MAX;
    for (uint32_t i = 0; i < METRICS_MAX; i++) {
        job.model.metric[i] = job_metric_of(METRIC_PRECISION);
        job.model.metric[i].head = 1;
    }
    models_head(&job, LOSS_BINARY_CROSSENTROPY)->masked = true;
    trial_assert_refused(&job, "model.metrics: 18 sums are too many for 3 heads", "use fewer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_of_a_masked_head_are_means_over_the_labels_that_are_there),
        cmocka_unit_test(scores_of_a_masked_head_are_those_of_the_labels_that_are_there),
        cmocka_unit_test(predictions_are_head_after_head),
        cmocka_unit_test(heads_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
