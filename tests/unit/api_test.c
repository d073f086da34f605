/* The C library: what it says of a model, scores of texts, typed values and numbers, the encoding alone, errors, threads, and
 * no allocation in a call. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "common/rows/key.h"
#include "predict/gradwire-predict.h"
#include "tests/lib/trained.h"

enum { ROWS = 64, PATH_BYTES = 256 };

/* ---- the process's allocations are counted ---- */

static atomic_ulong allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTED __attribute__((visibility("default")))
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

COUNTED void *malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(bytes);
}
COUNTED void *calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, bytes);
}
COUNTED void *realloc(void *p, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(p, bytes);
}
COUNTED void *aligned_alloc(size_t align, size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, bytes);
}
#endif

/* ---- models ---- */

static const char wide_deep[] =
    "model:\n"
    "  input: {shape: auto}\n"
    "  loss: binary_crossentropy\n"
    "  layers:\n"
    "    - linear: {inputs: [site, tags, both], name: wide}\n"
    "    - embedding: {inputs: [site], output_dim: 3, name: e}\n"
    "    - dense: {inputs: [e, age, town], units: 4, activation: relu}\n"
    "    - dense: {units: 1, name: deep}\n"
    "    - add: {inputs: [wide, deep]}\n"
    "    - sigmoid: {name: click}\n"
    "optimizer: adam\n"
    "data:\n"
    "  format: csv\n"
    "  train: train.txt\n"
    "  eval: eval.txt\n"
    "  columns:\n"
    "    - ignore\n"
    "    - number: {name: age, scale: standard}\n"
    "    - label: {name: answer, classes: ['no|nope', 'yes']}\n"
    "    - category: town\n"
    "    - key: site\n"
    "    - cross: {name: both, of: [site, page]}\n"
    "    - keys: {name: tags, separator: ' ', max_values: 3, weights: true}\n"
    "    - key: page\n";
enum { AGE, TOWN, SITE, TAGS, PAGE, VALUES, BOTH = VALUES };

static const char mlp[] =
    "model: {input: {shape: [28, 28]}, loss: sparse_categorical_crossentropy,\n"
    "  layers: [flatten, dense: {units: 16, activation: relu}, dense: 10, softmax]}\n"
    "optimizer: adam\n"
    "data: {format: synthetic, synthetic_train_rows: 50, synthetic_eval_rows: 64, scale: 255}\n";

static const char linear[] =
    "model: {input: {shape: auto}, loss: binary_crossentropy, metrics: [auc],\n"
    "  layers: [linear: {inputs: f, name: keys, use_bias: true}, sigmoid]}\n"
    "optimizer: sgd\n"
    "data: {format: libsvm, train: train.txt, eval: eval.txt, columns: [label: y,\n"
    "  keys: {name: f, max_values: 4}]}\n";

struct row {
    char age[16], town[16], site[16], tags[32], page[16];
};

static struct row draw(uint64_t seed, uint64_t i)
{
    struct row r;
    uint64_t d = rng_u64(seed, i);
    (void)snprintf(r.age, sizeof r.age, "%u", (unsigned)(d % 90));
    (void)snprintf(r.town, sizeof r.town, "t%u", (unsigned)(d >> 8 & 7));
    (void)snprintf(r.site, sizeof r.site, "s%u", (unsigned)(d >> 16 & 31));
    (void)snprintf(r.tags, sizeof r.tags, "a b:%.2f", (double)rng_unit(d, 1));
    (void)snprintf(r.page, sizeof r.page, "p%u", (unsigned)(d >> 32 & 31));
    if (d % 9 == 0)
        r.age[0] = '\0';
    if (d >> 24 & 1)
        r.tags[0] = '\0';
    return r;
}

