/* The beginning of a connection where the processes of a job hold a token, or certificates: common/peers/greeting.h on one
 * side, common/peers/dial.h or an unauthenticated peer on the other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/cluster/address.h"
#include "common/peers/dial.h"
#include "common/peers/greeting.h"
#include "common/net/listen.h"
#include "common/base/mem.h"
#include "common/net/socket.h"
#include "tests/lib/certs.h"
#include "tests/lib/peer.h"

#define ADDRESS                                                                                    \
    "127.0.0.2" /* of the host: who dials it has 127.0.0.1, so checksums are agreed on */

static const char token[] = "0123456789abcdef0123456789abcdef";

/* The accepting side: one connection at a time. */
static struct host {
    struct loop loop;
    struct listener listener;
    struct conn *conn;
    struct greeting greeting;
    Gradwire__Hello *hello; /* that came */
    int accepted, heard, taken, closed;
    struct tls *tls; /* NULL: plain; the connecting side has the process's own */
    bool forgets;    /* the token */
    struct job job;
    struct cluster cluster;
} h;

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    (void)owner;
    enum err err = greeting_on_head(&h.greeting, c, f, head);
    msg_free(h.hello ? &h.hello->base : NULL);
    h.hello = NULL;
    if (!err)
        h.hello = (Gradwire__Hello *)msg_unpack(f->type, head, f->head_bytes);
    return !err && !h.hello ? ERR_PROTO : err;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    (void)c, (void)owner;
    return greeting_on_space(&h.greeting, at, left, p, bytes);
}

static enum err on_frame(struct conn *c, void *owner)
{
    (void)owner;
    struct tls *dials = tls_own();
    const struct hello_host host = {.job = &h.job, .cluster = &h.cluster, .uuid = ""};
    tls_own_set(h.tls);
    h.heard++;
    h.taken += greeting_taken(&h.greeting, c, &host, h.hello);
    tls_own_set(dials);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c, (void)owner, (void)code, (void)why;
    h.conn = NULL;
    h.closed++;
    listen_release(&h.listener);
}

static void hold(const char *text)
{
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(write(pair[1], text, strlen(text)), (ssize_t)strlen(text));
    close(pair[1]);
    assert_int_equal(token_load(pair[0], "", NULL), ERR_OK);
}

static void on_accept(void *owner, int fd, const char *peer)
{
    static const struct conn_ops ops = {
        .on_head = on_head, .on_space = on_space, .on_frame = on_frame, .on_close = on_close};
    (void)owner;
    assert_null(h.conn);
    h.accepted++;
    assert_int_equal(conn_new(&h.conn, &h.loop, fd, peer, &ops, NULL), ERR_OK);
    struct tls *dials = tls_own();
    if (h.forgets)
        token_forget();
    tls_own_set(h.tls);
    greeting_begin(&h.greeting, h.conn);
    tls_own_set(dials);
    if (h.forgets)
        hold(token);
}

static char *ps[] = {(char *)"here:1"};

static int setup(void **state)
{
    (void)state;
    int fd = -1;
    memset(&h, 0, sizeof h);
    strcpy(h.job.name, "a job");
    h.cluster = (struct cluster){.role = ROLE_PS, .n_ps = 1, .ps = ps};
    if (loop_init(&h.loop) || listen_bind(&fd, ADDRESS ":0", 0, NULL) ||
        listen_start(&h.listener, &h.loop, fd, 16, on_accept, NULL))
        return -1;
    hold(token);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    token_forget();
    listen_close(&h.listener);
    if (h.conn)
        conn_close(h.conn, ERR_STATE, "the test is over");
    peer_poll(&h.loop);
    msg_free(h.hello ? &h.hello->base : NULL);
    loop_close(&h.loop);
    return 0;
}

/* ---- who dials and holds the token ---- */

static struct dialer *dialer;

static void dialed(struct conn *c, void *owner)
{
    struct peer *p = owner;
    static const struct cluster cluster = {
        .role = ROLE_WORKER, .worker_id = 7, .n_ps = 1, .ps = ps};
    Gradwire__Hello m;
    hello_make(&m, &h.job, &cluster, 0);
    peer_ops.on_open(c, p);
    dial_hello(dialer, c, &m);
}

