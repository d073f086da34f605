/* The names in a certificate (subjectAltName only, RFC 6125), and the names that a peer must have. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/net/tls_state.h"
#include "common/wire/worker_name.h"

enum { CHECK_FLAGS = X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT };

/* ---- names in a certificate ---- */

static bool dns_text(const ASN1_STRING *name, char *out, size_t bytes)
{
    const unsigned char *text = ASN1_STRING_get0_data(name);
    size_t n = (size_t)ASN1_STRING_length(name);
    if (n >= bytes || memchr(text, 0, n))
        return false;
    memcpy(out, text, n);
    out[n] = 0;
    for (size_t i = 0; i < n; i++) /* a log line must stay one line, whatever a CA has signed */
        if (out[i] <= ' ' || out[i] > '~')
            out[i] = '?';
    return true;
}

static bool ip_text(const ASN1_STRING *name, char *out, size_t bytes)
{
    int n = ASN1_STRING_length(name);
    int family = n == 4 ? AF_INET : n == 16 ? AF_INET6 : 0;
    return family && inet_ntop(family, ASN1_STRING_get0_data(name), out, (socklen_t)bytes);
}

/* Writes a DNS name or an IP address; false for other kinds of names. */
static bool name_text(const GENERAL_NAME *name, char *out, size_t bytes)
{
    return name->type == GEN_DNS
               ? dns_text(name->d.dNSName, out, bytes)
               : name->type == GEN_IPADD && ip_text(name->d.iPAddress, out, bytes);
}

void tls_names_of(const X509 *cert, char *out, size_t bytes)
{
    char one[ADDRESS_HOST_MAX];
    size_t at = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    (void)snprintf(out, bytes, "no name");
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && at < bytes; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (!name_text(name, one, sizeof one))
            continue;
        int n = snprintf(out + at, bytes - at, "%s%s:%s", at ? ", " : "",
                         name->type == GEN_DNS ? "DNS" : "IP", one);
        at += n > 0 ? (size_t)n : 0;
    }
    GENERAL_NAMES_free(names);
}

void tls_time_text(const ASN1_TIME *at, char *out, size_t bytes)
{
    BIO *b = BIO_new(BIO_s_mem());
    int n = b && ASN1_TIME_print(b, at) == 1 ? BIO_read(b, out, (int)bytes - 1) : 0;
    out[n > 0 ? n : 0] = 0;
    BIO_free(b);
}

void tls_host_copy(char *out, size_t bytes, const char *host)
{
    (void)snprintf(out, bytes, "%s", host);
    size_t n = strlen(out);
    if (n > 1 && out[n - 1] == '.')
        out[n - 1] = 0;
}

bool tls_names_host(X509 *cert, const char *with_dot)
{
    struct address address;
    char host[ADDRESS_HOST_MAX];
    tls_host_copy(host, sizeof host, with_dot);
    return address_numeric(host, 0, &address)
               ? X509_check_ip_asc(cert, host, 0) == 1
               : X509_check_host(cert, host, 0, CHECK_FLAGS, NULL) == 1;
}

/* ---- names allowed by --tls_names ---- */

/* A pattern is a name, an address, or "*." and a name; "*" matches exactly one label. */
static bool fits(const char *pattern, const char *name)
{
    const char *dot = strchr(name, '.');
    if (strcasecmp(pattern, name) == 0)
        return true;
    return strncmp(pattern, "*.", 2) == 0 && dot && dot > name && strcasecmp(pattern + 1, dot) == 0;
}

/* Does the certificate contain a name that matches the pattern? */
static bool allows(const char *pattern, const X509 *cert)
{
    char one[ADDRESS_HOST_MAX];
    bool found = false;
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        found = name_text(name, one, sizeof one) && fits(pattern, one);
    }
    GENERAL_NAMES_free(names);
    return found;
}

static enum err wrong_name(const char *what, size_t n, struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "--tls_names: '%.*s' is not allowed; allowed: worker=NAME or chief=NAME, "
                   "separated by commas; NAME as in the certificate, or *.REST",
                   (int)(n < 80 ? n : 80), what);
}