static char *csv_of(uint64_t seed)
{
    char *text = mem_zalloc(ROWS, 128), *at = text;
    assert_non_null(text);
    for (uint64_t i = 0; i < ROWS; i++) {
        struct row r = draw(seed, i);
        at += sprintf(at, "id,%s,%s,%s,%s,%s,%s\n", r.age, i & 1 ? "yes" : "nope", r.town, r.site,
                      r.tags, r.page);
    }
    return text;
}

struct fixture {
    struct trained t;
    struct gradwire_model *model;
    struct gradwire_scorer *scorer;
    struct gradwire_error e;
};

static void must(const struct fixture *f, enum gradwire_status status)
{
    if (status)
        fail_msg("%s", f->e.text);
}

static void setup(struct fixture *f, const char *job)
{
    char *train = csv_of(1), *eval = csv_of(2);
    *f = (struct fixture){.e = {.column = 0}};
    if (job == linear)
        trained_init(&f->t, job, "1 3:1 7:0.5\n-1 4:2\n", "1 3:0.5 4:1\n-1 900:2 # new\n");
    else
        trained_init(&f->t, job, train, eval);
    must(f, gradwire_model_open(&f->model, f->t.dir, &f->e));
    must(f, gradwire_scorer_new(&f->scorer, f->model, ROWS, &f->e));
    mem_free(train);
    mem_free(eval);
}

static void teardown(struct fixture *f)
{
    gradwire_scorer_free(f->scorer);
    gradwire_model_close(f->model);
    trained_close(&f->t);
}

static struct gradwire_text text_of(const char *s)
{
    return (struct gradwire_text){s, strlen(s)};
}

static void fields_of(const struct row *r, struct gradwire_text field[VALUES])
{
    field[AGE] = text_of(r->age);
    field[TOWN] = text_of(r->town);
    field[SITE] = text_of(r->site);
    field[TAGS] = text_of(r->tags);
    field[PAGE] = text_of(r->page);
}

static void add_texts(struct fixture *f)
{
    gradwire_scorer_clear(f->scorer);
    for (uint64_t i = 0; i < ROWS; i++) {
        struct row r = draw(2, i);
        struct gradwire_text field[VALUES];
        fields_of(&r, field);
        must(f, gradwire_scorer_add_text(f->scorer, field, &f->e));
    }
    assert_int_equal(gradwire_scorer_rows(f->scorer), ROWS);
}

static float sigmoid(float z)
{
    return (float)(1 / (1 + exp(-(double)z)));
}

static void assert_near(float is, float wanted)
{
    if (!(fabsf(is - wanted) <= 1e-6f))
        fail_msg("%.9g is not %.9g", (double)is, (double)wanted);
}

/* ---- what it says of a model ---- */

static void columns_are_those_that_a_score_needs(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t first = 99;
    setup(&f, wide_deep);
    const struct gradwire_model *m = f.model;
    assert_int_equal(gradwire_model_columns(m), VALUES);
    assert_int_equal(gradwire_model_crosses(m), 1);
    static const char *const names[] = {"age", "town", "site", "tags", "page", "both"};
    static const enum gradwire_kind kinds[] = {GRADWIRE_NUMBER, GRADWIRE_CATEGORY, GRADWIRE_KEY,
                                               GRADWIRE_KEYS,   GRADWIRE_KEY,      GRADWIRE_CROSS};
    static const uint32_t keys[] = {0, 0, 1, 3, 1, 1};
    for (uint32_t i = 0; i <= VALUES; i++) {
        assert_string_equal(gradwire_column_name(m, i), names[i]);
        assert_int_equal(gradwire_column_find(m, names[i]), i);
        assert_int_equal(gradwire_column_kind(m, i), kinds[i]);
        assert_int_equal(gradwire_column_max_values(m, i), keys[i]);
    }
    assert_int_equal(gradwire_column_features(m, TOWN, &first), 8);
    assert_int_equal(first, 1);
    assert_int_equal(gradwire_column_features(m, SITE, &first), 0);
    assert_int_equal(gradwire_column_find(m, "answer"), GRADWIRE_NONE);
    assert_null(gradwire_column_name(m, VALUES + 1));
    assert_int_equal(gradwire_column_kind(m, VALUES + 1), GRADWIRE_NO_COLUMN);
    assert_int_equal(gradwire_column_max_values(m, GRADWIRE_NONE), 0);
    teardown(&f);
}

