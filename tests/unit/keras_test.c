/* Keras' archives: what is exported comes back by import; models of Keras itself become jobs, or are refused.
 * starts programs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "formats/keras/archive.h"
#include "formats/keras/config.h"
#include "formats/keras/keras.h"
#include "formats/keras/network.h"
#include "formats/keras/layers.h"
#include "tests/lib/trained.h"
#include "model/model.h"

static struct errmsg e;

static void must(enum err err)
{
    if (err)
        fail_msg("%s", e.text);
}

/* ---- words ---- */

static void classes_have_the_names_of_keras_groups(void **state)
{
    static const char *const names[][2] = {
        {"Conv2D", "conv2d"},
        {"BatchNormalization", "batch_normalization"},
        {"ReLU", "re_lu"},
        {"LeakyReLU", "leaky_re_lu"},
        {"ELU", "elu"},
        {"GlobalMaxPooling2D", "global_max_pooling2d"},
        {"InputLayer", "input_layer"},
        {"DepthwiseConv2D", "depthwise_conv2d"},
        {"Conv2DTranspose", "conv2d_transpose"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char group[64];
        job_snake_case(names[i][0], group, sizeof group);
        assert_string_equal(group, names[i][1]);
    }
}

/* ---- there and back ---- */

static const char job[] =
    "name: there\n"
    "model:\n"
    "  input: {shape: [28, 28, 1]}\n"
    "  layers:\n"
    "    - conv2d: {filters: 3, kernel_size: [3, 2], name: first}\n"
    "    - batch_normalization\n"
    "    - leaky_relu: {negative_slope: 0.1}\n"
    "    - max_pooling2d: {pool_size: 4, name: pool}\n"
    "    - flatten: {name: flat}\n"
    "    - dense: {units: 4, activation: relu, name: left}\n"
    "    - dense: {units: 6, inputs: [flat], name: middle, trainable: false}\n"
    "    - layer_normalization: {center: false}\n"
    "    - dense: {units: 4, use_bias: false, name: right}\n"
    "    - add: [left, right]\n"
    "    - dense: {units: 10, activation: softmax, name: out}\n"
    "  loss: sparse_categorical_crossentropy\n"
    "data: {format: synthetic, synthetic_train_rows: 10, scale: 255,\n"
    "       synthetic_eval_rows: 2}\n"
    "optimizer: sgd\n"
    "training: {epochs: 1, batch_size: 4}\n";

static void every_layer_but_those_of_tables_has_a_class(void **state)
{
    (void)state;
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        const struct job_layer l = {.kind = (enum layer_kind)kind, .embedding.input_dim = 1};
        bool is_gelu = l.kind == LAYER_GELU; /* Keras has only the activation */
        assert_true((keras_class_of(l.kind).name == NULL) == (job_layer_looks_up(&l) || is_gelu));
    }
}

static void read_bytes(const char *path, uint8_t **data, size_t *bytes)
{
    must(files_read_regular(path, 1 << 24, data, bytes, &e));
}

/* Weights of equal names and shapes have equal bits. */
static void check_weights(const struct imported *k, const struct trained *t)
{
    const struct layout *is = model_layout(k->model), *was = model_layout(t->model);
    assert_non_null(k->w);
    assert_int_equal(is->tensors, was->tensors);
    for (uint32_t i = 0; i < was->tensors; i++) {
        uint32_t at = 0;
        while (at < is->tensors && strcmp(is->tensor[at].name, was->tensor[i].name) != 0)
            at++;
        assert_true(at < is->tensors);
        assert_memory_equal(k->w + is->tensor[at].offset_elems, t->w + was->tensor[i].offset_elems,
                            was->tensor[i].elems * sizeof(float));
    }
}

