/* Our exchange, beside raw_exchange: push, pull and push-pull against a real ps process with one
 * shard thread, over loopback, and pushes one at a time. This program plays the chief (hello, ENTER
 * with a plan of one flat block, async, sgd) and one worker, on one thread and one loop, with the
 * connections of the product.
 *
 * exchange --ps PATH --job FILE --mode push|pull|pushpull|roundtrip --bytes N [--window W]
 * [--milliseconds T] [--tls DIR]
 *
 * Happy path: fork the ps -> control: HELLO -> HELLO_REPLY -> ENTER -> ENTERED -> link: HELLO ->
 * HELLO_REPLY -> blocks, `window` of them in flight, for a fifth of the time as warm-up, then for
 * the time -> a last pull -> check
 * -> DONE -> the ps exits 0.
 * Failure modes: anything that closes a connection, or DEADLINE_S, is one line on stderr and
 * exit 1.
 *
 * --tls: both sides take tls.crt, tls.key and ca.crt of DIR, whose certificate names 127.0.0.1.
 *
 * A block goes out as a worker sends it: in runs of chunks (plan.h), each a PUSH frame. The job
 * file only gives both sides the same name and identity. Every pushed value is 1 and the rate a
 * power of two, so after k pushes every weight is exactly -k times the rate: that is checked at the
 * end. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"
#include "common/net/conn.h"
#include "common/job/job.h"
#include "common/base/log.h"
#include "common/wire/msg.h"
#include "common/parameters/plan.h"
#include "common/net/tls.h"

enum {
    LATENCIES_MAX = 1 << 20,
    FLOATS_EXACT_MAX = 1 << 24,
    HEAD_MAX = 4096,
    DEADLINE_S = 50,
    INCARNATION = 1,
};
#define RATE 0x1p-10F
#define UUID "00000000-0000-4000-8000-000000000001"
static const struct generation GENERATION = {.number = 1, .tag = 1};
/* What the job file is loaded with, here and in the ps. */
static const char *const SETS[] = {"training.update=async", "ps.threads=1"};
enum { N_SETS = sizeof SETS / sizeof *SETS };

struct options {
    const char *ps, *job, *mode, *tls;
    char cert[4096], key[4096], ca[4096]; /* of --tls */
    bool push, parameters_back, roundtrip;
    uint64_t bytes, window, milliseconds;
};

enum phase { WARM_UP, MEASURE, LAST_PULL };

struct exchange {
    const struct options *options;
    struct job job;
    struct loop loop;
    struct loop_timer deadline;
    struct conn *control, *link;
    uint16_t port;
    char ps_address[32];
    struct layout layout;
    struct tensor tensor;
    struct plan plan;
    float *pushed, *pulled; /* (plan.elems) */

    /* the frame that comes in */
    uint16_t type;
    ProtobufCMessage *message;

    enum phase phase;
    double start, until;
    uint64_t in_flight;       /* blocks */
    uint64_t answered_chunks; /* of the oldest of them */
    uint64_t pushes, blocks;  /* all that were sent; answered in MEASURE */
    double took, sent_at;
    double *latency; /* LATENCIES_MAX, roundtrip only */
    bool valid, over;
};

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

/* ---- blocks ---- */

static void send_pull(struct exchange *x)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = msg_generation(GENERATION);
    m.generation = &g;
    m.any = true;
    send_message(x->link, FRAME_PULL, &m.base, NULL, 0);
}

static void send_push(struct exchange *x)
{
    Gradwire__Generation g = msg_generation(GENERATION);
    conn_cork(x->link);
    for (uint32_t chunk = 0; chunk < x->plan.chunks; chunk += x->plan.run_chunks) {
        uint32_t left = x->plan.chunks - chunk;
        Gradwire__Push m = GRADWIRE__PUSH__INIT;
        m.generation = &g;
        m.name = x->pushes;
        m.examples = 1;
        m.first_chunk = chunk;
        m.chunks = left < x->plan.run_chunks ? left : x->plan.run_chunks;
        m.ack_only = !x->options->parameters_back;
        send_message(x->link, FRAME_PUSH, &m.base, x->pushed + plan_chunk_elem(&x->plan, chunk),
                     plan_run_elems(&x->plan, chunk, m.chunks) * sizeof(float));
    }
    conn_uncork(x->link);
    x->pushes++;
}

static void send_block(struct exchange *x, double now)
{
    x->in_flight++;
    x->sent_at = now;
    if (x->options->push && x->phase != LAST_PULL)
        send_push(x);
    else
        send_pull(x);
}