static void inputs_outputs_and_classes_are_those_of_the_job(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t shape[GRADWIRE_RANK_MAX];
    setup(&f, wide_deep);
    assert_int_equal(gradwire_model_features(f.model), 9);
    assert_int_equal(gradwire_model_shape(f.model, shape), 1);
    assert_int_equal(shape[0], 9);
    assert_int_equal(gradwire_model_outputs(f.model), 1);
    assert_string_equal(gradwire_model_output_name(f.model), "click");
    assert_int_equal(gradwire_model_classes(f.model), 2);
    assert_string_equal(gradwire_class_name(f.model, 0), "no|nope");
    assert_string_equal(gradwire_class_name(f.model, 1), "yes");
    assert_null(gradwire_class_name(f.model, 2));
    assert_int_equal(gradwire_model_layers(f.model), 2);
    assert_string_equal(gradwire_layer_name(f.model, 1), "e");
    assert_int_equal(gradwire_layer_width(f.model, 1), 3);
    assert_null(gradwire_layer_name(f.model, 2));
    assert_int_equal(gradwire_layer_width(f.model, 2), 0);
    teardown(&f);
    setup(&f, mlp);
    assert_int_equal(gradwire_model_columns(f.model), 0);
    assert_int_equal(gradwire_model_shape(f.model, shape), 2);
    assert_int_equal(shape[1], 28);
    assert_int_equal(gradwire_model_outputs(f.model), 10);
    assert_null(gradwire_class_name(f.model, 0));
    teardown(&f);
    assert_non_null(strchr(gradwire_version(), '.'));
}

/* ---- scores ---- */

static void text_rows_score_as_training_scores_them(void **state)
{
    (void)state;
    struct fixture f;
    float wanted[ROWS], out[ROWS];
    setup(&f, wide_deep);
    trained_outputs(&f.t, 0, ROWS, wanted);
    add_texts(&f);
    must(&f, gradwire_scorer_score(f.scorer, out, &f.e));
    for (uint32_t i = 0; i < ROWS; i++)
        assert_near(out[i], sigmoid(wanted[i]));
    teardown(&f);
}

static void one_typed_row_scores_as_its_text(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, wide_deep);
    for (uint64_t i = 0; i < ROWS; i++) {
        struct row r = draw(2, i);
        struct gradwire_text field[VALUES], words[] = {{"a", 1}, {"b", 1}};
        float weights[] = {1, *r.tags ? strtof(r.tags + 4, NULL) : 0}, text, typed;
        fields_of(&r, field);
        struct gradwire_value v[VALUES] = {{.type = GRADWIRE_VALUE_MISSING}};
        for (int k = TOWN; k < VALUES; k++)
            v[k] = (struct gradwire_value){.type = GRADWIRE_VALUE_TEXT, .as.text = field[k]};
        v[AGE].type = GRADWIRE_VALUE_NUMBER;
        v[AGE].as.number = *r.age ? strtof(r.age, NULL) : NAN;
        v[TAGS] = (struct gradwire_value){
            .type = GRADWIRE_VALUE_WORDS, .count = *r.tags ? 2 : 0, .as.words = {words, weights}};
        gradwire_scorer_clear(f.scorer);
        must(&f, gradwire_scorer_add_text(f.scorer, field, &f.e));
        must(&f, gradwire_scorer_score(f.scorer, &text, &f.e));
        gradwire_scorer_clear(f.scorer);
        must(&f, gradwire_scorer_add_values(f.scorer, v, &f.e));
        must(&f, gradwire_scorer_score(f.scorer, &typed, &f.e));
        assert_true(text == typed);
    }
    teardown(&f);
}

