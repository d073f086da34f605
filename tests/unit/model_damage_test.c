/* Damaged files of a trained model: each is an error that says why, or a model whose calls end; nothing crashes or hangs. The
 * seed is printed; GRADWIRE_MUTATIONS is the number of damaged folders of each model (default 300). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/process/files.h"
#include "predict/gradwire-predict.h"
#include "tests/lib/trained.h"

enum {
    PATH_BYTES = 256,
    FILES_MAX = 8,
    MUTATIONS = 300,
    COLUMNS_MAX = 64,
    FILE_BYTES_MAX = 1 << 20
};

static const char columns[] =
    "model:\n"
    "  input: {shape: auto}\n"
    "  loss: binary_crossentropy\n"
    "  layers:\n"
    "    - linear: {inputs: [site, tags, both], name: wide}\n"
    "    - embedding: {inputs: [site], output_dim: 3, name: e}\n"
    "    - dense: {inputs: [e, age, town, rank], units: 4, activation: relu}\n"
    "    - dense: {units: 1, name: deep}\n"
    "    - add: {inputs: [wide, deep]}\n"
    "    - sigmoid\n"
    "optimizer: adam\n"
    "data:\n"
    "  format: csv\n"
    "  train: train.txt\n"
    "  eval: eval.txt\n"
    "  columns: [label: answer, number: {name: age, scale: standard}, category: town,\n"
    "    number: {name: rank, buckets: {quantiles: 4}}, key: site, key: page,\n"
    "    cross: {name: both, of: [site, page]}, keys: {name: tags, max_values: 3, weights: true, "
    "separator: ' '}]\n";
static const char rows_text[] = "0,1,a,3,s,p,x y:2\n1,2,b,4,t,q,z\n0,3,c,5,u,r,x\n1,4,a,6,s,q,\n";

static const char pixels[] =
    "model: {input: {shape: [28, 28, 1]}, loss: sparse_categorical_crossentropy,\n"
    "  layers: [conv2d: {filters: 4, kernel_size: 3}, batch_normalization, activation: relu,\n"
    "    max_pooling2d: 2, flatten, dense: 10, softmax]}\n"
    "optimizer: adam\n"
    "data: {format: synthetic, synthetic_train_rows: 20, synthetic_eval_rows: 20, scale: 255}\n";

/* ---- damage ---- */

struct draws {
    uint64_t key, at;
};

static uint64_t draw(struct draws *d, uint64_t below)
{
    return rng_u64(d->key, d->at++) % below;
}

struct bytes {
    uint8_t *data;
    size_t n;
};

static void replace(struct bytes *b, size_t at, size_t bytes, const char *text)
{
    size_t n = strlen(text);
    if (b->n - bytes + n > FILE_BYTES_MAX)
        return;
    memmove(b->data + at + n, b->data + at + bytes, b->n - at - bytes);
    memcpy(b->data + at, text, n);
    b->n = b->n - bytes + n;
}

/* Another number in place of one. */
static void change_number(struct bytes *b, struct draws *d)
{
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "1e99",
                                          "4294967296",
                                          "2147483647",
                                          "",
                                          "1000000000",
                                          "0.5",
                                          "nan",
                                          "[]",
                                          "{}",
                                          "\"x\"",
                                          "9223372036854775807",
                                          "18446744073709551615",
                                          "3",
                                          "null"};
    size_t at = draw(d, b->n), n = 0;
    while (at < b->n && (b->data[at] < '0' || b->data[at] > '9'))
        at++;
    while (at + n < b->n && b->data[at + n] >= '0' && b->data[at + n] <= '9')
        n++;
    replace(b, at, n, numbers[draw(d, sizeof numbers / sizeof *numbers)]);
}

static void move_part(struct bytes *b, struct draws *d)
{
    size_t from = draw(d, b->n), to = draw(d, b->n), n = draw(d, 64);
    n = n < b->n - from ? n : b->n - from;
    n = n < b->n - to ? n : b->n - to;
    memmove(b->data + to, b->data + from, n);
}

static void cut_part(struct bytes *b, struct draws *d)
{
    size_t at = draw(d, b->n), n = draw(d, 40);
    replace(b, at, n < b->n - at ? n : b->n - at, "");
}

static void damage(struct bytes *b, struct draws *d)
{
    for (uint64_t times = 1 + draw(d, 3); times > 0 && b->n > 0; times--) {
        uint64_t how = draw(d, 8);
        /* headers are where most can go wrong */
        size_t at = draw(d, 3) && b->n > 512 ? draw(d, 512) : draw(d, b->n);
        if (how < 2)
            b->data[at] ^= (uint8_t)(1 << draw(d, 8));
        else if (how == 2)
            b->data[at] = (uint8_t)draw(d, 256);
        else if (how == 3)
            b->n = draw(d, 2) ? at : b->n - draw(d, b->n < 16 ? b->n : 16);
        else if (how == 4)
            cut_part(b, d);
        else if (how == 5)
            move_part(b, d);
        else
            change_number(b, d);
    }
}

