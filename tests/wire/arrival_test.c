/* Processes that read their data, between a ps 0, a chief and workers that the test plays. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "common/peers/hello.h"
#include "common/process/process_state.h"
#include "common/wire/msg.h"
#include "data/readers.h"
#include "tests/lib/idx_files.h"
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

static void send_with(int fd, enum frame_type type, const ProtobufCMessage *m, const void *body,
                      size_t body_bytes)
{
    uint8_t head[512];
    size_t bytes;
    uint8_t *frame =
        peer_encode(type, head, protobuf_c_message_pack(m, head), body, body_bytes, &bytes);
    peer_write(fd, frame, bytes);
    mem_free(frame);
}

static void send_frame(int fd, enum frame_type type, const ProtobufCMessage *m)
{
    send_with(fd, type, m, NULL, 0);
}

/* Fails unless a frame of this type comes. Returns the bytes of its body in *body_bytes, of so many at most. */
static void *heard_with(int fd, enum frame_type type, void *body, size_t *body_bytes)
{
    struct frame f;
    uint8_t header[FRAME_HEADER_BYTES], head[4096];
    peer_wait_fd(fd, POLLIN);
    peer_read(fd, header, sizeof header);
    assert_int_equal(
        frame_decode(&f, header,
                     &(struct frame_limits){FRAME_PLAIN, sizeof head, body ? *body_bytes : 0}),
        ERR_OK);
    if (f.head_bytes)
        peer_read(fd, head, f.head_bytes);
    if (f.body_bytes)
        peer_read(fd, body, f.body_bytes);
    if (body)
        *body_bytes = f.body_bytes;
    assert_int_equal(f.type, type);
    void *m = msg_unpack(f.type, head, f.head_bytes);
    assert_non_null(m);
    return m;
}

static void *heard(int fd, enum frame_type type)
{
    return heard_with(fd, type, NULL, NULL);
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
    struct arrival *a = arrival_begin(&job, &worker, -1, -1, NULL);
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
            arrival_begin(&job, i % 2 ? &chief : &worker, -1, i % 2 ? chief_fd : -1, NULL);
        if (i % 3 == 1) {
            int fd = arrival_at(ps_fd, true, i % 2 ? at_chief : "");
            answer(fd, at_chief);
            close(fd);
        }
        arrival_end(a);
    }
}

/* ---- the chief's ---- */

static int dialed_with(uint32_t number, Gradwire__Role role, const char *name,
                       uint32_t index_threads)
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
    m.index_threads = index_threads;
    assert_int_equal(getsockname(chief_fd, (struct sockaddr *)&to, &bytes), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, bytes), 0);
    send_frame(fd, FRAME_HELLO, &m.base);
    return fd;
}

static int dialed(uint32_t number, Gradwire__Role role, const char *name)
{
    return dialed_with(number, role, name, 0);
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
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd, NULL);
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
    struct arrival *a = arrival_begin(&job, &of_two, -1, chief_fd, NULL);
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
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd, NULL);
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

/* ---- parts of the index ---- */

enum { CELL_BYTES = 64, TEXT_BYTES = 600000 };
static const struct csv_grammar quoted = {.delimiter = ',', .quotes = true, .comment = ""};

struct text_file {
    struct idx_files files;
    struct paths paths;
    struct text_index x; /* the chief's */
    atomic_bool made;
};

static void text_open(struct text_file *t)
{
    static char text[TEXT_BYTES];
    struct errmsg e;
    for (size_t i = 0; i + 8 <= sizeof text; i += 8)
        memcpy(text + i, i % 24 ? "12,3456\n" : "1,\"a\nb\"", 8);
    memset(text + sizeof text - 8, '\n', 8);
    *t = (struct text_file){.made = false};
    idx_files_init(&t->files);
    idx_files_write(&t->files, "a.csv", (struct bytes){(uint8_t *)text, sizeof text});
    assert_int_equal(paths_add(&t->paths, idx_files_path(&t->files, "a.csv"), &e), ERR_OK);
}

static void text_close(struct text_file *t)
{
    text_index_close(&t->x);
    paths_close(&t->paths);
    idx_files_close(&t->files);
}

static void make_index(struct text_index *x, const struct text_file *t)
{
    struct pool *pool;
    struct errmsg e = {""};
    assert_int_equal(pool_new(&pool, 1, &e), ERR_OK);
    if (csv_index(x, &t->paths, &quoted, false, CELL_BYTES, CSV_PIECE_BYTES, NULL, pool, &e))
        fail_msg("%s", e.text);
    pool_free(pool);
}

