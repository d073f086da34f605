/* The start of a connection on the accepting side: we send CHALLENGE, and HELLO comes back with its proof
 * (token.h). Without a token the hello has no proof, and no CHALLENGE is sent, except under TLS: there it shows
 * the peer that the handshake is complete on this side, too. */
#ifndef GRADWIRE_COMMON_PEERS_GREETING_H
#define GRADWIRE_COMMON_PEERS_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"

enum {
    GREETING_HEAD_MAX = 64 << 10, /* largest head of a hello */
    GREETING_SAY_MS = 10000       /* between two log lines about pending connections */
};

struct greeting {
    bool asked;  /* this process has a token and has sent the nonce */
    bool proves; /* the hello has a proof, right or wrong */
    bool offers; /* the hello offers checksums */
    uint8_t nonce[TOKEN_NONCE_BYTES], expected[TOKEN_PROOF_BYTES], got[TOKEN_PROOF_BYTES];
};

/* Prepares a new connection: sets the limits that hold until the hello, TLS if this process uses it, and sends the
 * challenge. If memory or random bytes run out, it closes the connection. */
void greeting_begin(struct greeting *g, struct conn *c);
/* Call with the head of the hello: checks its checksum, and computes the proof that it must have. Errors: ERR_PROTO not a
 * hello, a wrong checksum (the connection is then closed), or a body that is no proof; ERR_NOMEM. */
enum err greeting_on_head(struct greeting *g, struct conn *c, const struct frame *f,
                          const uint8_t *head) MUST_CHECK;
/* conn_ops.on_space for the hello. Errors: ERR_PROTO. */
enum err greeting_on_space(struct greeting *g, uint64_t at, uint64_t left, void **p,
                           size_t *bytes) MUST_CHECK;
/* Call when the hello is complete. If it offers checksums, all later frames have them, its answer first. Returns whether it
 * is accepted: its sender has our token, its certificate contains a name for the claimed role, and hello_judge accepts its
 * contents. If not, sends a refusal and finishes
 * the connection. To a sender without the token, the refusal reveals nothing about the job. */
bool greeting_taken(const struct greeting *g, struct conn *c, const struct hello_host *host,
                    const Gradwire__Hello *m);
/* Sends REFUSE and finishes the connection. */
void greeting_refuse(struct conn *c, const Gradwire__Refuse *m);
/* Same for a hello that was accepted at first; logged within a limit. Thread: the accepting one. */
void greeting_turn_away(struct conn *c, const struct hello_host *host, Gradwire__Reason reason,
                        const char *text);

#endif
