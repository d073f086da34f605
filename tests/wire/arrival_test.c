/* Processes that read their data, between a ps 0, a chief and workers that the test plays. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "common/peers/hello.h"
#include "common/process/process_state.h"
#include "common/wire/msg.h"
#include "tests/lib/peer.h"
#include "worker/control/idle.h"

static struct job job = {.name = "people"};
static char at_ps[32], at_chief[32];
static char *all_ps[] = {at_ps};
static struct cluster worker = {
    .role = ROLE_WORKER, .index = 2, .worker_id = 2, .n_ps = 1, .ps = all_ps};
static struct cluster chief = {
    .role = ROLE_WORKER, .is_chief = true, .n_ps = 1, .ps = all_ps, .self = at_chief};
static int ps_fd, chief_fd;

static int setup(void **state)
{
    (void)state;
    ps_fd = peer_listen();
    chief_fd = peer_listen();
    (void)snprintf(at_ps, sizeof at_ps, "127.0.0.1:%u", socket_port(ps_fd));
    (void)snprintf(at_chief, sizeof at_chief, "127.0.0.1:%u", socket_port(chief_fd));
    loading_begin(400, NULL, NULL);
    loading_read(100);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loading_end();
    close(ps_fd);
    close(chief_fd);
    return 0;
}

static void send_frame(int fd, enum frame_type type, const ProtobufCMessage *m)
{
    uint8_t head[512];
    size_t bytes;
    uint8_t *frame = peer_encode(type, head, protobuf_c_message_pack(m, head), NULL, 0, &bytes);
    peer_write(fd, frame, bytes);
    mem_free(frame);
}

/* Fails unless a frame of this type comes. */
static void *heard(int fd, enum frame_type type)
{
    struct frame f;
    uint8_t header[FRAME_HEADER_BYTES], head[4096];
    peer_wait_fd(fd, POLLIN);
    peer_read(fd, header, sizeof header);
    assert_int_equal(frame_decode(&f, header, &(struct frame_limits){FRAME_PLAIN, sizeof head, 0}),
                     ERR_OK);
    if (f.head_bytes)
        peer_read(fd, head, f.head_bytes);
    assert_int_equal(f.type, type);
    void *m = msg_unpack(f.type, head, f.head_bytes);
    assert_non_null(m);
    return m;
}