static void an_exported_model_comes_back_by_import(void **state)
{
    (void)state;
    struct trained t;
    struct folder f;
    struct imported k;
    char path[FOLDER_BYTES + 16], again[FOLDER_BYTES + 16], *refused;
    uint8_t *one, *two;
    size_t bytes, same;
    trained_init(&t, job, NULL, NULL);
    must(folder_open(&f, t.model_dir, &e));
    (void)snprintf(path, sizeof path, "%s/a.keras", t.model_dir);
    (void)snprintf(again, sizeof again, "%s/b.keras", t.model_dir);
    must(keras_export(path, &f, &e));
    must(keras_export(again, &f, &e));
    read_bytes(path, &one, &bytes);
    read_bytes(again, &two, &same);
    assert_int_equal(bytes, same);
    assert_memory_equal(one, two, bytes);
    assert_memory_equal(one + 10, "\0\0\x21\0",
                        4); /* the first member's time and date: 1980-01-01 */
    assert_true(keras_is_model(path));
    if (keras_import(&k, path, &refused, &e))
        fail_msg("%s\n%s", e.text, refused ? refused : "");
    assert_null(refused);
    assert_true(k.scale > 254.99f && k.scale < 255.01f);
    assert_non_null(strstr(k.yaml, "trainable: false, name: \"middle\"}"));
    assert_null(strstr(strstr(k.yaml, "trainable") + 1, "trainable"));
    check_weights(&k, &t);
    imported_close(&k);
    folder_close(&f);
    mem_free(one);
    mem_free(two);
    trained_close(&t);
}

/* Keras orders layers by their distance from the output, and then by a walk from there: so the groups have their numbers. */
static void groups_are_numbered_in_the_order_of_keras(void **state)
{
    (void)state;
    struct job j;
    struct network n;
    char group[96], list[400] = "";
    must(job_parse(&j, job, strlen(job), "job.yaml", "/", NULL, 0, &e));
    must(network_init(&n, &j, &e));
    for (uint32_t i = 0; i < n.layers; i++) {
        if (!n.layer[n.order[i]].of)
            continue;
        network_group(&n, i, group, sizeof group);
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s %s\n",
                       n.layer[n.order[i]].name, group);
    }
    assert_string_equal(list, "first layers/conv2d/vars\n"
                              "batch_normalization layers/batch_normalization/vars\n"
                              "middle layers/dense/vars\n"
                              "layer_normalization layers/layer_normalization/vars\n"
                              "left layers/dense_1/vars\n"
                              "right layers/dense_2/vars\n"
                              "out layers/dense_3/vars\n");
    network_close(&n);
    job_close(&j);
}

/* With the backend torch a name has no point, and no two layers of a model have the same name. */
static void names_have_no_points_and_stay_different(void **state)
{
    static const char points[] = "model:\n"
                                 "  input: {shape: [28, 28]}\n"
                                 "  layers:\n"
                                 "    - flatten: {name: a.b}\n"
                                 "    - dense: {units: 4, name: a_b}\n"
                                 "    - dense: {units: 4, name: scale}\n"
                                 "    - dense: {units: 10, activation: softmax, name: a_b_1}\n"
                                 "  loss: sparse_categorical_crossentropy\n"
                                 "data: {format: synthetic}\n"
                                 "optimizer: sgd\n";
    (void)state;
    struct job j;
    struct network n;
    char list[400] = "";
    must(job_parse(&j, points, strlen(points), "job.yaml", "/", NULL, 0, &e));
    must(network_init(&n, &j, &e));
    for (uint32_t i = 0; i < n.layers; i++)
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s ",
                       n.layer[n.order[i]].name);
    assert_string_equal(list, "input a_b_2 a_b scale a_b_1 ");
    network_close(&n);
    job_close(&j);
}

/* ---- models of Keras ---- */

static void keras_own_text_becomes_a_job(void **state)
{
    (void)state;
    struct imported k;
    uint8_t *expected;
    size_t bytes;
    char *refused;
    must(keras_import(&k, "tests/data/keras/functional.json", &refused, &e));
    read_bytes("tests/data/keras/functional.yaml", &expected, &bytes);
    assert_string_equal(k.yaml, (char *)expected);
    assert_string_equal(k.notes, "not taken over: training=False of the call of dropout\n"
                                 "not taken over: the metric top_k_categorical_accuracy: a job has "
                                 "no such metric\n");
    assert_string_equal(k.optimizer, "optimizer: adam\n");
    assert_string_equal(k.training, "  learning_rate: 0.001\n");
    assert_true(k.scale > 254.99f && k.scale < 255.01f);
    assert_null(k.w);
    imported_close(&k);
    mem_free(expected);
}

/* small.keras: saved by Keras 3.15.1, whose model.predict gave these values. Its branches have other numbers in the weights'
 * groups than in their layers' order. */
