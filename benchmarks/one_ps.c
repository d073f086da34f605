#include "benchmarks/one_ps.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "common/net/tls.h"
#include "common/peers/hello.h"

enum { HEAD_MAX = 4096, PAGE_MAX = 1 << 20, INCARNATION = 1 };
#define UUID "00000000-0000-4000-8000-000000000001"
/* The --set of the job file, here and in the ps. */
static const char *const SETS[] = {"training.update=async", "ps.threads=1"};
enum { N_SETS = sizeof SETS / sizeof *SETS };

Gradwire__Generation one_ps_generation(void)
{
    return msg_generation((struct generation){.number = 1, .tag = 1});
}

static void send_message(struct conn *c, enum frame_type type, const ProtobufCMessage *m,
                         const void *body, uint64_t body_bytes)
{
    uint8_t head[HEAD_MAX];
    size_t bytes = protobuf_c_message_get_packed_size(m);
    if (bytes > sizeof head)
        bench_die("a head of %zu bytes", bytes);
    protobuf_c_message_pack(m, head);
    if (conn_send(c, type, head, bytes, body, body_bytes))
        bench_die("the ps cannot be sent to");
}

void one_ps_send(struct one_ps *x, enum frame_type type, const ProtobufCMessage *m,
                 const void *body, uint64_t body_bytes)
{
    send_message(x->link, type, m, body, body_bytes);
}

void one_ps_done(struct one_ps *x)
{
    Gradwire__Done m = GRADWIRE__DONE__INIT;
    x->over = true;
    send_message(x->control, FRAME_DONE, &m.base, NULL, 0);
}

double one_ps_cpu_s(const struct one_ps *x)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(x->process, &clock) || clock_gettime(clock, &t))
        bench_die("the ps's processor time cannot be read");
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

uint64_t one_ps_metric(const struct one_ps *x, const char *series)
{
    static char page[PAGE_MAX];
    char ask[] = "GET /metrics HTTP/1.1\r\nHost: ps\r\nConnection: close\r\n\r\n";
    struct iovec part = {ask, sizeof ask - 1};
    int fd = bench_dial(x->http_port, BENCH_BUFFER_BYTES);
    size_t bytes = 0;
    ssize_t n;
    bench_write(fd, &part, 1);
    while ((n = read(fd, page + bytes, sizeof page - 1 - bytes)) > 0)
        bytes += (size_t)n;
    close(fd);
    page[bytes] = 0;
    const char *at = strstr(page, series);
    if (n < 0 || !at)
        bench_die("the ps's /metrics have no %s", series);
    return strtoull(at + strlen(series), NULL, 10);
}

/* ---- the handshake ---- */

/* As dial_hello does it. */
static void offer(struct conn *c, const Gradwire__Hello *m, bool checksums)
{
    uint8_t head[HEAD_MAX];
    if (gradwire__hello__get_packed_size(m) > sizeof head - HELLO_CRC_BYTES)
        bench_die("the hello is too large");
    size_t bytes = gradwire__hello__pack(m, head);
    if (checksums)
        bytes = hello_add_crc(head, bytes);
    if (conn_send(c, FRAME_HELLO, head, bytes, NULL, 0))
        bench_die("the ps cannot be sent to");
    if (checksums)
        conn_offer_checksums(c);
}

static void send_hello(struct one_ps *x, struct conn *c, bool chief)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = one_ps_generation();
    char *hosts[] = {x->address};
    m.version = (char *)GRADWIRE_HELLO;
    m.job = x->job.name;
    m.identity.data = x->job.identity;
    m.identity.len = sizeof x->job.identity;
    m.role = chief ? GRADWIRE__ROLE__CHIEF : GRADWIRE__ROLE__WORKER;
    m.uuid = chief ? (char *)"" : (char *)UUID;
    m.incarnation = chief ? 0 : INCARNATION;
    m.generation = chief ? NULL : &g;
    m.shard = chief ? -1 : 0;
    m.n_ps_hosts = 1;
    m.ps_hosts = hosts;
    m.chief_address = x->address; /* no worker will ask for it */
    offer(c, &m, !conn_tls(c));
}

