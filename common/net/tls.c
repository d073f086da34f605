/* The identity of this process: its certificate, its key and its CA, from three files. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/net/tls_state.h"

static struct tls *own;

/* Returns the flag's name, such as "--tls_cert". */
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

/* Never prompt for a passphrase. */
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
