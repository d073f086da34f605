#include "common/process/process_state.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/base/clock.h"

static const char *const word[] = {
    [STATE_LOADING] = "loading",       [STATE_WAITING] = "waiting", [STATE_TRAINING] = "training",
    [STATE_EVALUATING] = "evaluating", [STATE_IDLE] = "idle",       [STATE_DONE] = "done",
};

const char *process_state_word(enum process_state s)
{
    return word[s];
}

void process_state_metrics(struct metrics *m, enum process_state s)
{
    metrics_family(m, "gradwire_state", METRICS_GAUGE,
                   "1 for the present state of the process, 0 for the others.");
    for (unsigned i = 0; i < sizeof word / sizeof *word; i++)
        metrics_put(m, i == (unsigned)s, "state", word[i], NULL);
}

/* Counters that the reading threads add to. One of these threads calls `tell`, at most once a second. */

enum { TELL_MS = 1000 };

static struct {
    _Atomic bool reads;
    _Atomic uint64_t own_bytes, own_rows;
    _Atomic uint64_t *_Atomic bytes, *_Atomic rows; /* own_.., or as loading_share sets them */
    _Atomic int64_t told_ms;
    uint64_t of_bytes;
    _Atomic int64_t began_ms;
    void (*tell)(void *ctx, const struct loading *now);
    void *ctx;
} load = {.bytes = &load.own_bytes, .rows = &load.own_rows};

void loading_begin(uint64_t of_bytes, void (*tell)(void *ctx, const struct loading *now), void *ctx)
{
    load.of_bytes = of_bytes;
    load.tell = tell;
    load.ctx = ctx;
    load.bytes = &load.own_bytes;
    load.rows = &load.own_rows;
    load.own_bytes = load.own_rows = 0;
    load.began_ms = clock_now_ms();
    load.told_ms = load.began_ms;
    load.reads = true;
}

void loading_end(void)
{
    load.reads = false;
}

void loading_again(void)
{
    *load.bytes = *load.rows = 0;
    load.began_ms = clock_now_ms();
}

void loading_share(_Atomic uint64_t *bytes, _Atomic uint64_t *rows)
{
    if (!bytes) {
        load.own_bytes = *load.bytes;
        load.own_rows = *load.rows;
    }
    load.bytes = bytes ? bytes : &load.own_bytes;
    load.rows = rows ? rows : &load.own_rows;
}

bool loading_now(struct loading *out)
{
    if (!load.reads)
        return false;
    double since_s = (double)(clock_now_ms() - load.began_ms) / 1000;
    *out = (struct loading){
        .bytes = *load.bytes, .of_bytes = load.of_bytes, .rows = *load.rows, .left_s = NAN};
    if (out->of_bytes && out->bytes > out->of_bytes)
        out->bytes = out->of_bytes; /* the beginning of a file was read twice */
    if (out->of_bytes && out->bytes)
        out->left_s = since_s * (double)(out->of_bytes - out->bytes) / (double)out->bytes;
    return true;
}

void loading_read(uint64_t bytes)
{
    if (!load.reads)
        return;
    *load.bytes += bytes;
    int64_t now_ms = clock_now_ms(), told_ms = load.told_ms;
    struct loading now;
    bool due = load.tell && now_ms - told_ms >= TELL_MS;
    if (due && atomic_compare_exchange_strong(&load.told_ms, &told_ms, now_ms) && loading_now(&now))
        load.tell(load.ctx, &now);
}

void loading_rows(uint64_t rows)
{
    if (load.reads)
        *load.rows += rows;
}

/* ---- other workers ---- */

static struct {
    pthread_mutex_t lock;
    int64_t at_ms[LOADING_WORKERS]; /* 0: it tells nothing */
    struct loading of[LOADING_WORKERS];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

void loading_hear(uint32_t worker, const struct loading *now)
{
    assert(worker < LOADING_WORKERS);
    pthread_mutex_lock(&heard.lock);
    heard.at_ms[worker] = now ? clock_now_ms() : 0;
    heard.of[worker] = now ? *now : (struct loading){0};
    pthread_mutex_unlock(&heard.lock);
}

bool loading_heard(uint32_t worker, struct loading *out)
{
    assert(worker < LOADING_WORKERS);
    pthread_mutex_lock(&heard.lock);
    int64_t at_ms = heard.at_ms[worker];
    bool loads = at_ms && clock_now_ms() - at_ms < LOADING_SILENT_MS;
    *out = loads ? heard.of[worker] : (struct loading){0};
    pthread_mutex_unlock(&heard.lock);
    return loads;
}
