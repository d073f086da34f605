#include "common/peers/greeting.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"

uint32_t pending_bound(uint64_t descriptors)
{
    uint64_t share = descriptors / PENDING_SHARE;
    return share < PENDING_LEAST  ? PENDING_LEAST
           : share > PENDING_MOST ? PENDING_MOST
                                  : (uint32_t)share;
}

void pending_init(struct pending *s)
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *s = (struct pending){.open_max = pending_bound(limit.rlim_cur),
                          .said_ms = clock_now_ms() - PENDING_SAY_MS};
}

static void check(const struct pending *s)
{
    assert((s->oldest == NULL) == (s->open == 0) && (s->newest == NULL) == (s->open == 0));
    assert((s->oldest == s->newest) == (s->open <= 1));
    assert(!s->oldest || (!s->oldest->older && !s->newest->newer));
    assert(s->open <= s->open_max && s->untold <= s->shed);
    (void)s;
}

void pending_add(struct pending *s, struct pending_conn *one, struct conn *c)
{
    *one =
        (struct pending_conn){.of = s, .older = s->newest, .conn = c, .since_ms = clock_now_ms()};
    if (s->newest)
        s->newest->newer = one;
    else
        s->oldest = one;
    s->newest = one;
    if (++s->open > s->open_max)
        (void)pending_shed(s);
    check(s);
}

void pending_conn_leave(struct pending_conn *one)
{
    struct pending *s = one->of;
    if (!s)
        return;
    *(one->older ? &one->older->newer : &s->oldest) = one->newer;
    *(one->newer ? &one->newer->older : &s->newest) = one->older;
    one->of = NULL;
    s->open--;
    check(s);
}

/* Limited, because unauthenticated peers can connect without end. */
static void say_shed(struct pending *s)
{
    int64_t now_ms = clock_now_ms();
    s->shed++;
    s->untold++;
    if (now_ms - s->said_ms < PENDING_SAY_MS)
        return;
    log_warn("too many connections without a hello: the oldest are closed (%" PRIu64
             " since the last such line; up to %u can be open)",
             s->untold, s->open_max);
    s->said_ms = now_ms;
    s->untold = 0;
}

bool pending_shed(struct pending *s)
{
    struct pending_conn *one = s->oldest;
    if (!one)
        return false;
    pending_conn_leave(one);
    conn_close(one->conn, ERR_CLOSED, "too many connections without a hello");
    say_shed(s);
    return true;
}

void pending_tick(struct pending *s, int64_t now_ms)
{
    while (s->oldest && now_ms - s->oldest->since_ms > PENDING_MS) {
        struct pending_conn *one = s->oldest;
        pending_conn_leave(one);
        conn_close(one->conn, ERR_TIMEOUT, "no hello");
    }
}

void pending_metrics(const struct pending *s, struct metrics *m)
{
    metrics_gauge(m, "gradwire_unproven_connections",
                  "Connections that have not yet proven to belong to the job.", s->open);
    metrics_counter(m, "gradwire_shed_connections_total",
                    "Such connections, closed because there were too many.", s->shed);
}

void greeting_begin(struct greeting *g, struct conn *c)
{
    Gradwire__Challenge m = GRADWIRE__CHALLENGE__INIT;
    struct tls *tls = tls_own();
    *g = (struct greeting){.asked = token_held()};
    conn_limits(c, GREETING_HEAD_MAX, g->asked ? TOKEN_PROOF_BYTES : 0);
    if (tls)
        (void)tls_look(tls, clock_now_ms());
    if (tls && conn_secure(c, tls, NULL)) {
        conn_close(c, ERR_NOMEM, "no memory for TLS");
        return;
    }
    if (!g->asked && !tls)
        return;
    if (g->asked && !token_nonce(g->nonce)) {
        conn_close(c, ERR_IO, "no random bytes");
        return;
    }
    m.nonce.data = g->nonce;
    m.nonce.len = g->asked ? sizeof g->nonce : 0;
    msg_send(c, FRAME_CHALLENGE, &m.base, NULL, 0);
}

static void damaged(struct conn *c)
{
    conn_fault(c, ERR_PROTO,
               "the checksum of its HELLO does not match: its bytes were changed on the way");
}

enum err greeting_on_head(struct greeting *g, struct conn *c, const struct frame *f,
                          const uint8_t *head)
{
    if (f->type != FRAME_HELLO)
        return ERR_PROTO;
    enum hello_crc crc = hello_check_crc(head, f->head_bytes);
    if (crc == HELLO_CRC_WRONG) {
        damaged(c);
        return ERR_PROTO;
    }
    g->offers = crc == HELLO_CRC_RIGHT;
    if (!g->asked)
        return f->body_bytes ? ERR_PROTO : ERR_OK;
    if (f->body_bytes && f->body_bytes != TOKEN_PROOF_BYTES)
        return ERR_PROTO;
    if (!token_prove(g->expected, g->nonce, head, f->head_bytes))
        return ERR_NOMEM;
    g->proves = f->body_bytes > 0;
    /* if no body follows, `got` must not match: set it to the complement */
    for (size_t i = 0; i < sizeof g->got; i++)
        g->got[i] = (uint8_t)~g->expected[i];
    return ERR_OK;
}

