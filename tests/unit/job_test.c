#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/texts.h"
#include "job/job.h"
#include "job/keys.h"
#include "job/tree.h"
#include "common/base/mem.h"
#include "common/base/words.h"

static const char mlp[] = "name: mnist-mlp\n"
                          "model:\n"
                          "  input: {shape: [28, 28]}\n"
                          "  layers:\n"
                          "    - flatten\n"
                          "    - dense: {units: 128, activation: relu}\n"
                          "    - dropout: {rate: 0.2}\n"
                          "    - dense: {units: 10}\n"
                          "  loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"
                          "  metrics: [accuracy]\n"
                          "data: {format: synthetic, scale: 255}\n"
                          "optimizer: adam\n"
                          "training: {epochs: 10, batch_size: 64, learning_rate: 0.002}\n";

static const char mlp_of_files[] =
    "model:\n"
    "  input: {shape: [28, 28]}\n"
    "  layers: [flatten, dense: 10]\n"
    "  loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"
    "  metrics: [accuracy]\n"
    "data: {format: idx, train: a, scale: 255}\n"
    "optimizer: adam\n"
    "training: {batch_size: 64}\n";

static const char least[] = "model:\n"
                            "  input: {shape: [4]}\n"
                            "  layers: [dense: 1]\n"
                            "  loss: mean_squared_error\n"
                            "data: {format: synthetic}\n"
                            "optimizer: sgd\n";

static const char csv[] = "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                          "optimizer: sgd\n"
                          "data:\n"
                          "  format: csv\n"
                          "  train: a.csv\n"
                          "  missing: ['', '?']\n"
                          "  columns:\n"
                          "    - number: {name: age, scale: standard, missing: {value: 3}}\n"
                          "    - category: {vocabulary: [a, 'b c']}\n"
                          "    - ignore\n"
                          "    - label: y\n";

static enum err parse(struct job *job, const char *text, const char *set, struct errmsg *e)
{
    return job_parse(job, text, strlen(text), "j.yaml", "/jobs", &set, set ? 1 : 0, e);
}

static struct job parsed(const char *text, const char *set)
{
    struct job job;
    struct errmsg e = {""};
    if (parse(&job, text, set, &e))
        fail_msg("%s", e.text);
    return job;
}

static void refused(const char *text, const char *set, const char *why)
{
    struct job job;
    struct errmsg e = {""};
    memset(&job, 0xa5, sizeof job);
    struct job before = job;
    assert_int_equal(parse(&job, text, set, &e), ERR_INPUT);
    assert_string_equal(e.text, why);
    assert_memory_equal(&job, &before, sizeof job); /* unchanged on error */
}

/* `least` with one more line, which is line 7. */
static void refused_line(const char *line, const char *why)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "%s%s\n", least, line);
    refused(text, NULL, why);
}

static void refused_set(const char *set, const char *why)
{
    refused(mlp, set, why);
}

static void a_job_file_is_read_as_it_says(void **state)
{
    (void)state;
    struct job job = parsed(mlp, NULL);
    assert_string_equal(job.name, "mnist-mlp");
    assert_int_equal(job.model.rank, 2);
    assert_int_equal(job.model.shape[1], 28);
    assert_int_equal(job.model.layers, 4);
    assert_int_equal(job.model.layer[0].kind, LAYER_FLATTEN);
    assert_int_equal(job.model.layer[1].dense.units, 128);
    assert_int_equal(job.model.layer[1].dense.activation, ACT_RELU);
    assert_int_equal(job.model.layer[2].kind, LAYER_DROPOUT);
    assert_true(job.model.layer[2].dropout.rate == 0.2f);
    assert_int_equal(job.model.head[0].loss, LOSS_SPARSE_CATEGORICAL_CROSSENTROPY);
    assert_true(job.model.head[0].from_logits);
    assert_int_equal(job.model.metrics, 1);
    assert_int_equal(job.data.format, DATA_SYNTHETIC);
    assert_true(job.data.scale == 255);
    assert_int_equal(job.optimizer.kind, OPT_ADAM);
    assert_true(job.optimizer.learning_rate == 0.002f);
    assert_int_equal(job.training.epochs, 10);
    assert_int_equal(job.training.batch_size, 64);
    job_close(&job);
}

static void keys_left_out_have_kerass_defaults(void **state)
{
    (void)state;
    struct job job = parsed(least, NULL);
    const struct job_layer *dense = &job.model.layer[0];
    assert_string_equal(job.name, "j");
    assert_int_equal(dense->dense.activation, ACT_LINEAR);
    assert_true(dense->use_bias);
    assert_int_equal(dense->kernel.initializer, INIT_GLOROT_UNIFORM);
    assert_int_equal(dense->bias.initializer, INIT_ZEROS);
    assert_false(job.model.head[0].from_logits);
    assert_int_equal(job.model.metrics, 0);
    assert_true(job.data.scale == 1);
    assert_null(job.data.train);
    assert_int_equal(job.data.synthetic_train_rows, 60000);
    assert_int_equal(job.data.synthetic_eval_rows, 10000);
    assert_true(job.optimizer.learning_rate == 0.01f);
    assert_true(job.optimizer.momentum == 0);
    assert_false(job.optimizer.nesterov);
    assert_int_equal(job.training.epochs, 1);
    assert_int_equal(job.training.batch_size, 32);
    assert_int_equal(job.training.update, UPDATE_SYNC);
    assert_int_equal(job.training.seed, 1);
    assert_int_equal(job.checkpoint.every_steps, CHECKPOINT_AUTO);
    assert_int_equal(job.checkpoint.every_seconds, CHECKPOINT_AUTO);
    assert_int_equal(job.checkpoint.keep, 3);
    assert_int_equal(job.timeouts.start_s, 300);
    assert_int_equal(job.timeouts.worker_rejoin_s, 30);
    assert_int_equal(job.timeouts.ps_rejoin_s, 600);
    assert_int_equal(job.timeouts.grace_s, 30);
    assert_int_equal(job.ps.threads, 0);
    job_close(&job);
    job = parsed(least, "optimizer=adam");
    assert_true(job.optimizer.learning_rate == 0.001f);
    assert_true(job.optimizer.beta_1 == 0.9f && job.optimizer.beta_2 == 0.999f);
    assert_true(job.optimizer.epsilon == 1e-7f);
    job_close(&job);
}

static void microbatches_default_to_a_power_of_two_of_the_batch(void **state)
{
    static const struct {
        const char *set;
        uint32_t microbatches;
    } cases[] = {
        {"training.batch_size=1", 1},    {"training.batch_size=32", 1},
        {"training.batch_size=64", 2},   {"training.batch_size=100", 2},
        {"training.batch_size=255", 4},  {"training.batch_size=256", 8},
        {"training.batch_size=4096", 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job job = parsed(least, cases[i].set);
        assert_int_equal(job.training.microbatches, cases[i].microbatches);
        job_close(&job);
    }
}

static void microbatches_are_a_power_of_two_within_the_batch(void **state)
{
    (void)state;
    refused_set("training.microbatches=3",
                "--set training.microbatches: 3 is not allowed; allowed: a power of two from 1 to "
                "64, like 2");
    refused_set("training.microbatches=128",
                "--set training.microbatches: 128 is not allowed; allowed: a power of two from 1 "
                "to 64, like 64");
    struct job job = parsed(mlp, "training.microbatches=64");
    assert_int_equal(job.training.microbatches, 64);
    job_close(&job);
}

static void the_bound_of_staleness_is_refused_where_nobody_heeds_it(void **state)
{
    (void)state;
    refused_set("training.staleness=8", "--set training.staleness: it is for training.update: ssp, "
                                        "and the job has sync; remove it");
    struct job job = parsed(mlp, "training.staleness=3");
    job_close(&job);
    job = parsed(mlp, "training.update=ssp");
    assert_int_equal(job.training.staleness, 3);
    assert_string_equal(job_update_word(job.training.update), "ssp");
    job_close(&job);
}

static void the_rounds_of_geo_are_refused_where_nobody_heeds_them(void **state)
{
    (void)state;
    refused_set("training.geo_every=4", "--set training.geo_every: it is for training.update: geo, "
                                        "and the job has sync; remove it");
    struct job job = parsed(mlp, "training.update=geo");
    assert_int_equal(job.training.geo_every, 8);
    job_close(&job);
}

static void the_interval_of_checkpoints_is_a_number_or_auto(void **state)
{
    (void)state;
    struct job job = parsed(mlp, "checkpoint={every_steps: auto, every_seconds: 7}");
    assert_int_equal(job.checkpoint.every_steps, CHECKPOINT_AUTO);
    assert_int_equal(job.checkpoint.every_seconds, 7);
    assert_non_null(strstr(job.canonical, "every_steps: auto"));
    assert_non_null(strstr(job.canonical, "every_seconds: 7"));
    job_close(&job);
}

/* The settled merge, in its word, of a job that resumes from a checkpoint with that identity text. */
static const char *merge_of(const char *set, const char *was)
{
    struct errmsg e;
    struct job unsettled = parsed(mlp, set), job = parsed(mlp, set);
    job.model.shape[0] +=
        1; /* the data may say what was auto, and the text has what the job says */
    assert_int_equal(job_settle_merge(&job, was, &e), ERR_OK);
    const char *was_shape = strstr(unsettled.identity_text, "model.input.shape = ");
    const char *shape = strstr(job.identity_text, "model.input.shape = ");
    assert_non_null(shape);
    assert_memory_equal(shape, was_shape, strcspn(was_shape, "\n") + 1);
    const char *word = job_geo_merge_word(job.training.geo_merge);
    char line[64];
    (void)snprintf(line, sizeof line, "training.geo_merge = %s\n", word);
    assert_non_null(strstr(job.identity_text, line));
    assert_memory_equal(job.identity, unsettled.identity, sizeof job.identity);
    job_close(&job);
    job_close(&unsettled);
    return word;
}

static void the_name_of_a_column_is_not_settled_as_the_merge(void **state)
{
    (void)state;
    static const char name[] = "data.columns[0].number.name = training.geo_merge = auto\n";
    struct errmsg e;
    struct job job = parsed(mlp, "training.update=geo");
    char text[128];
    (void)snprintf(text, sizeof text, "%straining.geo_merge = auto\nx = 1\n", name);
    mem_free(job.identity_text);
    job.identity_text = mem_strdup(text);
    assert_int_equal(job_settle_merge(&job, NULL, &e), ERR_OK);
    (void)snprintf(text, sizeof text, "%straining.geo_merge = average\nx = 1\n", name);
    assert_string_equal(job.identity_text, text);
    job_close(&job);
}

static void a_checkpoint_says_how_the_rounds_of_geo_merge(void **state)
{
    (void)state;
    static const char old[] = "training.update = geo\n", auto_[] = "training.geo_merge = auto\n",
                      paddle[] = "training.geo_merge = paddle\n",
                      average[] = "training.geo_merge = average\n";
    struct errmsg e;
    refused_set("training.geo_merge=paddle", "--set training.geo_merge: it is for training.update: "
                                             "geo, and the job has sync; remove it");
    assert_string_equal(merge_of("training.update=geo", NULL), "average");
    assert_string_equal(merge_of("training.update=geo", old), "paddle");
    assert_string_equal(merge_of("training.update=geo", paddle), "paddle");
    assert_string_equal(merge_of("training.update=geo", average), "average");
    assert_string_equal(merge_of("training={update: geo, geo_merge: paddle}", NULL), "paddle");
    assert_string_equal(merge_of(NULL, old), "auto"); /* in sync nobody merges */
    assert_int_equal(job_identity_compare(average, auto_, &e), ERR_OK);
    assert_int_equal(job_identity_compare(paddle, auto_, &e), ERR_OK);
    assert_int_equal(job_identity_compare("", auto_, &e), ERR_OK);
    assert_int_equal(job_identity_compare("", paddle, &e), ERR_OK);
    assert_int_equal(job_identity_compare("", average, &e), ERR_INPUT);
    assert_int_equal(job_identity_compare(paddle, average, &e), ERR_INPUT);
    assert_string_equal(e.text, "training.geo_merge was paddle, is average");
}

static void backup_workers_are_refused_where_nobody_waits(void **state)
{
    (void)state;
    struct job job;
    struct errmsg e;
    static const char *const async[] = {"training.update=async", "sync.replicas_to_aggregate=2"};
    assert_int_equal(job_parse(&job, least, strlen(least), "j.yaml", "/jobs", async, 2, &e),
                     ERR_INPUT);
    assert_string_equal(e.text, "--set sync.replicas_to_aggregate: it is for training.update: "
                                "sync, and the job has async; remove it");
    job = parsed(mlp, "sync.dropped=lost");
    assert_int_equal(job.sync.replicas_to_aggregate, 0);
    assert_int_equal(job_replicas(&job, 3), 0);
    assert_int_equal(job_check_workers(&job, 100, &e), ERR_OK);
    job_close(&job);
}

static void workers_refused(const struct job *job, uint32_t workers, const char *why)
{
    struct errmsg e = {""};
    assert_int_equal(job_check_workers(job, workers, &e), ERR_INPUT);
    assert_string_equal(e.text, why);
}

static void backup_workers_need_a_microbatch_for_each_worker(void **state)
{
    (void)state;
    struct errmsg e;
    struct job job = parsed(mlp, "sync.replicas_to_aggregate=2");
    assert_int_equal(job.training.microbatches, 2);
    workers_refused(&job, 1,
                    "--set sync.replicas_to_aggregate: 2, and there are 1 workers; allowed: up to "
                    "1, which means no backup workers");
    assert_int_equal(job_check_workers(&job, 2, &e), ERR_OK); /* all: not one is a backup */
    assert_int_equal(job_replicas(&job, 2), 0);
    workers_refused(&job, 5,
                    "--set sync.replicas_to_aggregate: each of the 5 workers needs a microbatch, "
                    "and training.microbatches is 2; 8 is enough");
    workers_refused(&job, 300,
                    "--set sync.replicas_to_aggregate: each worker needs a microbatch, and of 300 "
                    "workers only 256 can have one");
    job.training.microbatches = 8;
    assert_int_equal(job_check_workers(&job, 5, &e), ERR_OK);
    assert_int_equal(job_replicas(&job, 5), 2);
    job_close(&job);
}

/* The first key that makes the job inexact; "": none does. */
static const char *inexact_with(const char *text, const char *set, uint32_t workers)
{
    static char why[JOB_INEXACT_BYTES];
    struct job job = parsed(text, set);
    why[0] = '\0';
    bool exact = job_is_exact(&job, workers, why);
    assert_int_equal(exact, why[0] == '\0');
    job_close(&job);
    return why;
}

static void keys_that_make_a_job_inexact_are_named(void **state)
{
    (void)state;
    assert_string_equal(inexact_with(mlp, "compression.push=none", 2), "");
    assert_string_equal(inexact_with(mlp, "compression.push=zstd", 2), "");
    assert_string_equal(inexact_with(mlp, "compression.push=int8", 2), "compression.push: int8");
    assert_string_equal(inexact_with(mlp, "compression.reply=fp16", 2), "compression.reply: fp16");
    assert_string_equal(inexact_with(mlp, "compression.reply=auto", 2), "");
    assert_string_equal(inexact_with(mlp, "sync.replicas_to_aggregate=2", 2), "");
    assert_string_equal(inexact_with(mlp, "sync.replicas_to_aggregate=2", 3),
                        "sync.replicas_to_aggregate: 2");
    assert_string_equal(inexact_with(mlp, "training.update=geo", 2), "training.update: geo");
}

static void what_stale_gradients_want_is_refused_in_sync(void **state)
{
    (void)state;
    refused_set(
        "training.delay_compensation=0.04",
        "--set training.delay_compensation: with this training.update no gradient is stale; "
        "allowed: 0, or training.update: async or ssp");
    refused_set("training.staleness_rate=true",
                "--set training.staleness_rate: with this training.update no gradient is stale; "
                "allowed: false, or training.update: async or ssp");
}

static void layers_are_named_as_keras_names_them(void **state)
{
    (void)state;
    struct job job = parsed(least, "model.layers=[dense: 3, relu, dense: {units: 3, name: head}, "
                                   "relu, dense: 3, activation: tanh, tanh, softmax]");
    static const char *const names[] = {"dense",   "re_lu",      "head",         "re_lu_1",
                                        "dense_1", "activation", "activation_1", "softmax"};
    assert_int_equal(job.model.layers, 8);
    for (uint32_t i = 0; i < 8; i++)
        assert_string_equal(job.model.layer[i].name, names[i]);
    assert_int_equal(job.model.layer[1].kind, LAYER_ACTIVATION);
    assert_int_equal(job.model.layer[1].activation.activation, ACT_RELU);
    assert_int_equal(job.model.layer[5].activation.activation, ACT_TANH);
    assert_int_equal(job.model.layer[6].activation.activation, ACT_TANH);
    job_close(&job);
}

static void two_layers_of_one_name_are_refused(void **state)
{
    (void)state;
    refused_set("model.layers=[dense: {units: 3, name: dense_1}, dense: 3, dense: 3]",
                "--set model.layers: model.layers[2]: its name, dense_1, is also the name of "
                "model.layers[0]; give it another");
    refused_set("model.layers=[dense: {units: 3, name: a/b}]",
                "--set model.layers: model.layers[0].dense.name: 'a/b' is not allowed; allowed: "
                "name of 1 to 63 letters, digits, . _ or -");
}

static void layers_read_the_one_before_or_what_their_inputs_name(void **state)
{
    (void)state;
    struct job job = parsed(least, "model.layers=[dense: {units: 3, name: a}, relu, "
                                   "dense: {units: 3, inputs: a, name: b}, add: [re_lu, b, input], "
                                   "concatenate: {inputs: [add, a], name: c}]");
    const struct job_layer *layer = job.model.layer;
    assert_true(layer[0].inputs == 1 && layer[0].input[0] == 0);
    assert_true(layer[1].inputs == 1 && layer[1].input[0] == 1);
    assert_true(layer[2].inputs == 1 && layer[2].input[0] == 1);
    assert_true(layer[3].kind == LAYER_ADD && layer[3].inputs == 3 && layer[3].input[0] == 2 &&
                layer[3].input[1] == 3 && layer[3].input[2] == 0);
    assert_true(layer[4].inputs == 2 && layer[4].input[0] == 4 && layer[4].input[1] == 1);
    assert_non_null(strstr(job.identity_text, "model.layers[3].add.inputs = [re_lu, b, input]\n"));
    assert_null(strstr(job.identity_text, "re_lu.inputs"));
    job_close(&job);
}

static void inputs_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refused_set("model.layers=[dense: {units: 3, name: body}, dense: {units: 3, inputs: [bdy]}]",
                "--set model.layers: model.layers[1]: no layer is called bdy, did you mean body?; "
                "name a layer before this one, or input");
    refused_set(
        "model.layers=[dense: {units: 3, name: a, inputs: [b]}, dense: {units: 3, name: b}]",
        "--set model.layers: model.layers[0]: its input b is a later layer, model.layers[1]; a "
        "layer can only read earlier layers");
    refused_set("model.layers=[dense: {units: 3, name: a, inputs: [a]}]",
                "--set model.layers: model.layers[0]: a cannot be its own input");
    refused_set("model.layers=[dense: {units: 3, name: a}, dense: {units: 3, inputs: [input]}]",
                "--set model.layers: model.layers[0]: no layer reads a, and it is not the last; "
                "remove it, or name it in the inputs of another layer");
    refused_set("model.layers=[dense: 3, add]", "--set model.layers: model.layers[1]: add needs at "
                                                "least two layers; name them in its inputs");
    refused_set(
        "model.layers=[dense: 3, softmax: {inputs: [dense, input]}]",
        "--set model.layers: model.layers[1]: softmax can have one input, and its inputs name 2");
    refused_set("model.layers=[dense: {units: 3, name: input}]",
                "--set model.layers: model.layers[0]: its name, input, means the model's input; "
                "give it another");
    refused_set(
        "model.layers=[dense: {units: 3, inputs: {a: 1}}]",
        "--set model.layers: model.layers[0]: its inputs must be a list of names of layers");
}