/* ---- a model's files ---- */

struct file {
    char path[PATH_BYTES];
    struct bytes is;
};

static void take(struct file *f, const struct trained *t, const char *name)
{
    struct errmsg e;
    (void)snprintf(f->path, sizeof f->path, "%.150s/%s", t->model_dir, name);
    assert_int_equal(files_read(f->path, FILE_BYTES_MAX, &f->is.data, &f->is.n, &e), ERR_OK);
}

static uint32_t take_all(struct file file[FILES_MAX], const struct trained *t)
{
    static const char *const names[] = {"weights.safetensors", "job.yaml", "encoding.json",
                                        "tables/e.safetensors", "tables/wide.safetensors"};
    uint32_t files = t->eval.table.schema ? 5 : 2;
    for (uint32_t i = 0; i < files; i++)
        take(&file[i], t, names[i]);
    return files;
}

static void add_row(struct gradwire_scorer *s, const struct gradwire_model *m)
{
    static const float numbers[28 * 28] = {1, 2, 3};
    static const char *const texts[] = {"4", "a", "", "x y:2", "5.5", "s"};
    struct gradwire_text field[COLUMNS_MAX];
    struct gradwire_error e;
    for (uint32_t i = 0; i < COLUMNS_MAX; i++)
        field[i] = (struct gradwire_text){texts[i % 6], strlen(texts[i % 6])};
    if (gradwire_model_columns(m) > COLUMNS_MAX)
        return;
    if (gradwire_model_columns(m) > 0)
        (void)gradwire_scorer_add_text(s, field, &e);
    else if (gradwire_model_features(m) <= 28 * 28)
        (void)gradwire_scorer_add_numbers(s, numbers, &e);
}

static void use(const struct gradwire_model *m)
{
    struct gradwire_scorer *s;
    struct gradwire_error e;
    float *out = mem_floats(2 * (size_t)gradwire_model_outputs(m));
    if (!out || gradwire_scorer_new(&s, m, 2, &e)) {
        mem_free(out);
        return;
    }
    add_row(s, m);
    add_row(s, m);
    (void)gradwire_scorer_score(s, out, &e);
    gradwire_scorer_free(s);
    mem_free(out);
}

/* Without fsync, which files_write has. */
static void put(const struct file *f, const struct bytes *b)
{
    FILE *to = fopen(f->path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(b->data, 1, b->n, to), b->n);
    assert_int_equal(fclose(to), 0);
}

/* Open the folder with this file damaged; returns whether it opens. */
static bool try(const struct trained *t, const struct file *f, struct draws *d)
{
    struct gradwire_model *m;
    struct gradwire_error e = {.text = ""};
    struct bytes b = {mem_zalloc(FILE_BYTES_MAX + 64, 1), f->is.n};
    assert_non_null(b.data);
    memcpy(b.data, f->is.data, f->is.n);
    damage(&b, d);
    put(f, &b);
    enum gradwire_status status = gradwire_model_open(&m, t->model_dir, &e);
    if (!status) {
        use(m);
        gradwire_model_close(m);
    }
    assert_true(!status || e.text[0]);
    put(f, &f->is);
    mem_free(b.data);
    return !status;
}

static void damage_each(const char *job, const char *text)
{
    const char *given = getenv("GRADWIRE_MUTATIONS"), *seed = getenv("GRADWIRE_SEED");
    uint64_t n = given ? strtoull(given, NULL, 10) : MUTATIONS;
    struct trained t;
    struct file file[FILES_MAX];
    uint64_t opened = 0, first = seed ? strtoull(seed, NULL, 10) : 1;
    trained_init(&t, job, text, text);
    uint32_t files = take_all(file, &t);
    for (uint64_t i = 0; i < n; i++) {
        struct draws d = {.key = rng_u64(first, i)};
        opened += try(&t, &file[i % files], &d);
    }
    print_message("seed %llu: %llu of %llu damaged folders open\n", (unsigned long long)first,
                  (unsigned long long)opened, (unsigned long long)n);
    assert_true(opened < n);
    for (uint32_t i = 0; i < files; i++)
        mem_free(file[i].is.data);
    trained_close(&t);
}

static void a_damaged_model_of_columns_crashes_nothing(void **state)
{
    (void)state;
    damage_each(columns, rows_text);
}

static void a_damaged_model_of_pixels_crashes_nothing(void **state)
{
    (void)state;
    damage_each(pixels, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_model_of_columns_crashes_nothing),
        cmocka_unit_test(a_damaged_model_of_pixels_crashes_nothing),
    };
    log_init("test", LOG_ERROR);
    return cmocka_run_group_tests_name("model_damage", tests, NULL, NULL);
}