static void an_archive_of_keras_predicts_as_in_keras(void **state)
{
    (void)state;
    enum { ROWS = 2, FEATURES = 6, CLASSES = 3 };
    static const float theirs[ROWS * CLASSES] = {0.29379669f, 0.05683262f, 0.64937067f,
                                                 0.36776757f, 0.31228015f, 0.31995222f};
    float x[ROWS * FEATURES], ours[ROWS * CLASSES];
    struct imported k;
    struct model_run *run;
    struct packed *w;
    char *refused;
    for (int i = 0; i < ROWS * FEATURES; i++)
        x[i] = (float)i / (ROWS * FEATURES);
    must(keras_import(&k, "tests/data/keras/small.keras", &refused, &e));
    must(model_run_new(&run, k.model, ROWS, &e));
    const struct leaf rows = {.n = ROWS, .x = x};
    must(packed_new(&w, k.model, k.w, &e));
    must(model_predict(run, w, &rows, ours, &e));
    for (int i = 0; i < ROWS * CLASSES; i++)
        assert_true(ours[i] - theirs[i] < 1e-6f && theirs[i] - ours[i] < 1e-6f);
    model_run_free(run);
    packed_free(w);
    imported_close(&k);
}

/* small.keras with other texts in it; NULL: its own. */
static enum err import_changed(const char *metadata, const char *config)
{
    struct imported k;
    char *refused, *own, path[] = "/tmp/gradwire-keras-test-XXXXXX";
    size_t bytes;
    int code, weights, fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    must(archive_read("tests/data/keras/small.keras", &own, &bytes, &weights, &e));
    must(archive_write(path, config ? config : own, weights, &e));
    zip_t *zip = zip_open(path, 0, &code);
    assert_non_null(zip);
    if (metadata)
        assert_true(zip_file_add(zip, "metadata.json",
                                 zip_source_buffer(zip, metadata, strlen(metadata), 0),
                                 ZIP_FL_OVERWRITE) >= 0);
    assert_int_equal(zip_close(zip), 0);
    enum err err = keras_import(&k, path, &refused, &e);
    if (!err)
        imported_close(&k);
    mem_free(refused);
    mem_free(own);
    (void)close(weights);
    (void)remove(path);
    return err;
}

static void refused_as(const char *metadata, const char *config, const char *why)
{
    assert_int_equal(import_changed(metadata, config), ERR_INPUT);
    const char *said = strstr(e.text, ": ");
    assert_non_null(said);
    assert_string_equal(said + 2, why);
}

static void a_model_is_of_keras_2_only_if_the_file_says_so(void **state)
{
    (void)state;
    static const char no_module[] =
        "{\"class_name\": \"Sequential\", \"config\": {\"layers\": []}}";
    must(import_changed("", NULL)); /* Keras does not need it either */
    must(import_changed("{\"keras_version\": 2}", NULL));
    refused_as("{\"keras_version\": \"2.13.1\",\n\"keras_version\": \"3.0.0\"}", NULL,
               "metadata.json:2: duplicate object key near '\"keras_version\"'");
    refused_as(
        "", no_module,
        "config.json is not from Keras 3: it has no \"module\"; load the model with Keras 3, "
        "and save it again");
    refused_as("{\"keras_version\": \"2.13.1\"}", NULL,
               "it is from Keras 2.13.1 (metadata.json): load the model with Keras 3, and save it "
               "again");
    refused_as(NULL,
               "{\"class_name\": \"Sequential\", \"config\": {\"layers\": []}, "
               "\"keras_version\": \"2.15.0\"}",
               "config.json is not from Keras 3: it has no \"module\", and its keras_version is "
               "\"2.15.0\"; load the model with Keras 3, and save it again");
    refused_as(NULL,
               "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"layers\": "
               "[]}, \"keras_version\": \"2.15.0\"}",
               "config.json is not from Keras 3: its keras_version is \"2.15.0\"; load the model "
               "with Keras 3, and save it again");
    refused_as(NULL,
               "{\"module\": \"mine\", \"class_name\": \"Net\", \"config\": {\"layers\": []}, "
               "\"registered_name\": \"mine>Net\"}",
               "the model is of a class of its own, which import cannot know: make a keras.Model "
               "of its layers, and save that");
}

