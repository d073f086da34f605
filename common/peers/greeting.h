/* How a connection begins on the side that accepted it: CHALLENGE goes out, HELLO comes back with
 * its proof (token.h). Without a token the hello stands alone, and nothing goes out before it, but under TLS: there the
 * CHALLENGE says that the handshake is over on this side, too. */
#ifndef GRADWIRE_COMMON_PEERS_GREETING_H
#define GRADWIRE_COMMON_PEERS_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"

enum {
    GREETING_HEAD_MAX = 64 << 10, /* of a hello */
    GREETING_SAY_MS = 10000       /* between two log lines about pending connections */
};

struct greeting {
    bool asked; /* a token is held, and the nonce is out */
    uint8_t nonce[TOKEN_NONCE_BYTES], expected[TOKEN_PROOF_BYTES], got[TOKEN_PROOF_BYTES];
};

/* On a fresh connection: its limits until the hello, TLS where this process has it, and the challenge. */
void greeting_begin(struct greeting *g, struct conn *c);
/* The head of the hello is here: what its proof has to be. Errors: ERR_PROTO it is no hello, or its
 * body is no proof; ERR_NOMEM. */
enum err greeting_on_head(struct greeting *g, const struct frame *f,
                          const uint8_t *head) MUST_CHECK;
/* conn_ops.on_space of the hello. */
enum err greeting_on_space(struct greeting *g, uint64_t at, uint64_t left, void **p,
                           size_t *bytes) MUST_CHECK;
/* The hello is whole. Is it taken: does its sender hold our token, does its certificate name who it says to be, and does
 * hello_judge take what it says? If not it is refused, and the connection finishes. Without the token the words tell nothing
 * of the job. */
bool greeting_taken(const struct greeting *g, struct conn *c, const struct hello_host *host,
                    const Gradwire__Hello *m);
/* Send REFUSE, and finish the connection. */
void greeting_refuse(struct conn *c, const Gradwire__Refuse *m);
/* The same, for a hello that is not taken after all; the log says so, within a budget. Thread: the one that accepts. */
void greeting_turn_away(struct conn *c, const struct hello_host *host, Gradwire__Reason reason,
                        const char *text);

#endif
