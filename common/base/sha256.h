/* SHA-256 by OpenSSL, behind a header of our own: OpenSSL's defines a type ERR_STATE, as our err.h
 * does a code, so the two never meet in one file. */
#ifndef GRADWIRE_COMMON_BASE_SHA256_H
#define GRADWIRE_COMMON_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX_BYTES = 65 /* with the NUL */ };

struct sha256;

/* NULL: out of memory. */
struct sha256 *sha256_new(void);
/* A failure in between is kept and told by sha256_final. */
void sha256_add(struct sha256 *h, const void *data, size_t bytes);
/* Nonzero where the digest could not be made (out of memory); `out` is then unchanged. Once only.
 */
int sha256_final(struct sha256 *h, uint8_t out[static SHA256_BYTES])
    __attribute__((warn_unused_result));
void sha256_free(struct sha256 *h);
/* The digest as hex, or "" where it could not be made; `take` is freed, and may be NULL. Nonzero as of sha256_final. */
int sha256_hex(struct sha256 *take, char hex[static SHA256_HEX_BYTES]);

struct sha256_part {
    const void *data;
    size_t bytes;
};
/* HMAC-SHA256 of the parts, one behind the other (RFC 2104). Nonzero where it could not be made. */
int sha256_hmac(uint8_t out[static SHA256_BYTES], const void *key, size_t key_bytes,
                const struct sha256_part *parts, size_t n) __attribute__((warn_unused_result));

#endif
