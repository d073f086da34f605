/* Job files with layers over images against Keras 3.15 (jax, float32), with the same weights and
 * inputs: the loss of two examples, and of each tensor's gradient its sum with cos(1.1 i) as
 * weights. Made by
 *
 *     wave = lambda n, a, b: np.sin(a * np.arange(n) + b).astype(np.float32)
 *     x = wave(elements, 0.7, 0.1); variable k of model.trainable_variables = 0.5 * wave(elements,
 *     0.9, k); loss = -sum of log_softmax(model(x))[[0, 1], [0, 2]]
 *     dot = (gradient.ravel() * np.cos(1.1 * np.arange(elements))).sum()
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "job/job.h"
#include "common/base/mem.h"
#include "model/model.h"

enum { TENSORS_MAX = 6, ROWS = 2 };

struct known {
    const char *shape, *layers;
    double loss;
    struct {
        const char *name;
        double dot;
    } gradient[TENSORS_MAX];
};

static const struct known KNOWN[] = {
    {"[7, 6, 2]",
     "[conv2d: {filters: 16, kernel_size: [3, 2], padding: same, activation: relu}, max_pooling2d, "
     "conv2d: {filters: 16, kernel_size: 2, activation: relu}, flatten, dense: 3]",
     1.960845708847046,
     {{"conv2d/kernel", 4.161794041837055},
      {"conv2d/bias", 0.3762183357514035},
      {"conv2d_1/kernel", 0.22090203056201307},
      {"conv2d_1/bias", 0.20445905681852117},
      {"dense/kernel", -0.3117189056440315},
      {"dense/bias", -0.09330056499379095}}},
    {"[9, 8, 3]",
     "[conv2d: {filters: 5, kernel_size: 3, strides: [2, 1], padding: same, activation: tanh}, "
     "average_pooling2d: {pool_size: 3, strides: 2, padding: same}, "
     "conv2d: {filters: 4, kernel_size: 2, dilation_rate: [1, 2], padding: same, use_bias: false}, "
     "global_average_pooling2d, dense: 3]",
     2.108576536178589,
     {{"conv2d/kernel", -0.2319197311583445},
      {"conv2d/bias", -0.028388732864628903},
      {"conv2d_1/kernel", 0.00329841114967723},
      {"dense/kernel", 0.06734107624879876},
      {"dense/bias", 0.06138506940781979}}},
    {"[8, 48]",
     "[reshape: [8, 8, 6], conv2d: {filters: 7, kernel_size: [2, 3], strides: 2}, "
     "max_pooling2d: {pool_size: 2, strides: 1, padding: same}, "
     "global_max_pooling2d: {keepdims: true}, flatten, dense: 3]",
     2.176326036453247,
     {{"conv2d/kernel", -0.07608522481438429},
      {"conv2d/bias", 0.008945941481815586},
      {"dense/kernel", 0.10392935567876191},
      {"dense/bias", 0.45062982888921566}}},
};

static void wave(float *out, uint64_t n, double a, double b, double size)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)size * (float)sin(a * (double)i + b);
}

static struct model *model_of(const struct known *k)
{
    char text[1024];
    struct errmsg e = {""};
    struct job job;
    struct model *m = NULL;
    (void)snprintf(text, sizeof text,
                   "model: {input: {shape: %s}, layers: %s,\n"
                   "  loss: {sparse_categorical_crossentropy: {from_logits: true}}}\n"
                   "data: {format: synthetic}\noptimizer: sgd\n",
                   k->shape, k->layers);
    if (job_parse(&job, text, strlen(text), "j.yaml", "/", NULL, 0, &e) || model_new(&m, &job, &e))
        fail_msg("%s", e.text);
    job_close(&job);
    return m;
}

static void assert_near(const char *what, double is, double should)
{
    if (!(fabs(is - should) < 2e-5 * (1 + fabs(should))))
        fail_msg("%s: %.9g, Keras has %.9g", what, is, should);
}

static void assert_gradients(const struct known *k, const struct layout *l, const float *dw)
{
    for (uint32_t i = 0; i < l->tensors; i++) {
        double dot = 0;
        for (uint64_t j = 0; j < l->tensor[i].elems; j++)
            dot += (double)dw[l->tensor[i].offset_elems + j] * cos(1.1 * (double)j);
        assert_string_equal(l->tensor[i].name, k->gradient[i].name);
        assert_near(l->tensor[i].name, dot, k->gradient[i].dot);
    }
    assert_true(l->tensors == TENSORS_MAX || !k->gradient[l->tensors].name);
}

static void losses_and_gradients_are_those_of_keras(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        struct errmsg e = {""};
        struct model *m = model_of(&KNOWN[i]);
        struct model_run *run;
        assert_int_equal(model_run_new(&run, m, ROWS, &e), ERR_OK);
        const struct layout *l = model_layout(m);
        float *w = mem_floats(l->elems), *dw = mem_floats(l->elems),
              *x = mem_floats((size_t)ROWS * model_features(m));
        wave(x, (uint64_t)ROWS * model_features(m), 0.7, 0.1, 1);
        for (uint32_t t = 0; t < l->tensors; t++)
            wave(w + l->tensor[t].offset_elems, l->tensor[t].elems, 0.9, t, 0.5);
        struct sums sums = {0};
        model_train(run, w, &(struct leaf){.n = ROWS, .x = x, .y = (const float[]){0, 2}}, 0, dw,
                    &sums, NULL, NULL);
        assert_near("loss", sums.loss, KNOWN[i].loss);
        assert_gradients(&KNOWN[i], l, dw);
        mem_free(w);
        mem_free(dw);
        mem_free(x);
        model_run_free(run);
        model_free(m);
    }
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_and_gradients_are_those_of_keras),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
