/* TensorBoard's event files: records, and which points stand where. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/loop.h"
#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/net/disk_thread.h"
#include "tests/lib/folder.h"
#include "worker/tensorboard/events.h"

static char *const folder = folder_dir;

static void the_crc_of_a_record_is_masked(void **state)
{
    (void)state;
    assert_int_equal(events_file_masked_crc("", 0), 0xa282ead8);
}

/* ---- a reader ---- */

struct seen {
    size_t n;
    Tensorboard__Event *event[256];
};

static uint64_t le(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void read_records(struct seen *s, const char *path)
{
    uint8_t *data;
    size_t bytes, at = 0;
    struct errmsg e;
    assert_int_equal(files_read(path, 1 << 20, &data, &bytes, &e), ERR_OK);
    while (at < bytes) {
        assert_true(bytes - at >= 16);
        size_t n = (size_t)le(data + at, 8);
        assert_int_equal(le(data + at + 8, 4), events_file_masked_crc(data + at, 8));
        assert_true(bytes - at >= 16 + n);
        assert_int_equal(le(data + at + 12 + n, 4), events_file_masked_crc(data + at + 12, n));
        Tensorboard__Event *event = tensorboard__event__unpack(NULL, n, data + at + 12);
        assert_non_null(event);
        s->event[s->n++] = event;
        at += 16 + n;
    }
    mem_free(data);
}

/* All of the one file of a run. */
static struct seen seen_in(const char *run)
{
    char path[128], file[512];
    struct seen s = {.n = 0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, run);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) != 0)
            continue;
        assert_int_equal(s.n, 0);
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        read_records(&s, file);
    }
    closedir(d);
    return s;
}

static void forget(struct seen *s)
{
    for (size_t i = 0; i < s->n; i++)
        tensorboard__event__free_unpacked(s->event[i], NULL);
    s->n = 0;
}

/* The value of `tag` in this event, or NULL. The caller frees *of. */
static Tensorboard__Value *value_of(const Tensorboard__Event *event, const char *tag,
                                    Tensorboard__Summary **of)
{
    *of = NULL;
    if (event->what_case != TENSORBOARD__EVENT__WHAT_SUMMARY)
        return NULL;
    *of = tensorboard__summary__unpack(NULL, event->summary.len, event->summary.data);
    for (size_t i = 0; *of && i < (*of)->n_value; i++)
        if (strcmp((*of)->value[i]->tag, tag) == 0)
            return (*of)->value[i];
    return NULL;
}

/* "step=value " of every point of a tag, and "|step " of every restart. */
static const char *curve(const struct seen *s, const char *tag)
{
    static char text[1024];
    size_t at = 0;
    text[0] = 0;
    for (size_t i = 0; i < s->n; i++) {
        Tensorboard__Summary *of;
        const Tensorboard__Value *v = value_of(s->event[i], tag, &of);
        long step = (long)s->event[i]->step;
        if (s->event[i]->what_case == TENSORBOARD__EVENT__WHAT_SESSION_LOG)
            at += (size_t)snprintf(text + at, sizeof text - at, "|%ld ", step);
        else if (v)
            at += (size_t)snprintf(text + at, sizeof text - at, "%ld=%g ", step,
                                   (double)v->simple_value);
        if (of)
            tensorboard__summary__free_unpacked(of, NULL);
    }
    return text;
}

/* ---- the file ---- */

static void a_file_says_its_version_first_and_each_record_checks(void **state)
{
    (void)state;
    struct events_file f;
    struct errmsg e = {""};
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    assert_int_equal(events_file_open(&f, folder, 1700000000.5, &e), ERR_OK);
    assert_non_null(strstr(f.path, "/events.out.tfevents.1700000000."));
    event.step = 7;
    assert_int_equal(events_file_append(&f, &event, &e), ERR_OK);
    events_file_close(&f);
    struct seen s = {.n = 0};
    read_records(&s, f.path);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.event[0]->file_version, "brain.Event:2");
    assert_true(s.event[0]->wall_time == 1700000000.5);
    assert_int_equal(s.event[1]->step, 7);
    forget(&s);
}

static void a_start_within_the_same_second_overwrites_nothing(void **state)
{
    (void)state;
    struct events_file a, b;
    struct errmsg e = {""};
    assert_int_equal(events_file_open(&a, folder, 1700000000, &e), ERR_OK);
    assert_int_equal(events_file_open(&b, folder, 1700000000, &e), ERR_OK);
    assert_true(strcmp(a.path, b.path) < 0);
    events_file_close(&a);
    events_file_close(&b);
}

