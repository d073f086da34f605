/* One copy of the rows for all processes of a host: who reads, who maps, and what is there when one of them dies. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "data/host_copy.h"
#include "data/meaning/encoding_given.h"
#include "export/export.h"
#include "tests/lib/gathered.h"
#include "tests/lib/idx_files.h"

enum { ROWS = 6 * TABLE_CHUNK_ROWS + 77, ROW_BYTES = 96, BLOCK = 256 };

struct fixture {
    struct idx_files files;
    struct job job;
    struct dataset d, eval;
    int fd, spill_fd;
    struct errmsg e;
};

static void put_rows(const struct fixture *f, uint64_t seed)
{
    static const char *const words[] = {"red", "green", "blue", "?", "a b"};
    char *text = malloc((size_t)ROWS * ROW_BYTES);
    size_t n = 0;
    assert_non_null(text);
    for (uint64_t row = 0; row < ROWS; row++) {
        uint64_t key = rng_key(seed, RNG_TEST, row, 0);
        n += (size_t)sprintf(text + n, "%s,%u,%u,", words[rng_u64(key, 0) % 5],
                             (unsigned)(rng_u64(key, 1) % 1000), (unsigned)rng_u64(key, 2));
        for (unsigned i = (unsigned)(rng_u64(key, 3) % 4); i > 0; i--)
            n += (size_t)sprintf(text + n, "t%u|", (unsigned)(rng_u64(key, 3 + i) % 5000));
        n += (size_t)sprintf(text + n, row % 997 == 5 ? ",bad\n" : ",%u\n", (unsigned)(row % 2));
    }
    idx_files_write((struct idx_files *)(uintptr_t)&f->files, "a.csv",
                    (struct bytes){(uint8_t *)text, n});
    free(text);
}

static void set_job(struct fixture *f, unsigned memory_mb)
{
    char text[4096];
    snprintf(text, sizeof text,
             "model: {input: {shape: auto}, layers: [linear: {inputs: tags, name: l}, dense: "
             "{inputs: [c, a, b], units: 1, name: d}, add: [l, d], sigmoid], loss: "
             "binary_crossentropy}\n"
             "optimizer: sgd\n"
             "worker: {threads: 2}\n"
             "data: {format: csv, train: '%s/a.csv', memory_mb: %u, bad_rows: skip, validation: "
             "{last: 0.1}, columns: [category: c, number: {name: a, scale: standard}, number: "
             "{name: b, buckets: log_squared}, keys: {name: tags, separator: '|', max_values: 5}, "
             "label: y]}\n",
             f->files.dir, memory_mb);
    job_close(&f->job);
    if (job_parse(&f->job, text, strlen(text), "j.yaml", "/", NULL, 0, &f->e))
        fail_msg("%s", f->e.text);
}

/* This process is one of three that have the files. */
static void join(const struct fixture *f)
{
    char flag[64];
    snprintf(flag, sizeof flag, "%d,%d,3", f->fd, f->spill_fd);
    host_copy_begin(flag);
}

/* The files, as the launcher makes them. */
static void begin(struct fixture *f, bool spills)
{
    f->fd = memfd_create("test", 0);
    f->spill_fd = spills ? memfd_create("spill", 0) : -1;
    assert_true(f->fd >= 0 && ftruncate(f->fd, HOST_COPY_HEAD_BYTES) == 0);
    join(f);
}

static void setup(struct fixture *f, unsigned memory_mb, bool spills)
{
    *f = (struct fixture){.e = {""}};
    idx_files_init(&f->files);
    put_rows(f, 1);
    set_job(f, memory_mb);
    begin(f, spills);
}

static void teardown(struct fixture *f)
{
    dataset_close(&f->eval);
    dataset_close(&f->d);
    host_copy_begin("");
    close(f->fd);
    if (f->spill_fd >= 0)
        close(f->spill_fd);
    job_close(&f->job);
    idx_files_close(&f->files);
}

static void load(struct fixture *f, const struct encoding_given *given)
{
    if (dataset_load_given(&f->d, &f->job, given, 2, &f->e) ||
        dataset_load_eval(&f->eval, &f->job, &f->d, 2, &f->e))
        fail_msg("%s", f->e.text);
}

/* ---- what is in a set ---- */

static void add(uint64_t *digest, const void *data, size_t bytes)
{
    *digest = XXH3_64bits_withSeed(data, bytes, *digest);
}