static void regularizers_and_class_weights_are_read_as_keras_has_them(void **state)
{
    (void)state;
    struct job job = parsed(least, "model.layers=[dense: {units: 1, kernel_regularizer: l2, "
                                   "bias_regularizer: {l1_l2: {l1: 0.5}}}, "
                                   "dense: {units: 1, kernel_regularizer: {l1: 0.25}}]");
    const struct job_layer *layer = job.model.layer;
    assert_true(layer[0].kernel.l1 == 0 && layer[0].kernel.l2 == 0.01f);
    assert_true(layer[0].bias.l1 == 0.5f && layer[0].bias.l2 == 0);
    assert_true(layer[1].kernel.l1 == 0.25f && layer[1].kernel.l2 == 0 && layer[1].bias.l1 == 0);
    job_close(&job);
    job = parsed(least, "training.class_weight={0: 1, 7: 2.5}");
    assert_int_equal(job.model.head[0].class_weights, 2);
    assert_true(job.model.head[0].class_weight[1].label == 7 &&
                job.model.head[0].class_weight[1].weight == 2.5f);
    assert_non_null(strstr(job.identity_text, "training.class_weight = {0: 1, 7: 2.5}\n"));
    job_close(&job);
    static const char *const wrong[] = {
        "training.class_weight={0: -1}",    "training.class_weight={0: x}",
        "training.class_weight={0: \"1\"}", "training.class_weight=3",
        "training.class_weight={0: [1]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct errmsg e = {""};
        assert_int_equal(parse(&job, least, wrong[i], &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "allowed: map from up to 64 classes to numbers from 0"));
    }
    static const char *const no_class[] = {"cat", "-1", "4294967296"};
    for (size_t i = 0; i < sizeof no_class / sizeof *no_class; i++) {
        char set[64], said[64];
        struct errmsg e = {""};
        (void)snprintf(set, sizeof set, "training.class_weight={%s: 2}", no_class[i]);
        (void)snprintf(said, sizeof said, "%s is not a class; a class is an integer from 0",
                       no_class[i]);
        assert_int_equal(parse(&job, least, set, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, said));
    }
}

static void initializers_take_names_or_a_constant(void **state)
{
    (void)state;
    struct job job =
        parsed(least, "model.layers=[dense: {units: 1, "
                      "kernel_initializer: {constant: -0.5}, bias_initializer: ones}, "
                      "dense: {units: 1, kernel_initializer: {constant: {value: 2}}}]");
    const struct job_layer *layer = job.model.layer;
    assert_int_equal(layer[0].kernel.initializer, INIT_CONSTANT);
    assert_true(layer[0].kernel.init_value == -0.5f);
    assert_int_equal(layer[0].bias.initializer, INIT_ONES);
    assert_true(layer[1].kernel.init_value == 2);
    job_close(&job);
}

static void refused_part(const char *text, const char *set, const char *part)
{
    struct job job;
    struct errmsg e;
    assert_int_equal(parse(&job, text, set, &e), ERR_INPUT);
    if (!strstr(e.text, part))
        fail_msg("%s not in: %s", part, e.text);
}

static void a_text_that_yaml_takes_for_no_value_is_explained(void **state)
{
    (void)state;
    static const char *const nulls[] = {"data.missing=[NULL, NaN]", "data.missing=[\"?\", null]",
                                        "data.columns[1].category.vocabulary=[yes, no, null]"};
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
        refused_part(csv, nulls[i],
                     i ? "; for the text null write \"null\": without quotes YAML has no value"
                       : "; for the text NULL write \"NULL\": without quotes YAML has no value");
    refused_part("data:\n  comment: #\n", NULL,
                 "; write a # in quotes: without them it begins a comment");
}

static void keys_and_words_of_keras_are_explained(void **state)
{
    (void)state;
    refused_line("early_stopping: {mode: max}",
                 "j.yaml:7: early_stopping.mode: unknown key; remove it: whether less or more is "
                 "better follows from training.monitor");
    refused_line("early_stopping: {baseline: 0.5}",
                 "j.yaml:7: early_stopping.baseline: unknown key; remove it: a job has no such "
                 "threshold");
    refused_part(mlp, "training.monitor=val_loss", "'val_loss' is unknown, did you mean loss? ");
    refused_part(mlp, "training.monitor=val_accuracy",
                 "'val_accuracy' is unknown, did you mean accuracy? ");
    refused_part(mlp, "training.monitor=val_acc", "'val_acc' is unknown, did you mean accuracy? ");
    refused_set("mode=async", "--set mode: unknown key; did you mean training.update?");
}

static void an_unknown_key_names_line_and_nearest_key(void **state)
{
    (void)state;
    refused_line("trainig: {epochs: 3}", "j.yaml:7: trainig: unknown key; did you mean training?");
    refused_line("training: {epochs: 3,\n  bach_size: 3}",
                 "j.yaml:8: training.bach_size: unknown key; did you mean training.batch_size?");
    refused_line("batch_size: 3",
                 "j.yaml:7: batch_size: unknown key; did you mean training.batch_size?");
    refused_line("metrics: [auc]", "j.yaml:7: metrics: it must be a map of keys, like {key: "
                                   "value}; did you mean model.metrics?");
    refused_line("worker: {quux: 3}", "j.yaml:7: worker.quux: unknown key; allowed: threads");
    refused_line(
        "QUUX: 3",
        "j.yaml:7: QUUX: unknown key; allowed: name, model, tables, data, optimizer, "
        "training, early_stopping, evaluate, metrics, sync, compression, checkpoint, timeouts, "
        "export, logs, ps, worker");
    refused_set("optimiser=adam", "--set optimiser: unknown key; did you mean optimizer?");
    refused_set("model.layers.2.dropout.rat=3",
                "--set model.layers.2.dropout.rat: model.layers[2].dropout.rat: unknown key; did "
                "you mean model.layers[].dropout.rate?");
    refused_set("model.layers.0={flatten: {x: 1}}",
                "--set model.layers.0: model.layers[0].flatten.x: unknown key; allowed: name, "
                "inputs");
}

/* `wrong` under --set: the error has these words. */
static void answers(const char *wrong, const char *words)
{
    struct job job;
    struct errmsg e = {""};
    assert_int_equal(job_parse(&job, mlp, strlen(mlp), "j.yaml", "/", &wrong, 1, &e), ERR_INPUT);
    if (!strstr(e.text, words))
        fail_msg("%s: %s", wrong, e.text);
}

static void means(const char *wrong, const char *meant)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "did you mean %s?", meant);
    answers(wrong, wanted);
}

static void a_name_that_other_programs_use_gets_the_one_that_means_it_here(void **state)
{
    (void)state;
    means("model.loss=bce", "binary_crossentropy");
    means("model.loss=BCEWithLogitsLoss", "binary_crossentropy: {from_logits: true}");
    means("model.loss=CrossEntropyLoss", "sparse_categorical_crossentropy: {from_logits: true}");
    means("model.loss=cross_entropy", "sparse_categorical_crossentropy: {from_logits: true}");
    means("model.loss=categorical_crossentropy", "sparse_categorical_crossentropy");
    means("model.loss=log_loss", "binary_crossentropy");
    means("model.loss=MSELoss", "mean_squared_error");
    means("model.metrics=[acc]", "accuracy");
    means("model.metrics=[roc_auc]", "auc");
    means("model.metrics=[bce]", "logloss");
    means("model.layers.1={dense: {units: 3, activation: relu6}}", "relu");
    means("model.layers.1={dense: {units: 3, activation: swish}}", "silu");
    means("model.layers.1={dense: {units: 3, activation: identity}}", "linear");
    means("model.layers.1={Linear: 3}", "dense");
    means("model.layers.1={batchnorm: {}}", "batch_normalization");
    means("model.layers.1={dense: {neurons: 3}}", "model.layers[].dense.units");
    means("model.layers.1={dropout: {p: 0.5}}", "model.layers[].dropout.rate");
    means("optimizer=momentum", "sgd: {momentum: 0.9}");
    means("optimizer={adam: {lr: 0.1}}", "optimizer.adam.learning_rate");
    means("optimizer={adam: {betas: 0.1}}", "optimizer.adam.beta_1");
    means("optimizer={adam: {global_clipnorm: 1}}", "training.clip_norm");
    means("training.max_grad_norm=1", "training.clip_norm");
    /* These are something else than training.clip_norm. */
    answers(
        "optimizer={adam: {clipnorm: 1}}",
        "optimizer.adam.clipnorm: unknown key; Keras' clipnorm limits the norm of each tensor by "
        "itself, and a job has no such key; training.clip_norm limits the norm over all tensors "
        "(global_clipnorm in Keras)");
    answers(
        "optimizer={sgd: {clipvalue: 1}}",
        "optimizer.sgd.clipvalue: unknown key; it limits each number of the gradient by itself, "
        "and a job has no such key; training.clip_norm limits");
    answers("training.clip_grad_value=1", "it limits each number of the gradient by itself");
    means("lr=0.1", "training.learning_rate");
    means("training.lr=0.1", "training.learning_rate");
    means("training.batch=8", "training.batch_size");
    means("batchSize=8", "training.batch_size");
    means("epoch=8", "training.epochs");
    means("training.epoch=8", "training.epochs");
    means("model.loss_fn=mse", "model.loss");
    means("data.val=x", "data.eval");
    means("data.sep=;", "data.delimiter");
    means("data.format=svmlight", "libsvm");
    means("training.update=hogwild", "async");
    means("data.header=true", "skip");
    means("data.header=no", "none");
    means("training.nan_guard=true", "check");
    means("training.nan_guard=false", "off");
    means("data.columns=[numeric: age, label: y]", "number");
    means("data.columns=[categorical: town, label: y]", "category");
    means("data.columns=[number: age, target: y]", "label");
}