static void *chief_index(void *ctx)
{
    struct text_file *t = ctx;
    make_index(&t->x, t);
    t->made = true;
    return NULL;
}

static void answer_part(int fd, const struct text_file *t, const struct text_index *own)
{
    struct errmsg e;
    Gradwire__IndexDeal *deal = heard(fd, FRAME_INDEX_DEAL);
    struct text_index_part p = {
        .file = deal->file, .first_cell = deal->first_cell, .cells = deal->cells};
    assert_int_equal(deal->file_bytes, TEXT_BYTES);
    assert_int_equal(csv_index_scan(&p, own, t->paths.path[0], &quoted, &e), ERR_OK);
    Gradwire__IndexPart m = GRADWIRE__INDEX_PART__INIT;
    m.number = deal->number;
    send_with(fd, FRAME_INDEX_PART, &m.base, &p, sizeof p);
    msg_free(deal);
}

static void a_chief_deals_the_index_again_of_workers_that_die_or_answer_nonsense(void **state)
{
    (void)state;
    enum { DIES, NONSENSE, CANNOT, SCANS, WORKERS };
    struct text_file t;
    struct text_index own;
    pthread_t thread;
    int fd[WORKERS];
    uint8_t *want, *got, none[INDEX_PART_BYTES] = {0};
    size_t want_bytes, bytes;
    struct errmsg e;
    text_open(&t);
    make_index(&own, &t);
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        fd[i] = dialed_with(2 + i, GRADWIRE__ROLE__ARRIVAL, "people", 1);
        msg_free(heard(fd[i], FRAME_HELLO_REPLY));
    }
    assert_int_equal(pthread_create(&thread, NULL, chief_index, &t), 0);
    msg_free(heard(fd[DIES], FRAME_INDEX_DEAL));
    close(fd[DIES]);
    for (int i = NONSENSE; i <= CANNOT; i++) {
        Gradwire__IndexDeal *deal = heard(fd[i], FRAME_INDEX_DEAL);
        Gradwire__IndexPart m = GRADWIRE__INDEX_PART__INIT;
        m.number = deal->number;
        m.error = i == CANNOT ? "a.csv: Permission denied" : "";
        send_with(fd[i], FRAME_INDEX_PART, &m.base, none, i == CANNOT ? 0 : sizeof none);
        msg_free(deal);
        msg_free(heard(fd[i], FRAME_INDEX_DEAL)); /* it had two */
    }
    assert_over(fd[NONSENSE]);
    fd[NONSENSE] = dialed_with(2 + NONSENSE, GRADWIRE__ROLE__ARRIVAL, "people", 1);
    msg_free(heard(fd[NONSENSE], FRAME_HELLO_REPLY));
    int answers = 0;
    while (!t.made) {
        struct pollfd ready = {.fd = fd[SCANS], .events = POLLIN};
        if (poll(&ready, 1, 10) == 1) {
            answer_part(fd[SCANS], &t, &own);
            answers++;
        }
    }
    pthread_join(thread, NULL);
    assert_in_range(answers, 2, TEXT_BYTES);
    for (int i = NONSENSE; i <= CANNOT; i++) { /* they get no more */
        struct pollfd quiet = {.fd = fd[i], .events = POLLIN};
        assert_int_equal(poll(&quiet, 1, 0), 0);
    }
    assert_int_equal(text_index_pack(&own, 1, &want, &want_bytes, &e), ERR_OK);
    assert_int_equal(text_index_pack(&t.x, 1, &got, &bytes, &e), ERR_OK);
    assert_int_equal(bytes, want_bytes);
    assert_memory_equal(got, want, bytes);
    mem_free(want);
    mem_free(got);
    arrival_end(a);
    for (int i = NONSENSE; i < WORKERS; i++)
        assert_over(fd[i]);
    text_index_close(&own);
    text_close(&t);
}