static void send_enter(struct one_ps *x)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = one_ps_generation();
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    uint32_t threads = 1;
    if (msg_plan_set(&plan, x->layout, &threads, 1))
        bench_die("no memory for a plan");
    m.generation = &g;
    m.uuid = (char *)UUID;
    m.mode = GRADWIRE__ENTER_MODE__INIT;
    m.plan = &plan;
    m.settings = &x->settings;
    send_message(x->control, FRAME_ENTER, &m.base, NULL, 0);
    msg_plan_close(&plan);
}

/* A connection from 127.0.0.1 to 127.0.0.1 has no checksums. One to the next address has, and is no slower. */
static in_addr_t host_of(const struct one_ps *x)
{
    return INADDR_LOOPBACK + x->options->checksums;
}

static void dial(struct one_ps *x, struct conn **c, const struct conn_ops *ops)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(x->port), .sin_addr.s_addr = htonl(host_of(x))};
    if (conn_dial(c, &x->loop, (struct sockaddr *)&a, sizeof a, "ps 0", ops, x) ||
        (tls_own() && conn_secure(*c, tls_own(), "127.0.0.1")))
        bench_die("no memory to dial");
}

/* ---- what comes in ---- */

static enum err control_on_head(struct conn *c, void *owner, const struct frame *f,
                                const uint8_t *head)
{
    struct one_ps *x = owner;
    (void)c;
    x->type = f->type;
    x->message = msg_unpack(f->type, head, f->head_bytes);
    return x->message ? ERR_OK : ERR_PROTO;
}

static bool has_body(uint16_t type)
{
    return type == FRAME_REPLY || type == FRAME_ROWS;
}

static enum err link_on_head(struct conn *c, void *owner, const struct frame *f,
                             const uint8_t *head)
{
    struct one_ps *x = owner;
    enum err err = control_on_head(c, x, f, head);
    if (err)
        return err;
    if (!has_body(f->type))
        return f->body_bytes ? ERR_PROTO : ERR_OK;
    return x->ops->fits(x->owner, f, x->message);
}

static enum err link_on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                              size_t *bytes)
{
    struct one_ps *x = owner;
    (void)c;
    return x->ops->space(x->owner, x->message, at, left, p, bytes);
}

static ProtobufCMessage *take_message(struct one_ps *x)
{
    ProtobufCMessage *m = x->message;
    x->message = NULL;
    return m;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct one_ps *x = owner;
    if (!x->over)
        bench_die("%s: %s (%s)", conn_peer(c), why, err_str(code));
    if (c == x->control)
        loop_stop(&x->loop);
}

static enum err link_on_frame(struct conn *c, void *owner)
{
    struct one_ps *x = owner;
    ProtobufCMessage *m = take_message(x);
    (void)c;
    if (x->type == FRAME_CHALLENGE)
        ; /* of TLS: it has taken us */
    else if (x->type == FRAME_HELLO_REPLY)
        x->ops->joined(x->owner);
    else if (has_body(x->type))
        x->ops->answer(x->owner, (enum frame_type)x->type, m);
    else
        bench_die("the ps answered a worker by %s", frame_type_str(x->type));
    msg_free(m);
    return ERR_OK;
}

static void link_on_open(struct conn *c, void *owner)
{
    send_hello(owner, c, false);
}

static const struct conn_ops LINK = {.on_head = link_on_head,
                                     .on_space = link_on_space,
                                     .on_frame = link_on_frame,
                                     .on_close = on_close,
                                     .on_open = link_on_open};

static enum err control_on_frame(struct conn *c, void *owner)
{
    struct one_ps *x = owner;
    ProtobufCMessage *m = take_message(x);
    (void)c;
    if (x->type == FRAME_CHALLENGE)
        ;
    else if (x->type == FRAME_HELLO_REPLY)
        send_enter(x);
    else if (x->type != FRAME_ENTERED)
        bench_die("the ps answered the chief by %s", frame_type_str(x->type));
    else if (((const Gradwire__Entered *)m)->error[0])
        bench_die("the ps did not enter: %s", ((const Gradwire__Entered *)m)->error);
    else
        dial(x, &x->link, &LINK);
    msg_free(m);
    return ERR_OK;
}

static void control_on_open(struct conn *c, void *owner)
{
    send_hello(owner, c, true);
}

static const struct conn_ops CONTROL = {.on_head = control_on_head,
                                        .on_frame = control_on_frame,
                                        .on_close = on_close,
                                        .on_open = control_on_open};

