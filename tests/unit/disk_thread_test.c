/* The thread that waits for a disk in the place of a loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <semaphore.h>

#include "common/base/mem.h"
#include "common/net/loop.h"
#include "common/net/disk_thread.h"

enum { JOBS = 100 };

struct done {
    struct disk_thread disk;
    sem_t may_begin;
    int n, order[DISK_JOBS_MAX];
};

struct job {
    struct done *done;
    int number;
};

static void add(void *arg)
{
    struct job *j = arg;
    j->done->order[j->done->n++] = j->number;
}

static void wait_and_add(void *arg)
{
    struct job *j = arg;
    while (sem_wait(&j->done->may_begin) != 0)
        ;
    add(arg);
}

static void open_disk(struct done *d)
{
    *d = (struct done){.n = 0};
    disk_thread_init(&d->disk);
    assert_int_equal(sem_init(&d->may_begin, 0, 0), 0);
}

static void close_disk(struct done *d)
{
    disk_thread_close(&d->disk);
    assert_int_equal(sem_destroy(&d->may_begin), 0);
}

static void assert_order(const struct done *d, int n)
{
    assert_int_equal(d->n, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(d->order[i], i);
}

static void jobs_are_done_in_the_order_of_posting(void **state)
{
    (void)state;
    struct done d;
    struct job job[JOBS];
    open_disk(&d);
    for (int i = 0; i < JOBS; i++) {
        job[i] = (struct job){&d, i};
        assert_int_equal(disk_thread_post(&d.disk, i ? add : wait_and_add, &job[i]), ERR_OK);
    }
    assert_int_equal(d.n, 0);
    assert_int_equal(sem_post(&d.may_begin), 0);
    disk_thread_settle(&d.disk);
    assert_order(&d, JOBS);
    close_disk(&d);
}

static void what_was_posted_is_done_when_the_thread_has_ended(void **state)
{
    (void)state;
    struct done d;
    struct job job[JOBS];
    open_disk(&d);
    for (int i = 0; i < JOBS; i++) {
        job[i] = (struct job){&d, i};
        assert_int_equal(disk_thread_post(&d.disk, add, &job[i]), ERR_OK);
    }
    close_disk(&d);
    assert_order(&d, JOBS);
}

static void more_jobs_than_may_wait_are_refused(void **state)
{
    (void)state;
    static struct done d;
    static struct job job[DISK_JOBS_MAX];
    open_disk(&d);
    for (int i = 0; i < DISK_JOBS_MAX; i++) {
        job[i] = (struct job){&d, i};
        assert_int_equal(disk_thread_post(&d.disk, i ? add : wait_and_add, &job[i]), ERR_OK);
    }
    assert_int_equal(disk_thread_post(&d.disk, add, &job[0]), ERR_TOOBIG);
    assert_int_equal(sem_post(&d.may_begin), 0);
    close_disk(&d);
    assert_order(&d, DISK_JOBS_MAX);
}

static void without_memory_a_job_stays_the_callers(void **state)
{
    (void)state;
    struct done d;
    struct job job = {&d, 0};
    open_disk(&d);
    mem_fail_at(0);
    assert_int_equal(disk_thread_post(&d.disk, add, &job), ERR_NOMEM);
    assert_true(mem_fail_fired());
    mem_fail_at(-1);
    disk_thread_settle(&d.disk); /* there is nothing to wait for */
    close_disk(&d);
    assert_int_equal(d.n, 0);
}

/* As a read of storage that has died. */
static void a_job_that_does_not_end_does_not_hold_up_the_end(void **state)
{
    (void)state;
    static struct done d;
    struct job job = {&d, 0};
    open_disk(&d);
    assert_int_equal(disk_thread_post(&d.disk, wait_and_add, &job), ERR_OK);
    assert_false(disk_thread_close_within(&d.disk, 20));
    assert_int_equal(sem_post(&d.may_begin), 0);
    assert_true(disk_thread_close_within(&d.disk, 60000));
    assert_int_equal(sem_destroy(&d.may_begin), 0);
    assert_order(&d, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_done_in_the_order_of_posting),
        cmocka_unit_test(what_was_posted_is_done_when_the_thread_has_ended),
        cmocka_unit_test(more_jobs_than_may_wait_are_refused),
        cmocka_unit_test(without_memory_a_job_stays_the_callers),
        cmocka_unit_test(a_job_that_does_not_end_does_not_hold_up_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