static void dial(struct peer *p)
{
    static struct conn_ops ops;
    char at[32];
    ops = peer_ops;
    ops.on_open = dialed;
    memset(p, 0, sizeof *p);
    p->loop = &h.loop;
    snprintf(at, sizeof at, ADDRESS ":%u", socket_port(h.listener.fd));
    assert_int_equal(dial_new(&dialer, &h.loop, "the host", at, &ops, p, NULL), ERR_OK);
    dial_start(dialer);
}

static void who_holds_the_token_is_taken_and_its_hello_is_whole(void **state)
{
    (void)state;
    static struct peer p;
    dial(&p);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_string_equal(h.hello->job, "a job");
    assert_int_equal(h.hello->worker, 7);
    assert_int_equal(p.n_got, 0); /* the challenge was the dialer's */
    assert_int_equal(h.closed, 0);
    dial_free(dialer);
    peer_close(&p);
}

static void without_a_token_the_hello_stands_alone(void **state)
{
    (void)state;
    static struct peer p;
    token_forget();
    dial(&p);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_equal(h.hello->worker, 7);
    dial_free(dialer);
    peer_close(&p);
}

static void a_hello_of_another_job_is_told_what_this_one_is(void **state)
{
    (void)state;
    static struct peer p;
    h.job.identity_text = (char *)"name = a job\n";
    dial(&p);
    peer_wait_int(&h.loop, &h.accepted, 1);
    h.job.identity[0] ^= 1; /* the hello is made when the challenge has come */
    peer_wait_int(&h.loop, &p.opened, 1);
    h.job.identity[0] ^= 1;
    peer_wait_int(&h.loop, &p.closed, 1);
    Gradwire__Refuse *m =
        (Gradwire__Refuse *)msg_unpack(FRAME_REFUSE, p.got[0].head, p.got[0].frame.head_bytes);
    assert_int_equal(m->reason, GRADWIRE__REASON__OTHER_JOB);
    assert_string_equal(m->text, "an identity key of job a job has another value here");
    assert_string_equal(m->identity_text, "name = a job\n");
    msg_free(&m->base);
    assert_int_equal(h.heard, 1);
    assert_int_equal(h.taken, 0);
    dial_free(dialer);
    peer_close(&p);
}

/* ---- certificates ---- */

static char folder[] = "/tmp/gradwire-greeting-XXXXXX";

static struct tls *identity(const struct certs_ca *by, const struct certs_ca *trusts,
                            const char *name)
{
    char cert[64], key[64], ca[64];
    struct tls *t = NULL;
    struct errmsg e;
    snprintf(cert, sizeof cert, "%s/crt", folder);
    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(ca, sizeof ca, "%s/ca", folder);
    certs_write(by, name, -3600, 3600, cert, key);
    certs_ca_write(trusts, ca);
    const struct tls_files f = {cert, key, ca, ""};
    if (tls_new(&t, &f, &e))
        fail_msg("%s", e.text);
    (void)unlink(cert);
    (void)unlink(key);
    (void)unlink(ca);
    return t;
}

static struct certs_ca ours, theirs;
static char *workers[] = {(char *)"w-0.a.svc:1", (char *)"w-1.a.svc:1"};

/* Both have certificates; `name` is whom that of who dials names. */
static void certify(const struct certs_ca *by, const char *name)
{
    if (!ours.key) {
        strcpy(folder, "/tmp/gradwire-greeting-XXXXXX");
        assert_non_null(mkdtemp(folder));
        certs_ca_init(&ours, "our CA");
        certs_ca_init(&theirs, "their CA");
    }
    h.tls = identity(&ours, &ours, "IP:" ADDRESS);
    h.cluster.n_workers = 2;
    h.cluster.workers = workers;
    h.cluster.chief = workers[0];
    tls_own_set(identity(by, &ours, name));
}

static void decertify(void)
{
    tls_free(tls_own());
    tls_own_set(NULL);
    tls_free(h.tls);
    h.tls = NULL;
    certs_ca_close(&ours);
    certs_ca_close(&theirs);
    ours = theirs = (struct certs_ca){0};
    assert_int_equal(rmdir(folder), 0);
}