static void numbers_are_scaled_as_in_training(void **state)
{
    (void)state;
    enum { PIXELS = 28 * 28, CLASSES = 10 };
    struct fixture f;
    float wanted[ROWS * CLASSES], out[ROWS * CLASSES], raw[PIXELS];
    setup(&f, mlp);
    trained_outputs(&f.t, 0, ROWS, wanted);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < PIXELS; i++)
            raw[i] = (float)f.t.eval.x[row * PIXELS + i];
        must(&f, gradwire_scorer_add_numbers(f.scorer, raw, &f.e));
    }
    must(&f, gradwire_scorer_score(f.scorer, out, &f.e));
    for (uint32_t row = 0; row < ROWS; row++) {
        double sum = 0, all = 0;
        for (uint32_t c = 0; c < CLASSES; c++)
            sum += exp((double)wanted[row * CLASSES + c]);
        for (uint32_t c = 0; c < CLASSES; c++) {
            assert_near(out[row * CLASSES + c],
                        (float)(exp((double)wanted[row * CLASSES + c]) / sum));
            all += (double)out[row * CLASSES + c];
        }
        assert_true(fabs(all - 1) < 1e-5);
    }
    teardown(&f);
}

static void a_libsvm_row_is_the_text_after_its_label(void **state)
{
    (void)state;
    struct fixture f;
    float wanted[2], out[2];
    uint64_t keys[2 * 4];
    float weights[2 * 4];
    setup(&f, linear);
    trained_outputs(&f.t, 0, 2, wanted);
    struct gradwire_text row[] = {text_of("3:0.5 4:1"), text_of("900:2 # new")};
    must(&f, gradwire_scorer_add_text(f.scorer, &row[0], &f.e));
    must(&f, gradwire_scorer_add_text(f.scorer, &row[1], &f.e));
    must(&f, gradwire_scorer_score(f.scorer, out, &f.e));
    assert_near(out[0], sigmoid(wanted[0]));
    assert_near(out[1], sigmoid(wanted[1]));
    must(&f, gradwire_scorer_keys(f.scorer, 0, keys, weights, &f.e));
    assert_true(keys[0] == 3 && keys[1] == 4 && keys[2] == 0 && keys[4] == 900);
    assert_true(weights[0] == 0.5f && weights[1] == 1 && weights[2] == 0 && weights[4] == 2);
    struct gradwire_text bad = text_of("4:1 3:1"), lines = text_of("3:1\n4:1");
    assert_int_equal(gradwire_scorer_add_text(f.scorer, &bad, &f.e), GRADWIRE_INPUT);
    assert_non_null(strstr(f.e.text, "column \"f\": \"3:1\" has a lower index"));
    assert_int_equal(gradwire_scorer_add_text(f.scorer, &lines, &f.e), GRADWIRE_INPUT);
    teardown(&f);
}

/* ---- the encoding ---- */

static void features_score_as_the_numbers_that_they_encode(void **state)
{
    (void)state;
    enum { PIXELS = 28 * 28, CLASSES = 10 };
    struct fixture f;
    float raw[PIXELS], x[PIXELS], out[CLASSES], again[CLASSES];
    setup(&f, mlp);
    for (uint32_t i = 0; i < PIXELS; i++)
        raw[i] = (float)(i % 256);
    must(&f, gradwire_scorer_add_numbers(f.scorer, raw, &f.e));
    must(&f, gradwire_scorer_score(f.scorer, out, &f.e));
    gradwire_scorer_features(f.scorer, x);
    assert_true(x[255] == 255 * (1.0f / 255));
    must(&f, gradwire_scorer_score_features(f.scorer, x, 1, again, &f.e));
    assert_memory_equal(out, again, sizeof out);
    teardown(&f);
}

