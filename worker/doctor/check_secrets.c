/* Tokens and certificates. Their secret contents are never printed. */
#include "worker/doctor/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/net/openssl.h"
#include "common/peers/token.h"

struct papers {
    STACK_OF(X509) * cert; /* ours, followed by those between it and the authority */
    X509_STORE *ca;        /* all authorities: during a change there are two */
    EVP_PKEY *key;
};

static FILE *open_file(struct finding *f, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        finding_say(f, VERDICT_FAIL, "%s: %s", path, strerror(errno));
    return file;
}

/* All certificates of the file; NULL: none. */
static STACK_OF(X509) * read_certificates(struct finding *f, const char *path)
{
    STACK_OF(X509) *all = sk_X509_new_null();
    FILE *file = open_file(f, path);
    X509 *x = NULL;
    while (all && file && (x = PEM_read_X509(file, NULL, NULL, NULL)))
        if (sk_X509_push(all, x) <= 0)
            X509_free(x);
    ERR_clear_error();
    if (file)
        (void)fclose(file);
    if (sk_X509_num(all) > 0)
        return all;
    if (file)
        finding_say(f, VERDICT_FAIL, "%s has no certificate (PEM)", path);
    sk_X509_free(all);
    return NULL;
}

static X509_STORE *read_authorities(struct finding *f, const char *path)
{
    STACK_OF(X509) *all = read_certificates(f, path);
    X509_STORE *store = all ? X509_STORE_new() : NULL;
    for (int i = 0; store && i < sk_X509_num(all); i++)
        (void)X509_STORE_add_cert(store, sk_X509_value(all, i));
    sk_X509_pop_free(all, X509_free);
    return store;
}

/* There is no one who could type a password. */
static int no_password(char *out, int bytes, int writing, void *ctx)
{
    (void)out, (void)bytes, (void)writing, (void)ctx;
    return -1;
}

static EVP_PKEY *read_key(struct finding *f, const char *path)
{
    FILE *file = open_file(f, path);
    EVP_PKEY *key = file ? PEM_read_PrivateKey(file, NULL, no_password, NULL) : NULL;
    struct stat s;
    if (file && !key)
        finding_say(f, VERDICT_FAIL, "%s has no private key without a password (PEM)", path);
    if (file && fstat(fileno(file), &s) == 0 && (s.st_mode & S_IROTH)) {
        finding_say(f, VERDICT_WARN, "%s can be read by every user of this host", path);
        finding_mend(f, VERDICT_WARN, "chmod 600, or defaultMode: 0440 of the Secret's volume");
    }
    if (file)
        (void)fclose(file);
    return key;
}

/* "2027-01-31", UTC */
static const char *day(const ASN1_TIME *t, char out[static 16])
{
    struct tm tm;
    return ASN1_TIME_to_tm(t, &tm) && strftime(out, 16, "%Y-%m-%d", &tm) ? out : "?";
}

static void check_time(struct finding *f, const char *path, const X509 *x, time_t now)
{
    char when[16];
    const ASN1_TIME *from = X509_get0_notBefore(x), *until = X509_get0_notAfter(x);
    time_t soon = now + (time_t)CERTIFICATE_SOON_DAYS * 24 * 3600;
    if (X509_cmp_time(until, &now) < 0) {
        finding_say(f, VERDICT_FAIL, "%s has expired on %s", path, day(until, when));
        finding_mend(f, VERDICT_FAIL, "renew it");
    } else if (X509_cmp_time(from, &now) > 0) {
        finding_say(f, VERDICT_FAIL, "%s is not good before %s", path, day(from, when));
        finding_mend(f, VERDICT_FAIL, "check this host's clock, or make the certificate again");
    } else if (X509_cmp_time(until, &soon) < 0) {
        finding_say(f, VERDICT_WARN, "%s expires on %s", path, day(until, when));
        finding_mend(f, VERDICT_WARN, "renew it; a changed file is read again without a restart");
    }
}