static void come_with_a_certificate(void)
{
    static struct peer p;
    certify(&ours, "DNS:w-0.a.svc");
    dial(&p); /* it says that it is worker 7, of a list of two */
    peer_wait_int(&h.loop, &h.heard, 1);
    assert_string_equal(h.hello->job, "a job");
    assert_int_equal(h.taken, 0);
    peer_wait_int(&h.loop, &p.closed, 1);
    assert_int_equal(p.got[0].frame.type, FRAME_REFUSE);
    Gradwire__Refuse *m =
        (Gradwire__Refuse *)msg_unpack(FRAME_REFUSE, p.got[0].head, p.got[0].frame.head_bytes);
    assert_int_equal(m->reason, GRADWIRE__REASON__OTHER_NAME);
    assert_non_null(strstr(m->text, "it claims to be worker 7, but its certificate names "
                                    "DNS:w-0.a.svc; expected: a name in --tls_names"));
    assert_null(strstr(m->text, "a job"));
    msg_free(&m->base);
    peer_wait_int(&h.loop, &h.closed, 1);
    peer_close(&p);
    static char *many[8];
    for (int i = 0; i < 8; i++)
        many[i] = workers[0];
    h.cluster.n_workers = 8;
    h.cluster.workers = many;
    dial_free(dialer);
    dial(&p); /* now it is in the list */
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_equal(h.heard, 2);
    dial_free(dialer);
    peer_close(&p);
    decertify();
}

static void who_has_a_certificate_of_its_name_is_taken(void **state)
{
    (void)state;
    token_forget();
    come_with_a_certificate();
}

static void token_and_certificate_go_together(void **state)
{
    (void)state;
    come_with_a_certificate();
}

static void a_certificate_that_is_not_taken_is_a_try_that_failed(void **state)
{
    (void)state;
    static struct peer p;
    certify(&theirs, "DNS:w-0.a.svc");
    dial(&p);
    peer_wait_int(&h.loop, &h.closed, 1);
    while (!*dial_why(dialer))
        assert_int_equal(loop_tick(&h.loop, NULL), ERR_OK);
    assert_string_equal(dial_why(dialer), "it refuses our certificate (DNS:w-0.a.svc): unknown CA");
    assert_int_equal(p.opened, 0);
    assert_int_equal(h.taken, 0);
    assert_true(dial_trying(dialer));
    dial_free(dialer);
    decertify();
}

static void under_tls_too_the_token_is_asked_for_or_the_dialer_says_so(void **state)
{
    (void)state;
    static struct peer p;
    certify(&ours, "DNS:w-0.a.svc");
    h.forgets = true;
    dial(&p);
    while (!*dial_why(dialer))
        assert_int_equal(loop_tick(&h.loop, NULL), ERR_OK);
    assert_non_null(strstr(dial_why(dialer), "it does not request the job's token"));
    assert_int_equal(p.opened, 0);
    dial_free(dialer);
    peer_wait_int(&h.loop, &h.closed, 1);
    decertify();
}

/* ---- unauthenticated peers ---- */

/* `from`: a numeric address. */
static int knock_from(const char *from)
{
    struct address own, to;
    int fd = socket(AF_INET, SOCK_STREAM, 0), before = h.accepted;
    assert_true(fd >= 0);
    assert_true(address_numeric(from, 0, &own));
    assert_true(address_numeric(ADDRESS, socket_port(h.listener.fd), &to));
    assert_int_equal(bind(fd, (struct sockaddr *)&own.addr, own.bytes), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to.addr, to.bytes), 0);
    peer_wait_int(&h.loop, &h.accepted, before + 1);
    return fd;
}

static int knock(void)
{
    return knock_from("127.0.0.1");
}

/* The challenge that waits on fd. */
static void read_nonce(int fd, uint8_t nonce[TOKEN_NONCE_BYTES])
{
    uint8_t header[FRAME_HEADER_BYTES], head[64];
    struct frame f;
    peer_read(fd, header, sizeof header);
    assert_int_equal(frame_decode(&f, header, &(struct frame_limits){FRAME_PLAIN, sizeof head, 0}),
                     ERR_OK);
    assert_int_equal(f.type, FRAME_CHALLENGE);
    peer_read(fd, head, f.head_bytes);
    Gradwire__Challenge *m = (Gradwire__Challenge *)msg_unpack(f.type, head, f.head_bytes);
    assert_non_null(m);
    assert_int_equal(m->nonce.len, TOKEN_NONCE_BYTES);
    memcpy(nonce, m->nonce.data, TOKEN_NONCE_BYTES);
    msg_free(&m->base);
}