enum err greeting_on_space(struct greeting *g, uint64_t at, uint64_t left, void **p, size_t *bytes)
{
    assert(g->asked); /* greeting_on_head has refused a body otherwise */
    if (at + left > sizeof g->got)
        return ERR_PROTO;
    *p = g->got + at;
    *bytes = (size_t)left;
    return ERR_OK;
}

/* Limited, because unauthenticated peers can connect without end. */
static void say_refused(const struct conn *c, bool proves)
{
    static int64_t said_ms = -GREETING_SAY_MS; /* only one thread of a process accepts */
    static unsigned long untold;
    int64_t now_ms = clock_now_ms();
    untold++;
    if (now_ms - said_ms < GREETING_SAY_MS)
        return;
    log_warn("%s is refused: it %s (%lu since the last such line)", conn_peer(c),
             proves ? "has another token than the job's" : "does not have the job's token", untold);
    said_ms = now_ms;
    untold = 0;
}

void greeting_refuse(struct conn *c, const Gradwire__Refuse *m)
{
    assert(m->reason != GRADWIRE__REASON__UNKNOWN && m->text[0]);
    msg_send(c, FRAME_REFUSE, &m->base, NULL, 0);
    conn_finish(c, ERR_REFUSED, m->text);
}

/* `m` is sent; the host keeps its text. */
static void refuse(struct conn *c, const struct hello_host *host, const Gradwire__Refuse *m)
{
    if (host->refused)
        (void)snprintf(host->refused, HELLO_WHY_BYTES, "%s", m->text);
    greeting_refuse(c, m);
}

static void turn_away(struct conn *c, const struct hello_host *host,
                      const struct hello_refusal *why)
{
    static struct log_budget budget;
    uint32_t left_out;
    bool say = log_may(&budget, clock_now_ms(), &left_out);
    Gradwire__Refuse m;
    Gradwire__Contents contents;
    if (say && left_out)
        log_warn("%u more peers were refused", left_out);
    if (say)
        log_warn("%s is refused: %s", conn_peer(c), why->text);
    hello_refuse(&m, &contents, host, why);
    refuse(c, host, &m);
}

void greeting_turn_away(struct conn *c, const struct hello_host *host, Gradwire__Reason reason,
                        const char *text)
{
    struct hello_refusal why = {.reason = reason};
    (void)snprintf(why.text, sizeof why.text, "%s", text);
    turn_away(c, host, &why);
}

static bool proved(const struct greeting *g, struct conn *c, const struct hello_host *host)
{
    Gradwire__Refuse m = GRADWIRE__REFUSE__INIT;
    if (!g->asked || token_equal(g->expected, g->got))
        return true;
    say_refused(c, g->proves);
    m.reason = GRADWIRE__REASON__NO_TOKEN;
    m.text = (char *)(g->proves ? "another token than the job's: give all processes of the job the "
                                  "same token file"
                                : "the job's token is required: --token_file=FILE or --token_fd=N");
    refuse(c, host, &m);
    return false;
}

static bool named(struct conn *c, const struct hello_host *host, const Gradwire__Hello *m)
{
    char why[600];
    Gradwire__Refuse refusal = GRADWIRE__REFUSE__INIT;
    const struct tls_link *link = conn_tls(c);
    uint32_t worker = m->role == GRADWIRE__ROLE__CHIEF ? 0 : m->worker;
    /* the doctor changes nothing, so any certificate of our CA is enough */
    bool doctor = m->role == GRADWIRE__ROLE__DOCTOR;
    if (!link || doctor || tls_link_may_be(link, tls_own(), host->cluster, worker, why, sizeof why))
        return true;
    tls_refused(TLS_NAME, conn_peer(c), why);
    refusal.reason = GRADWIRE__REASON__OTHER_NAME;
    refusal.text = why;
    refuse(c, host, &refusal);
    return false;
}

/* Earlier releases do not know the checksum, but they have no field that this release does not know: such a field is a
 * damaged checksum. */
static bool agree_on_checksums(const struct greeting *g, struct conn *c, const Gradwire__Hello *m)
{
    if (!g->offers && m->base.n_unknown_fields > 0) {
        damaged(c);
        return false;
    }
    if (g->offers && !address_stays_in_host(conn_fd(c)))
        conn_use_checksums(c);
    return true;
}

bool greeting_taken(const struct greeting *g, struct conn *c, const struct hello_host *host,
                    const Gradwire__Hello *m)
{
    struct hello_refusal why;
    if (!conn_tls(c) && !agree_on_checksums(g, c, m))
        return false;
    if (!proved(g, c, host) || !named(c, host, m))
        return false;
    if (hello_judge(host, m, &why))
        return true;
    turn_away(c, host, &why);
    return false;
}
