#include "worker/doctor/certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct papers {
    X509 *cert, *ca;
    EVP_PKEY *key;
};

static FILE *open_file(struct finding *f, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        finding_say(f, VERDICT_FAIL, "%s: %s", path, strerror(errno));
    return file;
}

static X509 *read_certificate(struct finding *f, const char *path)
{
    FILE *file = open_file(f, path);
    X509 *x = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    if (file && !x)
        finding_say(f, VERDICT_FAIL, "%s holds no certificate (PEM)", path);
    if (file)
        (void)fclose(file);
    return x;
}

/* Nobody is there who would type a password. */
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
        finding_say(f, VERDICT_FAIL, "%s holds no private key without a password (PEM)", path);
    if (file && fstat(fileno(file), &s) == 0 && (s.st_mode & S_IROTH)) {
        finding_say(f, VERDICT_WARN, "%s can be read by everybody here", path);
        finding_mend(f, VERDICT_WARN, "chmod 600, or defaultMode: 0440 of the Secret's volume");
    }
    if (file)
        (void)fclose(file);
    return key;
}

/* "2027-01-31", UTC */
static void day(const ASN1_TIME *t, char out[static 16])
{
    struct tm tm;
    if (!ASN1_TIME_to_tm(t, &tm) || strftime(out, 16, "%Y-%m-%d", &tm) == 0)
        memcpy(out, "?", 2);
}

static void check_time(struct finding *f, const char *path, const X509 *x, time_t now)
{
    char when[16];
    time_t soon = now + (time_t)CERTIFICATE_SOON_DAYS * 24 * 3600;
    if (X509_cmp_time(X509_get0_notAfter(x), &now) < 0) {
        day(X509_get0_notAfter(x), when);
        finding_say(f, VERDICT_FAIL, "%s has expired on %s", path, when);
        finding_mend(f, VERDICT_FAIL, "renew it");
    } else if (X509_cmp_time(X509_get0_notBefore(x), &now) > 0) {
        day(X509_get0_notBefore(x), when);
        finding_say(f, VERDICT_FAIL, "%s is not good before %s", path, when);
        finding_mend(f, VERDICT_FAIL, "look at this host's clock, or make it anew");
    } else if (X509_cmp_time(X509_get0_notAfter(x), &soon) < 0) {
        day(X509_get0_notAfter(x), when);
        finding_say(f, VERDICT_WARN, "%s expires on %s", path, when);
        finding_mend(f, VERDICT_WARN, "renew it; files that change are read again");
    }
}

static void check_pair(struct finding *f, const struct certificate_files *files,
                       const struct papers *p)
{
    if (p->cert && p->key && X509_check_private_key(p->cert, p->key) != 1) {
        finding_say(f, VERDICT_FAIL, "%s is not the key of %s", files->key, files->cert);
        finding_mend(f, VERDICT_FAIL, "give the two that were made together");
    }
    EVP_PKEY *signer = p->ca ? X509_get0_pubkey(p->ca) : NULL;
    if (p->cert && signer && X509_verify(p->cert, signer) != 1) {
        finding_say(f, VERDICT_FAIL, "%s is not signed by %s", files->cert, files->ca);
        finding_mend(f, VERDICT_FAIL, "all processes of a job want certificates of one authority");
    }
    ERR_clear_error();
}

static void say_good(struct finding *f, const struct certificate_files *files, const X509 *x)
{
    char name[128] = "", when[16];
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof name);
    day(X509_get0_notAfter(x), when);
    finding_say(f, VERDICT_OK, "%s, of %s, is good until %s", files->cert,
                name[0] ? name : "no common name", when);
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
    struct papers p = {.cert = read_certificate(f, files->cert),
                       .ca = read_certificate(f, files->ca),
                       .key = read_key(f, files->key)};
    if (p.cert)
        check_time(f, files->cert, p.cert, now);
    if (p.ca)
        check_time(f, files->ca, p.ca, now);
    check_pair(f, files, &p);
    if (p.cert)
        say_good(f, files, p.cert);
    X509_free(p.cert);
    X509_free(p.ca);
    EVP_PKEY_free(p.key);
}
