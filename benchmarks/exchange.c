/* Our exchange, compared with raw_exchange: push, pull and push-pull against a real ps process with one
 * shard thread, over loopback (one_ps.h), and pushes one at a time. The plan is one flat block, async, sgd.
 *
 * exchange --ps PATH --job FILE --mode push|pull|pushpull|roundtrip --bytes N [--window W]
 * [--milliseconds T] [--tls DIR | --checksums]
 *
 * Blocks, `window` of them in flight, for a fifth of the time as warm-up, then for the time -> a last pull -> check.
 *
 * A block goes out as a worker sends it: in runs of chunks (plan.h), each a PUSH frame. Every pushed value is 1 and the rate
 * a power of two, so after k pushes every weight is exactly -k times the rate: that is checked at the end. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/bench.h"
#include "benchmarks/one_ps.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/parameters/plan.h"

enum {
    LATENCIES_MAX = 1 << 20,
    FLOATS_EXACT_MAX = 1 << 24,
    DEADLINE_S = 50,
};
#define RATE 0x1p-10F

struct options {
    struct one_ps_options ps;
    const char *mode;
    bool push, parameters_back, roundtrip;
    uint64_t bytes, window, milliseconds;
};

enum phase { WARM_UP, MEASURE, LAST_PULL };

struct exchange {
    const struct options *options;
    struct one_ps ps;
    struct layout layout;
    struct tensor tensor;
    struct plan plan;
    float *pushed, *pulled; /* (plan.elems) */

    enum phase phase;
    double start, until;
    uint64_t in_flight;       /* blocks */
    uint64_t answered_chunks; /* of the oldest of them */
    uint64_t pushes, blocks;  /* all that were sent; answered in MEASURE */
    double took, sent_at;
    double *latency; /* LATENCIES_MAX, roundtrip only */
    bool valid;
};

/* ---- blocks ---- */

static void send_pull(struct exchange *x)
{
    Gradwire__Pull m = GRADWIRE__PULL__INIT;
    Gradwire__Generation g = one_ps_generation();
    m.generation = &g;
    m.any = true;
    one_ps_send(&x->ps, FRAME_PULL, &m.base, NULL, 0);
}

static void send_push(struct exchange *x)
{
    Gradwire__Generation g = one_ps_generation();
    conn_cork(x->ps.link);
    for (uint32_t chunk = 0; chunk < x->plan.chunks; chunk += x->plan.run_chunks) {
        uint32_t left = x->plan.chunks - chunk;
        Gradwire__Push m = GRADWIRE__PUSH__INIT;
        m.generation = &g;
        m.name = x->pushes;
        m.examples = 1;
        m.first_chunk = chunk;
        m.chunks = left < x->plan.run_chunks ? left : x->plan.run_chunks;
        m.ack_only = !x->options->parameters_back;
        one_ps_send(&x->ps, FRAME_PUSH, &m.base, x->pushed + plan_chunk_elem(&x->plan, chunk),
                    plan_run_elems(&x->plan, chunk, m.chunks) * sizeof(float));
    }
    conn_uncork(x->ps.link);
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
    x->valid = check(x);
    one_ps_done(&x->ps);
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

/* ---- what comes in ---- */

static enum err fits(void *owner, const struct frame *f, const ProtobufCMessage *message)
{
    struct exchange *x = owner;
    if (f->type != FRAME_REPLY)
        return ERR_PROTO;
    const Gradwire__Reply *m = (const Gradwire__Reply *)message;
    bool fits = m->chunks && m->first_chunk < x->plan.chunks &&
                m->chunks <= x->plan.chunks - m->first_chunk;
    if (!fits)
        return ERR_PROTO;
    uint64_t bytes = plan_run_elems(&x->plan, m->first_chunk, m->chunks) * sizeof(float);
    return f->body_bytes && f->body_bytes != bytes ? ERR_PROTO : ERR_OK;
}

static enum err space(void *owner, const ProtobufCMessage *message, uint64_t at, uint64_t left,
                      void **p, size_t *bytes)
{
    struct exchange *x = owner;
    const Gradwire__Reply *m = (const Gradwire__Reply *)message;
    *p = (char *)(x->pulled + plan_chunk_elem(&x->plan, m->first_chunk)) + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

static void joined(void *owner)
{
    struct exchange *x = owner;
    phase_begin(x, WARM_UP, (double)x->options->milliseconds / 5e3);
}

static void answer(void *owner, enum frame_type type, const ProtobufCMessage *m)
{
    (void)type; /* as `fits` has it */
    on_reply(owner, (const Gradwire__Reply *)m);
}

static const struct one_ps_ops OPS = {
    .joined = joined, .fits = fits, .space = space, .answer = answer};

/* ---- the process ---- */

static void exchange_init(struct exchange *x, const struct options *o)
{
    struct errmsg e;
    uint32_t threads = 1;
    *x = (struct exchange){.options = o};
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
    one_ps_init(&x->ps, &o->ps, &OPS, x, &x->layout);
    x->ps.settings.optimizer = OPT_SGD;
    x->ps.settings.learning_rate = RATE;
}

static void exchange_close(struct exchange *x)
{
    one_ps_close(&x->ps);
    free(x->latency);
    free(x->pulled);
    free(x->pushed);
    plan_close(&x->plan);
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

static struct options options_parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"ps", 1, NULL, 'p'},    {"job", 1, NULL, 'j'},       {"mode", 1, NULL, 'm'},
        {"bytes", 1, NULL, 'b'}, {"window", 1, NULL, 'w'},    {"milliseconds", 1, NULL, 't'},
        {"tls", 1, NULL, 's'},   {"checksums", 0, NULL, 'c'}, {NULL, 0, NULL, 0}};
    struct options o = {.ps = {.deadline_s = DEADLINE_S},
                        .mode = "push",
                        .bytes = 4 << 20,
                        .window = 4,
                        .milliseconds = 1000};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 'p')
            o.ps.ps = optarg;
        else if (flag == 'j')
            o.ps.job = optarg;
        else if (flag == 's')
            o.ps.tls = optarg;
        else if (flag == 'c')
            o.ps.checksums = true;
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
    if (!o.ps.ps || !o.ps.job || !o.bytes || !o.window)
        bench_die("--ps and --job are wanted, --bytes is at least 64, --window at least 1");
    mode_parse(&o);
    return o;
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct exchange x;
    log_init("bench", LOG_WARN);
    exchange_init(&x, &o);
    one_ps_run(&x.ps);
    print_result(&x);
    exchange_close(&x);
    return 0;
}
