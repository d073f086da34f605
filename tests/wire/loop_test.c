/* Loops and mailboxes. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/net/loop.h"
#include "common/base/mem.h"
#include "common/net/mailbox.h"
#include "tests/lib/peer.h"

static struct loop loop;

static int setup(void **state)
{
    (void)state;
    return loop_init(&loop) == ERR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    loop_close(&loop);
    return 0;
}

/* ---- Timers, signals, what is put off ---- */

struct counted {
    struct loop_timer timer;
    int n, stop_at;
};

static void on_count(void *arg)
{
    struct counted *c = arg;
    if (++c->n == c->stop_at)
        loop_timer_stop(&c->timer);
}

static void a_loop_without_work_ends_by_itself(void **state)
{
    (void)state;
    assert_int_equal(loop_run(&loop), ERR_OK);
}

static void a_timer_is_due_once_and_not_early(void **state)
{
    (void)state;
    enum {
        MS = 100,
        COARSE_MS = 10
    }; /* libevent looks at a clock that ticks so slowly, at worst */
    struct counted c = {0};
    loop_timer_init(&c.timer, &loop, on_count, &c);
    int64_t from = clock_now_ms();
    assert_int_equal(loop_timer_once(&c.timer, MS), ERR_OK);
    assert_true(loop_timer_running(&c.timer));
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(c.n, 1);
    assert_false(loop_timer_running(&c.timer));
    assert_true(clock_now_ms() - from >= MS - COARSE_MS - 1);
}

static void a_periodic_timer_stops_inside_its_own_call(void **state)
{
    (void)state;
    struct counted c = {.stop_at = 3};
    loop_timer_init(&c.timer, &loop, on_count, &c);
    assert_int_equal(loop_timer_every(&c.timer, 1), ERR_OK);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(c.n, 3);
}

static void a_timer_set_anew_is_due_once(void **state)
{
    (void)state;
    struct counted c = {0};
    loop_timer_init(&c.timer, &loop, on_count, &c);
    loop_timer_stop(&c.timer); /* before it ever ran */
    assert_int_equal(loop_timer_every(&c.timer, 60000), ERR_OK);
    assert_int_equal(loop_timer_once(&c.timer, 1), ERR_OK);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(c.n, 1);
}

static void on_stop(void *arg)
{
    (void)arg;
    loop_stop(&loop);
}

static void a_stopped_loop_returns_and_can_run_again(void **state)
{
    (void)state;
    struct loop_timer stop;
    struct counted c = {.stop_at = 2};
    loop_timer_init(&stop, &loop, on_stop, NULL);
    loop_timer_init(&c.timer, &loop, on_count, &c);
    assert_int_equal(loop_timer_once(&stop, 0), ERR_OK);
    assert_int_equal(loop_timer_every(&c.timer, PEER_DEADLINE_MS), ERR_OK);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(c.n, 0);
    assert_int_equal(loop_timer_every(&c.timer, 1), ERR_OK);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(c.n, 2);
}

static int signals;

static void on_signal(int number, void *arg)
{
    signals += number == SIGUSR1;
    loop_stop(arg);
}

static void a_signal_is_served_on_the_loop(void **state)
{
    (void)state;
    struct loop_signal s;
    signals = 0;
    assert_int_equal(loop_signal_init(&s, &loop, SIGUSR1, on_signal, &loop), ERR_OK);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(signals, 1);
    loop_signal_close(&s);
}

static struct loop_later first, second, third;
static int order[3], n_order;

static void on_later(struct loop_later *l)
{
    order[n_order++] = l == &first ? 1 : l == &second ? 2 : 3;
    if (l == &first)
        loop_put_off(&loop, &third);
}