static void rows_are_held_out_in_one_way_and_of_the_identity(void **state)
{
    (void)state;
    struct job job = parsed(mlp, NULL);
    assert_null(strstr(job.identity_text, "validation"));
    assert_null(strstr(job.canonical, "validation"));
    job_close(&job);
    job = parsed(mlp, "data={format: npy, train: x, validation: {share: 0.1}}");
    assert_non_null(strstr(job.identity_text, "data.validation.share = 0.1\n"));
    job_close(&job);
    answers("data.validation.share=1", "data.validation.share: ");
    answers("data.validation.last=0", "data.validation.last: ");
    answers("data.validation.column=user", "it has no effect without data.validation.share");
    answers("data.validation={last: 0.1, share: 0.1}", "in one way");
    answers("data.validation=0.1", "it must be a map of keys");
}

static void a_stream_is_of_the_identity_and_says_what_it_takes(void **state)
{
    (void)state;
    static const char log[] =
        "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
        "data: {format: csv, train: x, columns: [label: y, number: n], order: stream}\n"
        "optimizer: sgd\n";
    struct job job = parsed(mlp, NULL);
    assert_null(strstr(job.identity_text, "\nmetrics.")); /* jobs of earlier releases keep theirs */
    assert_null(strstr(job.canonical, "progressive"));
    assert_null(strstr(job.identity_text, "data.order"));
    assert_null(strstr(job.canonical, "order"));
    assert_null(strstr(job.canonical, "mix"));
    job_close(&job);
    job = parsed(log, "data.mix=4");
    assert_non_null(strstr(job.identity_text, "data.order = stream\n"));
    assert_non_null(strstr(job.identity_text, "data.mix = 4\n"));
    assert_null(strstr(job.identity_text, "data.window"));
    assert_int_equal(job.data.window, 32768);
    job_close(&job);
    answers("data.order=stream",
            "stream reads data.format: csv and parquet alone; allowed for other formats");
    answers("data.window=100", "it has no effect without data.order: stream");
    const char *const wrong[][2] = {
        {"data.window=0", "data.window: "},
        {"training.update=geo", "geo: shuffled"},
        {"sync.dropped=redo", "only lost is allowed"},
        {"training.microbatches=64", "does not divide"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const sets[] = {wrong[i][0], "training.batch_size=100"};
        struct errmsg e;
        assert_int_equal(job_parse(&job, log, strlen(log), "j.yaml", "/", sets, 2, &e), ERR_INPUT);
        if (!strstr(e.text, wrong[i][1]))
            fail_msg("not %s: %s", wrong[i][1], e.text);
    }
    /* of itself it takes microbatches that divide the batch */
    job = parsed(log, "training.batch_size=300");
    assert_int_equal(job.training.microbatches, 4);
    job_close(&job);
    job = parsed(log, "training={batch_size: 300, update: async}"); /* there any will do */
    assert_int_equal(job.training.microbatches, 8);
    job_close(&job);
    job = parsed(mlp, "training.batch_size=300");
    assert_int_equal(job.training.microbatches, 8);
    job_close(&job);
}

static void an_unknown_word_names_the_nearest_and_the_allowed(void **state)
{
    (void)state;
    refused_line("training: {update: asinc}", "j.yaml:7: training.update: 'asinc' is unknown, did "
                                              "you mean async? allowed: sync, async, ssp, "
                                              "geo");
    char layers[384], why[512];
    job_words_list(job_key_find(JOB_LAYER_PREFIX)->words, true, layers, sizeof layers);
    (void)snprintf(why, sizeof why,
                   "--set model.layers: model.layers[0]: 'dens' is unknown, did you mean dense? "
                   "allowed: %s",
                   layers);
    refused_set("model.layers=[dens: 3]", why);
    refused_set("optimizer=x",
                "--set optimizer: 'x' is unknown; allowed: sgd, adam, adagrad, adamw, ftrl, "
                "rmsprop, lamb");
    refused_set("model.metrics=[acuracy]",
                "--set model.metrics: 'acuracy' is unknown, did you mean accuracy? allowed: "
                "accuracy, mean_absolute_error, mae, mean_squared_error, mse, auc, precision, "
                "recall, logloss, normalized_entropy, calibration");
}

static void a_number_that_float32_does_not_have_is_refused(void **state)
{
    (void)state;
    /* As 0 it would mean: no clipping. */
    refused_set("training.clip_norm=1e-46",
                "--set training.clip_norm: 1e-46 is too near 0 for float32, whose smallest number "
                "above 0 is 1.2e-38; it would be 0");
    refused_set("training.clip_norm=1e-400",
                "--set training.clip_norm: 1e-400 is too near 0 for float32, whose smallest number "
                "above 0 is 1.2e-38; it would be 0");
    refused_set("training.clip_norm=0.1e-37",
                "--set training.clip_norm: 0.1e-37 is too near 0 for float32, whose smallest "
                "number above 0 is 1.2e-38; it would be 0");
    refused_set(
        "training.class_weight={0: 1e-46}",
        "--set training.class_weight: 1e-46 is too near 0 for float32, whose smallest number "
        "above 0 is 1.2e-38; it would be 0");
    refused_set("training.class_weight={0: 1e39}",
                "--set training.class_weight: 1e39 is too large for float32, which ends at 3.4e38");
    refused_set("training.learning_rate=1e-60",
                "--set training.learning_rate: 1e-60 is too near 0 for float32, whose smallest "
                "number above 0 is 1.2e-38; it would be 0");
    refused_set("training.learning_rate=1e99",
                "--set training.learning_rate: 1e99 is too large for float32, which ends at "
                "3.4e38");
    refused_set("data.scale=1e-39", "--set data.scale: 1e-39 is too near 0 for float32, whose "
                                    "smallest number above 0 is 1.2e-38; it would be 0");
    refused_set("data.scale=3e39",
                "--set data.scale: 3e39 is too large for float32, which ends at 3.4e38");
    refused_set("optimizer.adam.beta_1=0.99999999",
                "--set optimizer.adam.beta_1: 0.99999999 is 1 in float32, and must be below 1; the "
                "number before it is 0.99999994");
    refused_set("optimizer.adam.beta_1=1", "--set optimizer.adam.beta_1: '1' is not allowed; "
                                           "allowed: number from 0 to below 1");
    /* All inputs would be 0. */
    refused_set("data.scale=3e38",
                "--set data.scale: '3e38' is not allowed; allowed: number above 0 and up to 8e+37");
    struct job job = parsed(mlp, "training.clip_norm=0e-46");
    assert_true(job.training.clip_norm == 0);
    job_close(&job);
    job = parsed(mlp, "training.clip_norm=1.2e-38");
    assert_true(job.training.clip_norm == 1.2e-38F);
    job_close(&job);
}

static void wrong_types_and_ranges_say_what_is_allowed(void **state)
{
    (void)state;
    refused_line("training: {batch_size: 6x4}", "j.yaml:7: training.batch_size: '6x4' is not "
                                                "allowed; allowed: integer from 1 to 1048576");
    refused_line("training: {batch_size: 0}", "j.yaml:7: training.batch_size: '0' is not allowed; "
                                              "allowed: integer from 1 to 1048576");
    refused_line("training: {batch_size: \"64\"}",
                 "j.yaml:7: training.batch_size: \"64\" is not allowed; allowed: integer from 1 "
                 "to 1048576");
    refused_line("training: {batch_size: [64]}",
                 "j.yaml:7: training.batch_size: a list is not allowed; allowed: integer from 1 "
                 "to 1048576");
    refused_line("training: {batch_size: {a: 1}}",
                 "j.yaml:7: training.batch_size: a map is not allowed; allowed: integer from 1 to "
                 "1048576");
    refused_line("training: {batch_size: }",
                 "j.yaml:7: training.batch_size: no value is not allowed; allowed: integer from 1 "
                 "to 1048576");
    refused_line("training: 3", "j.yaml:7: training: it must be a map of keys, like {key: value}");
    refused_line("checkpoint: {keep: 0}",
                 "j.yaml:7: checkpoint.keep: '0' is not allowed; allowed: integer from 1 to "
                 "1000000");
    refused_set("checkpoint.every_seconds=often",
                "--set checkpoint.every_seconds: 'often' is not allowed; allowed: integer from 0 "
                "to 4294967294, or auto");
    refused_set("checkpoint.every_steps=4294967295", /* stands for auto */
                "--set checkpoint.every_steps: '4294967295' is not allowed; allowed: integer from "
                "0 to 4294967294, or auto");
    refused_set("model.layers.2.dropout.rate=1",
                "--set model.layers.2.dropout.rate: model.layers[2].dropout.rate: '1' is not "
                "allowed; allowed: number from 0 to below 1");
    refused_set("model.layers.1.dense.use_bias=maybe",
                "--set model.layers.1.dense.use_bias: model.layers[1].dense.use_bias: 'maybe' is "
                "not allowed; allowed: true or false");
    refused_set("model.input.shape=784",
                "--set model.input.shape: '784' is not allowed; allowed: list of 1 to 4 integers "
                "from 1, like [28, 28], or auto");
    refused_set("model.input.shape=[28, 0]",
                "--set model.input.shape: '0' is not allowed; allowed: list of 1 to 4 integers "
                "from 1, like [28, 28], or auto");
    refused_set("model.input.shape=[16777216, 16777216]",
                "--set model.input.shape: more than 268435456 elements in one example");
    refused_set("data.scale=0",
                "--set data.scale: '0' is not allowed; allowed: number above 0 and up to 8e+37");
    refused_set(
        "name=a b",
        "--set name: 'a b' is not allowed; allowed: name of 1 to 63 letters, digits, . _ or -");
}

static void numbers_are_read_strictly(void **state)
{
    static const char *const bad[] = {"nan", "inf", "-inf", "1e", "0x10", "1_000", ".",
                                      "",    "1,5", "-1",   "+",  "1 2",  "1f"};
    char set[64], why[160];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(set, sizeof set, "training.learning_rate=%s", bad[i]);
        (void)snprintf(why, sizeof why,
                       "--set training.learning_rate: %s%s%s is not allowed; allowed: number above "
                       "0",
                       *bad[i] ? "'" : "no value", bad[i], *bad[i] ? "'" : "");
        refused_set(set, why);
    }
    struct job job = parsed(mlp, "training.learning_rate=1e-3");
    assert_true(job.optimizer.learning_rate == 1e-3f);
    job_close(&job);
    job = parsed(mlp, "training.seed=18446744073709551615");
    assert_true(job.training.seed == UINT64_MAX);
    job_close(&job);
    refused_set("training.seed=18446744073709551616",
                "--set training.seed: '18446744073709551616' is not allowed; allowed: integer "
                "from 0 to 18446744073709551615");
    refused_set("training.epochs=60_000", "--set training.epochs: '60_000' is not allowed; "
                                          "allowed: integer from 1 to 1000000");
    refused_set("training.epochs=1e3", "--set training.epochs: '1e3' is not allowed; allowed: "
                                       "integer from 1 to 1000000");
}

static void features_to_come_are_refused_unless_they_are_off(void **state)
{
    static const char *const off[] = {"ps.replicas=0", "compression.push=none"};
    (void)state;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        struct job job = parsed(mlp, off[i]);
        job_close(&job);
    }
    refused_set(
        "data.format=tfrecord",
        "--set data.format: 'tfrecord' is not supported yet; allowed: idx, synthetic, cifar10, "
        "csv, libsvm, parquet, npy, npz");
    refused_set(
        "recovery=partial",
        "--set recovery: not supported yet (restoring only a lost shard (partial)); remove it");
}

static void top_k_is_for_updates_that_are_linear_in_the_gradient(void **state)
{
    (void)state;
    struct job job = parsed(mlp, "optimizer=sgd");
    job_close(&job);
    refused_set(
        "compression.push=top_k",
        "--set compression.push: top_k sends each gradient in parts, and adam divides by the size "
        "of complete gradients; allowed with optimizer: sgd, with or without momentum");
    const char *const backed[] = {"optimizer=sgd", "sync.replicas_to_aggregate=1",
                                  "compression.push=top_k"};
    struct errmsg e = {""};
    assert_int_equal(job_parse(&job, mlp, strlen(mlp), "j.yaml", ".", backed, 3, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "allowed without sync.replicas_to_aggregate"));
    const char *const averaged[] = {"optimizer={sgd: {use_ema: true}}", "training.update=async",
                                    "compression.push=top_k"};
    assert_int_equal(job_parse(&job, mlp, strlen(mlp), "j.yaml", ".", averaged, 3, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "use_ema"));
    refused_set("compression.push.top_k.ratio=0.02",
                "--set compression.push.top_k.ratio: compression.push: top_k sends each gradient "
                "in parts, and adam divides by the size of complete gradients; allowed with "
                "optimizer: sgd, with or without momentum");
}

