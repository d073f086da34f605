/* SHA-256 by OpenSSL. This header hides OpenSSL's own headers: they define a type ERR_STATE, and our err.h defines
 * a code of that name, so no file can include both. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 /* including the NUL */ };

struct sha256;

/* Returns NULL if memory runs out. Free with sha256_free. */
struct sha256 *sha256_new(void);
/* A failure is remembered, and sha256_final returns it. */
void sha256_add(struct sha256 *h, const void *data, size_t bytes);
/* Returns nonzero, with `out` unchanged, if the digest could not be computed (out of memory). Call it once. The caller
 * must still free `h`. */
int sha256_final(struct sha256 *h, uint8_t out[static SHA256_BYTES])
    __attribute__((warn_unused_result));
void sha256_free(struct sha256 *h); /* NULL is ignored */
/* Writes the digest as hex, or "" if it could not be computed; then it returns nonzero. Frees `take`, which can be
 * NULL. */
int sha256_hex(struct sha256 *take, char hex[static SHA256_HEX_BYTES]);

struct sha256_part {
    const void *data;
    size_t bytes;
};
/* Computes the HMAC-SHA256 (RFC 2104) of the concatenated parts. Returns nonzero if it could not be computed. */
int sha256_hmac(uint8_t out[static SHA256_BYTES], const void *key, size_t key_bytes,
                const struct sha256_part *parts, size_t n) __attribute__((warn_unused_result));
