#include "common/peers/dial.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/reach.h"
#include "common/base/mem.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"

struct dialer {
    struct loop *loop;
    const struct conn_ops *ops;
    void *owner;
    char what[64], host_port[ADDRESS_TEXT_MAX], host[ADDRESS_HOST_MAX];
    uint16_t port;
    bool trying, waits_challenge, nonced; /* nonced: the peer requests the token */
    /* ends the wait for the next round, or limits one connect */
    struct loop_timer timer;
    int64_t wait_ms, opened_ms;
    char why[TLS_WHY_BYTES], said[TLS_WHY_BYTES];
    int64_t locked_out_ms; /* time of the first lockout since an attempt ended differently */
    int64_t last_locked_out_ms;
    uint32_t locked_out; /* consecutive lockouts */

    struct lookup *lookup; /* running, or NULL */
    struct event looked_up;
    size_t n, next; /* addresses in this round; index of the next one */
    struct address address[LOOKUP_ADDRESSES_MAX];
    struct conn *conn;                /* connecting, or NULL */
    uint8_t nonce[TOKEN_NONCE_BYTES]; /* from the last challenge */
};

static void next_address(struct dialer *d);
static void round_begin(struct dialer *d);

static void lookup_end(struct dialer *d)
{
    if (!d->lookup)
        return;
    event_del(&d->looked_up);
    lookup_drop(d->lookup);
    d->lookup = NULL;
}

/* ---- Rounds ---- */

static void count_locked_out(struct dialer *d, bool so)
{
    if (!so) {
        d->locked_out = 0;
        return;
    }
    d->last_locked_out_ms = clock_now_ms();
    if (d->locked_out++ == 0)
        d->locked_out_ms = d->last_locked_out_ms;
}

static void keep_why(struct dialer *d, const char *why)
{
    snprintf(d->why, sizeof(d->why), "%s", why);
}

/* Logs each new reason once. A peer that is not up yet is normal during a start, so it is logged as info; a
 * refusal by either side is a warning. */
static void say_why(struct dialer *d, enum err code, const char *why)
{
    bool refused = code == ERR_TLS || code == ERR_REFUSED;
    count_locked_out(d, refused);
    keep_why(d, why);
    if (strcmp(d->why, d->said) == 0)
        return;
    memcpy(d->said, d->why, sizeof(d->said));
    log_at(refused ? LOG_WARN : LOG_INFO, "%s at %s: %s; retrying", d->what, d->host_port, why);
}

static int64_t wait_next(struct dialer *d)
{
    int64_t ms = d->wait_ms;
    d->wait_ms = ms * 2 < DIAL_WAIT_MAX_MS ? ms * 2 : DIAL_WAIT_MAX_MS;
    return ms;
}

static void round_later(struct dialer *d, int64_t ms)
{
    if (loop_timer_once(&d->timer, ms) != ERR_OK)
        log_error("%s at %s: no memory to retry", d->what, d->host_port);
}

static void round_failed(struct dialer *d, enum err code, const char *why)
{
    say_why(d, code, why);
    round_later(d, wait_next(d));
}

static void on_looked_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct dialer *d = arg;
    const struct address *address;
    char why[sizeof(d->why)];
    d->n = lookup_addresses(d->lookup, &address);
    memcpy(d->address, address, d->n * sizeof(*address));
    snprintf(why, sizeof(why), "%s", lookup_why(d->lookup));
    lookup_end(d);
    if (d->n)
        next_address(d);
    else
        round_failed(d, ERR_NOTFOUND, why);
}

static void look_up(struct dialer *d)
{
    d->lookup = lookup_start(d->host, d->port);
    if (!d->lookup) {
        round_failed(d, ERR_NOMEM, "no memory, descriptor or thread for the name lookup");
        return;
    }
    event_assign(&d->looked_up, d->loop->base, lookup_fd(d->lookup), EV_READ, on_looked_up, d);
    if (event_add(&d->looked_up, NULL) == 0)
        return;
    lookup_end(d);
    round_failed(d, ERR_NOMEM, "no memory for the name lookup");
}

static void round_begin(struct dialer *d)
{
    d->next = 0;
    d->n = address_numeric(d->host, d->port, &d->address[0]) ? 1 : 0;
    if (d->n == 1)
        next_address(d);
    else
        look_up(d);
}

/* ---- One address ---- */

