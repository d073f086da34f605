/* The job's token: a secret that exactly the processes of a job have. A connecting process proves in its hello that
 * it has the token, without revealing it. The accepting side sends a nonce, and the hello comes with
 * HMAC-SHA256(token, label | nonce | the hello's bytes) (RFC 2104, FIPS 180-4). So a proof is valid only for this
 * connection and this hello: a recorded one is useless.
 * A process has one token, set at start-up, or none: then hellos have no proof. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

struct tls_files;

/* Authentication: whether a process that connects to us must prove that it belongs to the job, and if not, on which
 * addresses we can listen.
 * - --auth=auto (the default): a proof is required if this process has a token or certificates. Without them it can
 *   listen on loopback addresses only; in the image, whose entrypoint sets AUTH_POD, also on the pod's addresses,
 *   with a warning.
 * - required: refuse to start without a token or certificates.
 * - none: require no proof, on any address. */

/* An environment variable: this process runs in a pod, and TF_CONFIG or the hosts form has assigned its role. */
#define AUTH_POD "GRADWIRE_POD"

/* Loads the secrets of a process that uses them, and checks the flag --auth against them. It warns if every user of this host
 * can read or change the token's file. Errors: as token_load, tls_load and auth_check. Thread: start-up's; blocks. */
enum err auth_load(const char *flag, int token_fd, const char *token_file,
                   const struct tls_files *tls, struct errmsg *e) MUST_CHECK;

/* Checks the flag against the secrets that this process has. Errors: ERR_INPUT required without any, none with
 * some, or an unknown word. Thread: start-up's, after token_load and tls_load. */
enum err auth_check(const char *flag, struct errmsg *e) MUST_CHECK;

/* Checks whether processes without a secret can reach this listening socket. If they can and --auth=none allows it, it
 * logs this; with AUTH_POD it warns. Errors: ERR_INPUT, with what to do, if they can and must not. Thread:
 * start-up's. */
enum err auth_check_listener(const char *flag, int fd, struct errmsg *e) MUST_CHECK;

/* Returns the proof that a connecting process must give: "tls" (plus the token, if this process has both), "token"
 * or "none". Thread: any, after start-up. */
const char *auth_word(void);

enum {
    TOKEN_BYTES_MIN = 16,
    TOKEN_BYTES_MAX = 512,
    TOKEN_NONCE_BYTES = 32,
    TOKEN_PROOF_BYTES = 32,
    TOKEN_HEX_BYTES = 65 /* for token_make, with the NUL */
};

/* Reads the token from a descriptor (-1: none) to its end and closes it, or from a file ("": none). White space at
 * the end is ignored. With neither, this process has no token. Errors: ERR_INPUT both are given, or the token is
 * too short, too long or unreadable. Thread: start-up's; blocks. */
enum err token_load(int fd, const char *file, struct errmsg *e) MUST_CHECK;
void token_forget(void);
bool token_held(void);

/* token_make writes a new random token as hex. Both return false if the kernel gives no random bytes. */
bool token_make(char hex[TOKEN_HEX_BYTES]);
bool token_nonce(uint8_t nonce[TOKEN_NONCE_BYTES]);

/* Computes the proof for a hello with this process's token. Returns false if it could not be computed. Thread:
 * any. */
bool token_prove(uint8_t proof[TOKEN_PROOF_BYTES], const uint8_t nonce[TOKEN_NONCE_BYTES],
                 const void *hello, size_t bytes) MUST_CHECK;
/* Compares in constant time. */
bool token_equal(const uint8_t a[TOKEN_PROOF_BYTES], const uint8_t b[TOKEN_PROOF_BYTES]);