static void add_set(uint64_t *digest, const struct dataset *d, struct errmsg *e)
{
    struct dataset_source s;
    const struct leaf_form form = dataset_form(d->whole ? d->whole : d);
    struct leaf_buffer *buffer;
    struct leaf leaf;
    assert_int_equal(leaf_buffer_new(&buffer, &form, BLOCK, LEAF_VALUES | LEAF_LOOKUPS, e), ERR_OK);
    dataset_source_init(&s, d, NULL);
    for (uint64_t row = 0; row < d->rows; row += BLOCK) {
        assert_int_equal(source_block(&s.source, row, BLOCK, buffer, &leaf, e), ERR_OK);
        add(digest, leaf.x, (size_t)leaf.n * form.features * sizeof *leaf.x);
        add(digest, leaf.y, leaf.n * sizeof *leaf.y);
        for (uint32_t l = 0; l < leaf.keys->lists; l++)
            add(digest, leaf.keys->list[l].mixed,
                leaf.keys->list[l].keys * sizeof *leaf.keys->list[l].mixed);
    }
    leaf_buffer_free(buffer);
    add(digest, &d->seen.classes, sizeof d->seen.classes);
    add(digest, &d->bad_rows, sizeof d->bad_rows);
    add(digest, d->contents.fingerprint, sizeof d->contents.fingerprint);
}

/* All that the training and the evaluation use. */
static uint64_t digest_of(struct fixture *f)
{
    uint64_t digest = 0;
    char *text = NULL;
    assert_int_equal(export_encoding_text(&f->job, f->d.table.schema, &text, &f->e), ERR_OK);
    add(&digest, text, strlen(text));
    host_copy_encoded(text);
    free(text);
    for (uint32_t i = 0; i < f->d.table.schema->keys; i++)
        add(&digest, &f->d.table.schema->key[i].complete, sizeof(bool));
    add_set(&digest, &f->d, &f->e);
    add_set(&digest, &f->eval, &f->e);
    add(&digest, f->d.contents.print.digest, sizeof *f->d.contents.print.digest);
    return digest;
}

/* As one process reads it that shares nothing. */
static uint64_t digest_alone(struct fixture *f)
{
    host_copy_begin("");
    load(f, NULL);
    assert_false(f->d.copied);
    uint64_t digest = digest_of(f);
    dataset_close(&f->eval);
    dataset_close(&f->d);
    join(f);
    return digest;
}

/* ---- other processes ---- */

struct child {
    pid_t pid;
    int go, tell; /* a byte to `go` ends it */
};

struct report {
    uint64_t digest;
    bool copied;
};

/* A process that loads, tells what it has, and keeps it until child_end. */
static struct child child_start(struct fixture *f, const struct encoding_given *given)
{
    int go[2], tell[2];
    struct child c = {.pid = 0};
    assert_int_equal(pipe(go) | pipe(tell), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        char byte;
        struct report report;
        (void)close(go[1]);
        join(f);
        load(f, given);
        report = (struct report){digest_of(f), f->d.copied};
        if (write(tell[1], &report, sizeof report) != sizeof report)
            _exit(1);
        _exit(read(go[0], &byte, 1) == 1 ? 0 : 1);
    }
    (void)close(go[0]);
    (void)close(tell[1]);
    c.go = go[1];
    c.tell = tell[0];
    return c;
}

static struct report child_hear(const struct child *c)
{
    struct report report;
    assert_int_equal(read(c->tell, &report, sizeof report), sizeof report);
    return report;
}

static void child_end(struct child *c)
{
    int status;
    assert_int_equal(write(c->go, "x", 1), 1);
    (void)close(c->go);
    (void)close(c->tell);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    assert_int_equal(status, 0);
}

static off_t copy_bytes(const struct fixture *f)
{
    struct stat s;
    assert_int_equal(fstat(f->fd, &s), 0);
    return s.st_size;
}

/* ---- tests ---- */

static void all_processes_have_the_rows_that_one_has_read(void **state)
{
    (void)state;
    static const struct {
        unsigned memory_mb;
        bool spills;
    } cases[] = {{64, true}, {64, false}, {1, true}}; /* 3 x 1 MiB: some rows are in the file */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        setup(&f, cases[i].memory_mb, cases[i].spills);
        const uint64_t alone = digest_alone(&f);
        struct child c[3];
        for (int k = 0; k < 3; k++)
            c[k] = child_start(&f, NULL);
        for (int k = 0; k < 3; k++) {
            const struct report r = child_hear(&c[k]);
            assert_true(r.copied);
            assert_true(r.digest == alone);
        }
        load(&f, NULL);
        assert_true(f.d.copied && digest_of(&f) == alone);
        assert_true((table_spilled_bytes(&f.d.table) > 0) == (cases[i].memory_mb == 1));
        for (int k = 0; k < 3; k++)
            child_end(&c[k]);
        assert_true(copy_bytes(&f) > HOST_COPY_HEAD_BYTES && digest_of(&f) == alone);
        dataset_close(&f.eval);
        dataset_close(&f.d);
        assert_int_equal(copy_bytes(&f), HOST_COPY_HEAD_BYTES); /* the last one frees it */
        teardown(&f);
    }
}

