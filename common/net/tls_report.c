/* Reports about TLS: the log, /metrics, /status. */
#include <stdatomic.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/process/metrics.h"
#include "common/net/tls_state.h"

static struct {
    atomic_uint_fast64_t refused[TLS_REFUSALS], up, in_kernel;
    _Atomic int64_t said_ms[TLS_REFUSALS]; /* 0: never */
    atomic_uint_fast64_t untold[TLS_REFUSALS];
    atomic_bool said_kernel;
} told;

static const char *const word[TLS_REFUSALS] = {"plain", "certificate", "name", "handshake"};

/* Unauthenticated peers can connect without end; the log reports each kind only every TLS_SAY_MS. */
void tls_refused(enum tls_refusal kind, const char *peer, const char *why)
{
    int64_t now_ms = clock_now_ms(), said_ms = atomic_load(&told.said_ms[kind]);
    atomic_fetch_add(&told.refused[kind], 1);
    uint64_t untold = atomic_fetch_add(&told.untold[kind], 1) + 1;
    if (said_ms && now_ms - said_ms < TLS_SAY_MS)
        return;
    atomic_store(&told.said_ms[kind], now_ms ? now_ms : 1);
    atomic_store(&told.untold[kind], 0);
    const char *what = kind == TLS_HANDSHAKE ? ": no TLS connection" : " is refused";
    if (untold > 1)
        log_warn("%s%s: %s (and %llu more since the last such line)", peer, what, why,
                 (unsigned long long)untold - 1);
    else
        log_warn("%s%s: %s", peer, what, why);
}

uint64_t tls_refusals(enum tls_refusal kind)
{
    return atomic_load(&told.refused[kind]);
}

void tls_count_up(const struct tls_link *l)
{
    bool in_kernel = tls_link_in_kernel(l);
    atomic_fetch_add(&told.up, 1);
    if (in_kernel)
        atomic_fetch_add(&told.in_kernel, 1);
    if (!atomic_exchange(&told.said_kernel, true))
        log_info("TLS: %s", in_kernel ? "the kernel encrypts outgoing data"
                                      : "this process encrypts; the kernel has no TLS");
}

void tls_metrics(struct metrics *m)
{
    struct tls *t = tls_own();
    if (!t)
        return;
    metrics_counter(m, "gradwire_tls_connections_total",
                    "Connections with a completed TLS handshake.", atomic_load(&told.up));
    metrics_counter(m, "gradwire_tls_kernel_connections_total",
                    "Connections of them for which the kernel encrypts outgoing data.",
                    atomic_load(&told.in_kernel));
    metrics_family(m, "gradwire_tls_refused_total", METRICS_COUNTER,
                   "Connecting peers that were refused, by reason.");
    for (int i = 0; i < TLS_REFUSALS; i++)
        metrics_put_count(m, tls_refusals((enum tls_refusal)i), "reason", word[i], NULL);
    (void)pthread_mutex_lock(&t->lock);
    int64_t expires_s = t->expires_s;
    uint64_t reloads = t->reloads;
    (void)pthread_mutex_unlock(&t->lock);
    metrics_counter(m, "gradwire_tls_reloads_total", "Reloads of changed certificate files.",
                    reloads);
    metrics_gauge(m, "gradwire_tls_certificate_expires_timestamp_seconds",
                  "When this process's certificate expires, in seconds since the epoch.",
                  (double)expires_s);
}

json_t *tls_json(void)
{
    struct tls *t = tls_own();
    if (!t)
        return json_null();
    json_t *refused = json_object();
    for (int i = 0; i < TLS_REFUSALS; i++)
        (void)json_object_set_new(refused, word[i],
                                  json_integer((json_int_t)tls_refusals((enum tls_refusal)i)));
    (void)pthread_mutex_lock(&t->lock);
    json_t *all =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "certificate",
                  json_text(t->file[TLS_CERT]), "names", json_text(t->names), "expires_s",
                  (json_int_t)t->expires_s, "reloads", (json_int_t)t->reloads, "connections",
                  (json_int_t)told.up, "in_kernel", (json_int_t)told.in_kernel, "refused", refused);
    (void)pthread_mutex_unlock(&t->lock);
    return all;
}
