/* What tls*.c share. */
#ifndef GRADWIRE_COMMON_NET_TLS_STATE_H
#define GRADWIRE_COMMON_NET_TLS_STATE_H

#include <pthread.h>
#include <sys/stat.h>

#include "common/net/openssl.h"
#include "common/cluster/address.h"
#include "common/net/tls.h"

enum { TLS_NAMES_BYTES = 160, TLS_ALLOWED_MAX = 16 };

/* A name that a role may have besides the host of its entry. */
struct tls_allowed {
    bool chief;
    char name[ADDRESS_HOST_MAX];
};

enum { TLS_CERT, TLS_KEY, TLS_CA, TLS_FILES };

struct tls {
    char *file[TLS_FILES];
    struct tls_allowed allowed[TLS_ALLOWED_MAX];
    size_t n_allowed;

    pthread_mutex_t lock; /* of all that follows */
    SSL_CTX *ctx;
    struct stat stamp[TLS_FILES]; /* which files they were */
    int64_t looked_ms;
    char said[300];              /* the last warning */
    char names[TLS_NAMES_BYTES]; /* of our certificate */
    int64_t expires_s;           /* since the epoch */
    uint64_t reloads;
};

struct tls_link {
    SSL *ssl;
    bool dialed, unverified, plain; /* unverified: the peer's certificate did not hold */
    char host[ADDRESS_HOST_MAX];    /* dialed */
    char own_names[TLS_NAMES_BYTES];
    char why[TLS_WHY_BYTES];
    uint64_t records, rekey_records, rekeyed; /* written; between two keys (tests: fewer) */
    struct tls_record record;
};

/* ---- tls_names.c ---- */
/* "DNS:a.b, IP:1.2.3.4", cut to fit; "no name" where there is none. */
void tls_names_of(const X509 *cert, char *out, size_t bytes);
/* `host` as a certificate has it: without the dot that ends an absolute name. */
void tls_host_copy(char *out, size_t bytes, const char *host);
bool tls_names_host(X509 *cert, const char *with_dot);
enum err tls_allowed_parse(struct tls *t, const char *names, struct errmsg *e) MUST_CHECK;
/* "Nov 21 12:00:00 2026 GMT" */
void tls_time_text(const ASN1_TIME *at, char *out, size_t bytes);

#endif