static void a_process_that_restarts_maps_the_copy_by_the_encoding_of_a_checkpoint(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 64, true);
    char *text = NULL;
    load(&f, NULL);
    const uint64_t digest = digest_of(&f);
    assert_int_equal(export_encoding_text(&f.job, f.d.table.schema, &text, &f.e), ERR_OK);
    const struct encoding_given same = {text, strlen(text), "cut 7", false};
    struct child c = child_start(&f, &same);
    struct report r = child_hear(&c);
    assert_true(r.copied && r.digest == digest);
    child_end(&c);
    char *number = strstr(text, "\"shift\"");
    assert_non_null(number);
    number[strcspn(number, "0123456789")] ^= 1;
    c = child_start(&f, &same); /* another encoding: rows of its own */
    r = child_hear(&c);
    assert_false(r.copied);
    assert_true(r.digest != digest);
    child_end(&c);
    free(text);
    teardown(&f);
}

/* Wait until a process reads; its pid. */
static pid_t await_reader(const struct fixture *f)
{
    struct flock l;
    do {
        l = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
        assert_int_equal(fcntl(f->fd, F_GETLK, &l), 0);
    } while (l.l_type == F_UNLCK);
    return l.l_pid;
}

static void another_process_reads_if_the_reader_is_killed(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 64, true);
    const uint64_t alone = digest_alone(&f);
    struct child killed = child_start(&f, NULL);
    assert_int_equal(await_reader(&f), killed.pid);
    struct child other = child_start(&f, NULL);
    assert_int_equal(kill(killed.pid, SIGKILL), 0);
    assert_int_equal(waitpid(killed.pid, NULL, 0), killed.pid);
    const struct report r = child_hear(&other);
    assert_true(r.copied && r.digest == alone);
    child_end(&other);
    close(killed.go);
    close(killed.tell);
    teardown(&f);
}

static void a_write_that_fails_leaves_each_process_its_own_rows(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 64, true);
    const uint64_t alone = digest_alone(&f);
    long n = 0;
    log_init("test", LOG_ERROR);
    for (bool fired = true; fired; n++) {
        host_copy_fail_at(n, ENOSPC);
        load(&f, NULL);
        fired = host_copy_fail_fired();
        host_copy_fail_at(-1, 0);
        assert_true(f.d.copied == !fired && digest_of(&f) == alone);
        if (n == 1) { /* another process reads by itself, too, and does not wait */
            struct child c = child_start(&f, NULL);
            const struct report r = child_hear(&c);
            assert_true(!r.copied && r.digest == alone);
            child_end(&c);
        }
        dataset_close(&f.eval);
        dataset_close(&f.d);
    }
    log_init("test", LOG_INFO);
    assert_true(n > 5); /* pieces, meta, what was said */
    teardown(&f);
}

static void other_data_are_not_those_of_the_copy(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 64, true);
    struct child c = child_start(&f, NULL);
    const struct report first = child_hear(&c);
    put_rows(&f, 2);
    load(&f, NULL);
    const uint64_t second = digest_of(&f);
    assert_true(!f.d.copied && second != first.digest);
    child_end(&c);
    dataset_close(&f.eval);
    dataset_close(&f.d);
    load(&f, NULL); /* nobody uses the first copy any more */
    assert_true(f.d.copied && digest_of(&f) == second);
    teardown(&f);
}

/* Labels beyond the model's classes are named by reading the rows once more, while others use the copy. */
static void a_process_that_has_the_copy_reads_again_into_a_file_of_its_own(void **state)
{
    (void)state;
    struct fixture f;
    struct errmsg e;
    setup(&f, 1, true);
    load(&f, NULL);
    assert_true(f.d.copied && table_spilled_bytes(&f.d.table) > 0);
    const uint64_t digest = digest_of(&f);
    put_rows(&f, 2);
    assert_int_equal(dataset_name_label(&f.job, NULL, 2, &e), ERR_INPUT);
    assert_true(digest_of(&f) == digest);
    teardown(&f);
}

/* data.absent_columns is of each process, and not of the job's identity. */
static void rows_of_columns_that_may_be_absent_are_not_those_of_others(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 64, true);
    load(&f, NULL);
    f.job.data.csv.absent_columns = ABSENT_MISSING;
    struct child c = child_start(&f, NULL);
    assert_false(child_hear(&c).copied);
    child_end(&c);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_processes_have_the_rows_that_one_has_read),
        cmocka_unit_test(a_process_that_restarts_maps_the_copy_by_the_encoding_of_a_checkpoint),
        cmocka_unit_test(another_process_reads_if_the_reader_is_killed),
        cmocka_unit_test(a_write_that_fails_leaves_each_process_its_own_rows),
        cmocka_unit_test(other_data_are_not_those_of_the_copy),
        cmocka_unit_test(a_process_that_has_the_copy_reads_again_into_a_file_of_its_own),
        cmocka_unit_test(rows_of_columns_that_may_be_absent_are_not_those_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