static void say_unsigned(struct finding *f, const struct certificate_files *files, int error)
{
    if (error == X509_V_ERR_INVALID_PURPOSE) {
        finding_say(f, VERDICT_FAIL, "%s is not valid for both sides of a connection", files->cert);
        finding_mend(f, VERDICT_FAIL,
                     "make it without extended key usage, or with server auth and client auth");
        return;
    }
    finding_say(f, VERDICT_FAIL, "%s is not signed by %s (%s)", files->cert, files->ca,
                X509_verify_cert_error_string(error));
    finding_mend(f, VERDICT_FAIL, "all processes of a job need certificates of one authority");
}

/* Check the times of the certificates above ours: the last is the authority's, the others are in our file. */
static void check_times(struct finding *f, const struct certificate_files *files,
                        const STACK_OF(X509) * chain, time_t now)
{
    int last = sk_X509_num(chain) - 1;
    for (int i = 1; i <= last; i++)
        check_time(f, i == last ? files->ca : files->cert, sk_X509_value(chain, i), now);
}

/* Check the chain and its purposes, as the other side of a connection does; times are checked separately. now:
 * report the times of the certificates above ours; NULL: they are already reported. */
static bool check_chain(struct finding *f, const struct certificate_files *files,
                        const struct papers *p, const char *purpose, const time_t *now)
{
    X509_STORE_CTX *c = X509_STORE_CTX_new();
    bool ready = c && X509_STORE_CTX_init(c, p->ca, sk_X509_value(p->cert, 0), p->cert) == 1 &&
                 X509_STORE_CTX_set_default(c, purpose) == 1;
    if (ready)
        X509_STORE_CTX_set_flags(c, X509_V_FLAG_NO_CHECK_TIME);
    bool good = ready && X509_verify_cert(c) == 1;
    if (good && now)
        check_times(f, files, X509_STORE_CTX_get0_chain(c), *now);
    if (!good)
        say_unsigned(f, files, ready ? X509_STORE_CTX_get_error(c) : X509_V_ERR_OUT_OF_MEM);
    X509_STORE_CTX_free(c);
    ERR_clear_error();
    return good;
}

void certificate_check(struct finding *f, const struct certificate_files *files, time_t now)
{
    if (!files->cert && !files->key && !files->ca) {
        finding_say(f, VERDICT_OK, "none are given");
        return;
    }
    if (!files->cert || !files->key || !files->ca) {
        finding_say(f, VERDICT_FAIL, "%s is missing",
                    !files->cert  ? "the certificate"
                    : !files->key ? "its key"
                                  : "the authority's certificate");
        finding_mend(f, VERDICT_FAIL, "certificate, key and authority go together");
        return;
    }
    struct papers p = {.cert = read_certificates(f, files->cert),
                       .ca = read_authorities(f, files->ca),
                       .key = read_key(f, files->key)};
    if (p.cert)
        check_time(f, files->cert, sk_X509_value(p.cert, 0), now);
    if (p.cert && p.key && X509_check_private_key(sk_X509_value(p.cert, 0), p.key) != 1) {
        finding_say(f, VERDICT_FAIL, "%s is not the key of %s", files->key, files->cert);
        finding_mend(f, VERDICT_FAIL, "use the two that belong together");
    }
    ERR_clear_error();
    if (p.cert && p.ca && check_chain(f, files, &p, "ssl_server", &now))
        (void)check_chain(f, files, &p, "ssl_client", NULL);
    if (p.cert) {
        const X509 *own = sk_X509_value(p.cert, 0);
        char name[128] = "", when[16];
        (void)X509_NAME_get_text_by_NID(X509_get_subject_name(own), NID_commonName, name,
                                        sizeof name);
        finding_say(f, VERDICT_OK, "%s, of %s, is good until %s", files->cert,
                    name[0] ? name : "no common name", day(X509_get0_notAfter(own), when));
    }
    sk_X509_pop_free(p.cert, X509_free);
    X509_STORE_free(p.ca);
    EVP_PKEY_free(p.key);
}