static void phase_begin(struct exchange *x, enum phase phase, double seconds)
{
    x->phase = phase;
    x->start = clock_now_s();
    x->until = x->start + seconds;
    uint64_t window = phase == LAST_PULL ? 1 : x->options->window;
    while (x->in_flight < window)
        send_block(x, x->start);
}

/* Every weight is exactly what so many pushes make of 0. */
static bool check(const struct exchange *x)
{
    if (x->pushes >= FLOATS_EXACT_MAX)
        return true;
    for (uint64_t i = 0; i < x->options->bytes / sizeof(float); i++)
        if (x->pulled[i] != -RATE * (float)x->pushes)
            return false;
    return true;
}

static void finish(struct exchange *x)
{
    Gradwire__Done m = GRADWIRE__DONE__INIT;
    x->valid = check(x);
    x->over = true;
    send_message(x->control, FRAME_DONE, &m.base, NULL, 0);
}

static void phase_over(struct exchange *x, double now)
{
    double seconds = (double)x->options->milliseconds / 1e3;
    if (x->phase == WARM_UP) {
        phase_begin(x, MEASURE, seconds);
    } else if (x->phase == MEASURE) {
        x->took = now - x->start;
        phase_begin(x, LAST_PULL, 0);
    } else {
        finish(x);
    }
}

static void block_answered(struct exchange *x)
{
    double now = clock_now_s();
    x->in_flight--;
    if (x->phase == MEASURE) {
        if (x->options->roundtrip && x->blocks < LATENCIES_MAX)
            x->latency[x->blocks] = now - x->sent_at;
        x->blocks++;
    }
    if (x->phase != LAST_PULL && now < x->until)
        send_block(x, now);
    else if (!x->in_flight)
        phase_over(x, now);
}

static void on_reply(struct exchange *x, const Gradwire__Reply *m)
{
    bool pushed = x->options->push && x->phase != LAST_PULL;
    if (m->pulled == pushed || (pushed && m->outcome != GRADWIRE__OUTCOME__APPLIED))
        bench_die("a reply that was not asked for");
    x->answered_chunks += m->chunks;
    if (x->answered_chunks < x->plan.chunks)
        return;
    x->answered_chunks = 0;
    block_answered(x);
}

/* ---- the handshake ---- */

static void send_hello(struct exchange *x, struct conn *c, bool chief)
{
    Gradwire__Hello m = GRADWIRE__HELLO__INIT;
    Gradwire__Generation g = msg_generation(GENERATION);
    char *hosts[] = {x->ps_address};
    m.version = (char *)GRADWIRE_VERSION;
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
    m.chief_address = x->ps_address; /* no worker will ask for it */
    send_message(c, FRAME_HELLO, &m.base, NULL, 0);
}

static void send_enter(struct exchange *x)
{
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    Gradwire__Generation g = msg_generation(GENERATION);
    Gradwire__Plan plan = GRADWIRE__PLAN__INIT;
    Gradwire__Settings settings = GRADWIRE__SETTINGS__INIT;
    uint32_t threads = 1;
    if (msg_plan_set(&plan, &x->layout, &threads, 1))
        bench_die("no memory for a plan");
    settings.update = GRADWIRE__UPDATE__ASYNC;
    settings.optimizer = OPT_SGD;
    settings.learning_rate = RATE;
    settings.microbatches = 1;
    settings.batch_size = 1;
    settings.batches_per_epoch = 1 << 30;
    settings.epochs = 1;
    m.generation = &g;
    m.uuid = (char *)UUID;
    m.mode = GRADWIRE__ENTER_MODE__INIT;
    m.plan = &plan;
    m.settings = &settings;
    send_message(x->control, FRAME_ENTER, &m.base, NULL, 0);
    msg_plan_close(&plan);
}

static void dial(struct exchange *x, struct conn **c, const struct conn_ops *ops)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(x->port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (conn_dial(c, &x->loop, (struct sockaddr *)&a, sizeof a, "ps 0", ops, x) ||
        (tls_own() && conn_secure(*c, tls_own(), "127.0.0.1")))
        bench_die("no memory to dial");
}

/* ---- what comes in ---- */

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct exchange *x = owner;
    (void)c;
    x->type = f->type;
    x->message = msg_unpack(f->type, head, f->head_bytes);
    if (!x->message)
        return ERR_PROTO;
    if (f->type != FRAME_REPLY)
        return f->body_bytes ? ERR_PROTO : ERR_OK;
    const Gradwire__Reply *m = (const Gradwire__Reply *)x->message;
    bool fits = m->chunks && m->first_chunk < x->plan.chunks &&
                m->chunks <= x->plan.chunks - m->first_chunk;
    if (!fits)
        return ERR_PROTO;
    uint64_t bytes = plan_run_elems(&x->plan, m->first_chunk, m->chunks) * sizeof(float);
    return f->body_bytes && f->body_bytes != bytes ? ERR_PROTO : ERR_OK;
}