static void all_that_a_job_cannot_have_is_listed_at_once(void **state)
{
    (void)state;
    struct imported k;
    char *refused;
    assert_int_equal(keras_import(&k, "tests/data/keras/refused.json", &refused, &e), ERR_INPUT);
    assert_string_equal(e.text, "tests/data/keras/refused.json: a job cannot have 6 of the model's "
                                "layers and options");
    assert_non_null(refused);
    static const char *const parts[] = {
        "dense_2 (Dense): activation is \"hard_sigmoid\"; a job has no such activation\n",
        "dense_2 (Dense): kernel_constraint is {\"module\"",
        "gaussian_noise (GaussianNoise): a job has no such layer: replace it in Keras",
        "layer_normalization (LayerNormalization): rms_scaling is true; a job has only false\n",
        "a job has no such initializer\n",
        "the model (loss): \"huber\"; compile it with a crossentropy",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(refused, parts[i]));
    mem_free(refused);
}

/* A Sequential model of one layer, with a part of its config replaced. */
static enum err import_text(const char *layers, char **refused, char **yaml)
{
    struct config c;
    char text[2000];
    int n =
        snprintf(text, sizeof text,
                 "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": "
                 "\"m\", \"layers\": [%s]}}",
                 layers);
    enum err err = config_read(&c, text, (size_t)n, "m.keras", true, refused, &e);
    if (!err) {
        *yaml = mem_strdup(c.m.yaml);
        imported_close(&c.m);
    }
    return err;
}

#define INPUT                                                                                      \
    "{\"class_name\": \"InputLayer\", \"config\": {\"name\": \"i\", \"batch_shape\": [null, 4]}}"
#define DENSE(options)                                                                             \
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": 3" options "}}"

