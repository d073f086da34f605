/* One connection with TLS. OpenSSL reads and writes the socket; nothing here blocks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/net/tls_state.h"

/* ---- reasons ---- */

static void name_issuer(const X509 *cert, char *out, size_t bytes)
{
    char line[100] = "";
    (void)X509_NAME_oneline(X509_get_issuer_name(cert), line, (int)sizeof line);
    (void)snprintf(out, bytes, "%s", line[0] == '/' ? line + 1 : line);
}

static void explain_certificate(struct tls_link *l, int error, int depth, const X509 *cert)
{
    char names[TLS_NAMES_BYTES] = "?", issuer[100] = "?", at[40] = "?";
    if (cert) {
        tls_names_of(cert, names, sizeof names);
        name_issuer(cert, issuer, sizeof issuer);
        tls_time_text(X509_get0_notAfter(cert), at, sizeof at);
    }
    if (error == X509_V_ERR_CERT_HAS_EXPIRED && depth > 0)
        (void)snprintf(l->why, sizeof l->why,
                       "its certificate (%.70s, issued by %.60s) is not valid: the certificate of "
                       "a CA above it has expired",
                       names, issuer);
    else if (error == X509_V_ERR_CERT_HAS_EXPIRED)
        (void)snprintf(l->why, sizeof l->why, "its certificate (%.100s) expired on %s", names, at);
    else if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
        (void)snprintf(l->why, sizeof l->why, "its certificate names %.100s; expected: %.100s",
                       names, l->host);
    else
        (void)snprintf(l->why, sizeof l->why,
                       "its certificate (%.70s, issued by %.60s) is not valid: %.60s", names,
                       issuer, X509_verify_cert_error_string(error));
}

static int on_verify(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls_link *l = SSL_get_app_data(ssl);
    if (ok)
        return ok;
    l->unverified = true;
    explain_certificate(l, X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_error_depth(store),
                        X509_STORE_CTX_get0_cert(store));
    return 0;
}

static void explain_alert(struct tls_link *l, int alert)
{
    bool certificate = (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_UNKNOWN_CA &&
                        alert != SSL_AD_ILLEGAL_PARAMETER) ||
                       alert == TLS13_AD_CERTIFICATE_REQUIRED;
    if (certificate)
        (void)snprintf(l->why, sizeof l->why, "it refuses our certificate (%.140s): %s",
                       l->own_names, SSL_alert_desc_string_long(alert));
    else if (alert == SSL_AD_PROTOCOL_VERSION)
        (void)snprintf(l->why, sizeof l->why, "it does not support TLS 1.3, which is required");
    else
        (void)snprintf(l->why, sizeof l->why, "it ended TLS: %s",
                       SSL_alert_desc_string_long(alert));
}

static bool is_plain(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_HTTPS_PROXY_REQUEST;
}

static void explain(struct tls_link *l)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    const char *text = ERR_reason_error_string(error);
    if (l->unverified) /* on_verify has written the reason */
        return;
    if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        explain_alert(l, reason - SSL_AD_REASON_OFFSET);
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        l->unverified = true;
        (void)snprintf(l->why, sizeof l->why, "it sent no certificate");
    } else if (is_plain(reason) && !SSL_is_init_finished(l->ssl)) {
        l->plain = true;
        (void)snprintf(l->why, sizeof l->why,
                       "it does not use TLS: was it started without --tls_cert?");
    } else if (reason == SSL_R_UNSUPPORTED_PROTOCOL) {
        (void)snprintf(l->why, sizeof l->why, "it does not support TLS 1.3, which is required");
    } else {
        (void)snprintf(l->why, sizeof l->why, "TLS: %s", text ? text : "broken");
    }
}

static enum tls_io outcome(struct tls_link *l, int rc)
{
    int error = errno;
    switch (SSL_get_error(l->ssl, rc)) {
    case SSL_ERROR_NONE:
        return TLS_OK;
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_END;
    case SSL_ERROR_SYSCALL:
        errno = error;
        return error ? TLS_ERROR : TLS_END;
    default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
            return TLS_END;
        explain(l);
        errno = 0;
        return TLS_ERROR;
    }
}

/* ---- life ---- */