static void half_a_record_does_not_stay(void **state)
{
    (void)state;
    struct events_file f;
    struct errmsg e = {""};
    struct rlimit old, least;
    char text[400];
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    assert_int_equal(events_file_open(&f, folder, 1700000000, &e), ERR_OK);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = text;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    least = (struct rlimit){f.bytes + 100, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    assert_int_equal(events_file_append(&f, &event, &e), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(e.text, f.path));
    event.what_case = TENSORBOARD__EVENT__WHAT__NOT_SET; /* shorter than what was cut off */
    event.step = 8;                                      /* the disk has room again */
    assert_int_equal(events_file_append(&f, &event, &e), ERR_OK);
    events_file_close(&f);
    struct seen s = {.n = 0};
    read_records(&s, f.path);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.event[1]->step, 8);
    forget(&s);
}

/* ---- curves ---- */

static struct tensor tensors[] = {
    {.name = "dense/kernel", .rank = 2, .shape = {2, 2}, .elems = 4},
    {.name = "dense/bias", .rank = 1, .shape = {2}, .offset_elems = 16, .elems = 2},
};
static const struct layout layout = {.tensors = 2, .tensor = tensors, .elems = 32};
static char canonical[] = "name: digits\nmodel:\n";
static struct job job = {.name = "digits",
                         .model = {.metrics = 1, .metric = {{METRIC_ACCURACY, "accuracy", 0}}},
                         .optimizer = {.kind = OPT_SGD, .learning_rate = 0.5f},
                         .logs = {.tensorboard = true, .histograms = true},
                         .canonical = canonical};

enum { BATCHES = 10, ROWS = 100 };

struct run {
    struct disk_thread disk;
    struct curves c;
    struct pool *pool;
    double now_s;
    float w[32], gradient[32];
    uint32_t gradients;
};

static void open_run(struct run *r, enum update_mode update)
{
    struct errmsg e;
    *r = (struct run){.now_s = 50};
    job.training.update = update;
    assert_int_equal(pool_new(&r->pool, 2, &e), ERR_OK);
    disk_thread_init(&r->disk);
    curves_init(&r->c, &job, &layout, BATCHES, ROWS, folder, &r->disk);
    assert_non_null(r->c.events);
}

static void close_run(struct run *r)
{
    curves_close(&r->c, true);
    disk_thread_close(&r->disk);
    pool_free(r->pool);
}

/* Steps first .. last, a hundredth of a second each; the loss of a step is its number. */
static void steps(struct run *r, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        const struct sums sums = {10, 10.0 * (double)step, {5}};
        r->now_s += 0.01;
        curves_step(&r->c, step, &sums, 1000, r->now_s);
    }
}

static void epoch(struct run *r, uint64_t number)
{
    const struct evaluation eval = {.loss = (double)number, .metric = {0.5}};
    uint64_t step = number * r->c.batches_per_epoch;
    const float *block[] = {r->gradient, r->gradient};
    const struct events_values gradient = {block, r->gradients, 0.5};
    const struct sums trained = {100, 100 * ((double)step - 4.5), {50}}; /* of ten steps */
    curves_epoch(&r->c, step, &trained, r->w, &gradient, r->pool, r->now_s);
    curves_evaluated(&r->c, step, true, &eval);
}

static void each_epoch_is_a_point_at_its_last_step(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, UPDATE_SYNC);
    r.now_s = r.c.epoch_s; /* the clock that curves_init looked at */
    steps(&r, 1, 10);
    epoch(&r, 1);
    steps(&r, 11, 20);
    epoch(&r, 2);
    close_run(&r);
    struct seen train = seen_in("train"), eval = seen_in("eval");
    assert_string_equal(curve(&train, "epoch_loss"), "|1 10=5.5 20=15.5 ");
    assert_string_equal(curve(&train, "epoch_accuracy"), "|1 10=0.5 20=0.5 ");
    assert_string_equal(curve(&train, "epoch_learning_rate"), "|1 10=0.5 20=0.5 ");
    assert_string_equal(curve(&eval, "epoch_loss"), "|10 10=1 20=2 ");
    assert_string_equal(curve(&eval, "evaluation_loss_vs_iterations"), "|10 10=1 20=2 ");
    forget(&train);
    forget(&eval);
}

static void what_is_rolled_back_is_told_anew(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, UPDATE_SYNC);
    steps(&r, 1, 10);
    epoch(&r, 1);
    steps(&r, 11, 20);
    epoch(&r, 2);
    steps(&r, 6, 10); /* back to a cut at step 5 */
    epoch(&r, 1);
    steps(&r, 11, 20);
    epoch(&r, 2);
    close_run(&r);
    struct seen train = seen_in("train"), eval = seen_in("eval");
    assert_string_equal(curve(&train, "epoch_loss"), "|1 10=5.5 20=15.5 |6 10=5.5 20=15.5 ");
    assert_string_equal(curve(&eval, "epoch_loss"), "|10 10=1 20=2 |10 10=1 20=2 ");
    forget(&train);
    forget(&eval);
}