static void a_loss_is_guessed_from_the_last_layer(void **state)
{
    static const char *const guesses[][2] = {
        {DENSE(", \"activation\": \"softmax\""), "loss: sparse_categorical_crossentropy\n"},
        {DENSE(""), "loss: {sparse_categorical_crossentropy: {from_logits: true}}\n"},
        {DENSE(", \"activation\": \"sigmoid\""), "loss: binary_crossentropy\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        char layers[600], *refused, *yaml = NULL;
        (void)snprintf(layers, sizeof layers, INPUT ", %s", guesses[i][0]);
        must(import_text(layers, &refused, &yaml));
        assert_non_null(strstr(yaml, guesses[i][1]));
        mem_free(yaml);
    }
}

static void wrong_options_are_refused_by_name(void **state)
{
    static const char *const wrong[][2] = {
        {DENSE(", \"new\": 3"), "d (Dense): its option new (3) is not known here\n"},
        {DENSE(", \"new\": false"), "d (Dense): its option new (false) is not known here\n"},
        {DENSE(", \"dtype\": \"int8\""),
         "d (Dense): dtype is \"int8\"; a job computes in float32\n"},
        {"{\"class_name\": \"Dense\", \"module\": \"mine\", \"config\": {\"name\": \"d\", "
         "\"units\": 3}, \"registered_name\": \"mine>Dense\"}",
         "d (Dense): it is not Keras' own layer, but one of this name\n"},
        {"{\"class_name\": \"InputLayer\", \"config\": {\"name\": \"s\", \"batch_shape\": [null, "
         "4], \"sparse\": true}}",
         "s (InputLayer): sparse is true; a job has only false\n"},
        {DENSE(", \"activation\": {\"config\": \"gl\\u0007u\"}"), "activation is"},
        {DENSE(", \"units\": [1]"), "units is"},
        {"{\"class_name\": \"Flatten\", \"config\": {\"name\": \"a b\"}}",
         "a b (Flatten): a name in a job has 1 to 63 letters, digits, . _ or -\n"},
        {"{\"class_name\": \"Reshape\", \"config\": {\"name\": \"r\", \"target_shape\": [-1, 2]}}",
         "r (Reshape): target_shape is [-1, 2]; a job has 1 to 4 numbers above 0 here\n"},
        {"{\"class_name\": \"Rescaling\", \"config\": {\"name\": \"r\", \"scale\": 2, \"offset\": "
         "1}}",
         "r (Rescaling): a job has it only as the first layer"},
        {INPUT, "i (InputLayer): it is input 2; a job has one\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char layers[600], *refused, *yaml = NULL;
        bool twice = strstr(wrong[i][0], "\"units\": [1]");
        (void)snprintf(layers, sizeof layers, INPUT ", %s", wrong[i][0]);
        assert_int_equal(import_text(layers, &refused, &yaml), ERR_INPUT);
        if (twice) /* the same key again: no JSON */
            assert_null(refused);
        else if (!refused || !strstr(refused, wrong[i][1]))
            fail_msg("%s", refused ? refused : e.text);
        mem_free(refused);
    }
}

/* ---- what a model was compiled with ---- */

/* A Sequential model with one layer and this compile_config. Returns false: refused. */
static bool import_compiled(struct imported *k, const char *layer, const char *compiled,
                            char **refused)
{
    char text[4000], path[] = "/tmp/gradwire-keras-test-XXXXXX";
    int fd = mkstemp(path);
    int n = snprintf(text, sizeof text,
                     "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": "
                     "{\"name\": \"m\", \"layers\": [" INPUT ", %s]}, \"compile_config\": {%s}}",
                     layer, compiled);
    assert_true(fd >= 0 && write(fd, text, (size_t)n) == n);
    (void)close(fd);
    *refused = NULL;
    enum err err = keras_import(k, path, refused, &e);
    (void)remove(path);
    return err == ERR_OK;
}

#define ONE DENSE_UNITS("1", ", \"activation\": \"sigmoid\"")
#define THREE DENSE_UNITS("3", ", \"activation\": \"softmax\"")
#define DENSE_UNITS(units, options)                                                                \
    "{\"class_name\": \"Dense\", \"config\": {\"name\": \"d\", \"units\": " units options "}}"
#define OF(class, config) "{\"class_name\": \"" class "\", \"config\": {" config "}}"
#define BINARY "\"loss\": \"binary_crossentropy\", "
#define SPARSE "\"loss\": \"sparse_categorical_crossentropy\", "

static void a_guessed_loss_that_does_not_fit_is_not_called_the_users(void **state)
{
    struct imported k;
    char *refused;
    (void)state;
    assert_false(import_compiled(&k, DENSE_UNITS("3", ", \"activation\": \"gelu\""), "", &refused));
    assert_non_null(strstr(e.text, ": the file has no loss, and the one that import chose does not "
                                   "fit its last layer: model.loss: sparse_categorical_"));
    assert_non_null(strstr(e.text, "; compile the model with a loss, and save it again"));
    assert_false(import_compiled(&k, DENSE_UNITS("3", ", \"activation\": \"gelu\""),
                                 "\"loss\": \"sparse_categorical_crossentropy\"", &refused));
    assert_null(strstr(e.text, "import chose"));
}

/* Each option of a loss, a metric, an optimizer or compile() is mapped, or named in the notes. */
static void what_a_model_was_compiled_with_is_taken_over_or_noted(void **state)
{
    static const struct {
        const char *layer, *compiled, *yaml, *note;
    } cases[] = {
        /* metrics that would have other values */
        {ONE, BINARY "\"metrics\": [" OF("Precision", "\"thresholds\": 0.9") "]", "!metrics",
         "not taken over: the metric Precision: its thresholds is 0.9\n"},
        {ONE, BINARY "\"metrics\": [" OF("Recall", "\"top_k\": 2") "]", "!metrics",
         "not taken over: the metric Recall: its top_k is 2\n"},
        {ONE, BINARY "\"metrics\": [" OF("AUC", "\"curve\": \"PR\"") ", \"mae\"]",
         "metrics: [mean_absolute_error]", "not taken over: the metric AUC: its curve is \"PR\"\n"},
        {ONE, BINARY "\"metrics\": [" OF("BinaryAccuracy", "\"threshold\": 0.3") "]", "!metrics",
         "not taken over: the metric BinaryAccuracy: its threshold is 0.3\n"},
        {ONE, BINARY "\"metrics\": [" OF("AUC", "\"new\": false") "]", "!metrics",
         "not taken over: the metric AUC: its new is false\n"},
        {ONE, BINARY "\"metrics\": [" OF("Accuracy", "") "]", "!metrics",
         "not taken over: the metric Accuracy: a job has no such metric\n"},
        {ONE,
         BINARY "\"metrics\": [{\"module\": \"mine\", \"class_name\": \"AUC\", \"config\": {}, "
                "\"registered_name\": \"mine>AUC\"}]",
         "!metrics", "not taken over: the metric {"},
        {THREE, SPARSE "\"metrics\": [" OF("BinaryAccuracy", "\"threshold\": 0.5") "]", "!metrics",
         "not taken over: the metric BinaryAccuracy: in a job it needs the loss "
         "binary_crossentropy\n"},
        {ONE, BINARY "\"metrics\": [" OF("BinaryCrossentropy", "\"from_logits\": true") "]",
         "!metrics",
         "not taken over: the metric BinaryCrossentropy: its from_logits is not that of the "
         "loss\n"},
        /* metrics that do not fit refuse no import */
        {THREE, SPARSE "\"metrics\": [\"accuracy\", " OF("AUC", "\"curve\": \"ROC\"") "]",
         "metrics: [accuracy]", "not taken over: the metric AUC: in a job it needs the loss"},
        {THREE, SPARSE "\"metrics\": [\"mae\", \"accuracy\"]", "metrics: [accuracy]",
         "not taken over: the metric mean_absolute_error: model.metrics: mean_absolute_error does "
         "not fit 3 outputs"},
        {ONE, "\"loss\": \"mse\", \"metrics\": [\"accuracy\"]", "!metrics",
         "not taken over: the metric accuracy: model.metrics: accuracy does not fit"},
        /* metrics that are ours */
        {ONE,
         BINARY "\"metrics\": [" OF("AUC", "\"num_thresholds\": 500, \"curve\": \"ROC\"") ", " OF(
             "Precision", "\"thresholds\": [0.5], \"class_id\": null") ", \"bce\"]",
         "metrics: [auc, precision, logloss]",
         "not taken over: num_thresholds 500 of the metric AUC\n"},
        {ONE, BINARY "\"metrics\": {\"d\": [\"accuracy\"]}", "metrics: [accuracy]", ""},
        /* losses */
        {ONE,
         "\"loss\": " OF("BinaryCrossentropy",
                         "\"name\": \"b\", \"from_logits\": false, \"label_smoothing\": 0.1, "
                         "\"axis\": -1"),
         "loss: binary_crossentropy\n",
         "not taken over: label_smoothing 0.1 of the loss BinaryCrossentropy\n"},
        {ONE, "\"loss\": " OF("MeanSquaredError", "\"reduction\": \"sum\""),
         "loss: mean_squared_error\n",
         "not taken over: reduction \"sum\" of the loss MeanSquaredError\n"},
        {THREE, "\"loss\": " OF("SparseCategoricalCrossentropy", "\"ignore_class\": 0"),
         "loss: sparse_categorical_crossentropy\n",
         "not taken over: ignore_class 0 of the loss SparseCategoricalCrossentropy\n"},
        /* compile() */
        {ONE, BINARY "\"loss_weights\": [2.0]", "!metrics",
         "not taken over: loss_weights [2.0] of compile()\n"},
        {ONE, BINARY "\"weighted_metrics\": [\"auc\"], \"run_eagerly\": true", "!metrics",
         "not taken over: weighted_metrics [\"auc\"] of compile()\n"},
        {ONE, BINARY "\"new\": 1", "!metrics", "not taken over: new 1 of compile()\n"},
        {ONE, BINARY "\"optimizer\": \"nadam\"", "!metrics",
         "not taken over: the optimizer nadam: the job has adam\n"},
        {ONE, BINARY "\"optimizer\": " OF("Adam", "\"clipnorm\": 1.0"), "!metrics",
         "not taken over: clipnorm 1.0 of the optimizer Adam\n"},
        /* layers */
        {"{\"class_name\": \"Dropout\", \"config\": {\"name\": \"o\", \"rate\": 0.5, \"seed\": "
         "7}}, " ONE,
         BINARY "\"jit_compile\": true", "dropout", "not taken over: seed 7 of o\n"},
        {DENSE_UNITS("1", ", \"dtype\": \"mixed_float16\", \"activation\": \"sigmoid\""),
         BINARY "\"jit_compile\": true", "dense", "not taken over: dtype \"mixed_float16\" of d\n"},
        {DENSE_UNITS("1", ", \"kernel_initializer\": " OF(
                              "HeNormal", "\"seed\": 3") ", \"activation\": \"sigmoid\""),
         BINARY "\"jit_compile\": true", "he_normal",
         "not taken over: seed 3 of d's kernel_initializer\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct imported k;
        char *refused;
        if (!import_compiled(&k, cases[i].layer, cases[i].compiled, &refused))
            fail_msg("%s: %s %s", cases[i].compiled, e.text, refused ? refused : "");
        bool absent = cases[i].yaml[0] == '!';
        if (!strstr(k.yaml, cases[i].yaml + absent) != absent || !strstr(k.notes, cases[i].note) ||
            (!cases[i].note[0] && k.notes[0]))
            fail_msg("%s:\n%s\n%s", cases[i].compiled, k.yaml, k.notes);
        imported_close(&k);
    }
}

static void an_optimizer_of_keras_becomes_that_of_the_job(void **state)
{
    static const char *const cases[][3] = {
        {"\"sgd\"", "optimizer: sgd\n", ""},
        {OF("SGD", "\"name\": \"s\", \"learning_rate\": 0.10000000149011612, \"momentum\": 0.9, "
                   "\"nesterov\": true, \"weight_decay\": null, \"global_clipnorm\": 1.5, "
                   "\"use_ema\": false, \"ema_momentum\": 0.9"),
         "optimizer: {sgd: {momentum: 0.9, nesterov: true}}\n",
         "  learning_rate: 0.1\n  clip_norm: 1.5\n"},
        {OF("Adam", "\"learning_rate\": 0.01, \"beta_1\": 0.8, \"amsgrad\": true, \"epsilon\": 0, "
                    "\"use_ema\": true, \"ema_momentum\": 0.9"),
         "optimizer: {adam: {beta_1: 0.8, amsgrad: true, epsilon: 0, use_ema: true, ema_momentum: "
         "0.9}}\n",
         "  learning_rate: 0.01\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct imported k;
        char *refused, text[700];
        (void)snprintf(text, sizeof text, BINARY "\"optimizer\": %s", cases[i][0]);
        assert_true(import_compiled(&k, ONE, text, &refused));
        assert_string_equal(k.optimizer, cases[i][1]);
        assert_string_equal(k.training, cases[i][2]);
        assert_string_equal(k.notes, "");
        imported_close(&k);
    }
}

static void a_deep_or_broken_text_is_an_error(void **state)
{
    (void)state;
    struct config c;
    enum { DEPTH = 100000 };
    char *refused, *deep = mem_zalloc(DEPTH + 1, 1);
    assert_non_null(deep);
    memset(deep, '[', DEPTH);
    assert_int_equal(config_read(&c, deep, DEPTH, "m.json", false, &refused, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "m.json: config.json:1: "));
    assert_int_equal(config_read(&c, "{}", 2, "m.json", false, &refused, &e), ERR_INPUT);
    assert_string_equal(e.text, "m.json: config.json describes no Sequential or Functional model");
    mem_free(deep);
}

static void an_hdf5_file_alone_is_refused_with_what_to_do(void **state)
{
    (void)state;
    struct imported k;
    char *refused, path[] = "/tmp/gradwire-keras-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "\x89HDF\r\n\x1a\n", 8), 8);
    (void)close(fd);
    assert_true(keras_is_model(path));
    assert_int_equal(keras_import(&k, path, &refused, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "load the model in Keras 3, and save it as a .keras file"));
    (void)remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guessed_loss_that_does_not_fit_is_not_called_the_users),
        cmocka_unit_test(classes_have_the_names_of_keras_groups),
        cmocka_unit_test(every_layer_but_those_of_tables_has_a_class),
        cmocka_unit_test(an_exported_model_comes_back_by_import),
        cmocka_unit_test(groups_are_numbered_in_the_order_of_keras),
        cmocka_unit_test(names_have_no_points_and_stay_different),
        cmocka_unit_test(keras_own_text_becomes_a_job),
        cmocka_unit_test(an_archive_of_keras_predicts_as_in_keras),
        cmocka_unit_test(a_model_is_of_keras_2_only_if_the_file_says_so),
        cmocka_unit_test(all_that_a_job_cannot_have_is_listed_at_once),
        cmocka_unit_test(a_loss_is_guessed_from_the_last_layer),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(what_a_model_was_compiled_with_is_taken_over_or_noted),
        cmocka_unit_test(an_optimizer_of_keras_becomes_that_of_the_job),
        cmocka_unit_test(a_deep_or_broken_text_is_an_error),
        cmocka_unit_test(an_hdf5_file_alone_is_refused_with_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