static SSL *new_ssl(struct tls_link *l, struct tls *t)
{
    (void)pthread_mutex_lock(&t->lock);
    SSL *ssl = SSL_new(t->ctx);
    memcpy(l->own_names, t->names, sizeof l->own_names);
    (void)pthread_mutex_unlock(&t->lock);
    return ssl;
}

/* The peer's certificate must contain the host that we connect to. */
static bool expect_host(struct tls_link *l, const char *with_dot)
{
    const char *host = l->host;
    struct address address;
    X509_VERIFY_PARAM *rules = SSL_get0_param(l->ssl);
    tls_host_copy(l->host, sizeof l->host, with_dot);
    if (address_numeric(host, 0, &address))
        return X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_host(rules, host, 0) == 1 &&
           SSL_set_tlsext_host_name(l->ssl, host) == 1;
}

enum err tls_link_new(struct tls_link **out, struct tls *t, int fd, const char *host)
{
    struct tls_link *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return ERR_NOMEM;
    ERR_clear_error();
    l->ssl = new_ssl(l, t);
    l->dialed = host != NULL;
    l->rekey_records = TLS_REKEY_RECORDS;
    if (!l->ssl || SSL_set_fd(l->ssl, fd) != 1 || (host && !expect_host(l, host))) {
        tls_link_free(l);
        return ERR_NOMEM;
    }
    SSL_set_app_data(l->ssl, l);
    SSL_set_verify(l->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
    if (host)
        SSL_set_connect_state(l->ssl);
    else
        SSL_set_accept_state(l->ssl);
    *out = l;
    return ERR_OK;
}

void tls_link_free(struct tls_link *l)
{
    if (!l)
        return;
    SSL_free(l->ssl);
    mem_free(l);
}

bool tls_link_dialed(const struct tls_link *l)
{
    return l->dialed;
}

/* ---- input and output ---- */

enum tls_io tls_link_shake(struct tls_link *l)
{
    ERR_clear_error();
    errno = 0;
    l->why[0] = 0;
    enum tls_io io = outcome(l, SSL_do_handshake(l->ssl));
    l->record.stays = io == TLS_OK && tls_link_in_kernel(l);
    return io;
}

enum tls_io tls_link_read(struct tls_link *l, void *p, size_t bytes, size_t *got)
{
    ERR_clear_error();
    errno = 0;
    *got = 0;
    return outcome(l, SSL_read_ex(l->ssl, p, bytes, got));
}

struct tls_record *tls_link_record(struct tls_link *l)
{
    return &l->record;
}

/* The new key applies from the next write. With the kernel's TLS there is no new key: Linux before 6.14 has no
 * support, and OpenSSL does not request it from newer ones. */
static void rekey(struct tls_link *l)
{
    if (!tls_link_in_kernel(l) && SSL_key_update(l->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        l->rekeyed++;
    ERR_clear_error();
}

enum tls_io tls_link_write(struct tls_link *l, size_t *sent)
{
    ERR_clear_error();
    errno = 0;
    *sent = 0;
    enum tls_io io = outcome(l, SSL_write_ex(l->ssl, l->record.from, l->record.bytes, sent));
    if (io != TLS_OK)
        return io;
    l->record.bytes = 0;
    if (++l->records % l->rekey_records == 0)
        rekey(l);
    return io;
}

bool tls_link_pending(const struct tls_link *l)
{
    return SSL_has_pending(l->ssl) == 1;
}

void tls_link_bye(struct tls_link *l)
{
    ERR_clear_error();
    (void)SSL_shutdown(l->ssl);
    ERR_clear_error();
}

bool tls_link_untouched(const struct tls_link *l)
{
    return BIO_number_read(SSL_get_rbio(l->ssl)) == 0;
}

bool tls_link_in_kernel(const struct tls_link *l)
{
    return BIO_get_ktls_send(SSL_get_wbio(l->ssl));
}

const char *tls_link_why(const struct tls_link *l)
{
    return l->why;
}

enum tls_refusal tls_link_refusal(const struct tls_link *l)
{
    return l->plain ? TLS_PLAIN : l->unverified ? TLS_CERTIFICATE : TLS_HANDSHAKE;
}
