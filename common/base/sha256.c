#include "common/base/sha256.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <stdbool.h>
#include <stdio.h>

#include "common/base/mem.h"

struct sha256 {
    EVP_MD_CTX *ctx;
    int failed;
};

struct sha256 *sha256_new(void)
{
    struct sha256 *h = mem_zalloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (h->ctx && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL))
        return h;
    sha256_free(h);
    return NULL;
}

void sha256_add(struct sha256 *h, const void *data, size_t bytes)
{
    if (!EVP_DigestUpdate(h->ctx, data, bytes))
        h->failed = 1;
}

int sha256_final(struct sha256 *h, uint8_t out[static SHA256_BYTES])
{
    return h->failed || !EVP_DigestFinal_ex(h->ctx, out, NULL);
}

void sha256_free(struct sha256 *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    mem_free(h);
}

int sha256_hex(struct sha256 *take, char hex[static SHA256_HEX_BYTES])
{
    uint8_t digest[SHA256_BYTES];
    int failed = !take || sha256_final(take, digest);
    hex[0] = 0;
    for (size_t i = 0; !failed && i < sizeof digest; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    sha256_free(take);
    return failed;
}

int sha256_hmac(uint8_t out[static SHA256_BYTES], const void *key, size_t key_bytes,
                const struct sha256_part *parts, size_t n)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    size_t bytes = 0;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = mac ? EVP_MAC_CTX_new(mac) : NULL;
    bool ok = ctx && EVP_MAC_init(ctx, key, key_bytes, params);
    for (size_t i = 0; ok && i < n; i++)
        ok = EVP_MAC_update(ctx, parts[i].data, parts[i].bytes);
    ok = ok && EVP_MAC_final(ctx, out, &bytes, SHA256_BYTES) && bytes == SHA256_BYTES;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return !ok;
}