static void replies_of_values_alone_may_have_a_codec_outside_sync(void **state)
{
    struct job job;
    struct errmsg e = {""};
    const struct {
        const char *update, *codec, *said; /* NULL: it is allowed */
    } cases[] = {
        {"training.update=ssp", "compression.reply=fp16", NULL},
        {"training.update=ssp", "compression.reply=zstd", NULL},
        {"training.update=ssp", "compression.reply=auto", NULL},
        {"training.update=ssp", "compression.reply=int8", "which only training.update: sync knows"},
        {"training.update=geo", "compression.reply=fp16", "allowed here: none"},
        {"training.update=geo", "compression.reply=zstd", "allowed here: none"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const sets[] = {cases[i].update, cases[i].codec};
        enum err err = job_parse(&job, mlp, strlen(mlp), "j.yaml", ".", sets, 2, &e);
        assert_int_equal(err, cases[i].said ? ERR_INPUT : ERR_OK);
        if (cases[i].said)
            assert_non_null(strstr(e.text, cases[i].said));
        else
            job_close(&job);
    }
}

static void a_key_that_is_missing_is_named(void **state)
{
    (void)state;
    refused("name: x\n", NULL,
            "j.yaml:1: model.input.shape: it is missing; allowed: list of 1 to 4 integers from 1, "
            "like [28, 28], or auto");
    refused_set("model.layers.3.dense={activation: relu}",
                "--set model.layers.3.dense: model.layers[3].dense.units: it is missing; allowed: "
                "integer from 1 to 16777216");
    refused_set("model.layers=[dropout]",
                "--set model.layers: model.layers[0].dropout.rate: it is missing; allowed: number "
                "from 0 to below 1");
    refused_set("model.layers=[]",
                "--set model.layers: it must be a list of layers, like - dense: 10");
    refused_set("data.format=idx", "--set data.format: data.train: it is missing; data.format: idx "
                                   "needs a path, a glob, or a list of them");
}

static void a_key_that_stands_twice_is_refused(void **state)
{
    (void)state;
    refused_line("optimizer: adam", "j.yaml:7: this key occurs twice: optimizer");
    refused_set("training={epochs: 1, epochs: 2}", "--set training: this key occurs twice: epochs");
    refused_set("model.metrics=[mae, mean_absolute_error]",
                "--set model.metrics: mean_absolute_error occurs twice");
}

static void the_rate_is_given_once(void **state)
{
    (void)state;
    refused("model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
            "data: {format: synthetic}\n"
            "optimizer: {sgd: {learning_rate: 0.1}}\n"
            "training: {learning_rate: 0.2}\n",
            NULL,
            "j.yaml:4: training.learning_rate: optimizer.sgd.learning_rate is another name of this "
            "key, and is also set, by j.yaml:3; remove one of the two");
    static const char *const both[] = {"optimizer.adam.learning_rate=0.5",
                                       "training.learning_rate=0.25"};
    struct job none;
    struct errmsg e;
    for (size_t i = 0; i < 2; i++) { /* neither is the later one */
        const char *const sets[] = {both[i], both[1 - i]};
        assert_int_equal(job_parse(&none, mlp, strlen(mlp), "j.yaml", "/", sets, 2, &e), ERR_INPUT);
        assert_string_equal(
            e.text,
            "--set training.learning_rate: optimizer.adam.learning_rate is another name of this "
            "key, and is also set, by --set optimizer.adam.learning_rate; remove one of the two");
    }
    /* They are one key: a --set of either takes the place of what the file says. */
    struct job job = parsed(mlp, "optimizer={adam: {learning_rate: 0.5}}");
    assert_true(job.optimizer.learning_rate == 0.5f);
    job_close(&job);
    job = parsed(mlp, "optimizer.adam.learning_rate=0.25");
    assert_true(job.optimizer.learning_rate == 0.25f);
    job_close(&job);
    job = parsed(mlp, "optimizer=sgd");
    assert_true(job.optimizer.learning_rate == 0.002f);
    job_close(&job);
    job = parsed("model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
                 "data: {format: synthetic}\n"
                 "optimizer: {sgd: {learning_rate: 0.1}}\n",
                 "training.learning_rate=0.75");
    assert_true(job.optimizer.learning_rate == 0.75f);
    job_close(&job);
    job = parsed("model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
                 "training: {learning_rate: 0.75}\n"
                 "data: {format: synthetic}\n"
                 "optimizer: sgd\n",
                 NULL);
    assert_true(job.optimizer.learning_rate == 0.75f);
    job_close(&job);
}

static void each_optimizer_has_keras_defaults(void **state)
{
    (void)state;
    struct job job = parsed(mlp, "optimizer=adamw");
    assert_int_equal(job.optimizer.kind, OPT_ADAMW);
    assert_true(job.optimizer.weight_decay == 0.004f && !job.optimizer.amsgrad);
    job_close(&job);
    job = parsed(mlp, "optimizer=adam");
    assert_true(job.optimizer.weight_decay == 0);
    job_close(&job);
    job = parsed(mlp, "optimizer=adagrad");
    assert_int_equal(job.optimizer.kind, OPT_ADAGRAD);
    assert_true(job.optimizer.initial_accumulator_value == 0.1f && job.optimizer.epsilon == 1e-7f);
    job_close(&job);
    job = parsed(mlp, "optimizer={rmsprop: {centered: true}}");
    assert_int_equal(job.optimizer.kind, OPT_RMSPROP);
    assert_true(job.optimizer.rho == 0.9f && job.optimizer.momentum == 0);
    assert_true(job.optimizer.epsilon == 1e-7f && job.optimizer.centered);
    job_close(&job);
    job = parsed(mlp, "optimizer={ftrl: {l1_regularization_strength: 0.5}}");
    assert_int_equal(job.optimizer.kind, OPT_FTRL);
    assert_true(job.optimizer.learning_rate_power == -0.5f && job.optimizer.l1 == 0.5f);
    assert_true(job.optimizer.initial_accumulator_value == 0.1f && job.optimizer.l2 == 0);
    assert_true(job.optimizer.l2_shrinkage == 0 && job.optimizer.beta == 0);
    job_close(&job);
    refused_set("optimizer={ftrl: {learning_rate_power: 0.5}}",
                "--set optimizer: optimizer.ftrl.learning_rate_power: '0.5' is not allowed; "
                "allowed: number up to 0");
}

static void lamb_is_of_sync(void **state)
{
    (void)state;
    struct job job = parsed(least, "optimizer=lamb");
    assert_int_equal(job.optimizer.kind, OPT_LAMB);
    assert_true(job.optimizer.learning_rate == 0.001f && job.optimizer.epsilon == 1e-7f);
    job_close(&job);
    static const char with_async[] = "model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
                                     "data: {format: synthetic}\n"
                                     "training: {update: async}\n"
                                     "optimizer: lamb\n";
    refused(with_async, NULL, "j.yaml:4: optimizer: lamb needs training.update: sync");
}

static void accumulation_is_of_whole_gradients(void **state)
{
    (void)state;
    struct job job = parsed(least, "training.gradient_accumulation_steps=4");
    assert_int_equal(job.optimizer.accumulation_steps, 4);
    job_close(&job);
    refused_set("training.gradient_accumulation_steps=0",
                "--set training.gradient_accumulation_steps: '0' is not allowed; allowed: integer "
                "from 1 to 65536");
    refused_line("training: {update: async, gradient_accumulation_steps: 2, clip_norm: 1}",
                 "j.yaml:7: training.gradient_accumulation_steps: training.clip_norm needs the "
                 "norm of the mean of accumulated gradients, which only training.update: sync "
                 "knows; remove one of the two");
}

static void averages_are_keras_keys_and_do_something(void **state)
{
    (void)state;
    struct job job = parsed(least, "optimizer={adam: {use_ema: true}}");
    assert_true(job.optimizer.use_ema && job.optimizer.ema_momentum == 0.99f);
    assert_int_equal(job.optimizer.ema_overwrite_frequency, 0);
    job_close(&job);
    job = parsed(least, "optimizer={sgd: {use_ema: true, ema_momentum: 0.5, "
                        "ema_overwrite_frequency: 7}}");
    assert_true(job.optimizer.ema_momentum == 0.5f);
    assert_int_equal(job.optimizer.ema_overwrite_frequency, 7);
    job_close(&job);
    job = parsed(least, "optimizer={sgd: {use_ema: false, ema_momentum: 0.99, "
                        "ema_overwrite_frequency: null}}");
    assert_false(job.optimizer.use_ema);
    job_close(&job);
    refused_set("optimizer={adam: {ema_momentum: 0.9}}",
                "--set optimizer: optimizer.adam.ema_momentum: it has no effect without use_ema: "
                "true; set that, or remove it");
    refused_set("optimizer={adam: {ema_overwrite_frequency: 3}}",
                "--set optimizer: optimizer.adam.ema_overwrite_frequency: it has no effect without "
                "use_ema: true; set that, or remove it");
    refused_set("optimizer={adam: {use_ema: true, ema_momentum: 1.5}}",
                "--set optimizer: optimizer.adam.ema_momentum: '1.5' is not allowed; allowed: "
                "number from 0 to 1");
    static const char in_geo[] = "model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
                                 "data: {format: synthetic}\n"
                                 "training: {update: geo}\n"
                                 "optimizer:\n  sgd:\n    use_ema: true\n";
    refused(in_geo, NULL,
            "j.yaml:6: optimizer.sgd.use_ema: with training.update: geo, each worker has its own "
            "optimizer, and no common average exists; allowed: false, or another training.update");
}

static void schedules_are_read_and_checked(void **state)
{
#define SET "--set training.learning_rate_schedule"
#define IN ": training.learning_rate_schedule."
    (void)state;
    struct job job = parsed(mlp, NULL);
    assert_int_equal(job.optimizer.schedule.kind, SCHEDULE_CONSTANT);
    assert_int_equal(job.optimizer.schedule.warmup_steps, 0);
    job_close(&job);
    job = parsed(mlp, "training.learning_rate_schedule={cosine_decay: {decay_steps: 9, "
                      "warmup_target: 0.5, warmup_steps: 3}}");
    assert_int_equal(job.optimizer.schedule.kind, SCHEDULE_COSINE_DECAY);
    assert_int_equal(job.optimizer.schedule.decay_steps, 9);
    assert_int_equal(job.optimizer.schedule.warmup_target_steps, 3);
    assert_true(job.optimizer.schedule.warmup_target == 0.5f && job.optimizer.schedule.alpha == 0);
    job_close(&job);
    job = parsed(mlp, "training.learning_rate_schedule={polynomial_decay: {decay_steps: 9}}");
    assert_true(job.optimizer.schedule.end_learning_rate == 0.0001f);
    assert_true(job.optimizer.schedule.power == 1 && !job.optimizer.schedule.cycle);
    job_close(&job);
    refused_set("training.learning_rate_schedule=exponential_decay",
                SET IN "exponential_decay.decay_steps: it is missing; allowed: integer from 1 to "
                       "4294967295");
    refused_set("training.learning_rate_schedule={exponential_decay: {decay_steps: 5}}",
                SET IN "exponential_decay.decay_rate: it is missing; allowed: number from 0");
    refused_set("training.learning_rate_schedule={inverse_time_decay: {decay_steps: 0}}",
                SET IN "inverse_time_decay.decay_steps: '0' is not allowed; allowed: integer from "
                       "1 to 4294967295");
    refused_set("training.learning_rate_schedule=cosine",
                SET ": 'cosine' is unknown, did you mean cosine_decay? allowed: constant, "
                    "exponential_decay, cosine_decay, "
                    "polynomial_decay, piecewise_constant_decay, inverse_time_decay");
    refused_line("training: {warmup_steps: 5, learning_rate_schedule: {cosine_decay: {decay_steps: "
                 "9, warmup_target: 1}}}",
                 "j.yaml:7" IN "cosine_decay.warmup_target: training.warmup_steps is also a "
                 "warm-up; remove one of the two");
}

static void updates_of_a_warm_up_are_those_of_accumulated_steps(void **state)
{
    (void)state;
    struct job job = parsed(least, "training.warmup_steps=30");
    struct errmsg why = {""};
    job.training.epochs = 1;
    const uint64_t rows = 40 * (uint64_t)job.training.batch_size;
    assert_false(job_doubts_rate(&job, rows, &why));
    job.optimizer.accumulation_steps = 2;
    assert_true(job_doubts_rate(&job, rows, &why));
    assert_string_equal(why.text, "training.warmup_steps: 30, but the job has 20 updates of the "
                                  "weights: the last one has a learning rate of 0.00667");
    job.optimizer.accumulation_steps = 41;
    assert_true(job_doubts_rate(&job, rows, &why));
    assert_string_equal(why.text, "training.gradient_accumulation_steps: 41, but the job has 40 "
                                  "steps: no weight is updated");
    job.optimizer.accumulation_steps = 1;
    job.optimizer.use_ema = true;
    job.optimizer.ema_momentum = 0.95f; /* 0.95^40 = 0.13 */
    assert_false(job_doubts_rate(&job, rows, &why));
    job.optimizer.ema_momentum = 0.999f;
    assert_true(job_doubts_rate(&job, rows, &why));
    assert_non_null(strstr(why.text,
                           "40 updates, 96 % of the averages that are evaluated and "
                           "exported are the first weights; take an ema_momentum of 0.89"));
    job_close(&job);
}

static void piecewise_rates_are_one_more_than_rising_boundaries(void **state)
{
#define PIECEWISE "training.learning_rate_schedule={piecewise_constant_decay: "
    (void)state;
    struct job job = parsed(least, PIECEWISE "{boundaries: [1, 5], values: [1, 0.5, 0.25]}}");
    assert_int_equal(job.optimizer.schedule.boundaries.n, 2);
    assert_int_equal(job.optimizer.schedule.boundaries.value[1], 5);
    assert_int_equal(job.optimizer.schedule.values.n, 3);
    assert_true(job.optimizer.schedule.values.value[2] == 0.25f);
    struct job again = parsed(job.canonical, NULL);
    assert_string_equal(job.canonical, again.canonical);
    job_close(&again);
    job_close(&job);
    static const struct {
        const char *set, *why;
    } cases[] = {
        {"{boundaries: [1, 5], values: [1, 0.5]}}",
         "values: 2 rates for 2 boundaries; there must be one rate more than boundaries"},
        {"{boundaries: [5, 5], values: [1, 0.5, 0.1]}}",
         "boundaries: they must rise, and 5 follows 5"},
        {"{boundaries: [], values: [1]}}", "boundaries: at least one is needed, like [1000]"},
        {"{boundaries: [1.5], values: [1, 2]}}",
         "boundaries: '1.5' is not allowed; allowed: list of integers from 0 to 4294967295"},
        {"{boundaries: 5, values: [1, 2]}}",
         "boundaries: '5' is not allowed; allowed: list of integers from 0 to 4294967295"},
        {"{boundaries: [1], values: [1, -2]}}",
         "values: '-2' is not allowed; allowed: list, each a number from 0"},
        {"{boundaries: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}}",
         "boundaries: at most 16 numbers are allowed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char set[256], why[256];
        (void)snprintf(set, sizeof set, PIECEWISE "%s", cases[i].set);
        (void)snprintf(why, sizeof why, SET IN "piecewise_constant_decay.%s", cases[i].why);
        struct errmsg e = {""};
        assert_int_equal(parse(&job, least, set, &e), ERR_INPUT);
        assert_string_equal(e.text, why);
    }
    refused_line(
        "training: {learning_rate: 1, learning_rate_schedule: {piecewise_constant_decay: "
        "{boundaries: [1], values: [1, 2]}}}",
        "j.yaml:7: training.learning_rate: piecewise_constant_decay has its own values; remove it");
}

static void excluded_names_are_a_list_of_words(void **state)
{
    (void)state;
    struct job job = parsed(mlp, "optimizer={adamw: {exclude_from_weight_decay: [bias, out/k]}}");
    assert_string_equal(job.decay_exclude, "bias,out/k");
    job_close(&job);
    refused_set("optimizer={adamw: {exclude_from_weight_decay: bias}}",
                "--set optimizer: optimizer.adamw.exclude_from_weight_decay: 'bias' is not "
                "allowed; allowed: list of words of letters, digits, . _ - or /, like [bias]");
    refused_set("optimizer={adamw: {exclude_from_weight_decay: [\"a,b\"]}}",
                "--set optimizer: optimizer.adamw.exclude_from_weight_decay: \"a,b\" is not "
                "allowed; allowed: list of words of letters, digits, . _ - or /, like [bias]");
}

static void what_would_do_nothing_is_refused(void **state)
{
    (void)state;
    refused_set("optimizer.adam.exclude_from_weight_decay=[bias]",
                "--set optimizer.adam.exclude_from_weight_decay: weight_decay is 0, so no tensor "
                "is decayed; set weight_decay, or remove it");
    struct job job =
        parsed(mlp, "optimizer={adam: {weight_decay: 0.1, exclude_from_weight_decay: [bias]}}");
    job_close(&job);
    refused_set(
        "training.learning_rate_schedule={cosine_decay: {decay_steps: 9, warmup_steps: 3}}",
        "--set training.learning_rate_schedule: "
        "training.learning_rate_schedule.cosine_decay.warmup_steps: it has no effect without "
        "warmup_target; set that too, or use training.warmup_steps, which climbs to the rate");
    refused_set("data.train=data/train-*.gz",
                "--set data.train: data.format: synthetic reads no files; set data.format to the "
                "files' format, or remove it");
    refused_set("data.eval=/x", "--set data.eval: data.format: synthetic reads no files; set "
                                "data.format to the files' format, or remove it");
}

static void what_nobody_heeds_beside_the_other_keys_is_refused(void **state)
{
#define OF_CLICKS "it has no effect without data.synthetic: clicks; remove it"
#define CLICK_COLUMNS "data.columns=[label: y, number: x]", "model.input.shape=auto"
#define OF_COLUMNS                                                                                 \
    "it is for data.format: csv, libsvm or parquet, or synthetic with data.synthetic: census or "  \
    "clicks; remove it"
#define OF_CSV                                                                                     \
    "it is for csv data: data.format: csv, or synthetic with data.synthetic: census or clicks; "   \
    "remove it"
    static const struct {
        const char *text, *key, *value, *why, *with[3]; /* with which it does something */
    } keys[] = {
        {least,
         "optimizer",
         "{sgd: {nesterov: true}}",
         "optimizer.sgd.nesterov: it has no effect while momentum is 0; set momentum, or remove it",
         {"optimizer.sgd.momentum=0.9"}},
        {least,
         "training.max_rejected",
         "3",
         "it has no effect without training.nan_guard: skip (or rollback in sync); set that, or "
         "remove it",
         {"training.nan_guard=skip"}},
        {least, "training.max_rejected", "3", NULL, {"training.nan_guard=rollback"}},
        {least,
         "training.max_recoveries",
         "5",
         "it has no effect without training.nan_guard: rollback; set that, or remove it",
         {"training.nan_guard=rollback", "training.update=async"}},
        {least,
         "compression.allow",
         "[int8]",
         "it has no effect without compression.push: auto or compression.reply: auto; set one, or "
         "remove it",
         {"compression.push=auto"}},
        {least, "compression.allow", "[fp16]", NULL, {"compression.reply=auto"}},
        {least,
         "early_stopping.min_delta",
         "0.1",
         "training.monitor is missing; set it to loss or to one of model.metrics",
         {"training.monitor=loss"}},
        {least,
         "early_stopping.start_from_epoch",
         "2",
         "training.monitor is missing; set it to loss or to one of model.metrics",
         {"training.monitor=loss"}},
        {csv,
         "data.bad_rows_max",
         "5",
         "it has no effect without data.bad_rows: skip; set that, or remove it",
         {"data.bad_rows=skip"}},
        {mlp,
         "data.columns",
         "[number: x, label: y]",
         OF_COLUMNS,
         {"data.synthetic=census", "model.input.shape=auto", "data.scale=1"}},
        {least, "data.synthetic_fields", "3", OF_CLICKS, {"data.synthetic=clicks", CLICK_COLUMNS}},
        {least, "data.synthetic_keys", "300", OF_CLICKS, {"data.synthetic=clicks", CLICK_COLUMNS}},
        {least,
         "data.synthetic_interaction",
         "4",
         OF_CLICKS,
         {"data.synthetic=clicks", CLICK_COLUMNS}},
        {least, "data.header", "skip", OF_CSV, {NULL}},
        {least, "data.delimiter", "tab", OF_CSV, {NULL}},
        {least, "data.quotes", "false", OF_CSV, {NULL}},
        {least, "data.escape", "backslash", OF_CSV, {NULL}},
        {least, "data.trim", "true", OF_CSV, {NULL}},
        {least, "data.comment", "\"#\"", OF_CSV, {NULL}},
        {least,
         "data.missing",
         "[\"\", \"?\"]",
         "it is for data.format: csv or parquet, or synthetic with data.synthetic: census or "
         "clicks; "
         "remove it",
         {NULL}},
        {least,
         "data.absent_columns",
         "missing",
         "it is for data.format: parquet; remove it",
         {NULL}},
        {least, "data.bad_rows", "skip", OF_COLUMNS, {NULL}},
        {least, "data.bad_rows_max", "5", OF_COLUMNS, {NULL}},
        {least, "data.memory_mb", "64", OF_COLUMNS, {NULL}},
        {least, "data.spill", "/x", OF_COLUMNS, {NULL}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char set[256], why[512];
        struct job job;
        struct errmsg e = {""};
        (void)snprintf(set, sizeof set, "%s=%s", keys[i].key, keys[i].value);
        (void)snprintf(why, sizeof why, "--set %s: %s", keys[i].key, keys[i].why);
        if (keys[i].why)
            refused(keys[i].text, set, why);
        const char *const sets[] = {set, keys[i].with[0], keys[i].with[1], keys[i].with[2]};
        size_t n = 1;
        while (n < 4 && sets[n])
            n++;
        if (n == 1)
            continue;
        if (job_parse(&job, keys[i].text, strlen(keys[i].text), "j.yaml", "/", sets, n, &e))
            fail_msg("%s", e.text);
        job_close(&job);
    }
    refused_line("training: {max_rejected: 3}",
                 "j.yaml:7: training.max_rejected: it has no effect without training.nan_guard: "
                 "skip (or rollback in sync); set that, or remove it");
    refused_set("model.layers[3].dense={units: 1, use_bias: false, bias_initializer: ones}",
                "j.yaml:8: model.layers[3]: its bias_initializer is for a bias, and use_bias is "
                "false; remove one of the two");
    refused_set("model.layers[3].dense={units: 1, use_bias: false, bias_regularizer: l2}",
                "j.yaml:8: model.layers[3]: its bias_regularizer is for a bias, and use_bias is "
                "false; remove one of the two");
}

static void a_default_and_redo_may_stand_where_nobody_heeds_them(void **state)
{
    static const char *const sets[] = {
        "optimizer={sgd: {nesterov: false}}",
        "training.max_rejected=10",
        "training.max_recoveries=3",
        "sync.dropped=redo", /* a job that had backup workers goes on by it */
        "compression.allow=[]",
        "early_stopping={min_delta: 0, start_from_epoch: 0}",
        ("data={format: synthetic, header: none, delimiter: comma, quotes: true, trim: false, "
         "missing: \"\", bad_rows: stop, bad_rows_max: 1000, memory_mb: 0}"),
        "data.spill=",
        "model.layers=[dense: {units: 1, use_bias: false, bias_initializer: zeros}]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct job job = parsed(least, sets[i]);
        job_close(&job);
    }
}

static void first_values_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refused_set(
        "model.layers[3].dense={units: 1, kernel_initializer: {random_normal: {stddev: -1}}}",
        "--set model.layers[3].dense: model.layers[3].dense.kernel_initializer."
        "random_normal.stddev: '-1' is not allowed; allowed: number from 0");
    refused_set("model.layers[3].dense={units: 1, kernel_initializer: {random_uniform: {minval: "
                "3e38, maxval: 3e38}}}",
                "j.yaml:8: model.layers[3]: the numbers of its kernel_initializer are too large "
                "for float32, which ends at 3.4e38: |minval| + |maxval| is 6e+38");
    refused_set("model.layers[3].dense={units: 1, bias_initializer: {truncated_normal: {stddev: "
                "1e38}}}",
                "j.yaml:8: model.layers[3]: the numbers of its bias_initializer are too large for "
                "float32, which ends at 3.4e38: |mean| + 10 stddev is 1e+39");
    refused_set("model.layers[3].dense={units: 1, bias_initializer: {random_uniform: {minval: 1}}}",
                "j.yaml:8: model.layers[3]: its bias_initializer is from 1 to 0.05; minval must "
                "not be above maxval");
    struct job job = parsed(mlp, "model.layers[3].dense={units: 1, kernel_initializer: "
                                 "{random_uniform: {minval: 1, maxval: 1}}}");
    job_close(&job);
}

static void options_of_another_optimizer_are_refused(void **state)
{
    (void)state;
    refused_set("optimizer.sgd.momentum=0.9", "--set optimizer.sgd.momentum: optimizer: only one "
                                              "name is allowed, and there are two: adam and sgd");
    refused_set("optimizer={adam: {momentum: 0.9}}",
                "--set optimizer: optimizer.adam.momentum: unknown key; did you mean "
                "optimizer.sgd.momentum?");
    struct job job = parsed(mlp, "optimizer={sgd: {momentum: 0.9, nesterov: true}}");
    assert_true(job.optimizer.momentum == 0.9f && job.optimizer.nesterov);
    job_close(&job);
}

static void a_set_value_is_plain_text_unless_it_opens_yaml(void **state)
{
    (void)state;
    struct job job = parsed(mlp_of_files, "data.train=/d/a: b #c");
    assert_string_equal(job.data.train, "/d/a: b #c");
    job_close(&job);
    job = parsed(mlp_of_files, "data.train=\"/d/x\"");
    assert_string_equal(job.data.train, "/d/x");
    job_close(&job);
    job = parsed(mlp_of_files, "data.train=[/d/x, /d/y*]");
    assert_string_equal(job.data.train, "/d/x\n/d/y*");
    job_close(&job);
    refused_set("training={epochs: [}",
                "--set training: not YAML: did not find expected node content, while parsing a "
                "flow node");
    refused_set("training.epochs", "--set training.epochs: write it as key=value");
    refused_set("=3", "--set =3: write it as key=value");
    refused_set("a..b=3", "--set a..b: not a key; write names with dots between them");
    refused_set("model.layers.4.dense.units=3", "--set model.layers.4.dense.units: '4' is not an "
                                                "index of this list of 4 elements; the first is 0");
}

static void a_later_set_wins(void **state)
{
    (void)state;
    const char *sets[] = {"training.epochs=3", "training={epochs: 5}", "training.batch_size=8"};
    struct job job;
    struct errmsg e;
    assert_int_equal(job_parse(&job, mlp, strlen(mlp), "j.yaml", "", sets, 3, &e), ERR_OK);
    assert_int_equal(job.training.epochs, 5);
    assert_int_equal(job.training.batch_size, 8);
    job_close(&job);
}

static void paths_start_at_the_job_file_or_at_the_current_folder(void **state)
{
    (void)state;
    char here[4096], wanted[8192];
    char text[1024];
    assert_non_null(getcwd(here, sizeof here));
    (void)snprintf(text, sizeof text, "%s", mlp);
    memcpy(strstr(text, "data: {format: synthetic, scale: 255}"),
           "data: {format: idx, train: t*.gz}    ", 37);
    struct job job = parsed(text, "data.eval=d/e*");
    assert_string_equal(job.data.train, "/jobs/t*.gz");
    (void)snprintf(wanted, sizeof wanted, "%s/d/e*", here);
    assert_string_equal(job.data.eval, wanted);
    job_close(&job);
    job = parsed(text, "data.eval=");
    assert_null(job.data.eval);
    job_close(&job);
    struct errmsg e;
    assert_int_equal(job_parse(&job, text, strlen(text), "j.yaml", "/a[1]", NULL, 0, &e), ERR_OK);
    assert_string_equal(job.data.train, "/a\\[1]/t*.gz"); /* the folder is no pattern */
    job_close(&job);
    job = parsed(csv, "data.spill=s*");
    (void)snprintf(wanted, sizeof wanted, "%s/s*", here);
    assert_string_equal(job.data.spill, wanted);
    job_close(&job);
    (void)snprintf(text, sizeof text, "%s", csv);
    memcpy(strstr(text, "  train: a.csv\n"), "  spill: s    \n", 15);
    const char *const train[] = {"data.train=/x"};
    assert_int_equal(job_parse(&job, text, strlen(text), "j.yaml", "/a[1]", train, 1, &e), ERR_OK);
    assert_string_equal(job.data.spill, "/a[1]/s");
    job_close(&job);
    job = parsed(csv, "data.spill=");
    assert_null(job.data.spill);
    job_close(&job);
    refused_set("data.spill=[a, b]",
                "--set data.spill: a list is not allowed; allowed: path of a directory");
    refused_set("data.spill=\"a\\nb\"",
                "--set data.spill: \"a<U+000A>b\" is not allowed; allowed: path of a directory");
}

static void what_is_no_yaml_names_its_line(void **state)
{
    (void)state;
    refused("name: x\n\tmodel: 3\n", NULL,
            "j.yaml:2: not YAML: found a tab character that violates indentation, while scanning a "
            "plain scalar that begins in line 1");
    refused("a:\n  \t- b\n", NULL,
            "j.yaml:2: not YAML: found character that cannot start any token, while scanning for "
            "the next token (a tab? indent with blanks)");
    refused(
        "a: {b: 1,\n  c: \"d}\n", NULL,
        "j.yaml:3: not YAML: found unexpected end of stream, while scanning a quoted scalar that "
        "begins in line 2");
    refused("", NULL, "j.yaml:1: the file is empty");
    refused("- a\n", NULL, "j.yaml:1: a job file must be a map of keys, like name: mnist");
    refused("a: 1\n---\nb: 2\n", NULL,
            "j.yaml:3: a second document starts here; only one is allowed");
    refused("name: !!int 3\n", NULL, "j.yaml:1: tags are not allowed: tag:yaml.org,2002:int");
    refused("name: \"a\\0b\"\n", NULL, "j.yaml:1: a NUL byte in text");
    refused("? [a]\n: 3\n", NULL, "j.yaml:1: a key must be a plain name");
}

static void aliases_cannot_grow_without_bound(void **state)
{
    (void)state;
    refused("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
            "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
            "g: [*f,*f,*f]\n",
            NULL, "j.yaml:1: too many values");
    refused("a: &a [*a]\n", NULL, "j.yaml:1: nested too deep");
}

static void layers_over_images_take_pairs_and_have_kerass_defaults(void **state)
{
    (void)state;
    struct job job =
        parsed(mlp, "model.layers=[reshape: [28, 28, 1], conv2d: {filters: 8, "
                    "kernel_size: [3, 5], padding: same}, max_pooling2d: [2, 3], "
                    "average_pooling2d: {strides: 1}, global_max_pooling2d, dense: 2]");
    const struct job_layer *l = job.model.layer;
    assert_int_equal(l[0].reshape.rank, 3);
    assert_int_equal(l[0].reshape.shape[0] + l[0].reshape.shape[2], 28 + 1);
    assert_string_equal(l[1].name, "conv2d");
    assert_true(l[1].use_bias && l[1].conv2d.padding == PADDING_SAME &&
                l[1].conv2d.activation == ACT_LINEAR);
    assert_true(l[1].conv2d.kernel_size[0] == 3 && l[1].conv2d.kernel_size[1] == 5);
    assert_true(l[1].conv2d.strides[0] == 1 && l[1].conv2d.strides[1] == 1 &&
                l[1].conv2d.dilation_rate[1] == 1);
    assert_string_equal(l[2].name, "max_pooling2d");
    assert_true(l[2].pooling2d.pool_size[0] == 2 && l[2].pooling2d.strides[0] == 2 &&
                l[2].pooling2d.strides[1] == 3);
    assert_true(l[2].pooling2d.padding == PADDING_VALID);
    assert_true(l[3].pooling2d.pool_size[0] == 2 && l[3].pooling2d.pool_size[1] == 2 &&
                l[3].pooling2d.strides[1] == 1);
    assert_false(l[4].global_pooling2d.keepdims);
    job_close(&job);

    refused_set("model.layers=[conv2d: {filters: 8}]",
                "--set model.layers: model.layers[0].conv2d.kernel_size: it is missing; allowed: "
                "integer from 1 to 65536, or two as [height, width]");
    static const char *const wrong[] = {"[3]", "[3, 3, 3]", "[3, 0]", "[3, [3]]", "0", "[]", "x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char set[100];
        struct errmsg e = {""};
        (void)snprintf(set, sizeof set, "model.layers=[max_pooling2d: {pool_size: %s}]", wrong[i]);
        assert_int_equal(parse(&job, mlp, set, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "pool_size: "));
    }
    refused_set("model.layers=[max_pooling2d: {padding: full}]",
                "--set model.layers: model.layers[0].max_pooling2d.padding: 'full' is unknown; "
                "allowed: valid, same");
}

static void the_canonical_text_reads_back_as_the_same_job(void **state)
{
    static const char *const sets[] = {
        NULL,
        "optimizer={sgd: {momentum: 0.9, nesterov: true}}",
        "model.layers=[relu, dense: {units: 2, kernel_initializer: {constant: 0.1}}, softmax]",
        "data.train=[/d/a b, \"/d/'c\"]",
        "model.layers=[reshape: [28, 28, 1], conv2d: {filters: 3, kernel_size: 3}, "
        "max_pooling2d: 2, average_pooling2d: {pool_size: 2, strides: [1, 2]}, "
        "global_average_pooling2d]",
        "optimizer={adamw: {exclude_from_weight_decay: [bias, gamma]}}",
        "optimizer={ftrl: {learning_rate_power: -0.7}}",
        "model.layers=[relu, dense: 2, add: {inputs: [input, re_lu]}, concatenate: [dense, add]]",
        "model.loss=mae",
        "training.class_weight={0: 1, 9: 0.5}",
        "model.layers=[dense: {units: 2, kernel_regularizer: {l2: 0.1}, bias_regularizer: l1, "
        "kernel_initializer: {random_uniform: {minval: -1, maxval: 2}}}, leaky_relu: 0.1, "
        "batch_normalization: {momentum: 0.9}, selu, gelu: {approximate: true}]",
        "data.eval=/x: y",
        "data.spill=/x: *y",
    };
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        bool path = sets[i] && (strncmp(sets[i], "data.train", 10) == 0 ||
                                strncmp(sets[i], "data.eval", 9) == 0);
        bool spill = sets[i] && strncmp(sets[i], "data.spill", 10) == 0;
        struct job once = parsed(spill ? csv : path ? mlp_of_files : mlp, sets[i]);
        struct job twice = parsed(once.canonical, NULL);
        assert_string_equal(once.canonical, twice.canonical);
        assert_string_equal(once.identity_text, twice.identity_text);
        assert_memory_equal(once.identity, twice.identity, sizeof once.identity);
        assert_true(!once.data.train == !twice.data.train);
        if (once.data.train)
            assert_string_equal(once.data.train, twice.data.train);
        job_close(&once);
        job_close(&twice);
    }
}

static void a_frozen_layer_is_part_of_the_identity_and_a_trained_one_adds_nothing(void **state)
{
    (void)state;
    static const char line[] = "model.layers[0].dense.trainable = false\n";
    struct job plain = parsed(least, NULL),
               said = parsed(least, "model.layers=[dense: {units: 1, trainable: true}]");
    struct job frozen = parsed(least, "model.layers=[dense: {units: 1, trainable: false}]");
    struct errmsg e;
    assert_null(strstr(plain.identity_text, "trainable"));
    assert_memory_equal(plain.identity, said.identity, sizeof plain.identity);
    assert_non_null(strstr(frozen.identity_text, line));
    assert_non_null(strstr(frozen.canonical, "trainable: false"));
    assert_int_equal(job_identity_compare(plain.identity_text, frozen.identity_text, &e),
                     ERR_INPUT);
    assert_int_equal(job_identity_compare(frozen.identity_text, plain.identity_text, &e),
                     ERR_INPUT);
    job_close(&plain);
    job_close(&said);
    job_close(&frozen);
    refused(
        "model: {input: {shape: auto}, layers: [embedding: {inputs: [k], output_dim: 2, trainable: "
        "false}, dense: 1], loss: mse}\noptimizer: sgd\ndata: {format: csv, train: a, columns: "
        "[key: k, label: y]}\n",
        NULL,
        "j.yaml:1: model.layers[0]: embedding has trainable: false, but the rows of a table are "
        "always "
        "trained; remove it");
    refused(least, "model.layers=[linear: {trainable: false}, dense: 1]",
            "--set model.layers: model.layers[0].linear.trainable: not supported yet (rows that "
            "training does not "
            "change); remove it or say true");
}

static void first_weights_are_a_path_and_the_chief_alone_has_a_line_for_their_contents(void **state)
{
    (void)state;
    struct job job = parsed(least, NULL), with = parsed(least, "model.weights=/w/a.safetensors");
    struct errmsg e = {""};
    char value[16];
    assert_string_equal(with.model.weights, "/w/a.safetensors");
    assert_string_equal(with.identity_text, job.identity_text);
    assert_false(job_weights_of(with.identity_text, value, sizeof value));
    assert_int_equal(job_settle_weights(&with, "abc", &e), ERR_OK);
    assert_true(job_weights_of(with.identity_text, value, sizeof value));
    assert_string_equal(value, "abc");
    assert_false(job_weights_of(with.identity_text, value, 3));
    assert_memory_equal(with.identity, job.identity, sizeof job.identity);
    assert_int_equal(job_identity_compare(with.identity_text, job.identity_text, &e), ERR_OK);
    assert_int_equal(job_identity_compare(job.identity_text, with.identity_text, &e), ERR_INPUT);
    assert_int_equal(job_identity_compare_model(job.identity_text, with.identity_text, &e), ERR_OK);
    job_close(&with);
    job_close(&job);
    job = parsed(mlp_of_files, "model.weights=null");
    assert_null(job.model.weights);
    job_close(&job);
}

static void run_time_keys_leave_the_identity_alone(void **state)
{
    static const char *const sets[] = {
        "name=other",
        "training.epochs=99",
        "training.learning_rate=9",
        "training.learning_rate_schedule={cosine_decay: {decay_steps: 9}}",
        "training.warmup_steps=9",
        "checkpoint.keep=9",
        "timeouts.start_s=9",
        "worker.threads=9",
        "optimizer.adam.learning_rate=9",
    };
    (void)state;
    struct job was = parsed(mlp, NULL);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct job is = parsed(mlp, sets[i]);
        assert_memory_equal(was.identity, is.identity, sizeof is.identity);
        assert_int_equal(job_identity_compare(was.identity_text, is.identity_text, NULL), ERR_OK);
        job_close(&is);
    }
    job_close(&was);
    was = parsed(mlp_of_files, NULL);
    struct job is = parsed(mlp_of_files, "data.train=/x");
    assert_memory_equal(was.identity, is.identity, sizeof is.identity);
    job_close(&is);
    job_close(&was);
    was = parsed(csv, NULL);
    static const char *const of_csv[] = {"data.memory_mb=9", "data.spill=/x", "data.bad_rows=skip"};
    for (size_t i = 0; i < sizeof of_csv / sizeof of_csv[0]; i++) {
        is = parsed(csv, of_csv[i]);
        assert_memory_equal(was.identity, is.identity, sizeof is.identity);
        job_close(&is);
    }
    job_close(&was);
}