static size_t hello(uint8_t *out)
{
    static const struct cluster cluster = {
        .role = ROLE_WORKER, .worker_id = 7, .n_ps = 1, .ps = ps};
    Gradwire__Hello m;
    hello_make(&m, &h.job, &cluster, 0);
    return gradwire__hello__pack(&m, out);
}

static void say(int fd, const uint8_t *head, size_t bytes, const void *proof, size_t proof_bytes)
{
    size_t n;
    uint8_t *frame = peer_encode(FRAME_HELLO, head, bytes, proof, proof_bytes, &n);
    peer_write(fd, frame, n);
    mem_free(frame);
}

static const char wanted[] = "the job's token is required: --token_file=FILE or --token_fd=N",
                  another[] = "another token than the job's: give all processes of the job the "
                              "same token file";

/* The peer is refused: it hears only what is wrong with its token, and the end. */
static void refused(int fd, const char *text)
{
    uint8_t header[FRAME_HEADER_BYTES], head[256], end;
    struct frame f;
    int before = h.closed;
    struct timeval tick = {.tv_usec = 10000}, deadline = {.tv_sec = PEER_DEADLINE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick);
    while (recv(fd, header, 1, MSG_PEEK) < 0) /* both sides are this thread's */
        peer_poll(&h.loop);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline,
               sizeof deadline); /* the rest is on its way */
    peer_read(fd, header, sizeof header);
    assert_int_equal(frame_decode(&f, header, &(struct frame_limits){FRAME_PLAIN, sizeof head, 0}),
                     ERR_OK);
    assert_int_equal(f.type, FRAME_REFUSE);
    peer_read(fd, head, f.head_bytes);
    Gradwire__Refuse *m = (Gradwire__Refuse *)msg_unpack(f.type, head, f.head_bytes);
    assert_int_equal(m->reason, GRADWIRE__REASON__NO_TOKEN);
    assert_string_equal(m->identity_text, "");
    assert_string_equal(m->text, text);
    msg_free(&m->base);
    assert_int_equal(recv(fd, &end, 1, 0), 0);
    close(fd);
    peer_wait_int(&h.loop, &h.closed, before + 1);
    assert_int_equal(h.taken, 0);
}

static void a_hello_without_a_proof_is_refused(void **state)
{
    (void)state;
    uint8_t head[256], nonce[TOKEN_NONCE_BYTES];
    size_t bytes = hello(head);
    int fd = knock();
    read_nonce(fd, nonce);
    say(fd, head, bytes, NULL, 0);
    refused(fd, wanted);
}

static void a_proof_by_another_token_is_refused(void **state)
{
    (void)state;
    uint8_t head[256], nonce[TOKEN_NONCE_BYTES], proof[TOKEN_PROOF_BYTES];
    size_t bytes = hello(head);
    int fd = knock();
    read_nonce(fd, nonce);
    hold("another token, which is as long");
    assert_true(token_prove(proof, nonce, head, bytes));
    hold(token);
    say(fd, head, bytes, proof, sizeof proof);
    refused(fd, another);
}

static void a_recorded_hello_is_refused_the_next_time(void **state)
{
    (void)state;
    uint8_t head[256], nonce[TOKEN_NONCE_BYTES], proof[TOKEN_PROOF_BYTES];
    size_t bytes = hello(head);
    int fd = knock(), closed = h.closed;
    read_nonce(fd, nonce);
    assert_true(token_prove(proof, nonce, head, bytes));
    say(fd, head, bytes, proof, sizeof proof);
    peer_wait_int(&h.loop, &h.taken, 1);
    close(fd);
    peer_wait_int(&h.loop, &h.closed, closed + 1);
    h.taken = 0;
    fd = knock();
    read_nonce(fd, nonce);
    say(fd, head, bytes, proof, sizeof proof);
    refused(fd, another);
}

static void a_proof_is_for_the_hello_that_it_came_with(void **state)
{
    (void)state;
    uint8_t head[256], nonce[TOKEN_NONCE_BYTES], proof[TOKEN_PROOF_BYTES];
    size_t bytes = hello(head);
    int fd = knock();
    read_nonce(fd, nonce);
    assert_true(token_prove(proof, nonce, head, bytes));
    head[bytes - 1] ^= 1;
    say(fd, head, bytes, proof, sizeof proof);
    refused(fd, another);
}

/* ---- checksums ---- */