static void hand_over(struct dialer *d, struct conn *c)
{
    assert(d->trying && d->conn == c);
    loop_timer_stop(&d->timer);
    d->conn = NULL;
    d->trying = d->waits_challenge = false;
    d->opened_ms = clock_now_ms();
    conn_set_owner(c, d->ops, d->owner);
    if (d->ops->on_open)
        d->ops->on_open(c, d->owner);
}

static void on_open(struct conn *c, void *owner)
{
    struct dialer *d = owner;
    d->nonced = false;
    if (!token_held() && !conn_tls(c))
        hand_over(d, c);
    else if (loop_timer_once(&d->timer, DIAL_CHALLENGE_MS) != ERR_OK)
        conn_close(c, ERR_NOMEM, err_str(ERR_NOMEM));
    else
        d->waits_challenge = true;
}

static enum err on_head(struct conn *c, void *owner, const struct frame *f, const uint8_t *head)
{
    struct dialer *d = owner;
    if (f->type != FRAME_CHALLENGE || f->body_bytes)
        return ERR_PROTO;
    Gradwire__Challenge *m = (Gradwire__Challenge *)msg_unpack(f->type, head, f->head_bytes);
    d->nonced = m && m->nonce.len == sizeof d->nonce;
    bool right = m && (d->nonced || (conn_tls(c) && m->nonce.len == 0));
    if (d->nonced)
        memcpy(d->nonce, m->nonce.data, sizeof d->nonce);
    msg_free(m);
    return right ? ERR_OK : ERR_PROTO;
}

static const char no_token[] =
    "it does not request the job's token, which this process has: was it started without a token?";

static enum err on_frame(struct conn *c, void *owner)
{
    struct dialer *d = owner;
    if (token_held() && !d->nonced)
        conn_close(c, ERR_REFUSED, no_token);
    else
        hand_over(d, c);
    return ERR_OK;
}

static void on_close(struct conn *c, void *owner, enum err code, const char *why)
{
    (void)c;
    struct dialer *d = owner;
    loop_timer_stop(&d->timer);
    d->conn = NULL;
    d->waits_challenge = false;
    if (d->next < d->n)
        next_address(d);
    else
        round_failed(d, code, why);
}

/* Without a token and without TLS, on_open hands the connection over before any byte is read: then on_head is
 * never called here. */
static const struct conn_ops dial_ops = {
    .on_open = on_open, .on_head = on_head, .on_frame = on_frame, .on_close = on_close};
static const struct conn_ops no_ops;

static bool secure(struct dialer *d)
{
    struct tls *tls = tls_own();
    if (!tls)
        return true;
    (void)tls_look(tls, clock_now_ms());
    return conn_secure(d->conn, tls, d->host) == ERR_OK;
}

static void next_address(struct dialer *d)
{
    assert(!d->conn && !d->waits_challenge && d->next < d->n);
    const struct address *a = &d->address[d->next++];
    char peer[ADDRESS_TEXT_MAX];
    snprintf(peer, sizeof(peer), "%s at %.250s", d->what, d->host_port);
    if (conn_dial(&d->conn, d->loop, (const struct sockaddr *)&a->addr, a->bytes, peer, &dial_ops,
                  d) != ERR_OK)
        round_failed(d, ERR_NOMEM, err_str(ERR_NOMEM));
    else if (!secure(d) || loop_timer_once(&d->timer, DIAL_CONNECT_MS) != ERR_OK)
        conn_close(d->conn, ERR_NOMEM, err_str(ERR_NOMEM));
}

/* For a connection without TLS: a peer that expects TLS waits for our first byte, too. */
static const char silent[] = "it does not request the job's token, which this process has: was it "
                             "started without a token, or with --tls_cert?";
static const char no_tls[] = "it does not respond to TLS: was it started without --tls_cert?";

static void on_timer(void *arg)
{
    struct dialer *d = arg;
    if (d->conn && d->waits_challenge)
        conn_close(d->conn, ERR_TIMEOUT,
                   conn_tls(d->conn) ? "it did not confirm the TLS handshake" : silent);
    else if (d->conn)
        conn_close(d->conn, ERR_TIMEOUT, conn_shaking(d->conn) ? no_tls : "no answer");
    else
        round_begin(d);
}

/* ---- The dialer ---- */