static void progressive_metrics_are_refused_where_rows_cannot_be_counted(void **state)
{
    static const char more[] = "model.metrics=[auc]";
    char text[1024];
    (void)state;
    (void)snprintf(text, sizeof text, "%smetrics: {progressive: true}\n", csv);
    struct job job = parsed(text, more);
    assert_true(job.metrics.progressive);
    job_close(&job);
    refused(text, "model.metrics=[logloss]",
            "j.yaml:12: metrics.progressive: it computes the auc of training; add auc to "
            "model.metrics, or remove it");
    (void)snprintf(text, sizeof text, "%smetrics: {progressive: true}\ntraining: {update: geo}\n",
                   csv);
    refused(text, more,
            "j.yaml:12: metrics.progressive: with training.update: geo each worker trains by "
            "itself between pushes, and its predictions are not those of the job; allowed: false, "
            "or another training.update");
    static const char by[] = "metrics={progressive: true, by: C, values: [a, b]}";
    static const char keyed[] =
        "model: {input: {shape: auto}, layers: [linear: {inputs: C}, "
        "sigmoid], loss: binary_crossentropy, metrics: [auc]}\n"
        "optimizer: sgd\n"
        "data: {format: csv, train: a.csv, columns: [key: C, ignore: D, label: "
        "y]}\n";
    job = parsed(keyed, by);
    assert_int_equal(job_slices(&job), 3);
    assert_int_equal(job_slices_lookup(&job), 0);
    job_close(&job);
    refused(keyed, "metrics={by: C, values: [a]}",
            "--set metrics: metrics.by: it has no effect without metrics.progressive: true; set "
            "that, or "
            "remove it");
    refused(keyed, "metrics={progressive: true, values: [a]}",
            "--set metrics: metrics.values: it has no effect without metrics.by, the column that "
            "has them; "
            "set that, or remove it");
    refused(
        keyed, "metrics={progressive: true, by: C}",
        "--set metrics: metrics.by: metrics.values is missing: the values of this column, a slice "
        "of the rows each; rows with other values are one slice more");
    refused(keyed, "metrics={progressive: true, by: D, values: [a]}",
            "--set metrics: metrics.by: it must be a column of kind key that a layer of the model "
            "looks up");
    char many[512] = "metrics={progressive: true, by: C, values: [0";
    for (int i = 1; i < 64; i++)
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), ", %d", i);
    (void)snprintf(many + strlen(many), sizeof many - strlen(many), "]}");
    refused(keyed, many,
            "--set metrics: metrics.values: at most 63 values are allowed; rows with other values "
            "are one "
            "slice more");
    (void)snprintf(text, sizeof text, "%s    - weight: w\nmetrics: {progressive: true}\n", csv);
    refused(text, more,
            "j.yaml:13: metrics.progressive: it counts rows, and the rows of this job have "
            "weights (data.columns); allowed: false, or no column of kind weight");
}

