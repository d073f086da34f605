/* Keeps trying to reach one peer until it is there: resolve, connect, wait, again.
 *
 * Happy path: dial_start -> (a name: looked up on a helper thread, each time anew) -> conn_dial ->
 * the owner's on_open(c, owner): from there c is the owner's. Where this process holds the job's
 * token, or speaks TLS, the peer's challenge is waited for before that. Failure modes: an unknown name is
 * "not yet", as is a refused or silent address: each address of the name is tried, then after 50
 * ms, doubling to 2 s, all over again. The log says why once for each new reason. Before on_open
 * the owner hears nothing; who wants to give up calls dial_stop. */
#ifndef GRADWIRE_COMMON_PEERS_DIAL_H
#define GRADWIRE_COMMON_PEERS_DIAL_H

#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/wire/msg.h"

enum {
    DIAL_CHALLENGE_MS = 5000, /* for the peer to ask for the token, or to take us */
    DIAL_WAIT_FIRST_MS = 50,
    DIAL_WAIT_MAX_MS = 2000,
    DIAL_CONNECT_MS = 5000, /* for one address */
    DIAL_HOPELESS_TRIES = 3,
    DIAL_HOPELESS_MS = 1500, /* > TLS_LOOK_MS: both sides have looked at their files again */
};

struct dialer;

/* `what` names the peer in messages ("ps 0"). Does not start. ops and owner are those of the
 * connections. Errors: ERR_NOMEM; ERR_INPUT host_port is not "host:port", with a line in e. */
enum err dial_new(struct dialer **d, struct loop *l, const char *what, const char *host_port,
                  const struct conn_ops *ops, void *owner, struct errmsg *e) MUST_CHECK;
/* Begin to try; nothing happens if it tries already. Called again after a connection was lost: at
 * once if that one lived for DIAL_WAIT_MAX_MS, otherwise after a wait, so that a peer that always
 * hangs up is not dialed in a circle. Thread: the loop's; never blocks; on_open is never called
 * inside. */
void dial_start(struct dialer *d);
/* Send the hello on the connection that on_open gave, with the proof that this process holds the
 * job's token, where it does. What fails closes the connection. */
void dial_hello(struct dialer *d, struct conn *c, const Gradwire__Hello *m);
/* A connection that on_open gave is lost: what went wrong with TLS is told as a failed try is. */
void dial_lost(struct dialer *d, enum err code, const char *why);
/* The peer answered the hello with this. It counts as locked out if it is about the token, the certificate, the job or the
 * release: those stay as they are while both processes live. */
void dial_locked_out(struct dialer *d, const Gradwire__Refuse *m);
/* Each of the last tries ended because one side does not take the other; there were some, and the files of certificate and
 * token are still as they were. While nobody changes those, and both processes are the same, no try can end otherwise. */
bool dial_hopeless(const struct dialer *d);
/* Stop trying. A connection that is the owner's already is left alone. */
void dial_stop(struct dialer *d);
bool dial_trying(const struct dialer *d);
/* Why the last try failed ("Connection refused"), "" before any did: for lines that say who is
 * waited for. */
const char *dial_why(const struct dialer *d);
void dial_free(struct dialer *d);

#endif