static void on_deadline(void *arg)
{
    const struct one_ps *x = arg;
    bench_die("not done after %u s", x->options->deadline_s);
}

/* ---- the process ---- */

/* In the child: become the ps, on the listening socket. */
static void become_ps(const struct one_ps *x, int listener, int http)
{
    const struct one_ps_options *o = x->options;
    char hosts[64], fd[32], http_fd[32], job[4096];
    char tls[3][sizeof x->cert + 16];
    const char *argv[13 + 2 * N_SETS] = {o->ps,
                                         "--job_name=ps",
                                         "--task_index=0",
                                         "--worker_hosts=127.0.0.1:1",
                                         "--log_level=warn",
                                         hosts,
                                         fd,
                                         http_fd,
                                         job};
    snprintf(hosts, sizeof hosts, "--ps_hosts=%s", x->address);
    snprintf(fd, sizeof fd, "--listen_fd=%d", listener);
    snprintf(http_fd, sizeof http_fd, "--http_fd=%d", http);
    snprintf(job, sizeof job, "--job=%s", o->job);
    size_t n = 9;
    for (size_t i = 0; i < N_SETS; i++) {
        argv[n++] = "--set";
        argv[n++] = SETS[i];
    }
    if (o->tls) {
        snprintf(tls[0], sizeof tls[0], "--tls_cert=%s", x->cert);
        snprintf(tls[1], sizeof tls[1], "--tls_key=%s", x->key);
        snprintf(tls[2], sizeof tls[2], "--tls_ca=%s", x->ca);
        for (size_t i = 0; i < 3; i++)
            argv[n++] = tls[i];
    }
    fcntl(listener, F_SETFD, 0);
    fcntl(http, F_SETFD, 0);
    execv(o->ps, (char *const *)(uintptr_t)argv);
    bench_die("%s cannot be run", o->ps);
}

static void start_ps(struct one_ps *x)
{
    int listener = bench_listen(host_of(x), BENCH_BUFFER_BYTES, &x->port);
    int http = bench_listen(host_of(x), BENCH_BUFFER_BYTES, &x->http_port);
    snprintf(x->address, sizeof x->address, "127.0.0.%d:%u", 1 + x->options->checksums, x->port);
    x->process = bench_fork();
    if (!x->process)
        become_ps(x, listener, http);
    close(listener);
    close(http);
}

/* The product's own way: this process holds it, and so does the ps. */
static void load_tls(struct one_ps *x)
{
    const char *tls = x->options->tls;
    struct errmsg e;
    snprintf(x->cert, sizeof x->cert, "%s/tls.crt", tls);
    snprintf(x->key, sizeof x->key, "%s/tls.key", tls);
    snprintf(x->ca, sizeof x->ca, "%s/ca.crt", tls);
    const struct tls_files files = {x->cert, x->key, x->ca, ""};
    if (tls_load(&files, &e))
        bench_die("%s", e.text);
}

void one_ps_init(struct one_ps *x, const struct one_ps_options *options,
                 const struct one_ps_ops *ops, void *owner, const struct layout *layout)
{
    struct errmsg e;
    *x = (struct one_ps){.options = options, .ops = ops, .owner = owner, .layout = layout};
    gradwire__settings__init(&x->settings);
    x->settings.update = GRADWIRE__UPDATE__ASYNC;
    x->settings.microbatches = 1;
    x->settings.batch_size = 1;
    x->settings.batches_per_epoch = 1 << 30;
    x->settings.epochs = 1;
    if (options->tls)
        load_tls(x);
    if (job_load(&x->job, options->job, SETS, N_SETS, &e))
        bench_die("%s", e.text);
    if (loop_init(&x->loop))
        bench_die("no loop");
    loop_timer_init(&x->deadline, &x->loop, on_deadline, x);
    if (loop_timer_once(&x->deadline, options->deadline_s * 1000))
        bench_die("no timer");
}

void one_ps_run(struct one_ps *x)
{
    start_ps(x);
    dial(x, &x->control, &CONTROL);
    if (loop_run(&x->loop))
        bench_die("the loop failed");
    bench_reap(x->process);
    if (!x->over)
        bench_die("the loop ended early");
}

void one_ps_close(struct one_ps *x)
{
    loop_timer_stop(&x->deadline);
    loop_close(&x->loop);
    job_close(&x->job);
}
