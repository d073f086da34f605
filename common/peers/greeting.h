/* How a connection begins on the side that accepted it: CHALLENGE goes out, HELLO comes back with
 * its proof (token.h). Without a token the hello stands alone, and nothing goes out before it, but under TLS: there the
 * CHALLENGE says that the handshake is over on this side, too. */
#ifndef GRADWIRE_COMMON_PEERS_GREETING_H
#define GRADWIRE_COMMON_PEERS_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cluster/cluster.h"
#include "common/net/conn.h"
#include "common/wire/msg.h"
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
/* The hello is whole: does who sent it hold our token? If not it is refused, in words that tell
 * nothing of the job, and the connection finishes. */
bool greeting_proved(const struct greeting *g, struct conn *c);
/* Under TLS: does the certificate name the trainer that the hello says to be? If not it is refused, and the connection
 * finishes. */
bool greeting_named(struct conn *c, const struct cluster *cluster, const Gradwire__Hello *m);

#endif
