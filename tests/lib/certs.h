/* Certificates for tests, made by OpenSSL's API: a CA, and who it signs. Files in PEM. */
#pragma once

#include "common/net/openssl.h"

struct certs_ca {
    EVP_PKEY *key;
    X509 *cert;
};

void certs_ca_init(struct certs_ca *ca, const char *name);
void certs_ca_close(struct certs_ca *ca);
/* Its certificate as `path`. */
void certs_ca_write(const struct certs_ca *ca, const char *path);

/* One for `names` ("DNS:a.b,IP:127.0.0.1", or "": none), valid from now + from_s to now + until_s. */
void certs_write(const struct certs_ca *ca, const char *names, long from_s, long until_s,
                 const char *cert_path, const char *key_path);