static enum err parse_one(struct tls *t, const char *one, size_t n, struct errmsg *e)
{
    bool chief = n > 6 && strncmp(one, "chief=", 6) == 0;
    bool worker = n > 7 && strncmp(one, "worker=", 7) == 0;
    size_t skip = chief ? 6 : 7;
    if ((!chief && !worker) || n - skip >= ADDRESS_HOST_MAX)
        return wrong_name(one, n, e);
    if (t->n_allowed == TLS_ALLOWED_MAX)
        return err_set(e, ERR_INPUT, "--tls_names: more than %d names are given", TLS_ALLOWED_MAX);
    struct tls_allowed *a = &t->allowed[t->n_allowed++];
    a->chief = chief;
    memcpy(a->name, one + skip, n - skip);
    const char *star = strchr(a->name, '*');
    bool right = !star || (star == a->name && star[1] == '.' && star[2] && !strchr(star + 1, '*'));
    return right && !strchr(a->name, '=') ? ERR_OK : wrong_name(one, n, e);
}

enum err tls_allowed_parse(struct tls *t, const char *names, struct errmsg *e)
{
    enum err err = ERR_OK;
    while (*names && !err) {
        size_t n = strcspn(names, ",");
        err = parse_one(t, names, n, e);
        names += n;
        if (*names && !err && !*++names)
            err = wrong_name(",", 1, e);
    }
    return err;
}

/* ---- roles ---- */

/* Returns the address that the cluster lists for worker `worker` (0: the chief); NULL if it lists none. */
static const char *address_of(const struct cluster *c, uint32_t worker)
{
    uint32_t i = worker - c->separate_chief;
    if (worker == 0)
        return c->chief;
    return c->sparse || i >= c->n_workers ? NULL : c->workers[i];
}

static bool names_chief(const struct tls *t)
{
    for (size_t i = 0; i < t->n_allowed; i++)
        if (t->allowed[i].chief)
            return true;
    return false;
}

/* Names for workers are valid for the chief, too, unless it is a separate process or has names of its own. */
static bool role_allows(const struct tls *t, const struct tls_allowed *a, const struct cluster *c,
                        uint32_t worker)
{
    return a->chief ? worker == 0 : worker > 0 || (!c->separate_chief && !names_chief(t));
}

static bool is_allowed(const struct tls *t, const struct cluster *c, uint32_t worker,
                       const X509 *cert)
{
    for (size_t i = 0; i < t->n_allowed; i++)
        if (role_allows(t, &t->allowed[i], c, worker) && allows(t->allowed[i].name, cert))
            return true;
    return false;
}

/* Writes the expected names, as "host-3 or *.ns.svc". */
static void expected(const struct tls *t, const struct cluster *c, uint32_t worker,
                     const char *host, char *out, size_t bytes)
{
    int at = snprintf(out, bytes, "%.100s", host);
    for (size_t i = 0; i < t->n_allowed; i++)
        if (role_allows(t, &t->allowed[i], c, worker) && at >= 0 && (size_t)at < bytes)
            at += snprintf(out + at, bytes - (size_t)at, "%s%.100s", at ? " or " : "",
                           t->allowed[i].name);
    if (at == 0)
        (void)snprintf(out, bytes, "a name in --tls_names (the cluster does not list it)");
}

bool tls_link_may_be(const struct tls_link *l, const struct tls *t, const struct cluster *c,
                     uint32_t worker, char *why, size_t bytes)
{
    char host[ADDRESS_HOST_MAX] = "", names[TLS_NAMES_BYTES] = "no name", want[250];
    char name[WORKER_NAME_BYTES];
    uint16_t port;
    X509 *cert = SSL_get0_peer_certificate(l->ssl);
    const char *address = address_of(c, worker);
    if (address && address_split(address, true, host, &port, NULL))
        host[0] = 0;
    bool ok = cert && ((*host && tls_names_host(cert, host)) || is_allowed(t, c, worker, cert));
    ERR_clear_error();
    if (ok)
        return true;
    if (cert)
        tls_names_of(cert, names, sizeof names);
    expected(t, c, worker, host, want, sizeof want);
    (void)snprintf(why, bytes, "it claims to be %s, but its certificate names %s; expected: %s",
                   worker == 0 ? "the chief" : worker_name(name, worker, c->separate_chief), names,
                   want);
    return false;
}

enum err tls_check_cluster(const struct tls *t, const struct cluster *c, struct errmsg *e)
{
    bool accepts = c->role == ROLE_PS || c->is_chief;
    if (!t || c->alone || !accepts || (!c->sparse && c->n_workers > 0))
        return ERR_OK;
    for (size_t i = 0; i < t->n_allowed; i++)
        if (!t->allowed[i].chief)
            return ERR_OK;
    if (!c->sparse && c->chief)
        return ERR_OK; /* only the chief connects */
    return err_set(
        e, ERR_INPUT,
        "with TLS %s must know its workers' names, and the cluster does not list them: give "
        "--tls_names=worker=NAME, as in their certificates (the * of *.REST matches one label)",
        c->role == ROLE_PS ? "a ps" : "the chief");
}
