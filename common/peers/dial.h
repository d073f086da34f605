/* Connects to one peer, and retries until it succeeds: resolve, connect, wait, repeat.
 * Sequence: dial_start; a name is looked up on a helper thread, again in each round; conn_dial; then the owner's
 * on_open(c, owner) gets the connection, which belongs to the owner from there on. If this process has the job's
 * token or uses TLS, the dialer waits for the peer's challenge before on_open.
 * Failures: an unknown name, a refused connection and a silent address are all retried. A round tries each address
 * of the name; the next one starts after 50 ms, doubling up to 2 s. Each new reason is logged once. Before on_open
 * no callback is called; to give up, call dial_stop. */
#pragma once

#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/wire/msg.h"

enum {
    DIAL_CHALLENGE_MS = 5000, /* for the peer to send its challenge */
    DIAL_WAIT_FIRST_MS = 50,
    DIAL_WAIT_MAX_MS = 2000,
    DIAL_CONNECT_MS = 5000, /* per address */
    DIAL_HOPELESS_TRIES = 3,
    DIAL_HOPELESS_MS = 1500, /* > TLS_LOOK_MS: both sides have checked their files again */
};

struct dialer;

/* Makes a dialer that is not started. `what` names the peer in messages ("ps 0"); ops and owner are for the
 * connections. Copies `what` and host_port. Errors: ERR_NOMEM; ERR_INPUT if host_port is not "host:port". */
enum err dial_new(struct dialer **d, struct loop *l, const char *what, const char *host_port,
                  const struct conn_ops *ops, void *owner, struct errmsg *e) MUST_CHECK;
/* Starts connecting; does nothing if started already. After a lost connection, call it again: it connects
 * immediately if that connection had lasted DIAL_WAIT_MAX_MS, otherwise after a wait, so that a peer that always
 * closes does not cause a busy loop. Thread: the loop's; never blocks, and never calls on_open itself. */
void dial_start(struct dialer *d);
/* Sends the hello on a connection from on_open. Without TLS it offers checksums. It has a proof of the token if this process
 * has it and the peer requested it. An error closes the connection. */
void dial_hello(struct dialer *d, struct conn *c, const Gradwire__Hello *m);
/* Call when a connection from on_open is lost: dial_why then has the reason, unless the peer refused (ERR_REFUSED).
 * TLS errors are logged as for a failed attempt; the connection has logged any other fault of the peer. */
void dial_lost(struct dialer *d, enum err code, const char *why);
/* Call when the peer refused the hello. Refusals about the token, the certificate, the job, the data or the release count
 * as a lockout: the reason does not change while both processes live. */
void dial_locked_out(struct dialer *d, const Gradwire__Refuse *m);
/* Returns whether further attempts are useless: the last ones, at least DIAL_HOPELESS_TRIES over DIAL_HOPELESS_MS,
 * all ended because one side refuses the other. That can change only if a file is replaced or a process restarts. */
bool dial_hopeless(const struct dialer *d);
/* Stops connecting. A connection that on_open got is not affected. */
void dial_stop(struct dialer *d);
bool dial_trying(const struct dialer *d); /* it connects, or waits for the next attempt */
/* Returns why the last attempt failed ("Connection refused"), or the last connection was lost; "" before any. For log
 * lines about the missing peer. */
const char *dial_why(const struct dialer *d);
void dial_free(struct dialer *d); /* also stops it; NULL is ignored */