/* A run that resumes at the end of epoch 2: its evaluation is made again, its training is not. */
static void a_run_that_goes_on_adds_to_the_last_one(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, UPDATE_SYNC);
    epoch(&r, 2);
    steps(&r, 21, 30);
    epoch(&r, 3);
    close_run(&r);
    struct seen train = seen_in("train"), eval = seen_in("eval");
    assert_string_equal(curve(&train, "epoch_loss"), "|21 30=25.5 ");
    assert_string_equal(curve(&eval, "epoch_loss"), "|20 20=2 30=3 ");
    forget(&train);
    forget(&eval);
}

/* The chief's batches come in any order, and are not all. */
static void async_restarts_nothing(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, UPDATE_ASYNC);
    steps(&r, 3, 6);
    steps(&r, 1, 2);
    steps(&r, 9, 10);
    epoch(&r, 1);
    close_run(&r);
    struct seen train = seen_in("train");
    assert_string_equal(curve(&train, "epoch_loss"), "|3 10=5.5 ");
    forget(&train);
}

static void points_within_an_epoch_are_a_second_apart(void **state)
{
    (void)state;
    struct run r;
    open_run(&r, UPDATE_SYNC);
    steps(&r, 1, 1);
    r.now_s += 2;
    steps(&r, 2, 3);
    curves_paused(&r.c, 100);
    r.now_s += 100;
    steps(&r, 4, 5);
    r.now_s += 2;
    steps(&r, 6, 7);
    close_run(&r);
    struct seen train = seen_in("train");
    assert_string_equal(curve(&train, "batch_loss"), "|1 2=1.5 6=4.5 ");
    forget(&train);
}

static size_t histograms_of(const struct seen *run, const char *tag, double num, double most)
{
    size_t found = 0;
    for (size_t i = 0; i < run->n; i++) {
        Tensorboard__Summary *of;
        const Tensorboard__Value *v = value_of(run->event[i], tag, &of);
        if (v) {
            found++;
            assert_int_equal(v->histo->n_bucket, EVENTS_BUCKETS);
            assert_true(v->histo->bucket_limit[EVENTS_BUCKETS - 1] == most && v->histo->num == num);
        }
        if (of)
            tensorboard__summary__free_unpacked(of, NULL);
    }
    return found;
}

static void a_histogram_counts_what_is_finite(void **state)
{
    (void)state;
    struct run r;
    struct events_histogram h[2];
    const float w[32] = {[0] = -1, 2, 0.5f, -0.999f, [16] = 3, NAN};
    open_run(&r, UPDATE_SYNC);
    const float *blocks[] = {w, w};
    const struct events_values once = {blocks, 1, 1}, doubled = {blocks, 2, 0.5};
    events_histograms(h, &layout, &doubled, r.pool);
    assert_true(h[0].min == -1 && h[0].max == 2 && h[0].num == 4 && fabs(h[0].sum - 0.501) < 1e-6);
    events_histograms(h, &layout, &once, r.pool);
    assert_true(h[0].min == -1 && h[0].max == 2 && h[0].num == 4);
    assert_true(h[0].bucket[0] == 2 && h[0].bucket[15] == 1 && h[0].bucket[29] == 1);
    assert_true(h[1].min == 3 && h[1].max == 3 && h[1].num == 1 && h[1].bucket[0] == 1);
    memcpy(r.w, w, sizeof w);
    steps(&r, 1, 10);
    epoch(&r, 1);
    r.gradients = 2; /* nodes, whose sum it is */
    r.gradient[3] = 7;
    steps(&r, 11, 20);
    epoch(&r, 2);
    close_run(&r);
    struct seen train = seen_in("train");
    assert_int_equal(histograms_of(&train, "dense/kernel", 4, 2), 2);
    assert_int_equal(histograms_of(&train, "dense/kernel_grad", 4, 7), 1);
    assert_int_equal(histograms_of(&train, "dense/bias_grad", 2, 0), 1);
    forget(&train);
}

static void without_memory_or_thread_nothing_is_shown_and_nothing_breaks(void **state)
{
    (void)state;
    struct run r;
    struct errmsg e;
    r = (struct run){.now_s = 50};
    assert_int_equal(pool_new(&r.pool, 1, &e), ERR_OK);
    mem_fail_at(0);
    disk_thread_init(&r.disk);
    curves_init(&r.c, &job, &layout, BATCHES, ROWS, folder, &r.disk);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    assert_null(r.c.events);
    steps(&r, 1, 10);
    epoch(&r, 1);
    close_run(&r);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0777), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_crc_of_a_record_is_masked),
        TEST(a_file_says_its_version_first_and_each_record_checks),
        TEST(a_start_within_the_same_second_overwrites_nothing),
        TEST(half_a_record_does_not_stay),
        TEST(each_epoch_is_a_point_at_its_last_step),
        TEST(what_is_rolled_back_is_told_anew),
        TEST(a_run_that_goes_on_adds_to_the_last_one),
        TEST(async_restarts_nothing),
        TEST(points_within_an_epoch_are_a_second_apart),
        TEST(a_histogram_counts_what_is_finite),
        TEST(without_memory_or_thread_nothing_is_shown_and_nothing_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