static void a_delimiter_is_a_word_or_the_character_itself(void **state)
{
    static const struct {
        const char *set;
        enum csv_delimiter is;
    } cases[] = {
        {"data.delimiter=tab", DELIMITER_TAB},    {"data.delimiter=\"\\t\"", DELIMITER_TAB},
        {"data.delimiter=\\t", DELIMITER_TAB},    {"data.delimiter=;", DELIMITER_SEMICOLON},
        {"data.delimiter=','", DELIMITER_COMMA},  {"data.delimiter=\" \"", DELIMITER_SPACE},
        {"data.delimiter=\"|\"", DELIMITER_PIPE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job job = parsed(csv, cases[i].set);
        assert_int_equal(job.data.csv.delimiter, cases[i].is);
        assert_int_equal(job.data.csv.delimiter == DELIMITER_TAB,
                         strstr(job.identity_text, "data.delimiter = tab\n") != NULL);
        job_close(&job);
    }
}

static void an_escape_is_a_word_or_the_character_itself(void **state)
{
    (void)state;
    static const char *const sets[] = {"data.escape=backslash", "data.escape=\\",
                                       "data.escape=\"\\\\\"", "data.escape='\\'"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct job job = parsed(csv, sets[i]);
        assert_int_equal(job_escape_char(&job.data.csv), '\\');
        assert_non_null(strstr(job.identity_text, "data.escape = backslash\n"));
        job_close(&job);
    }
    struct job job = parsed(csv, "data.escape=none");
    assert_int_equal(job_escape_char(&job.data.csv), '\0');
    assert_null(
        strstr(job.identity_text, "data.escape")); /* jobs of earlier releases keep theirs */
    job_close(&job);
}

static void a_number_for_missing_ones_is_a_double_and_was_a_float(void **state)
{
    (void)state;
#define MISSING_KEY "data.columns[0].number.missing.value.value"
    struct errmsg e;
    struct job job =
        parsed(csv, "data.columns.0={number: {name: age, missing: {value: 0.123456789}}}");
    assert_true(job.data.csv.column[0].missing_value == 0.123456789);
    assert_non_null(strstr(job.identity_text, MISSING_KEY " = 0.123456789\n"));
    const char was[] = MISSING_KEY " = 0.12345679\n"; /* of release 0.1.0 */
    assert_int_equal(job_identity_compare(was, MISSING_KEY " = 0.123456789\n", &e), ERR_OK);
    assert_int_equal(job_identity_compare(was, MISSING_KEY " = 0.1234568\n", &e), ERR_INPUT);
    job_close(&job);
}

static void columns_are_read_as_the_job_says(void **state)
{
    (void)state;
    struct job job = parsed(csv, NULL);
    const struct job_column *c = job.data.csv.column;
    assert_int_equal(job.model.rank, 0);
    assert_int_equal(job.data.csv.columns, 4);
    assert_int_equal(c[0].kind, COLUMN_NUMBER);
    assert_string_equal(c[0].name, "age");
    assert_int_equal(c[0].scale, SCALE_STANDARD);
    assert_int_equal(c[0].missing, MISSING_VALUE);
    assert_true(c[0].missing_value == 3);
    assert_int_equal(c[1].kind, COLUMN_CATEGORY);
    assert_string_equal(c[1].words, "a" TEXTS_JOINT "b c");
    assert_int_equal(c[2].kind, COLUMN_IGNORE);
    assert_int_equal(c[3].kind, COLUMN_LABEL);
    assert_string_equal(c[3].name, "y");
    assert_string_equal(job.data.csv.missing, TEXTS_JOINT "?");
    assert_true(job.data.csv.quotes);
    assert_non_null(strstr(job.identity_text, "data.columns[0].number.scale = standard\n"));
    assert_non_null(
        strstr(job.identity_text, "data.columns[1].category.vocabulary = \"a\", \"b c\"\n"));
    assert_non_null(strstr(job.identity_text, "model.input.shape = auto\n"));
    struct job again = parsed(job.canonical, NULL); /* the written text reads back the same */
    assert_string_equal(again.identity_text, job.identity_text);
    assert_string_equal(again.canonical, job.canonical);
    job_close(&again);
    job_close(&job);
    job = parsed(mlp, NULL);
    assert_null(strstr(job.identity_text, "data.missing"));
    job_close(&job);
}

static void a_name_of_a_column_has_any_characters_and_4096_bytes(void **state)
{
    (void)state;
    struct job job =
        parsed(csv, "data.columns[0].number.name=\"a|b\\n\\ttraining.epochs = 7\\x01\"");
    assert_string_equal(job.data.csv.column[0].name, "a|b\n\ttraining.epochs = 7\x01");
    assert_non_null(strstr(job.identity_text, ".name = a|b\n\t\ttraining.epochs = 7\x01\ndata."));
    struct job again = parsed(job.canonical, NULL);
    assert_string_equal(again.identity_text, job.identity_text);
    struct errmsg e;
    assert_int_equal(job_identity_compare(job.identity_text, again.identity_text, &e), ERR_OK);
    job_close(&again);
    again = parsed(csv, "data.columns[0].number.name=\"a|b\\n\\ttraining.epochs = 8\\x01\"");
    assert_int_equal(job_identity_compare(job.identity_text, again.identity_text, &e), ERR_INPUT);
    assert_string_equal(e.text, "data.columns[0].number.name was a|b???training.epochs = 7?, is "
                                "a|b???training.epochs = 8?");
    job_close(&again);
    job_close(&job);

    char set[4200];
    int n = snprintf(set, sizeof set, "data.columns[0].number.name=%4097s", "");
    memset(set + n - 4097, 'x', 4097);
    refused(
        csv, set,
        "--set data.columns[0].number.name: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' "
        "is not allowed; allowed: text in UTF-8 of at most 4096 bytes");
    set[n - 1] = 0;
    job = parsed(csv, set);
    assert_int_equal(strlen(job.data.csv.column[0].name), 4096);
    job_close(&job);
}

static void a_layer_reads_columns_of_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"\"null\"", "\"~\"", "\"a\\nb\"", "\"\\x7f\"", "\"- a\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[sizeof csv + 200];
        const char *rest = strchr(csv, '\n');
        (void)snprintf(text, sizeof text,
                       "model: {input: {shape: auto}, layers: [dense: {units: 1, inputs: [%s]}], "
                       "loss: mse}%s",
                       names[i], rest);
        char set[100];
        (void)snprintf(set, sizeof set, "data.columns[0].number.name=%s", names[i]);
        struct job job = parsed(text, set), again = parsed(job.canonical, NULL);
        assert_string_equal(again.identity_text, job.identity_text);
        job_close(&again);
        job_close(&job);
    }
}

