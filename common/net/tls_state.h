/* Shared by tls*.c. */
#pragma once

#include <pthread.h>
#include <sys/stat.h>

#include "common/net/openssl.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"

enum { TLS_NAMES_BYTES = 160, TLS_ALLOWED_MAX = 16 };

/* A name that peers of a role can have, in addition to the host of their entry. */
struct tls_allowed {
    bool chief;
    char name[ADDRESS_HOST_MAX];
};

enum { TLS_CERT, TLS_KEY, TLS_CA, TLS_FILES };

struct tls {
    char *file[TLS_FILES];
    struct tls_allowed allowed[TLS_ALLOWED_MAX];
    size_t n_allowed;

    pthread_mutex_t lock; /* protects all members below */
    SSL_CTX *ctx;
    struct stat stamp[TLS_FILES]; /* identifies the loaded files */
    int64_t looked_ms;
    char said[300];              /* the last warning, so that it is not repeated */
    char names[TLS_NAMES_BYTES]; /* of our certificate */
    int64_t expires_s;           /* since the Unix epoch */
    uint64_t reloads;
};

struct tls_link {
    SSL *ssl;
    /* unverified: the peer's certificate is missing or not valid; plain: the peer does not use TLS */
    bool dialed, unverified, plain;
    char host[ADDRESS_HOST_MAX]; /* the host that we connect to; "" if accepted */
    char own_names[TLS_NAMES_BYTES];
    char why[TLS_WHY_BYTES];
    /* records written; records per key (tests: fewer); new keys so far */
    uint64_t records, rekey_records, rekeyed;
    struct tls_record record;
};

/* ---- names (tls.c) ---- */
/* Writes "DNS:a.b, IP:1.2.3.4", truncated to fit; "no name" if the certificate contains none. */
void tls_names_of(const X509 *cert, char *out, size_t bytes);
/* Copies `host` as certificates spell it: without the final dot of an absolute name. */
void tls_host_copy(char *out, size_t bytes, const char *host);
/* Writes a time as "Nov 21 12:00:00 2026 GMT". */
void tls_time_text(const ASN1_TIME *at, char *out, size_t bytes);