static void assert_over(int fd)
{
    char byte;
    peer_wait_fd(fd, POLLIN);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

static int arrival_at(int listening, bool idle, const char *chief_address)
{
    peer_wait_fd(listening, POLLIN);
    int fd = accept(listening, NULL, NULL);
    Gradwire__Hello *hello = heard(fd, FRAME_HELLO);
    assert_int_equal(hello->role, GRADWIRE__ROLE__ARRIVAL);
    assert_int_equal(hello->idle, idle);
    assert_int_equal(hello->ps_index, listening != ps_fd && listening != chief_fd);
    assert_string_equal(hello->chief_address, chief_address);
    assert_true(!hello->contents && hello->encoding.len == 0);
    msg_free(hello);
    return fd;
}

static void answer(int fd, const char *chief_address)
{
    Gradwire__HelloReply m = GRADWIRE__HELLO_REPLY__INIT;
    m.chief_address = (char *)chief_address;
    send_frame(fd, FRAME_HELLO_REPLY, &m.base);
}

static int met_at(int listening)
{
    int fd = arrival_at(ps_fd, true, "");
    answer(fd, at_chief);
    assert_over(fd);
    fd = arrival_at(listening, false, "");
    answer(fd, "");
    Gradwire__Vitals *m = heard(fd, FRAME_VITALS);
    assert_non_null(m->loading);
    assert_int_equal(m->loading->bytes, 100);
    assert_int_equal(m->loading->of_bytes, 400);
    msg_free(m);
    return fd;
}

static void a_worker_meets_the_chief_and_asks_ps_0_again_when_it_loses_it(void **state)
{
    (void)state;
    struct arrival *a = arrival_begin(&job, &worker, -1, -1);
    Gradwire__LeaseAsk no_answer = GRADWIRE__LEASE_ASK__INIT;
    int64_t at_ms[3];
    close(met_at(chief_fd));
    at_ms[0] = clock_now_ms();
    int fd = met_at(chief_fd);
    at_ms[1] = clock_now_ms();
    send_frame(fd, FRAME_LEASE_ASK, &no_answer.base); /* a chief that talks nonsense */
    assert_over(fd);
    fd = met_at(chief_fd);
    at_ms[2] = clock_now_ms();
    /* after a refusal it would have waited both times */
    assert_true(at_ms[1] - at_ms[0] < 10000 || at_ms[2] - at_ms[1] < 10000);
    msg_free(heard(fd, FRAME_VITALS)); /* each second */
    arrival_end(a);
    assert_over(fd);
}

/* Nothing waits for a connection, a name, or an answer that does not come. */
static void it_ends_at_any_time(void **state)
{
    for (int i = 0; i < 60; i++) {
        assert_int_equal(teardown(state) + setup(state), 0); /* nobody has dialed yet */
        (void)snprintf(at_ps, sizeof at_ps, "%s:%u", i % 3 ? "127.0.0.1" : "localhost",
                       socket_port(ps_fd));
        struct arrival *a =
            arrival_begin(&job, i % 2 ? &chief : &worker, -1, i % 2 ? chief_fd : -1);
        if (i % 3 == 1) {
            int fd = arrival_at(ps_fd, true, i % 2 ? at_chief : "");
            answer(fd, at_chief);
            close(fd);
        }
        arrival_end(a);
    }
}

/* ---- the chief's ---- */

static int dialed(uint32_t number, Gradwire__Role role, const char *name)
{
    Gradwire__Hello m;
    struct cluster of = worker;
    of.worker_id = number;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage to;
    socklen_t bytes = sizeof to;
    struct job own = job;
    (void)snprintf(own.name, sizeof own.name, "%s", name);
    hello_make(&m, &own, &of, 0);
    m.role = role;
    assert_int_equal(getsockname(chief_fd, (struct sockaddr *)&to, &bytes), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, bytes), 0);
    send_frame(fd, FRAME_HELLO, &m.base);
    return fd;
}

static void tell(int fd, uint64_t rows)
{
    Gradwire__Vitals m = GRADWIRE__VITALS__INIT;
    Gradwire__Loading loading = GRADWIRE__LOADING__INIT;
    loading.rows = rows;
    loading.left_s = 1;
    m.loading = &loading;
    send_frame(fd, FRAME_VITALS, &m.base);
}

/* 0: it does not load. */
static void wait_rows(uint32_t number, uint64_t rows)
{
    struct loading now;
    int64_t until_ms = clock_now_ms() + PEER_DEADLINE_MS;
    while (loading_heard(number, &now) != (rows > 0) || now.rows != rows) {
        assert_true(clock_now_ms() < until_ms);
        clock_sleep_ms(1);
    }
}

static void a_chief_that_reads_its_data_hears_how_far_workers_are(void **state)
{
    (void)state;
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd);
    int ps = arrival_at(ps_fd, true, at_chief), last = WORKERS_MAX - 1;
    int second = dialed(2, GRADWIRE__ROLE__ARRIVAL, "people"),
        of_last = dialed((uint32_t)last, GRADWIRE__ROLE__ARRIVAL, "people");
    msg_free(heard(second, FRAME_HELLO_REPLY));
    msg_free(heard(of_last, FRAME_HELLO_REPLY));
    tell(second, 7);
    tell(of_last, 8);
    wait_rows(2, 7);
    wait_rows((uint32_t)last, 8);
    tell(second, 9);
    wait_rows(2, 9);
    tell(of_last, 8);
    wait_rows(2, 0); /* its process is stopped, or hangs */
    tell(second, 10);
    wait_rows(2, 10);
    close(second);
    wait_rows(2, 0);
    tell(of_last, 8);
    wait_rows((uint32_t)last, 8);
    arrival_end(a);
    struct loading now;
    assert_false(loading_heard((uint32_t)last, &now));
    assert_over(of_last);
    assert_over(ps);
}

