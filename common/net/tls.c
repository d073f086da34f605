/* The identity of this process: its certificate, its key and its CA, from three files. */
#include "common/net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/net/tls_state.h"
#include "common/process/metrics.h"
#include "common/wire/msg.h"

/* The names in a certificate (subjectAltName only, RFC 6125), and the names that a peer must have. */

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

/* Returns whether the certificate contains this host: a name, also with a final dot, or an address. */
static bool tls_names_host(X509 *cert, const char *with_dot)
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

/* Adds the names of --tls_names to t->allowed. */
static enum err tls_allowed_parse(struct tls *t, const char *names, struct errmsg *e)
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

/* Reports about TLS: the log, /metrics, /status. */

static struct {
    atomic_uint_fast64_t refused[TLS_REFUSALS], up, in_kernel;
    _Atomic int64_t said_ms[TLS_REFUSALS]; /* 0: never */
    atomic_uint_fast64_t untold[TLS_REFUSALS];
    atomic_bool said_kernel;
} told;

static const char *const word[TLS_REFUSALS] = {"plain", "certificate", "name", "handshake"};

/* Unauthenticated peers can connect without end; the log reports each kind only every TLS_SAY_MS. */
void tls_refused(enum tls_refusal kind, const char *peer, const char *why)
{
    int64_t now_ms = clock_now_ms(), said_ms = atomic_load(&told.said_ms[kind]);
    atomic_fetch_add(&told.refused[kind], 1);
    uint64_t untold = atomic_fetch_add(&told.untold[kind], 1) + 1;
    if (said_ms && now_ms - said_ms < TLS_SAY_MS)
        return;
    atomic_store(&told.said_ms[kind], now_ms ? now_ms : 1);
    atomic_store(&told.untold[kind], 0);
    const char *what = kind == TLS_HANDSHAKE ? ": no TLS connection" : " is refused";
    if (untold > 1)
        log_warn("%s%s: %s (and %llu more since the last such line)", peer, what, why,
                 (unsigned long long)untold - 1);
    else
        log_warn("%s%s: %s", peer, what, why);
}

uint64_t tls_refusals(enum tls_refusal kind)
{
    return atomic_load(&told.refused[kind]);
}

void tls_count_up(const struct tls_link *l)
{
    bool in_kernel = tls_link_in_kernel(l);
    atomic_fetch_add(&told.up, 1);
    if (in_kernel)
        atomic_fetch_add(&told.in_kernel, 1);
    if (!atomic_exchange(&told.said_kernel, true))
        log_info("TLS: %s", in_kernel ? "the kernel encrypts outgoing data"
                                      : "this process encrypts; the kernel has no TLS");
}

void tls_metrics(struct metrics *m)
{
    struct tls *t = tls_own();
    if (!t)
        return;
    metrics_counter(m, "gradwire_tls_connections_total",
                    "Connections with a completed TLS handshake.", atomic_load(&told.up));
    metrics_counter(m, "gradwire_tls_kernel_connections_total",
                    "Connections of them for which the kernel encrypts outgoing data.",
                    atomic_load(&told.in_kernel));
    metrics_family(m, "gradwire_tls_refused_total", METRICS_COUNTER,
                   "Connecting peers that were refused, by reason.");
    for (int i = 0; i < TLS_REFUSALS; i++)
        metrics_put_count(m, tls_refusals((enum tls_refusal)i), "reason", word[i], NULL);
    (void)pthread_mutex_lock(&t->lock);
    int64_t expires_s = t->expires_s;
    uint64_t reloads = t->reloads;
    (void)pthread_mutex_unlock(&t->lock);
    metrics_counter(m, "gradwire_tls_reloads_total", "Reloads of changed certificate files.",
                    reloads);
    metrics_gauge(m, "gradwire_tls_certificate_expires_timestamp_seconds",
                  "When this process's certificate expires, in seconds since the epoch.",
                  (double)expires_s);
}