static enum err on_space(struct conn *c, void *owner, uint64_t at, uint64_t left, void **p,
                         size_t *bytes)
{
    struct exchange *x = owner;
    const Gradwire__Reply *m = (const Gradwire__Reply *)x->message;
    (void)c;
    *p = (char *)(x->pulled + plan_chunk_elem(&x->plan, m->first_chunk)) + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

static ProtobufCMessage *take_message(struct exchange *x)
{
    ProtobufCMessage *m = x->message;
    x->message = NULL;
    return m;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    struct exchange *x = owner;
    if (!x->over)
        bench_die("%s: %s (%s)", conn_peer(c), why, err_str(code));
    if (c == x->control)
        loop_stop(&x->loop);
}

static enum err link_on_frame(struct conn *c, void *owner)
{
    struct exchange *x = owner;
    ProtobufCMessage *m = take_message(x);
    (void)c;
    if (x->type == FRAME_CHALLENGE)
        ; /* of TLS: it has taken us */
    else if (x->type == FRAME_HELLO_REPLY)
        phase_begin(x, WARM_UP, (double)x->options->milliseconds / 5e3);
    else if (x->type == FRAME_REPLY)
        on_reply(x, (const Gradwire__Reply *)m);
    else
        bench_die("the ps answered a worker by %s", frame_type_str(x->type));
    msg_free(m);
    return ERR_OK;
}

static void link_on_open(struct conn *c, void *owner)
{
    send_hello(owner, c, false);
}

static const struct conn_ops LINK = {.on_head = on_head,
                                     .on_space = on_space,
                                     .on_frame = link_on_frame,
                                     .on_close = on_close,
                                     .on_open = link_on_open};

static enum err control_on_frame(struct conn *c, void *owner)
{
    struct exchange *x = owner;
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

static const struct conn_ops CONTROL = {.on_head = on_head,
                                        .on_frame = control_on_frame,
                                        .on_close = on_close,
                                        .on_open = control_on_open};

static void on_deadline(void *arg)
{
    (void)arg;
    bench_die("not done after %d s", DEADLINE_S);
}

/* ---- the process ---- */

/* In the child: become the ps, on the listening socket. */
static void become_ps(const struct options *o, int listener, const char *address)
{
    char hosts[64], fd[32], job[4096];
    char tls[3][sizeof o->cert + 16];
    const char *argv[12 + 2 * N_SETS] = {o->ps,
                                         "--job_name=ps",
                                         "--task_index=0",
                                         "--worker_hosts=127.0.0.1:1",
                                         "--log_level=warn",
                                         hosts,
                                         fd,
                                         job};
    snprintf(hosts, sizeof hosts, "--ps_hosts=%s", address);
    snprintf(fd, sizeof fd, "--listen_fd=%d", listener);
    snprintf(job, sizeof job, "--job=%s", o->job);
    size_t n = 8;
    for (size_t i = 0; i < N_SETS; i++) {
        argv[n++] = "--set";
        argv[n++] = SETS[i];
    }
    if (o->tls) {
        snprintf(tls[0], sizeof tls[0], "--tls_cert=%s", o->cert);
        snprintf(tls[1], sizeof tls[1], "--tls_key=%s", o->key);
        snprintf(tls[2], sizeof tls[2], "--tls_ca=%s", o->ca);
        for (size_t i = 0; i < 3; i++)
            argv[n++] = tls[i];
    }
    fcntl(listener, F_SETFD, 0);
    execv(o->ps, (char *const *)(uintptr_t)argv);
    bench_die("%s cannot be run", o->ps);
}

static pid_t start_ps(struct exchange *x)
{
    int listener = bench_listen(BENCH_BUFFER_BYTES, &x->port);
    snprintf(x->ps_address, sizeof x->ps_address, "127.0.0.1:%u", x->port);
    pid_t child = bench_fork();
    if (!child)
        become_ps(x->options, listener, x->ps_address);
    close(listener);
    return child;
}

static void exchange_init(struct exchange *x, const struct options *o)
{
    struct errmsg e;
    uint32_t threads = 1;
    *x = (struct exchange){.options = o};
    if (job_load(&x->job, o->job, SETS, N_SETS, &e))
        bench_die("%s", e.text);
    uint64_t elems = o->bytes / sizeof(float);
    x->tensor = (struct tensor){.name = "w", .rank = 1, .shape = {(uint32_t)elems}, .elems = elems};
    x->layout = (struct layout){.tensors = 1, .tensor = &x->tensor, .elems = elems};
    if (plan_init(&x->plan, elems, &threads, 1, &e))
        bench_die("%s", e.text);
    x->pushed = bench_pages(o->bytes);
    x->pulled = bench_pages(o->bytes);
    x->latency = bench_pages(o->roundtrip ? LATENCIES_MAX * sizeof *x->latency : 1);
    for (uint64_t i = 0; i < elems; i++)
        x->pushed[i] = 1;
    if (loop_init(&x->loop))
        bench_die("no loop");
    loop_timer_init(&x->deadline, &x->loop, on_deadline, NULL);
    if (loop_timer_once(&x->deadline, DEADLINE_S * 1000))
        bench_die("no timer");
}

static void exchange_close(struct exchange *x)
{
    loop_timer_stop(&x->deadline);
    loop_close(&x->loop);
    free(x->latency);
    free(x->pulled);
    free(x->pushed);
    plan_close(&x->plan);
    job_close(&x->job);
}

static void print_result(struct exchange *x)
{
    const struct options *o = x->options;
    double per_s = (double)x->blocks / x->took;
    printf("{\"mode\":\"%s\",\"bytes\":%llu,\"window\":%llu,\"per_s\":%.1f,\"gb_per_s\":%.4f",
           o->mode, (unsigned long long)o->bytes, (unsigned long long)o->window, per_s,
           per_s * (double)o->bytes / 1e9);
    if (o->roundtrip) {
        size_t n = x->blocks < LATENCIES_MAX ? x->blocks : LATENCIES_MAX;
        printf(",\"p50_us\":%.2f,\"p99_us\":%.2f", bench_quantile(x->latency, n, .5) * 1e6,
               bench_quantile(x->latency, n, .99) * 1e6);
    }
    printf(",\"valid\":%s}\n", x->valid ? "true" : "false");
}

static void mode_parse(struct options *o)
{
    o->roundtrip = !strcmp(o->mode, "roundtrip");
    o->parameters_back = !strcmp(o->mode, "pushpull");
    o->push = o->roundtrip || o->parameters_back || !strcmp(o->mode, "push");
    if (!o->push && strcmp(o->mode, "pull") != 0)
        bench_die("--mode is push, pull, pushpull or roundtrip, not %s", o->mode);
    if (o->roundtrip)
        o->window = 1;
}

/* The product's own way: this process holds it, and so does the ps. */
static void load_tls(struct options *o)
{
    struct errmsg e;
    snprintf(o->cert, sizeof o->cert, "%s/tls.crt", o->tls);
    snprintf(o->key, sizeof o->key, "%s/tls.key", o->tls);
    snprintf(o->ca, sizeof o->ca, "%s/ca.crt", o->tls);
    const struct tls_files files = {o->cert, o->key, o->ca, ""};
    if (tls_load(&files, &e))
        bench_die("%s", e.text);
}

static struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {{"ps", 1, NULL, 'p'},     {"job", 1, NULL, 'j'},
                                          {"mode", 1, NULL, 'm'},   {"bytes", 1, NULL, 'b'},
                                          {"window", 1, NULL, 'w'}, {"milliseconds", 1, NULL, 't'},
                                          {"tls", 1, NULL, 's'},    {NULL, 0, NULL, 0}};
    struct options o = {.mode = "push", .bytes = 4 << 20, .window = 4, .milliseconds = 1000};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'p')
            o.ps = optarg;
        else if (flag == 'j')
            o.job = optarg;
        else if (flag == 's')
            o.tls = optarg;
        else if (flag == 'm')
            o.mode = optarg;
        else if (flag == 'b')
            o.bytes = bench_number(optarg) & ~UINT64_C(63);
        else if (flag == 'w')
            o.window = bench_number(optarg);
        else if (flag == 't')
            o.milliseconds = bench_number(optarg);
        else
            exit(1);
    }
    if (!o.ps || !o.job || !o.bytes || !o.window)
        bench_die("--ps and --job are wanted, --bytes is at least 64, --window at least 1");
    mode_parse(&o);
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct exchange x;
    log_init("bench", LOG_WARN);
    if (o.tls)
        load_tls(&o);
    exchange_init(&x, &o);
    pid_t ps = start_ps(&x);
    dial(&x, &x.control, &CONTROL);
    if (loop_run(&x.loop))
        bench_die("the loop failed");
    bench_reap(ps);
    if (!x.over)
        bench_die("the loop ended early");
    print_result(&x);
    exchange_close(&x);
    return 0;
}
