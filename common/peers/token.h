/* The job's token: a secret that all processes of a job hold and no other process does. Who dials proves
 * it in its hello, without showing it: the accepting side sends a nonce, and the hello comes with
 * HMAC-SHA256(token, label | nonce | the hello's bytes) (RFC 2104, FIPS 180-4). So a proof is good
 * for this connection and for what this hello says, and a recorded one for nothing.
 *
 * One for a process, set at start-up. Without one everything is as in a cluster without a token. */
#ifndef GRADWIRE_COMMON_PEERS_TOKEN_H
#define GRADWIRE_COMMON_PEERS_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    TOKEN_BYTES_MIN = 16,
    TOKEN_BYTES_MAX = 512,
    TOKEN_NONCE_BYTES = 32,
    TOKEN_PROOF_BYTES = 32,
    TOKEN_HEX_BYTES = 65 /* of token_make, with the NUL */
};

/* Read it from a descriptor (-1: none) up to its end, and close that; or from a file ("" : none).
 * White space at its end does not count. Neither given: there is none. Errors: ERR_INPUT with one
 * line: both, too short, too long, unreadable. Thread: start-up; blocks. */
enum err token_load(int fd, const char *file, struct errmsg *e) MUST_CHECK;
void token_forget(void);
bool token_held(void);

/* A fresh random one, as text. False: the kernel gives no random bytes. */
bool token_make(char hex[TOKEN_HEX_BYTES]);
bool token_nonce(uint8_t nonce[TOKEN_NONCE_BYTES]);

/* The proof for a hello under this process's token. False: it could not be made. Thread: any. */
bool token_prove(uint8_t proof[TOKEN_PROOF_BYTES], const uint8_t nonce[TOKEN_NONCE_BYTES],
                 const void *hello, size_t bytes) MUST_CHECK;
/* In a time that does not depend on where they differ. */
bool token_equal(const uint8_t a[TOKEN_PROOF_BYTES], const uint8_t b[TOKEN_PROOF_BYTES]);

#endif