static void vectors_are_the_rows_of_the_layers_keys(void **state)
{
    (void)state;
    struct fixture f;
    float vectors[ROWS * 3], row[3];
    uint64_t keys[ROWS];
    setup(&f, wide_deep);
    add_texts(&f);
    must(&f, gradwire_scorer_vectors(f.scorer, 1, vectors, &f.e));
    must(&f, gradwire_scorer_keys(f.scorer, SITE, keys, NULL, &f.e));
    for (uint32_t i = 0; i < ROWS; i++) {
        uint64_t mixed = key_mix(keys[i]);
        trained_rows(&f.t, 1, &mixed, 1, row);
        assert_memory_equal(vectors + i * 3, row, sizeof row);
    }
    assert_int_equal(gradwire_scorer_vectors(f.scorer, 2, vectors, &f.e), GRADWIRE_INPUT);
    assert_int_equal(gradwire_scorer_keys(f.scorer, AGE, keys, NULL, &f.e), GRADWIRE_INPUT);
    teardown(&f);
}

/* ---- errors ---- */

static void a_row_that_does_not_fit_names_its_column(void **state)
{
    (void)state;
    struct fixture f;
    struct row r = draw(2, 0);
    struct gradwire_text field[VALUES];
    float number = 1;
    setup(&f, wide_deep);
    fields_of(&r, field);
    field[AGE] = text_of("4x");
    assert_int_equal(gradwire_scorer_add_text(f.scorer, field, &f.e), GRADWIRE_INPUT);
    assert_int_equal(f.e.column, AGE);
    assert_non_null(strstr(f.e.text, "column \"age\": \"4x\" is not a number"));
    assert_int_equal(gradwire_scorer_add_text(f.scorer, field, NULL), GRADWIRE_INPUT);
    assert_int_equal(gradwire_scorer_add_numbers(f.scorer, &number, &f.e), GRADWIRE_INPUT);
    assert_int_equal(f.e.column, -1);
    assert_int_equal(gradwire_scorer_score_features(f.scorer, &number, 1, &number, &f.e),
                     GRADWIRE_INPUT);
    assert_non_null(strstr(f.e.text, "has tables"));
    assert_int_equal(gradwire_scorer_rows(f.scorer), 0);
    teardown(&f);
}

static void refuse_open(struct fixture *f, enum gradwire_status status, const char *why)
{
    struct gradwire_model *m;
    assert_int_equal(gradwire_model_open(&m, f->t.model_dir, &f->e), status);
    if (!strstr(f->e.text, why))
        fail_msg("%s", f->e.text);
}

static const char *file(const struct fixture *f, const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%.150s/%s", f->t.model_dir, name);
    return path;
}

static void damaged_files_are_named(void **state)
{
    (void)state;
    struct fixture f;
    struct gradwire_model *m;
    struct gradwire_scorer *s;
    struct errmsg e;
    setup(&f, wide_deep);
    assert_int_equal(gradwire_model_open(&m, "/nowhere", &f.e), GRADWIRE_INPUT);
    assert_non_null(strstr(f.e.text, "/nowhere: no model"));
    assert_int_equal(gradwire_scorer_new(&s, f.model, 0, &f.e), GRADWIRE_INPUT);
    assert_int_equal(gradwire_scorer_new(&s, f.model, UINT32_MAX, &f.e), GRADWIRE_INPUT);
    static const char *const names[] = {"tables/e.safetensors", "weights.safetensors",
                                        "encoding.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(files_write(file(&f, names[i]), "damaged!", 8, &e), ERR_OK);
        refuse_open(&f, GRADWIRE_DAMAGED, names[i]);
        assert_int_equal(unlink(file(&f, names[i])), 0);
        refuse_open(&f, GRADWIRE_INPUT, i == 1 ? f.t.model_dir : names[i]);
        if (i == 1)
            assert_int_equal(files_write(file(&f, names[i]), "damaged!", 8, &e), ERR_OK);
    }
    assert_int_equal(files_write(file(&f, "job.yaml"), "modle: 1\n", 9, &e), ERR_OK);
    refuse_open(&f, GRADWIRE_INPUT, "job.yaml:1");
    teardown(&f);
}

