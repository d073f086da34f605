#include "tests/lib/certs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static long next_serial = 1;

static void set_name(X509_NAME *name, const char *text)
{
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)text, -1, -1, 0),
                     1);
}

static void add_extension(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *new_cert(EVP_PKEY *key, const char *name, long from_s, long until_s)
{
    X509 *cert = X509_new();
    assert_non_null(cert);
    assert_int_equal(X509_set_version(cert, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(cert), next_serial++), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), from_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), until_s));
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    set_name(X509_get_subject_name(cert), name);
    return cert;
}

void certs_ca_init(struct certs_ca *ca, const char *name)
{
    ca->key = EVP_EC_gen("P-256");
    assert_non_null(ca->key);
    ca->cert = new_cert(ca->key, name, -3600, 3600);
    assert_int_equal(X509_set_issuer_name(ca->cert, X509_get_subject_name(ca->cert)), 1);
    add_extension(ca->cert, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(ca->cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    assert_true(X509_sign(ca->cert, ca->key, EVP_sha256()) > 0);
}

void certs_ca_close(struct certs_ca *ca)
{
    EVP_PKEY_free(ca->key);
    X509_free(ca->cert);
}

static FILE *open_out(const char *path)
{
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    return out;
}

static void write_cert(X509 *cert, const char *path)
{
    FILE *out = open_out(path);
    assert_int_equal(PEM_write_X509(out, cert), 1);
    assert_int_equal(fclose(out), 0);
}

void certs_ca_write(const struct certs_ca *ca, const char *path)
{
    write_cert(ca->cert, path);
}

void certs_write(const struct certs_ca *ca, const char *names, long from_s, long until_s,
                 const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    X509 *cert = new_cert(key, "a process", from_s, until_s);
    assert_int_equal(X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)), 1);
    add_extension(cert, NID_basic_constraints, "critical,CA:FALSE");
    if (*names)
        add_extension(cert, NID_subject_alt_name, names);
    assert_true(X509_sign(cert, ca->key, EVP_sha256()) > 0);
    write_cert(cert, cert_path);
    FILE *out = open_out(key_path);
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(key_path, 0600), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}
