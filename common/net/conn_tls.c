/* TLS below the frames: the handshake, then records.
 * If a peer is refused, the accepting side logs the reason. The dialing side gets it by on_close, as for any
 * failed connection. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/net/conn_state.h"

enum err conn_secure(struct conn *c, struct tls *t, const char *host)
{
    if (c->state == CLOSED)
        return ERR_OK;
    enum err err = tls_link_new(&c->tls, t, c->fd, host);
    if (!err && c->state == OPEN) /* accepted */
        conn_shake_begin(c);
    return err;
}

const struct tls_link *conn_tls(const struct conn *c)
{
    return c->tls;
}

bool conn_shaking(const struct conn *c)
{
    return c->state == SHAKING;
}

/* ---- the handshake ---- */

/* Discards what the peer still sends: closing a socket with unread bytes would drop the alert. */
static void shake_finish(struct conn *c, const char *why)
{
    tls_link_free(c->tls);
    c->tls = NULL;
    conn_queue_drop(c);
    conn_want_writable(c, false);
    loop_timer_stop(&c->finish_timer);
    c->state = OPEN;
    conn_finish(c, ERR_TLS, why);
}

/* Refuses a peer that connected to us. A peer without TLS gets an unencrypted alert, which our programs
 * understand. */
static void shake_refuse(struct conn *c, const char *why)
{
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70}; /* fatal, protocol_version */
    enum tls_refusal kind = tls_link_refusal(c->tls);
    tls_refused(kind, c->peer, why);
    if (kind == TLS_PLAIN)
        (void)!send(c->fd, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT);
    shake_finish(c, why);
}

static void shake_failed(struct conn *c, const char *why)
{
    char copy[TLS_WHY_BYTES];
    (void)snprintf(copy, sizeof copy, "%s", why);
    if (tls_link_dialed(c->tls))
        conn_close(c, ERR_TLS, copy);
    else
        shake_refuse(c, copy);
}

static void shake_silent(struct conn *c)
{
    static const char why[] =
        "it closed the connection without starting TLS: was it started without --tls_cert?";
    tls_refused(TLS_PLAIN, c->peer, why);
    conn_close(c, ERR_TLS, why);
}

static void shake_hung_up(struct conn *c)
{
    static const char half[] = "it closed the connection during the TLS handshake";
    if (tls_link_dialed(c->tls) && tls_link_untouched(c->tls))
        shake_failed(
            c,
            "it closed the connection instead of starting TLS: was it started without --tls_cert?");
    else if (tls_link_dialed(c->tls)) /* the peer uses TLS and has ended, without refusing us */
        conn_close(c, ERR_CLOSED, half);
    else if (!tls_link_untouched(c->tls))
        shake_failed(c, half);
    else if (clock_now_ms() - c->shaking_ms >= TLS_SILENT_MS) /* it was waiting for bytes from us */
        shake_silent(c);
    else /* probably a port check */
        conn_close(c, ERR_CLOSED, "the peer closed the connection");
}

void conn_shake_late(struct conn *c)
{
    shake_failed(c, "no TLS handshake in time: was it started without --tls_cert?");
}

static void shake_over(struct conn *c)
{
    bool dialed = tls_link_dialed(c->tls);
    loop_timer_stop(&c->finish_timer);
    tls_count_up(c->tls);
    if (c->paused)
        event_del(&c->read_event);
    else
        event_active(&c->read_event, EV_READ, 1); /* bytes that came with the handshake */
    if (dialed) {
        conn_up(c);
        return;
    }
    c->state = OPEN;
    conn_look_again(c);
    if (c->first && !c->corked)
        conn_queue_flush(c);
    else
        conn_want_writable(c, false);
}

void conn_shake(struct conn *c)
{
    enum tls_io io = tls_link_shake(c->tls);
    int error = errno;
    switch (io) {
    case TLS_OK:
        shake_over(c);
        break;
    case TLS_WANTS_READ:
    case TLS_WANTS_WRITE:
        conn_want_writable(c, io == TLS_WANTS_WRITE);
        break;
    case TLS_END:
        shake_hung_up(c);
        break;
    case TLS_ERROR:
        if (error == 0)
            shake_failed(c, tls_link_why(c->tls));
        else if (error == ECONNRESET || error == EPIPE)
            shake_hung_up(c);
        else
            conn_close_errno(c, error);
        break;
    }
}

void conn_shake_begin(struct conn *c)
{
    c->state = SHAKING;
    c->shaking_ms = clock_now_ms();
    if (event_add(&c->read_event, NULL) != 0 ||
        loop_timer_once(&c->finish_timer, TLS_HANDSHAKE_MS) != ERR_OK) {
        conn_close(c, ERR_NOMEM, "no memory for a socket event");
        return;
    }
    if (tls_link_dialed(c->tls))
        conn_shake(c);
}

/* ---- records ---- */

/* Errors after the handshake. The peer's alert about our certificate arrives here, because in TLS 1.3 it checks
 * that certificate only after our side is done. */
static void read_failed(struct conn *c, int error)
{
    if (error)
        conn_close_errno(c, c->broken ? c->broken : error);
    else
        conn_close(c, ERR_TLS, tls_link_why(c->tls));
}

size_t conn_tls_read(struct conn *c, void *p, size_t bytes, bool *more)
{
    size_t got = 0;
    enum tls_io io = tls_link_read(c->tls, p, bytes, &got);
    int error = errno;
    c->stats.recv_calls++;
    c->tls_read_waits = io == TLS_WANTS_WRITE;
    /* OpenSSL may hold a complete record, for which the socket gives no event */
    *more = got > 0 &&
            (got == bytes || got == TLS_RECORD_BYTES || tls_link_pending(c->tls) || c->broken);
    if (io == TLS_WANTS_WRITE)
        conn_want_writable(c, true);
    else if (io == TLS_WANTS_READ && c->broken)
        conn_close_errno(c, c->broken);
    else if (io == TLS_END)
        conn_eof(c);
    else if (io == TLS_ERROR)
        read_failed(c, error);
    return got;
}

size_t conn_tls_write(struct conn *c)
{
    size_t sent = 0;
    enum tls_io io = tls_link_write(c->tls, &sent);
    int error = errno;
    c->stats.send_calls++;
    c->stats.out_bytes += sent;
    c->tls_write_waits = io == TLS_WANTS_READ;
    if (io == TLS_END || io == TLS_ERROR)
        conn_broken(c, error ? error : EPIPE);
    return sent;
}