static void columns_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    refused(csv, "data.columns[0]=text",
            "--set data.columns[0]: 'text' is unknown, did you mean category? allowed: number, "
            "category, label, ignore, "
            "key, keys, cross, weight");
    refused(csv, "data.columns[0].number.scale=log",
            "--set data.columns[0].number.scale: 'log' is unknown, did you mean log2? allowed: "
            "none, standard, min_max, "
            "log1p, log2");
    refused(csv, "data.columns[2].ignore.scale=none",
            "--set data.columns[2].ignore.scale: unknown key; allowed: name");
    refused(csv, "data.columns[3]=ignore",
            "j.yaml:7: data.columns: no column is the label; add one, like - label: income");
    refused(
        csv, "data.columns[2]={label: z}",
        "j.yaml:11: data.columns[3]: data.columns[2] is already the label; only one column can be");
    refused(csv, "data.columns=[weight: v, number: a, weight: w, label: y]",
            "--set data.columns: data.columns[2]: data.columns[0] is already the weight; only one "
            "column can be");
    refused(csv, "data.columns=[number: {name: a, encode: id}, label: y]",
            "--set data.columns: data.columns[0]: its encode is for buckets, and it has none; add "
            "buckets, such as {quantiles: 10}, or remove encode");
    refused(csv, "data.columns=[number: {name: a, scale: log2, buckets: log_squared}, label: y]",
            "--set data.columns: data.columns[0]: a number with buckets has no scale; remove scale "
            "or buckets");
    refused(csv, "data.columns=[number: {name: a, buckets: borders}, label: y]",
            "--set data.columns: data.columns[0]: its borders are missing; write buckets: "
            "{borders: [0, 10]}");
    refused(csv, "data.columns=[number: {name: a, buckets: {borders: [1, x]}}, label: y]",
            "--set data.columns: data.columns[0]: its border 'x' is not a number");
    refused(csv, "data.columns=[number: {name: a, buckets: {borders: [1, 0x1p3]}}, label: y]",
            "--set data.columns: data.columns[0]: its border '0x1p3' is not a number");
    refused(csv, "data.columns=[number: {name: a, buckets: {borders: [1, 3, 3]}}, label: y]",
            "--set data.columns: data.columns[0]: its border 3 is not above the border before it");
    refused(csv, "data.columns=[weight: v, label: y]",
            "--set data.columns: no column is a number, a category or a key, so there is nothing "
            "to learn from");
    refused(csv, "data.columns[2]={ignore: age}",
            "--set data.columns[2]: its name, age, is also the name of data.columns[0]; rename one "
            "of them");
    refused(csv, "data.columns[3]={label: {classes: [a, b|c, a]}}",
            "--set data.columns[3]: 'a' occurs twice in its classes");
    refused(csv, "data.columns[3]={label: {classes: [a, b|a]}}",
            "--set data.columns[3]: 'a' occurs twice in its classes");
    refused(csv, "data.columns[1].category.vocabulary=[a, a|b, '', a]",
            "j.yaml:9: data.columns[1]: 'a' occurs twice in its vocabulary");
    refused(csv, "data.columns=[label: y, ignore]",
            "--set data.columns: no column is a number, a category or a key, so there is nothing "
            "to learn from");
    refused(csv, "data.columns=[label: y]",
            "--set data.columns: 1 columns are not allowed; allowed: 2 to 65536");
    refused(csv, "data.header=names",
            "j.yaml:7: data.columns: column 1 has no name; data.header: names needs a name for "
            "every column");
    refused(csv, "model.input.shape=[2, 2]",
            "--set model.input.shape: rows of csv data have one dimension: [features], or auto");
    refused(csv, "data.scale=255",
            "--set data.scale: csv columns have a scale of their own; write - number: {scale: "
            "standard}");
    refused(csv, "data.delimiter=^",
            "--set data.delimiter: '^' is unknown; allowed: comma, tab, semicolon, pipe, space");
    refused_set("data={format: csv, train: x}",
                "--set data: data.columns: it is missing; csv needs the list of "
                "columns");
}

static void augmentation_is_for_images_alone(void **state)
{
    (void)state;
    struct job job = parsed(mlp, "data.augment={flip: horizontal, crop: 4, shift: 2}");
    assert_int_equal(job.data.augment.flip, FLIP_HORIZONTAL);
    assert_int_equal(job.data.augment.crop, 4);
    assert_int_equal(job.data.augment.shift, 2);
    job_close(&job);
    char text[1024];
    (void)snprintf(text, sizeof text, "%s", least);
    char *data = strstr(text, "data: {format: synthetic}");
    (void)snprintf(data, sizeof text - (size_t)(data - text), "%s",
                   "data: {format: synthetic, augment: {shift: 1}}\noptimizer: sgd\n");
    refused(text, NULL,
            "j.yaml:5: data.augment.shift: it is for images; model.input.shape must be [height, "
            "width] or [height, width, channels]");
    refused_set("data.augment.flip=both",
                "--set data.augment.flip: 'both' is unknown; allowed: none, horizontal");
}

static void synthetic_rows_are_identity_of_synthetic_data_alone(void **state)
{
    (void)state;
    static const char idx[] = "model: {input: {shape: [1]}, layers: [dense: 1], loss: mse}\n"
                              "data: {format: idx, train: /t}\n"
                              "optimizer: sgd\n";
    struct job was = parsed(idx, NULL), is = parsed(idx, "data.synthetic_train_rows=5");
    assert_memory_equal(was.identity, is.identity, sizeof is.identity);
    assert_null(strstr(was.identity_text, "synthetic"));
    job_close(&was);
    job_close(&is);
}

static void keys_of_clicks_are_identity_of_clicks_alone(void **state)
{
    (void)state;
    static const char clicks[] =
        "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
        "data: {format: synthetic, synthetic: clicks, columns: [label: y, number: x]}\n"
        "optimizer: sgd\n";
    static const char *const lines[] = {"data.synthetic_fields = 26\n",
                                        "data.synthetic_keys = 1000000\n",
                                        "data.synthetic_interaction = 4\n"};
    struct job digits = parsed(mlp, NULL), job = parsed(clicks, "data.synthetic_interaction=4");
    assert_true(job_draws_clicks(&job) && job_reads_csv(&job));
    assert_false(job_draws_clicks(&digits));
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_non_null(strstr(job.identity_text, lines[i]));
        assert_null(strstr(digits.identity_text, lines[i]));
    }
    job_close(&job);
    job_close(&digits);
    refused(clicks, "data.synthetic_keys=25",
            "--set data.synthetic_keys: 26 key columns (data.synthetic_fields) need one key each; "
            "allowed: at least 26");
    job = parsed(clicks, "data.synthetic_keys=26");
    job_close(&job);
}

static void identity_keys_that_differ_are_named_with_both_values(void **state)
{
    static const struct {
        const char *set, *why;
    } cases[] = {
        {"training.batch_size=128", "training.batch_size was 64, is 128"},
        {"training.microbatches=8", "training.microbatches was 2, is 8"},
        {"training.seed=7", "training.seed was 1, is 7"},
        {"training.update=async", "training.update was sync, is async"},
        {"optimizer=sgd", "optimizer was adam, is sgd"},
        {"optimizer.adam.beta_1=0.5", "optimizer.adam.beta_1 was 0.9, is 0.5"},
        {"data.scale=1", "data.scale was 255, is 1"},
        {"data.synthetic_train_rows=5", "data.synthetic_train_rows was 60000, is 5"},
        {"model.layers.1.dense.units=64", "model.layers[1].dense.units was 128, is 64"},
        {"model.layers.2=tanh", "model.layers[2] was dropout, is activation"},
        {"model.metrics=[]", "model.metrics was [accuracy], is []"},
        {"model.layers.0=tanh", "model.layers[0] was flatten, is activation"},
        {"model.layers=[flatten]", "model.layers[1] was dense, is not there"},
    };
    (void)state;
    struct job was = parsed(mlp, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job is = parsed(mlp, cases[i].set);
        struct errmsg e;
        assert_int_equal(job_identity_compare(was.identity_text, is.identity_text, &e), ERR_INPUT);
        assert_string_equal(e.text, cases[i].why);
        assert_memory_not_equal(was.identity, is.identity, sizeof is.identity);
        job_close(&is);
    }
    job_close(&was);
    struct errmsg e;
    assert_int_equal(job_identity_compare("a = 1\n", "a = 1\nb = 2\n", &e), ERR_INPUT);
    assert_string_equal(e.text, "b was not there, is 2");
}