/* Nobody is there to answer in its place: its parts are late after some seconds. */
static void a_chief_scans_what_a_worker_that_hangs_has(void **state)
{
    (void)state;
    static struct text_file t; /* the thread has it if the test fails */
    text_open(&t);
    struct arrival *a = arrival_begin(&job, &chief, -1, chief_fd, NULL);
    int fd = dialed_with(2, GRADWIRE__ROLE__ARRIVAL, "people", 1);
    pthread_t thread;
    msg_free(heard(fd, FRAME_HELLO_REPLY));
    assert_int_equal(pthread_create(&thread, NULL, chief_index, &t), 0);
    msg_free(heard(fd, FRAME_INDEX_DEAL));
    for (int64_t until_ms = clock_now_ms() + PEER_DEADLINE_MS / 2; !t.made; clock_sleep_ms(1))
        assert_true(clock_now_ms() < until_ms);
    pthread_join(thread, NULL);
    assert_in_range(text_index_rows(&t.x), TEXT_BYTES / 16, TEXT_BYTES);
    arrival_end(a);
    close(fd);
    text_close(&t);
}

static void a_worker_scans_what_it_is_dealt_and_names_what_it_cannot(void **state)
{
    (void)state;
    struct text_file t;
    struct errmsg e;
    struct index_helper *helper;
    struct text_index own;
    struct text_index_part want = {.cells = 2}, got;
    text_open(&t);
    struct job reads = job;
    reads.data.train = t.paths.path[0];
    reads.data.csv.quotes = true;
    reads.worker.threads = 2;
    assert_int_equal(text_index_init(&own, 1, TEXT_INDEX_CELL_BYTES, false, &e), ERR_OK);
    struct stat st;
    assert_int_equal(stat(t.paths.path[0], &st), 0);
    assert_int_equal(text_index_size(&own, 0, TEXT_BYTES,
                                     st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
                                     &e),
                     ERR_OK);
    assert_int_equal(csv_index_scan(&want, &own, t.paths.path[0], &quoted, &e), ERR_OK);
    assert_int_equal(index_helper_new(&helper, &reads, &e), ERR_OK);
    struct arrival *a = arrival_begin(&reads, &worker, -1, -1, helper);
    int fd = arrival_at(ps_fd, true, "");
    answer(fd, at_chief);
    assert_over(fd);
    fd = accept(chief_fd, NULL, NULL);
    Gradwire__Hello *hello = heard(fd, FRAME_HELLO);
    assert_int_equal(hello->index_threads, 2);
    msg_free(hello);
    answer(fd, "");
    static const struct {
        uint32_t file, cells;
        uint64_t first_cell, bytes;
        const char *why;
    } deals[] = {
        {0, 2, 0, TEXT_BYTES, ""},
        {0, 2, 0, TEXT_BYTES - 1, "a.csv: it has 600000 bytes here, and 599999 at the chief"},
        {1, 2, 0, TEXT_BYTES, "data.train names 1 files here, and more at the chief"},
        {0, 3, 0, TEXT_BYTES, "a.csv: it has no such cells"},
        {0, 1, 3, TEXT_BYTES, "a.csv: it has no such cells"},
        {0, 0, 0, TEXT_BYTES, "a.csv: it has no such cells"},
    };
    for (size_t i = 0; i < sizeof deals / sizeof *deals; i++) {
        Gradwire__IndexDeal m = GRADWIRE__INDEX_DEAL__INIT;
        size_t bytes = sizeof got;
        m.number = 70 + i;
        m.file = deals[i].file;
        m.cells = deals[i].cells;
        m.first_cell = deals[i].first_cell;
        m.file_bytes = deals[i].bytes;
        send_frame(fd, FRAME_INDEX_DEAL, &m.base);
        Gradwire__IndexPart *part = heard_with(fd, FRAME_INDEX_PART, &got, &bytes);
        assert_int_equal(part->number, 70 + i);
        assert_int_equal(bytes, *deals[i].why ? 0 : sizeof got);
        if (!strstr(part->error, deals[i].why) || !*part->error != !*deals[i].why)
            fail_msg("case %zu: %s", i, part->error);
        if (bytes)
            assert_memory_equal(&got, &want, bytes);
        msg_free(part);
    }
    arrival_end(a);
    assert_over(fd);
    reads.data.train = "/no/such.csv";
    assert_int_equal(index_helper_new(&helper, &reads, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/no/such.csv"));
    text_index_close(&own);
    text_close(&t);
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
        cmocka_unit_test_setup_teardown(
            a_chief_deals_the_index_again_of_workers_that_die_or_answer_nonsense, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chief_scans_what_a_worker_that_hangs_has, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_worker_scans_what_it_is_dealt_and_names_what_it_cannot,
                                        setup, teardown),
    };
    return cmocka_run_group_tests_name("arrival", tests, NULL, NULL);
}