enum err dial_new(struct dialer **d, struct loop *l, const char *what, const char *host_port,
                  const struct conn_ops *ops, void *owner, struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    enum err rc = address_split(host_port, false, host, &port, e);
    if (rc != ERR_OK)
        return err_wrap(e, rc, "%s: ", what);
    if (!*host)
        return err_set(e, ERR_INPUT, "%s: \"%.300s\" names no host", what, host_port);
    struct dialer *fresh = mem_zalloc(1, sizeof(*fresh));
    if (!fresh)
        return err_set(e, ERR_NOMEM, "%s: %s", what, err_str(ERR_NOMEM));
    *fresh = (struct dialer){.loop = l,
                             .ops = ops,
                             .owner = owner,
                             .port = port,
                             .wait_ms = DIAL_WAIT_FIRST_MS,
                             .opened_ms = -DIAL_WAIT_MAX_MS};
    snprintf(fresh->what, sizeof(fresh->what), "%s", what);
    snprintf(fresh->host_port, sizeof(fresh->host_port), "%s", host_port);
    memcpy(fresh->host, host, sizeof(host));
    loop_timer_init(&fresh->timer, l, on_timer, fresh);
    *d = fresh;
    return ERR_OK;
}

void dial_start(struct dialer *d)
{
    if (d->trying)
        return;
    d->trying = true;
    bool lived = clock_now_ms() - d->opened_ms >= DIAL_WAIT_MAX_MS;
    if (lived) {
        d->wait_ms = DIAL_WAIT_FIRST_MS;
        d->said[0] = '\0';
    }
    round_later(d, lived ? 0 : wait_next(d));
}

void dial_lost(struct dialer *d, enum err code, const char *why)
{
    if (code == ERR_TLS) {
        say_why(d, code, why);
    } else if (code != ERR_REFUSED) { /* the owner has the text of a refusal */
        count_locked_out(d, false);
        keep_why(d, why);
    }
}

void dial_locked_out(struct dialer *d, const Gradwire__Refuse *m)
{
    count_locked_out(d, m->reason == GRADWIRE__REASON__NO_TOKEN ||
                            m->reason == GRADWIRE__REASON__OTHER_NAME ||
                            m->reason == GRADWIRE__REASON__OTHER_JOB ||
                            m->reason == GRADWIRE__REASON__OTHER_LISTS ||
                            m->reason == GRADWIRE__REASON__OTHER_DATA ||
                            m->reason == GRADWIRE__REASON__OTHER_VERSION);
}

bool dial_hopeless(const struct dialer *d)
{
    return d->locked_out >= DIAL_HOPELESS_TRIES &&
           d->last_locked_out_ms - d->locked_out_ms >= DIAL_HOPELESS_MS;
}

void dial_stop(struct dialer *d)
{
    struct conn *c = d->conn;
    d->trying = d->waits_challenge = false;
    d->conn = NULL;
    loop_timer_stop(&d->timer);
    lookup_end(d);
    if (!c)
        return;
    conn_set_owner(c, &no_ops, NULL); /* the connection may end after the dialer is freed */
    conn_close(c, ERR_STATE, "no longer needed");
}

void dial_hello(struct dialer *d, struct conn *c, const Gradwire__Hello *m)
{
    uint8_t proof[TOKEN_PROOF_BYTES];
    bool proves = token_held() && d->nonced;
    size_t bytes = gradwire__hello__get_packed_size(m);
    uint8_t *head = mem_zalloc(bytes + HELLO_CRC_BYTES, 1);
    if (!head) {
        conn_close(c, ERR_NOMEM, "no memory for a message");
        return;
    }
    (void)gradwire__hello__pack(m, head);
    bool offers = !conn_tls(c); /* TLS has its own */
    if (offers)
        bytes = hello_add_crc(head, bytes);
    if (proves && !token_prove(proof, d->nonce, head, bytes)) {
        conn_close(c, ERR_NOMEM, "no memory for a proof");
    } else { /* conn_send copies a body this small */
        enum err err = conn_send(c, FRAME_HELLO, head, bytes, proof, proves ? sizeof proof : 0);
        (void)err; /* on an error the connection closes itself; on_close gets the reason */
        if (offers)
            conn_offer_checksums(c);
    }
    mem_free(head);
}

bool dial_trying(const struct dialer *d)
{
    return d->trying;
}

const char *dial_why(const struct dialer *d)
{
    return d->why;
}

void dial_free(struct dialer *d)
{
    if (!d)
        return;
    dial_stop(d);
    mem_free(d);
}