static void a_long_value_leaves_room_for_what_follows(void **state)
{
    (void)state;
    char was[700], is[700];
    struct errmsg e;
    (void)snprintf(was, sizeof was, "a = %0600d\nb = 1\n", 1);
    (void)snprintf(is, sizeof is, "a = %0600d\nb = 1\n", 2);
    assert_int_equal(job_identity_compare(was, is, &e), ERR_INPUT);
    assert_in_range(strlen(e.text), 1, 150);
    assert_int_equal(job_identity_compare(was, "b = 1\n", &e), ERR_INPUT);
    assert_in_range(strlen(e.text), 1, 150);
    assert_int_equal(job_identity_compare("b = 1\n", is, &e), ERR_INPUT);
    assert_in_range(strlen(e.text), 1, 150);
}

/* A job file of an older release does not have the keys of a newer one. */
static void a_key_that_was_not_there_is_the_same_job_with_its_default(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(
        job_identity_compare("a = 1\n", "a = 1\ndata.columns[12].number.buckets = none\n", &e),
        ERR_OK);
    assert_int_equal(job_identity_compare(
                         "a = 1\n", "a = 1\ndata.columns[12].number.buckets = log_squared\n", &e),
                     ERR_INPUT);
    assert_string_equal(e.text, "data.columns[12].number.buckets was not there, is log_squared");
}

static void a_file_is_read_from_its_folder(void **state)
{
    (void)state;
    struct job job;
    struct errmsg e;
    assert_int_equal(job_load(&job, "/nowhere/j.yaml", NULL, 0, &e), ERR_INPUT);
    assert_string_equal(e.text, "job file /nowhere/j.yaml: No such file or directory");
    assert_int_equal(job_load(&job, "/", NULL, 0, &e), ERR_INPUT);
    assert_string_equal(e.text, "job file /: Is a directory");
    char folder[] = "/tmp/gradwire-job-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/the job.yaml", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(least, f) >= 0);
    assert_int_equal(fclose(f), 0);
    const char *set = "name=n";
    assert_int_equal(job_load(&job, path, NULL, 0, &e), ERR_OK);
    assert_string_equal(job.name, "the-job");
    job_close(&job);
    assert_int_equal(job_load(&job, path, &set, 1, &e), ERR_OK);
    assert_string_equal(job.name, "n");
    job_close(&job);
    unlink(path);
    rmdir(folder);
}

static void the_example_is_a_job(void **state)
{
    (void)state;
    struct job job;
    struct errmsg e;
    if (job_load(&job, "examples/mnist/mlp.yaml", NULL, 0, &e))
        fail_msg("%s", e.text);
    assert_string_equal(job.name, "mnist-mlp");
    assert_int_equal(job.data.format, DATA_SYNTHETIC);
    assert_true(job.data.scale == 255);
    assert_int_equal(job.training.epochs, 10);
    job_close(&job);
}

static void running_out_of_memory_anywhere_is_told(void **state)
{
    (void)state;
    long n = 0;
    for (;; n++) {
        struct job job;
        struct errmsg e;
        mem_fail_at(n);
        enum err err = parse(&job, mlp, "optimizer.adam.learning_rate=1", &e);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            job_close(&job);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
        assert_true(n < 100000);
    }
    assert_true(n > 50);
}

static void the_reference_in_docs_is_what_the_table_says(void **state)
{
    (void)state;
    char *made = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&made, &bytes);
    assert_non_null(out);
    job_reference_write(out);
    assert_int_equal(fclose(out), 0);
    FILE *in = fopen("docs/reference/job-file.md", "r");
    assert_non_null(in);
    char *there = test_calloc(bytes + 2, 1);
    size_t n = fread(there, 1, bytes + 1, in);
    assert_int_equal(fclose(in), 0);
    if (n != bytes || memcmp(there, made, bytes) != 0)
        fail_msg("docs/reference/job-file.md is old: build/worker/worker --print_job_reference > "
                 "docs/reference/job-file.md");
    test_free(there);
    free(made);
}

static void every_key_is_in_order(void **state)
{
    (void)state;
    for (const struct job_key *key = job_key_next(NULL); key; key = job_key_next(key)) {
        assert_true(strlen(key->path) < JOB_PATH_MAX - 16);
        assert_non_null(key->doc);
        assert_ptr_equal(job_key_find(key->path), key); /* no path stands twice */
        bool words = key->type == KEY_WORD || key->type == KEY_CHOICE || key->type == KEY_METRICS ||
                     key->type == KEY_CODECS;
        assert_int_equal(words, key->words != NULL);
    }
}

static void distances_count_edits_and_swaps(void **state)
{
    (void)state;
    assert_int_equal(words_distance("", "abc"), 3);
    assert_int_equal(words_distance("epochs", "epochs"), 0);
    assert_int_equal(words_distance("epcohs", "epochs"), 1);
    assert_int_equal(words_distance("epoch", "epochs"), 1);
    assert_int_equal(words_distance("kitten", "sitting"), 3);
    char lengthy[WORDS_BYTES_MAX + 2];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    assert_int_equal(words_distance(lengthy, lengthy), WORDS_FAR);
    assert_int_equal(words_distance(lengthy + 1, lengthy + 1), 0);
}

static void the_folder_is_as_it_was_given_or_of_the_jobs_name(void **state)
{
    (void)state;
    const struct job job = {.name = "digits"};
    struct errmsg e = {""};
    char out[16] = "", same[16] = "as it was";
    assert_int_equal(job_output(&job, NULL, out, sizeof out, &e), ERR_OK);
    assert_string_equal(out, "runs/digits");
    assert_int_equal(job_output(&job, "", out, sizeof out, &e), ERR_OK);
    assert_string_equal(out, "runs/digits");
    assert_int_equal(job_output(&job, "/a", out, sizeof out, &e), ERR_OK);
    assert_string_equal(out, "/a");
    assert_int_equal(job_output(&job, "/a/b/c/d/e/f/g/h", same, sizeof same, &e), ERR_INPUT);
    assert_string_equal(e.text, "--output: the path is too long");
    assert_string_equal(same, "as it was");
}

/* number: n is short for number: {name: n}. */
static void a_set_reaches_into_the_short_form_of_a_value(void **state)
{
    (void)state;
    static const char text[] =
        "optimizer: adam\nmodel: {input: {shape: auto}, loss: mean_squared_error, layers: "
        "[dense: 8, dense: 1]}\n"
        "data: {format: csv, train: a.csv, columns: [number: age, label: y, number: name]}\n";
    const char *const sets[] = {
        "model.layers[0].dense.activation=relu", "model.layers[1].dense.use_bias=false",
        "model.layers[1].dense.units=3",         "data.columns[0].number.missing=mean",
        "data.columns[0].number.scale=standard", "data.columns[2].number.scale=min_max"};
    struct job job;
    struct errmsg e;
    if (job_parse(&job, text, strlen(text), "j.yaml", "/", sets, 6, &e))
        fail_msg("%s", e.text);
    assert_int_equal(job.model.layer[0].dense.units, 8);
    assert_int_equal(job.model.layer[1].dense.units, 3);
    assert_non_null(strstr(job.canonical, "use_bias: false"));
    assert_non_null(strstr(job.canonical, "activation: relu"));
    assert_non_null(strstr(job.canonical, "name: \"age\"\n"));
    assert_non_null(strstr(job.canonical, "name: \"name\"\n"));
    assert_non_null(strstr(job.canonical, "scale: standard"));
    job_close(&job);
    const char *wrong = "data.columns[0].number.missed=7";
    assert_int_equal(job_parse(&job, text, strlen(text), "j.yaml", "/", &wrong, 1, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "--set data.columns[0].number.missed: "));
    assert_non_null(strstr(e.text, "unknown key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_reaches_into_the_short_form_of_a_value),
        cmocka_unit_test(progressive_metrics_are_refused_where_rows_cannot_be_counted),
        cmocka_unit_test(a_job_file_is_read_as_it_says),
        cmocka_unit_test(keys_left_out_have_kerass_defaults),
        cmocka_unit_test(microbatches_default_to_a_power_of_two_of_the_batch),
        cmocka_unit_test(microbatches_are_a_power_of_two_within_the_batch),
        cmocka_unit_test(backup_workers_are_refused_where_nobody_waits),
        cmocka_unit_test(backup_workers_need_a_microbatch_for_each_worker),
        cmocka_unit_test(keys_that_make_a_job_inexact_are_named),
        cmocka_unit_test(what_stale_gradients_want_is_refused_in_sync),
        cmocka_unit_test(the_rounds_of_geo_are_refused_where_nobody_heeds_them),
        cmocka_unit_test(the_interval_of_checkpoints_is_a_number_or_auto),
        cmocka_unit_test(the_name_of_a_column_is_not_settled_as_the_merge),
        cmocka_unit_test(a_checkpoint_says_how_the_rounds_of_geo_merge),
        cmocka_unit_test(the_bound_of_staleness_is_refused_where_nobody_heeds_it),
        cmocka_unit_test(layers_are_named_as_keras_names_them),
        cmocka_unit_test(rows_are_held_out_in_one_way_and_of_the_identity),
        cmocka_unit_test(a_stream_is_of_the_identity_and_says_what_it_takes),
        cmocka_unit_test(two_layers_of_one_name_are_refused),
        cmocka_unit_test(layers_read_the_one_before_or_what_their_inputs_name),
        cmocka_unit_test(inputs_that_cannot_be_are_refused),
        cmocka_unit_test(regularizers_and_class_weights_are_read_as_keras_has_them),
        cmocka_unit_test(initializers_take_names_or_a_constant),
        cmocka_unit_test(an_unknown_key_names_line_and_nearest_key),
        cmocka_unit_test(a_text_that_yaml_takes_for_no_value_is_explained),
        cmocka_unit_test(keys_and_words_of_keras_are_explained),
        cmocka_unit_test(a_name_that_other_programs_use_gets_the_one_that_means_it_here),
        cmocka_unit_test(an_unknown_word_names_the_nearest_and_the_allowed),
        cmocka_unit_test(wrong_types_and_ranges_say_what_is_allowed),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(a_number_that_float32_does_not_have_is_refused),
        cmocka_unit_test(features_to_come_are_refused_unless_they_are_off),
        cmocka_unit_test(top_k_is_for_updates_that_are_linear_in_the_gradient),
        cmocka_unit_test(replies_of_values_alone_may_have_a_codec_outside_sync),
        cmocka_unit_test(a_key_that_is_missing_is_named),
        cmocka_unit_test(a_key_that_stands_twice_is_refused),
        cmocka_unit_test(the_rate_is_given_once),
        cmocka_unit_test(options_of_another_optimizer_are_refused),
        cmocka_unit_test(each_optimizer_has_keras_defaults),
        cmocka_unit_test(lamb_is_of_sync),
        cmocka_unit_test(accumulation_is_of_whole_gradients),
        cmocka_unit_test(averages_are_keras_keys_and_do_something),
        cmocka_unit_test(schedules_are_read_and_checked),
        cmocka_unit_test(updates_of_a_warm_up_are_those_of_accumulated_steps),
        cmocka_unit_test(piecewise_rates_are_one_more_than_rising_boundaries),
        cmocka_unit_test(excluded_names_are_a_list_of_words),
        cmocka_unit_test(what_would_do_nothing_is_refused),
        cmocka_unit_test(what_nobody_heeds_beside_the_other_keys_is_refused),
        cmocka_unit_test(a_default_and_redo_may_stand_where_nobody_heeds_them),
        cmocka_unit_test(first_values_that_cannot_be_are_refused),
        cmocka_unit_test(a_set_value_is_plain_text_unless_it_opens_yaml),
        cmocka_unit_test(a_later_set_wins),
        cmocka_unit_test(paths_start_at_the_job_file_or_at_the_current_folder),
        cmocka_unit_test(what_is_no_yaml_names_its_line),
        cmocka_unit_test(aliases_cannot_grow_without_bound),
        cmocka_unit_test(layers_over_images_take_pairs_and_have_kerass_defaults),
        cmocka_unit_test(the_canonical_text_reads_back_as_the_same_job),
        cmocka_unit_test(a_frozen_layer_is_part_of_the_identity_and_a_trained_one_adds_nothing),
        cmocka_unit_test(
            first_weights_are_a_path_and_the_chief_alone_has_a_line_for_their_contents),
        cmocka_unit_test(run_time_keys_leave_the_identity_alone),
        cmocka_unit_test(a_delimiter_is_a_word_or_the_character_itself),
        cmocka_unit_test(an_escape_is_a_word_or_the_character_itself),
        cmocka_unit_test(a_number_for_missing_ones_is_a_double_and_was_a_float),
        cmocka_unit_test(columns_are_read_as_the_job_says),
        cmocka_unit_test(a_name_of_a_column_has_any_characters_and_4096_bytes),
        cmocka_unit_test(a_layer_reads_columns_of_any_name),
        cmocka_unit_test(columns_that_make_no_sense_are_refused),
        cmocka_unit_test(augmentation_is_for_images_alone),
        cmocka_unit_test(synthetic_rows_are_identity_of_synthetic_data_alone),
        cmocka_unit_test(keys_of_clicks_are_identity_of_clicks_alone),
        cmocka_unit_test(identity_keys_that_differ_are_named_with_both_values),
        cmocka_unit_test(a_long_value_leaves_room_for_what_follows),
        cmocka_unit_test(a_key_that_was_not_there_is_the_same_job_with_its_default),
        cmocka_unit_test(a_file_is_read_from_its_folder),
        cmocka_unit_test(the_example_is_a_job),
        cmocka_unit_test(running_out_of_memory_anywhere_is_told),
        cmocka_unit_test(the_reference_in_docs_is_what_the_table_says),
        cmocka_unit_test(every_key_is_in_order),
        cmocka_unit_test(distances_count_edits_and_swaps),
        cmocka_unit_test(the_folder_is_as_it_was_given_or_of_the_jobs_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