static uint32_t flags_of_the_answer(int fd)
{
    uint8_t header[FRAME_HEADER_BYTES];
    assert_int_equal(conn_send(h.conn, FRAME_HELLO_REPLY, NULL, 0, NULL, 0), ERR_OK);
    peer_read(fd, header, sizeof header);
    return header[12];
}

static void a_hello_with_a_checksum_gets_answers_with_checksums(void **state)
{
    (void)state;
    static struct peer p;
    token_forget();
    dial(&p);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_not_equal(h.hello->crc, 0);
    assert_int_equal(conn_send(h.conn, FRAME_HELLO_REPLY, NULL, 0, NULL, 0), ERR_OK);
    peer_wait_size(&h.loop, &p.n_over, 1);
    assert_int_equal(p.got[0].frame.flags, FRAME_FLAG_CRC);
    dial_free(dialer);
    peer_close(&p);
}

static void a_hello_that_stays_in_this_host_gets_answers_without_checksums(void **state)
{
    (void)state;
    uint8_t head[256];
    token_forget();
    size_t bytes = hello_add_crc(head, hello(head));
    int fd = knock_from(ADDRESS);
    say(fd, head, bytes, NULL, 0);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_equal(flags_of_the_answer(fd), 0);
    close(fd);
}

static void a_hello_of_an_earlier_release_gets_answers_without(void **state)
{
    (void)state;
    uint8_t head[256];
    token_forget();
    size_t bytes = hello(head);
    int fd = knock();
    say(fd, head, bytes, NULL, 0);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_equal(flags_of_the_answer(fd), 0);
    close(fd);
}

static void a_hello_with_any_changed_bit_is_not_taken(void **state)
{
    (void)state;
    uint8_t head[256];
    token_forget();
    size_t bytes = hello_add_crc(head, hello(head));
    int fd = knock();
    say(fd, head, bytes, NULL, 0);
    peer_wait_int(&h.loop, &h.taken, 1);
    assert_int_equal(flags_of_the_answer(fd), FRAME_FLAG_CRC);
    close(fd);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        peer_wait_int(&h.loop, &h.closed, h.accepted);
        fd = knock();
        head[bit / 8] ^= (uint8_t)(1 << bit % 8);
        say(fd, head, bytes, NULL, 0);
        peer_wait_int(&h.loop, &h.closed, h.accepted);
        head[bit / 8] ^= (uint8_t)(1 << bit % 8);
        close(fd);
        assert_int_equal(h.taken, 1);
    }
}

static void what_is_no_hello_ends_the_connection(void **state)
{
    (void)state;
    static const struct {
        enum frame_type type;
        size_t body_bytes;
    } wrong[] = {{FRAME_PULL, 0}, {FRAME_HELLO, 31}, {FRAME_HELLO, 33}};
    uint8_t body[64] = {0}, nonce[TOKEN_NONCE_BYTES];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t n;
        int fd = knock(), before = h.closed;
        read_nonce(fd, nonce);
        uint8_t *frame = peer_encode(wrong[i].type, NULL, 0, body, wrong[i].body_bytes, &n);
        peer_write(fd, frame, n);
        mem_free(frame);
        peer_wait_int(&h.loop, &h.closed, before + 1);
        assert_int_equal(h.taken, 0);
        close(fd);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_holds_the_token_is_taken_and_its_hello_is_whole),
        TEST(without_a_token_the_hello_stands_alone),
        TEST(a_hello_of_another_job_is_told_what_this_one_is),
        TEST(who_has_a_certificate_of_its_name_is_taken),
        TEST(token_and_certificate_go_together),
        TEST(a_certificate_that_is_not_taken_is_a_try_that_failed),
        TEST(under_tls_too_the_token_is_asked_for_or_the_dialer_says_so),
        TEST(a_hello_without_a_proof_is_refused),
        TEST(a_proof_by_another_token_is_refused),
        TEST(a_recorded_hello_is_refused_the_next_time),
        TEST(a_proof_is_for_the_hello_that_it_came_with),
        TEST(what_is_no_hello_ends_the_connection),
        TEST(a_hello_with_a_checksum_gets_answers_with_checksums),
        TEST(a_hello_that_stays_in_this_host_gets_answers_without_checksums),
        TEST(a_hello_of_an_earlier_release_gets_answers_without),
        TEST(a_hello_with_any_changed_bit_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