static void a_chief_that_reads_its_data_says_so_to_every_ps(void **state)
{
    (void)state;
    char at_second[32];
    char *both[] = {at_ps, at_second};
    struct cluster of_two = chief;
    const int second_fd = peer_listen();
    (void)snprintf(at_second, sizeof at_second, "127.0.0.1:%u", socket_port(second_fd));
    of_two.ps = both;
    of_two.n_ps = 2;
    struct arrival *a = arrival_begin(&job, &of_two, -1, chief_fd);
    const int first = arrival_at(ps_fd, true, at_chief);
    close(arrival_at(second_fd, true, at_chief));
    const int again = arrival_at(second_fd, true, at_chief);
    arrival_end(a);
    assert_over(first);
    assert_over(again);
    close(second_fd);
}

static void a_chief_that_reads_its_data_answers_none_but_arrivals_and_doctors(void **state)
{
    (void)state;
    static const struct {
        uint32_t number;
        Gradwire__Role role;
        const char *job, *why;
    } refused[] = {
        {2, GRADWIRE__ROLE__ARRIVAL, "other", "a worker of job other connected to the chief of"},
        {0, GRADWIRE__ROLE__ARRIVAL, "people", "worker 0 connected to the chief; allowed: 1 to"},
        {WORKERS_MAX, GRADWIRE__ROLE__ARRIVAL, "people", "worker 1024 connected to the chief;"},
        {0, GRADWIRE__ROLE__CHIEF, "people", "a chief connected to the chief"},
    };
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int fd = dialed(refused[i].number, refused[i].role, refused[i].job);
        Gradwire__Refuse *m = heard(fd, FRAME_REFUSE);
        if (!strstr(m->text, refused[i].why))
            fail_msg("case %zu: %s", i, m->text);
        msg_free(m);
        assert_over(fd);
    }
    int fd = dialed(2, GRADWIRE__ROLE__DOCTOR, "people"),
        ready = dialed(2, GRADWIRE__ROLE__WORKER, "people");
    Gradwire__HelloReply *reply = heard(fd, FRAME_HELLO_REPLY);
    assert_true(reply->time_ms > 0);
    msg_free(reply);
    assert_over(fd);
    fd = dialed(2, GRADWIRE__ROLE__WORKER, "people");
    tell(fd, 7); /* it has not been answered */
    assert_over(fd);
    fd = dialed(2, GRADWIRE__ROLE__ARRIVAL, "people");
    msg_free(heard(fd, FRAME_HELLO_REPLY));
    Gradwire__DoneAck no_vitals = GRADWIRE__DONE_ACK__INIT;
    send_frame(fd, FRAME_DONE_ACK, &no_vitals.base);
    assert_over(fd);
    fd = dialed(2, GRADWIRE__ROLE__DOCTOR, "people"); /* is answered after `ready` would be */
    msg_free(heard(fd, FRAME_HELLO_REPLY));
    assert_over(fd);
    struct pollfd quiet = {.fd = ready, .events = POLLIN};
    assert_int_equal(poll(&quiet, 1, 0), 0);
    arrival_end(a);
    assert_over(ready);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_worker_meets_the_chief_and_asks_ps_0_again_when_it_loses_it, setup, teardown),
        cmocka_unit_test_setup_teardown(it_ends_at_any_time, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chief_that_reads_its_data_hears_how_far_workers_are,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_chief_that_reads_its_data_says_so_to_every_ps, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_chief_that_reads_its_data_answers_none_but_arrivals_and_doctors, setup, teardown),
    };
    return cmocka_run_group_tests_name("arrival", tests, NULL, NULL);
}
