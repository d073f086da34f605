/* One worker with one microbatch against a training loop in one process, written for this test alone: the same bits.
 * starts programs */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cblas.h>
#include <string.h>

#include "job/job.h"
#include "common/math/kernels.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "common/base/rng.h"
#include "data/dataset.h"
#include "export/export.h"
#include "model/model.h"
#include "tests/lib/gathered.h"
#include "tests/lib/learned.h"

/* The last batch of the epoch is short. */
#define COMMON                                                                                     \
    "data.synthetic_train_rows=1000", "data.synthetic_eval_rows=50", "training.epochs=3",          \
        "training.microbatches=1"

static void ignore_ready(void *ctx, uint64_t first, uint64_t n)
{
    (void)ctx, (void)first, (void)n;
}

static float *zeros(uint64_t n)
{
    float *block = mem_floats(n);
    assert_non_null(block);
    memset(block, 0, n * sizeof *block);
    return block;
}

/* lamb's ratio of a tensor, in the plainest way. */
static float trust_ratio(const struct optimizer *o, uint64_t t, const float *w,
                         float *const slot[OPTIMIZER_SLOTS_MAX], const float *dw, float inv_n,
                         size_t n)
{
    float *u = zeros(n), *decayed = zeros(n);
    long double squares[2] = {0};
    optimizer_direction(o, t, u, decayed, w, slot, dw, inv_n, n);
    for (size_t i = 0; i < n; i++) {
        squares[0] += (long double)decayed[i] * (long double)decayed[i];
        squares[1] += (long double)u[i] * (long double)u[i];
    }
    mem_free(u);
    mem_free(decayed);
    return optimizer_ratio((double)squares[0], (double)squares[1]);
}

static void apply(const struct optimizer *o, const struct layout *l, uint64_t t, float *w,
                  float *const slot[OPTIMIZER_SLOTS_MAX], const float *dw, float inv_n)
{
    for (uint32_t i = 0; i < l->tensors; i++) {
        uint64_t at = l->tensor[i].offset_elems;
        size_t n = (size_t)l->tensor[i].elems;
        float *part[OPTIMIZER_SLOTS_MAX], ratio = 1.0f;
        for (uint32_t j = 0; j < OPTIMIZER_SLOTS_MAX; j++)
            part[j] = slot[j] + at;
        if (o->kind == OPT_LAMB)
            ratio = trust_ratio(o, t, w + at, part, dw + at, inv_n, n);
        optimizer_apply(o, t, (struct optimizer_factors){inv_n, 1, ratio}, w + at, w + at, part,
                        dw + at, n);
    }
}

static void learn_in_one_process(const struct job *job, char digest[LEARNED_DIGEST_BYTES])
{
    struct errmsg e = {""};
    struct model *model;
    struct model_run *run;
    struct dataset data;
    assert_int_equal(model_new(&model, job, &e), ERR_OK);
    assert_int_equal(dataset_load(&data, job, 0, model_classes(model), &e), ERR_OK);
    assert_int_equal(model_run_new(&run, model, job->training.batch_size, &e), ERR_OK);
    const struct layout *layout = model_layout(model);
    const struct order order = {data.rows, job->training.batch_size, job->training.seed, 1, 0};
    float *w = zeros(layout->elems), *dw = zeros(layout->elems);
    float *slot[OPTIMIZER_SLOTS_MAX];
    for (uint32_t j = 0; j < OPTIMIZER_SLOTS_MAX; j++) {
        slot[j] = zeros(layout->elems);
        for (uint64_t i = 0; j < optimizer_slots(&job->optimizer) && i < layout->elems; i++)
            slot[j][i] = optimizer_slot_initial(&job->optimizer, j);
    }
    float *x = zeros((uint64_t)job->training.batch_size * data.features),
          *y = zeros(job->training.batch_size);
    uint64_t *rows = mem_zalloc(job->training.batch_size + 1, sizeof *rows);
    layout_init_values(layout, job->training.seed, 0, layout->elems, w);

    const uint64_t batches = order_batches(&order);
    for (uint64_t id = 0; id < job->training.epochs * batches; id++) {
        struct sums sums = {0};
        uint32_t n = order_leaf(&order, id, 0, rows);
        assert_int_equal(gathered_rows(&data, rows, n, x, y, &n, &e), ERR_OK);
        model_train(run, w, &(struct leaf){.n = n, .x = x, .y = y},
                    rng_key(job->training.seed, RNG_DROPOUT, id, 0), dw, &sums, ignore_ready, NULL);
        apply(&job->optimizer, layout, id + 1, w, slot, dw, 1.0f / (float)n);
    }
    export_digest(layout, w, NULL, digest);

    mem_free(w);
    mem_free(dw);
    for (uint32_t j = 0; j < OPTIMIZER_SLOTS_MAX; j++)
        mem_free(slot[j]);
    mem_free(x);
    mem_free(y);
    mem_free(rows);
    dataset_close(&data);
    model_run_free(run);
    model_free(model);
}