/* ---- threads ---- */

struct share {
    const struct gradwire_model *model;
    float out[ROWS];
    enum gradwire_status status;
    struct gradwire_error e;
};

static void *score_alone(void *arg)
{
    struct share *sh = arg;
    struct gradwire_scorer *s;
    sh->status = gradwire_scorer_new(&s, sh->model, 1, &sh->e);
    if (sh->status)
        return NULL;
    for (uint64_t i = 0; i < ROWS && !sh->status; i++) {
        struct row r = draw(2, i);
        struct gradwire_text field[VALUES];
        fields_of(&r, field);
        gradwire_scorer_clear(s);
        sh->status = gradwire_scorer_add_text(s, field, &sh->e);
        if (!sh->status)
            sh->status = gradwire_scorer_score(s, &sh->out[i], &sh->e);
    }
    gradwire_scorer_free(s);
    return NULL;
}

static void threads_share_a_model(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct fixture f;
    static struct share share[THREADS];
    pthread_t thread[THREADS];
    float out[ROWS];
    setup(&f, wide_deep);
    add_texts(&f);
    must(&f, gradwire_scorer_score(f.scorer, out, &f.e));
    for (int i = 0; i < THREADS; i++) {
        share[i].model = f.model;
        assert_int_equal(pthread_create(&thread[i], NULL, score_alone, &share[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(share[i].status, GRADWIRE_OK);
        for (int row = 0; row < ROWS; row++)
            assert_near(share[i].out[row], out[row]);
    }
    teardown(&f);
}

/* ---- allocations ---- */

/* Each function that a thread may call again and again. */
static void call_all(struct fixture *f, bool tables)
{
    static float x[ROWS * 28 * 28], out[ROWS * 10], vectors[ROWS * 3], weights[ROWS * 3];
    static uint64_t keys[ROWS * 3];
    gradwire_scorer_clear(f->scorer);
    if (tables)
        add_texts(f);
    else
        must(f, gradwire_scorer_add_numbers(f->scorer, x, &f->e));
    must(f, gradwire_scorer_score(f->scorer, out, &f->e));
    gradwire_scorer_features(f->scorer, x);
    if (tables) {
        must(f, gradwire_scorer_keys(f->scorer, TAGS, keys, weights, &f->e));
        must(f, gradwire_scorer_vectors(f->scorer, 1, vectors, &f->e));
    } else {
        must(f, gradwire_scorer_score_features(f->scorer, x, ROWS, out, &f->e));
    }
}

static void a_call_allocates_nothing(void **state)
{
    (void)state;
    static const char *const jobs[] = {wide_deep, mlp};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        setup(&f, jobs[i]);
        unsigned long before = atomic_load(&allocations);
        mem_fail_at(0);
        call_all(&f, i == 0);
        assert_false(mem_fail_fired());
        mem_fail_at(-1);
        assert_true(atomic_load(&allocations) == before);
        teardown(&f);
    }
    void *volatile p = malloc(1); /* the count counts */
    free(p);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(atomic_load(&allocations) > 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_those_that_a_score_needs),
        cmocka_unit_test(inputs_outputs_and_classes_are_those_of_the_job),
        cmocka_unit_test(text_rows_score_as_training_scores_them),
        cmocka_unit_test(one_typed_row_scores_as_its_text),
        cmocka_unit_test(numbers_are_scaled_as_in_training),
        cmocka_unit_test(a_libsvm_row_is_the_text_after_its_label),
        cmocka_unit_test(features_score_as_the_numbers_that_they_encode),
        cmocka_unit_test(vectors_are_the_rows_of_the_layers_keys),
        cmocka_unit_test(a_row_that_does_not_fit_names_its_column),
        cmocka_unit_test(damaged_files_are_named),
        cmocka_unit_test(threads_share_a_model),
        cmocka_unit_test(a_call_allocates_nothing),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