json_t *tls_json(void)
{
    struct tls *t = tls_own();
    if (!t)
        return json_null();
    json_t *refused = json_object();
    for (int i = 0; i < TLS_REFUSALS; i++)
        (void)json_object_set_new(refused, word[i],
                                  json_integer((json_int_t)tls_refusals((enum tls_refusal)i)));
    (void)pthread_mutex_lock(&t->lock);
    json_t *all =
        json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "certificate",
                  json_text(t->file[TLS_CERT]), "names", json_text(t->names), "expires_s",
                  (json_int_t)t->expires_s, "reloads", (json_int_t)t->reloads, "connections",
                  (json_int_t)told.up, "in_kernel", (json_int_t)told.in_kernel, "refused", refused);
    (void)pthread_mutex_unlock(&t->lock);
    return all;
}

static struct tls *own;

static const char *tls_flag(int file)
{
    static const char *const flags[] = {"--tls_cert", "--tls_key", "--tls_ca"};
    return flags[file];
}

/* ---- one set of files ---- */

static const char *last_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "unknown reason";
}

static enum err wrong_file(const struct tls *t, int file, struct errmsg *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static enum err wrong_file(const struct tls *t, int file, struct errmsg *e, const char *fmt, ...)
{
    char what[TLS_NAMES_BYTES + ADDRESS_HOST_MAX + 64];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(what, sizeof what, fmt, args);
    va_end(args);
    return err_set(e, ERR_INPUT, "%s=%.200s: %s", tls_flag(file), t->file[file], what);
}

static int no_passphrase(char *out, int bytes, int writing, void *arg)
{
    (void)out, (void)bytes, (void)writing, (void)arg;
    return 0;
}

static enum err stamp_files(const struct tls *t, struct stat stamp[TLS_FILES], struct errmsg *e)
{
    for (int i = 0; i < TLS_FILES; i++) {
        if (stat(t->file[i], &stamp[i]) != 0)
            return wrong_file(t, i, e, "%s", strerror(errno));
        if (S_ISDIR(stamp[i].st_mode))
            return wrong_file(t, i, e, "%s", strerror(EISDIR));
        int fd = open(t->file[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return wrong_file(t, i, e, "%s", strerror(errno));
        (void)close(fd);
    }
    return ERR_OK;
}

/* A change of the mode alone does not count. */
static bool same_stamp(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum err use_certificate(const struct tls *t, SSL_CTX *ctx, struct errmsg *e)
{
    char at[40];
    if (SSL_CTX_use_certificate_chain_file(ctx, t->file[TLS_CERT]) != 1)
        return wrong_file(t, TLS_CERT, e,
                          "it contains no certificate (%s); give a PEM file, as openssl writes it",
                          last_reason());
    const X509 *cert = SSL_CTX_get0_certificate(ctx);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        tls_time_text(X509_get0_notAfter(cert), at, sizeof at);
        return wrong_file(t, TLS_CERT, e, "it expired on %s; give a valid one", at);
    }
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0) {
        tls_time_text(X509_get0_notBefore(cert), at, sizeof at);
        return wrong_file(t, TLS_CERT, e, "it is not valid before %s; check the clock of this host",
                          at);
    }
    return ERR_OK;
}

static enum err use_key(const struct tls *t, SSL_CTX *ctx, struct errmsg *e)
{
    FILE *in = fopen(t->file[TLS_KEY], "re");
    if (!in)
        return wrong_file(t, TLS_KEY, e, "%s", strerror(errno));
    EVP_PKEY *key = PEM_read_PrivateKey(in, NULL, no_passphrase, NULL);
    (void)fclose(in);
    if (!key)
        return wrong_file(t, TLS_KEY, e,
                          "it contains no private key; give a PEM file without a passphrase");
    bool fits = SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(key);
    return fits ? ERR_OK
                : wrong_file(t, TLS_KEY, e, "it is not the key of the certificate in %.200s",
                             t->file[TLS_CERT]);
}

static enum err use_ca(const struct tls *t, SSL_CTX *ctx, struct errmsg *e)
{
    if (SSL_CTX_load_verify_file(ctx, t->file[TLS_CA]) == 1)
        return ERR_OK;
    return wrong_file(t, TLS_CA, e,
                      "it contains no CA certificate; give a PEM file, as openssl writes it");
}

static bool set_rules(SSL_CTX *ctx)
{
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(ctx, SSL_OP_ENABLE_KTLS | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    /* one read per record; a larger buffer would not fit the CPU's cache */
    SSL_CTX_set_read_ahead(ctx, 1);
    /* Every connection authenticates from scratch: no session tickets, no early data. The cheapest cipher comes
     * first: AES-128 has fewer rounds than AES-256, and CPUs have instructions for both. */
    return SSL_CTX_set_num_tickets(ctx, 0) == 1 && SSL_CTX_set_max_early_data(ctx, 0) == 1 &&
           SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                         "TLS_CHACHA20_POLY1305_SHA256") == 1;
}

static enum err make_ctx(const struct tls *t, SSL_CTX **out, struct errmsg *e)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    if (!ctx || !set_rules(ctx)) {
        SSL_CTX_free(ctx);
        return err_set(e, ERR_NOMEM, "TLS cannot be set up: %s", last_reason());
    }
    enum err err = use_certificate(t, ctx, e);
    if (!err)
        err = use_key(t, ctx, e);
    if (!err)
        err = use_ca(t, ctx, e);
    ERR_clear_error();
    if (err)
        SSL_CTX_free(ctx);
    else
        *out = ctx;
    return err;
}

static int64_t seconds_of(const ASN1_TIME *at)
{
    struct tm tm;
    return ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* Call it with the lock held, or before *t is shared. */
static enum err take_files(struct tls *t, struct errmsg *e)
{
    struct stat stamp[TLS_FILES];
    SSL_CTX *ctx = NULL;
    /* before reading: a later change is then seen by the next check */
    enum err err = stamp_files(t, stamp, e);
    if (!err)
        err = make_ctx(t, &ctx, e);
    if (err)
        return err;
    SSL_CTX_free(t->ctx); /* existing connections keep a reference */
    t->ctx = ctx;
    memcpy(t->stamp, stamp, sizeof stamp);
    const X509 *cert = SSL_CTX_get0_certificate(ctx);
    tls_names_of(cert, t->names, sizeof t->names);
    t->expires_s = seconds_of(X509_get0_notAfter(cert));
    return ERR_OK;
}

/* Called only by a process that uses the files. The launcher only checks them, and the processes that it starts
 * will warn. */
static void warn_readable(const struct tls *t)
{
    if (t->stamp[TLS_KEY].st_mode & S_IROTH)
        log_warn("%s=%s: every user of this host can read the key; set its mode to 0600 or 0440",
                 tls_flag(TLS_KEY), t->file[TLS_KEY]);
}

/* ---- one identity ---- */

enum err tls_new(struct tls **out, const struct tls_files *f, struct errmsg *e)
{
    struct tls *t = mem_zalloc(1, sizeof *t);
    if (!t)
        return err_memory_for(e, "TLS");
    (void)pthread_mutex_init(&t->lock, NULL);
    const char *const file[TLS_FILES] = {f->cert, f->key, f->ca};
    enum err err = ERR_OK;
    for (int i = 0; i < TLS_FILES && !err; i++) {
        t->file[i] = mem_strdup(file[i]);
        if (!t->file[i])
            err = err_memory_for(e, "TLS");
    }
    if (!err)
        err = tls_allowed_parse(t, f->names, e);
    if (!err)
        err = take_files(t, e);
    t->looked_ms = clock_now_ms();
    if (err)
        tls_free(t);
    else
        *out = t;
    return err;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->ctx);
    for (int i = 0; i < TLS_FILES; i++)
        mem_free(t->file[i]);
    (void)pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

/* Has one of the files changed? A missing file counts as changed, for example while kubelet swaps them. */
static bool changed(const struct tls *t)
{
    for (int i = 0; i < TLS_FILES; i++) {
        struct stat now;
        if (stat(t->file[i], &now) != 0 || !same_stamp(&now, &t->stamp[i]))
            return true;
    }
    return false;
}

static void say_kept_out(struct tls *t, const struct errmsg *e)
{
    if (strncmp(t->said, e->text, sizeof t->said - 1) == 0)
        return;
    (void)snprintf(t->said, sizeof t->said, "%.*s", (int)sizeof t->said - 1, e->text);
    log_warn("TLS keeps the previous certificate and will check the files again: %s", e->text);
}

bool tls_look(struct tls *t, int64_t now_ms)
{
    struct errmsg e = {""};
    bool taken = false;
    (void)pthread_mutex_lock(&t->lock);
    if (now_ms - t->looked_ms >= TLS_LOOK_MS) {
        t->looked_ms = now_ms;
        if (changed(t)) {
            taken = take_files(t, &e) == ERR_OK;
            if (!taken)
                say_kept_out(t, &e);
        }
    }
    if (taken) {
        warn_readable(t);
        t->reloads++;
        t->said[0] = 0;
        log_info("TLS: new connections use the new certificate in %s (%s)", t->file[TLS_CERT],
                 t->names);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return taken;
}

/* ---- this process's identity ---- */

static enum err check_given(const struct tls_files *f, struct errmsg *e)
{
    const char *const file[TLS_FILES] = {f->cert, f->key, f->ca};
    int given = -1, missing = -1;
    for (int i = 0; i < TLS_FILES; i++)
        *(*file[i] ? &given : &missing) = i;
    if (given >= 0 && missing >= 0)
        return err_set(e, ERR_INPUT,
                       "%s is given, but %s is not; TLS needs all three: --tls_cert=FILE "
                       "--tls_key=FILE --tls_ca=FILE",
                       tls_flag(given), tls_flag(missing));
    if (given < 0 && *f->names)
        return err_set(
            e, ERR_INPUT,
            "--tls_names has no effect without --tls_cert=FILE --tls_key=FILE --tls_ca=FILE");
    return ERR_OK;
}

enum err tls_load(const struct tls_files *f, struct errmsg *e)
{
    struct tls *t = NULL;
    tls_forget();
    enum err err = check_given(f, e);
    if (!err && *f->cert)
        err = tls_new(&t, f, e);
    if (t)
        warn_readable(t);
    if (!err)
        own = t;
    return err;
}

static enum err check_named(const struct tls *t, const char *address, struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX];
    uint16_t port;
    enum err err = address_split(address, true, host, &port, e);
    if (err || tls_names_host(SSL_CTX_get0_certificate(t->ctx), host))
        return err;
    return wrong_file(t, TLS_CERT, e, "it names %s; expected: %s, the host that others connect to",
                      t->names, host);
}

/* Would a process with the same CA accept this certificate? Its use as a server's is checked only if others
 * connect to this process. */
static int verify_own(const struct tls *t, const char *purpose)
{
    STACK_OF(X509) *between = NULL;
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    int error = X509_V_ERR_OUT_OF_MEM;
    (void)SSL_CTX_get0_chain_certs(t->ctx, &between);
    if (check &&
        X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(t->ctx), SSL_CTX_get0_certificate(t->ctx),
                            between) == 1 &&
        X509_STORE_CTX_set_default(check, purpose) == 1)
        error = X509_verify_cert(check) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(check);
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return error;
}

static enum err check_own_ca(const struct tls *t, bool dialed, struct errmsg *e)
{
    int error = verify_own(t, "ssl_client");
    if (error == X509_V_OK && dialed)
        error = verify_own(t, "ssl_server");
    if (error == X509_V_OK)
        return ERR_OK;
    if (error == X509_V_ERR_INVALID_PURPOSE)
        return wrong_file(t, TLS_CERT, e,
                          "it is not valid for both sides of a connection; create it without "
                          "extended key usage, or with server auth and client auth");
    return wrong_file(t, TLS_CERT, e,
                      "the CA of --tls_ca=%.200s does not verify it: %s; give a certificate that "
                      "this CA has signed, or the CA that has signed this one",
                      t->file[TLS_CA], X509_verify_cert_error_string(error));
}

enum err tls_try(const struct tls_files *f, const char *address, struct errmsg *e)
{
    struct tls *t = NULL;
    enum err err = check_given(f, e);
    if (!err && *f->cert)
        err = tls_new(&t, f, e);
    if (t && address)
        err = check_named(t, address, e);
    if (t && !err)
        err = check_own_ca(t, address != NULL, e);
    tls_free(t);
    return err;
}

void tls_forget(void)
{
    tls_free(own);
    own = NULL;
}

struct tls *tls_own(void)
{
    return own;
}

void tls_own_set(struct tls *t)
{
    own = t;
}