static void assert_equal_learning(const char *const *sets, size_t n)
{
    const char *file = "examples/mnist/mlp.yaml";
    struct errmsg e = {""};
    struct job job = {0};
    char alone[LEARNED_DIGEST_BYTES], processes[LEARNED_DIGEST_BYTES];
    if (job_load(&job, file, sets, n, &e))
        fail_msg("%s", e.text);
    learn_in_one_process(&job, alone);
    job_close(&job);
    learned_by_processes(file, sets, n, processes);
    assert_string_equal(processes, alone);
}

static void one_worker_and_one_microbatch_equal_a_plain_loop_to_the_bit_with_adam(void **state)
{
    (void)state;
    const char *sets[] = {COMMON};
    assert_equal_learning(sets, sizeof sets / sizeof *sets);
}

static void one_worker_and_one_microbatch_equal_a_plain_loop_to_the_bit_with_momentum(void **state)
{
    (void)state;
    const char *sets[] = {COMMON, "optimizer={sgd: {momentum: 0.9, nesterov: true}}",
                          "training.learning_rate=0.05", "training.batch_size=48",
                          "training.seed=7"};
    assert_equal_learning(sets, sizeof sets / sizeof *sets);
}

static void one_worker_and_one_microbatch_equal_a_plain_loop_with_each_optimizer(void **state)
{
    static const char *const optimizers[] = {
        "optimizer={adam: {amsgrad: true}}",
        "optimizer={adamw: {weight_decay: 0.1}}",
        "optimizer={lamb: {weight_decay: 0.01}}",
        "optimizer=adagrad",
        "optimizer={rmsprop: {centered: true, momentum: 0.5, rho: 0.8}}",
        "optimizer={ftrl: {l1_regularization_strength: 1e-4, beta: 0.5}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        const char *sets[] = {COMMON, optimizers[i], "training.learning_rate=0.01"};
        assert_equal_learning(sets, sizeof sets / sizeof *sets);
    }
}

static void accumulated_gradients_equal_a_plain_loop_to_the_bit(void **state)
{
    static const char *const updates[] = {"training.update=sync", "training.update=async"};
    (void)state;
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        const char *sets[] = {COMMON, updates[i], "training.gradient_accumulation_steps=3"};
        assert_equal_learning(sets, sizeof sets / sizeof *sets);
    }
}

static void one_worker_in_async_equals_a_plain_loop_to_the_bit(void **state)
{
    (void)state;
    const char *sets[] = {COMMON, "training.update=async", "model.layers[1].dense.units=200"};
    assert_equal_learning(sets, sizeof sets / sizeof *sets);
}

int main(void)
{
    openblas_set_num_threads(1);
    kernels_flush_denormals();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_and_one_microbatch_equal_a_plain_loop_to_the_bit_with_adam),
        cmocka_unit_test(one_worker_and_one_microbatch_equal_a_plain_loop_to_the_bit_with_momentum),
        cmocka_unit_test(one_worker_and_one_microbatch_equal_a_plain_loop_with_each_optimizer),
        cmocka_unit_test(accumulated_gradients_equal_a_plain_loop_to_the_bit),
        cmocka_unit_test(one_worker_in_async_equals_a_plain_loop_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