/* "127.0.0.1:1", "localhost:1", "[::1]:1" */
static bool on_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncasecmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

static bool all_on_loopback(const struct cluster *c)
{
    for (uint32_t i = 0; i < c->n_ps; i++)
        if (!on_loopback(c->ps[i]))
            return false;
    return !c->chief || on_loopback(c->chief);
}

static void check_mode(const char *file, struct finding *f)
{
    struct stat s;
    if (stat(file, &s) != 0 || !(s.st_mode & (S_IROTH | S_IWOTH)))
        return;
    finding_say(f, VERDICT_WARN, "--token_file=%s: every user of this host can %s it", file,
                s.st_mode & S_IWOTH ? "write" : "read");
    finding_mend(f, VERDICT_WARN, "chmod 600, or defaultMode: 0440 of the Secret's volume");
}

void check_token(struct check *p, struct finding *f)
{
    const struct flags *flags = p->flags;
    struct errmsg e = {""};
    if (finding_error(f, token_load(flags->token_fd, flags->token_file, &e), &e))
        return;
    if (token_held()) {
        check_mode(flags->token_file, f);
        finding_say(f, VERDICT_OK, "%s", flags->token_file[0] ? flags->token_file : "given");
        return;
    }
    if (p->has_cluster && p->cluster.alone && !flags->tls.cert[0])
        return; /* a job on one host needs none */
    bool one_host = p->has_cluster && all_on_loopback(&p->cluster);
    if (flags->tls.cert[0] || one_host) {
        finding_say(f, VERDICT_OK, "none, and none is needed %s",
                    flags->tls.cert[0] ? "with TLS" : "on one host");
        return;
    }
    finding_say(f, VERDICT_WARN, "none: any process that reaches a port can talk to the job");
    finding_mend(
        f, VERDICT_WARN,
        "--token_file=FILE, in Kubernetes the Secret gradwire-token (docs/guides/kubernetes.md)");
}

/* A process that others connect to must have the name that they expect; so must a worker, unless its ps have other
 * names configured. */
static void check_name(const struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    bool dialed = c->role == ROLE_PS || c->is_chief;
    enum verdict v = dialed ? VERDICT_FAIL : VERDICT_WARN;
    struct errmsg e;
    if (!p->has_cluster || c->alone || !c->self || c->role == ROLE_EVALUATOR ||
        (!dialed && p->flags->tls.names[0]) || !tls_try(&p->flags->tls, c->self, &e))
        return;
    finding_say(f, v, "%s", e.text);
    finding_mend(f, v,
                 dialed ? "a certificate with that subjectAltName"
                        : "a certificate with that subjectAltName, or --tls_names=worker=NAME for "
                          "all processes");
}

void check_certificates(struct check *p, struct finding *f)
{
    char *copy = mem_strdup(p->flags->certificates), *rest = copy;
    struct certificate_files files = {0};
    const char **at[] = {&files.cert, &files.key, &files.ca};
    for (size_t i = 0; i < 3 && rest && *rest; i++)
        *at[i] = strsep(&rest, ",");
    const struct tls_files *own = &p->flags->tls;
    struct errmsg e = {""};
    if (!finding_error(f, tls_load(own, &e), &e)) { /* used for connections to peers */
        bool ours = tls_own() && !files.cert;
        if (ours)
            files = (struct certificate_files){own->cert, own->key, own->ca};
        bool alone = p->has_cluster && p->cluster.alone; /* a lone worker needs none */
        if (!alone || files.cert || files.key || files.ca)
            certificate_check(f, &files, time(NULL));
        if (ours)
            check_name(p, f);
    }
    if (f->verdict != VERDICT_FAIL) /* token and certificate are loaded by now */
        (void)finding_error(f, auth_check(p->flags->auth, &e), &e);
    mem_free(copy);
}