static void what_is_put_off_runs_in_order_though_more_comes_meanwhile(void **state)
{
    (void)state;
    first.fn = second.fn = third.fn = on_later;
    n_order = 0;
    loop_put_off(&loop, &first);
    loop_put_off(&loop, &second);
    assert_int_equal(n_order, 0);
    assert_int_equal(loop_run(&loop), ERR_OK);
    assert_int_equal(n_order, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(order[i], i + 1);
}

static void a_tick_with_work_put_off_before_does_not_wait(void **state)
{
    (void)state;
    struct counted c = {0};
    first.fn = second.fn = on_later;
    n_order = 0;
    loop_timer_init(&c.timer, &loop, on_count, &c);
    assert_int_equal(loop_timer_once(&c.timer, PEER_DEADLINE_MS), ERR_OK);
    loop_put_off(&loop, &second);
    assert_int_equal(loop_tick(&loop, NULL), ERR_OK);
    assert_int_equal(n_order, 1);
    assert_int_equal(c.n, 0);
    loop_timer_stop(&c.timer);
}

/* ---- Mailboxes ---- */

enum { SENDERS = 4, LETTERS = 5000 };

struct inbox {
    struct mailbox box;
    int n, freed_by_reader;
    uint64_t next[SENDERS]; /* the number expected from each sender */
    bool disorder, keep;
};

static void on_mail(void *arg, struct mail *m)
{
    struct inbox *in = arg;
    in->n++;
    if (m->type < SENDERS)
        in->disorder |= m->number != in->next[m->type]++;
    if (in->keep) {
        mem_free(m->data);
        m->data = NULL;
        in->freed_by_reader++;
    }
}

static void *sender_main(void *arg)
{
    struct inbox *in = ((void **)arg)[0];
    int type = *(int *)((void **)arg)[1];
    for (uint64_t i = 0; i < LETTERS;) {
        struct mail m = {.type = type, .number = i, .data = mem_zalloc(1, 8), .free = mem_free};
        enum err rc = mailbox_post(&in->box, &m);
        if (rc == ERR_OK)
            i++;
        else if (rc != ERR_TOOBIG)
            abort();
    }
    return NULL;
}

static void letters_of_many_threads_arrive_once_and_in_order(void **state)
{
    (void)state;
    struct inbox in = {.keep = false};
    pthread_t threads[SENDERS];
    int types[SENDERS];
    void *args[SENDERS][2];
    assert_int_equal(mailbox_init(&in.box, &loop, on_mail, &in), ERR_OK);
    for (int i = 0; i < SENDERS; i++) {
        types[i] = i;
        args[i][0] = &in;
        args[i][1] = &types[i];
        assert_int_equal(pthread_create(&threads[i], NULL, sender_main, args[i]), 0);
    }
    peer_wait_int(&loop, &in.n, SENDERS * LETTERS);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    peer_poll(&loop);
    assert_int_equal(in.n, SENDERS * LETTERS);
    assert_false(in.disorder);
    mailbox_close(&in.box);
}

static int freed;

static void count_free(void *data)
{
    freed++;
    mem_free(data);
}

static enum err post(struct inbox *in)
{
    struct mail m = {.type = SENDERS, .data = mem_zalloc(1, 1), .free = count_free};
    return mailbox_post(&in->box, &m);
}

static void a_full_mailbox_refuses_and_frees_the_letter(void **state)
{
    (void)state;
    struct inbox in = {.keep = true};
    freed = 0;
    assert_int_equal(mailbox_init(&in.box, &loop, on_mail, &in), ERR_OK);
    for (int i = 0; i < MAILBOX_MAX; i++)
        assert_int_equal(post(&in), ERR_OK);
    assert_int_equal(post(&in), ERR_TOOBIG);
    assert_int_equal(freed, 1);
    peer_wait_int(&loop, &in.n, MAILBOX_MAX);
    assert_int_equal(in.freed_by_reader, MAILBOX_MAX); /* the reader frees the data that it takes */
    assert_int_equal(freed, 1);
    assert_int_equal(post(&in), ERR_OK);
    mailbox_close(&in.box);
    assert_int_equal(freed, 2); /* nobody read it */
}

static void many_letters_wake_the_loop_once(void **state)
{
    (void)state;
    struct inbox in = {0};
    uint64_t wakes = 0;
    assert_int_equal(mailbox_init(&in.box, &loop, on_mail, &in), ERR_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(post(&in), ERR_OK);
    assert_int_equal(read(in.box.fd, &wakes, sizeof(wakes)), sizeof(wakes));
    assert_int_equal(wakes, 1);
    mailbox_close(&in.box);
}

static void data_that_the_reader_of_a_letter_did_not_take_is_freed(void **state)
{
    (void)state;
    struct inbox in = {0};
    freed = 0;
    assert_int_equal(mailbox_init(&in.box, &loop, on_mail, &in), ERR_OK);
    assert_int_equal(post(&in), ERR_OK);
    peer_wait_int(&loop, &in.n, 1);
    assert_int_equal(freed, 1);
    mailbox_close(&in.box);
}

static void a_mailbox_without_memory_says_so(void **state)
{
    (void)state;
    struct inbox in = {0};
    for (int n = 0; n < 2; n++) {
        mem_fail_at(n);
        assert_int_equal(mailbox_init(&in.box, &loop, on_mail, &in), ERR_NOMEM);
        assert_true(mem_fail_fired());
    }
    mem_fail_at(-1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_loop_without_work_ends_by_itself),
        T(a_timer_is_due_once_and_not_early),
        T(a_periodic_timer_stops_inside_its_own_call),
        T(a_timer_set_anew_is_due_once),
        T(a_stopped_loop_returns_and_can_run_again),
        T(a_signal_is_served_on_the_loop),
        T(what_is_put_off_runs_in_order_though_more_comes_meanwhile),
        T(a_tick_with_work_put_off_before_does_not_wait),
        T(letters_of_many_threads_arrive_once_and_in_order),
        T(a_full_mailbox_refuses_and_frees_the_letter),
        T(many_letters_wake_the_loop_once),
        T(data_that_the_reader_of_a_letter_did_not_take_is_freed),
        T(a_mailbox_without_memory_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
