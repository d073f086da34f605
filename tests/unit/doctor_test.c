#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* OpenSSL has a type of that name */
#define ERR_STATE OPENSSL_ERR_STATE
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#undef ERR_STATE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/net/listen.h"
#include "common/base/mem.h"
#include "common/net/reach.h"
#include "common/base/clock.h"
#include "common/net/socket.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "tests/lib/peer.h"
#include "worker/doctor/check.h"
#include "worker/doctor/estimate.h"

/* ---- one line for a check ---- */

static void the_worst_that_was_said_is_the_verdict_and_stands_alone(void **state)
{
    (void)state;
    struct finding f = {.name = "names"};
    char line[256];
    finding_say(&f, VERDICT_OK, "ps 0 resolves");
    finding_say(&f, VERDICT_FAIL, "ps 1 is no address");
    finding_mend(&f, VERDICT_FAIL, "mend %d", 1);
    finding_say(&f, VERDICT_WARN, "ps 2 not yet");
    finding_mend(&f, VERDICT_WARN, "wait");
    finding_say(&f, VERDICT_FAIL, "nor is ps 3");
    finding_line(&f, line, sizeof line);
    assert_string_equal(line, "FAIL names: ps 1 is no address, nor is ps 3; mend 1");
    json_t *json = finding_json(&f);
    assert_string_equal(json_string_value(json_object_get(json, "check")), "names");
    assert_string_equal(json_string_value(json_object_get(json, "verdict")), "fail");
    assert_string_equal(json_string_value(json_object_get(json, "found")),
                        "ps 1 is no address, nor is ps 3");
    assert_string_equal(json_string_value(json_object_get(json, "mend")), "mend 1");
    json_decref(json);
}

static void what_is_too_much_for_a_line_is_counted(void **state)
{
    (void)state;
    struct finding f = {.name = "peers"};
    char line[512];
    for (int i = 0; i < FINDING_SAID_MAX + 3; i++)
        finding_say(&f, VERDICT_WARN, "%d", i);
    finding_line(&f, line, sizeof line);
    assert_string_equal(line, "warn peers: 0, 1, 2, 3, 4, 5, and 3 more");
}

/* ---- estimates ---- */

static void a_ps_needs_blocks_slots_and_a_copy_for_a_cut(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, ELEMS = MIB / 4 };
    struct job job = {.optimizer = {.kind = OPT_ADAM}, .training = {.update = UPDATE_SYNC}};
    /* two blocks, two slots, a copy of three, a block of gradients for each of four */
    assert_int_equal(estimate_ps_bytes(&job, ELEMS, 4), ESTIMATE_BASE_BYTES + 11 * MIB);
    job.training.update = UPDATE_ASYNC;
    assert_int_equal(estimate_ps_bytes(&job, ELEMS, 4), ESTIMATE_BASE_BYTES + 6 * MIB);
    job.optimizer.kind = OPT_SGD;
    assert_int_equal(estimate_ps_bytes(&job, ELEMS, 4), ESTIMATE_BASE_BYTES + 2 * MIB);
    assert_int_equal(estimate_cut_bytes(&job, ELEMS), MIB);
}

static void a_worker_needs_its_data_and_for_each_thread_a_gradient_and_activations(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, ELEMS = MIB / 4 };
    struct job job = {.training = {.microbatches = 4}};
    /* the weights, a block for each of 2 threads, 3 levels */
    assert_int_equal(estimate_worker_bytes(&job, ELEMS, 2, 5 * MIB, 100 * MIB),
                     ESTIMATE_BASE_BYTES + 6 * MIB + 10 * MIB + 100 * MIB);
}

static void a_share_is_the_plans(void **state)
{
    (void)state;
    struct errmsg e = {""};
    uint64_t share = 0;
    assert_int_equal(estimate_share(64 * 1024, 4, &share, &e), ERR_OK);
    assert_int_equal(share, 16 * 1024);
    assert_int_equal(estimate_share(64 * 1024, 1, &share, &e), ERR_OK);
    assert_int_equal(share, 64 * 1024);
    assert_int_equal(estimate_share(64 * 1024, 3, &share, &e), ERR_OK); /* 64 chunks: 22, 21, 21 */
    assert_int_equal(share, 22 * 1024);
}

static void a_cut_takes_as_long_as_the_disk_lets_it(void **state)
{
    (void)state;
    assert_true(estimate_cut_s(400000000, 100e6) == 7.0); /* 1 + 4 + 2 */
    assert_true(estimate_cut_s(400000000, 0) == 11.0);    /* not measured: 50 MB/s */
}

/* ---- clocks ---- */

static void a_clock_is_off_when_the_time_on_the_way_does_not_explain_it(void **state)
{
    (void)state;
    char text[80];
    struct skew s = skew_of(1000, 1200, 7500);
    assert_int_equal(s.off_ms, 6400);
    assert_int_equal(s.unsure_ms, 100);
    assert_true(skew_is_large(&s));
    skew_text(&s, text, sizeof text);
    assert_string_equal(text, "6.4 s ahead of this host's");
    s = skew_of(100000, 100000, 94900);
    assert_true(skew_is_large(&s));
    skew_text(&s, text, sizeof text);
    assert_string_equal(text, "5.1 s behind this host's");
    s = skew_of(1000, 5000, 9500); /* 6.5 s, and 2 s of it may be the way */
    assert_false(skew_is_large(&s));
}

/* ---- reach, holder ---- */

static void each_address_is_reached_refused_or_nameless(void **state)
{
    (void)state;
    int fd = -1, closed = peer_bind(); /* nobody else listens there */
    char open_at[32], closed_at[32], by_name[32], name[64];
    assert_int_equal(listen_bind(&fd, "127.0.0.1:0", 0, NULL), ERR_OK);
    (void)snprintf(open_at, sizeof open_at, "127.0.0.1:%u", socket_port(fd));
    (void)snprintf(closed_at, sizeof closed_at, "127.0.0.1:%u", socket_port(closed));
    (void)snprintf(by_name, sizeof by_name, "localhost:%u", socket_port(fd));
    pid_t holder = 0; /* the system's table is read in pieces while others open and close */
    for (int i = 0; i < 20 && holder != getpid(); i++)
        holder = holder_of_port(socket_port(fd), name, sizeof name);
    assert_int_equal(holder, getpid());
    struct reach r[] = {{.address = open_at},
                        {.address = closed_at},
                        {.address = "no-such-host.invalid:1"},
                        {.address = "127.0.0.1"},
                        {.address = by_name}};
    assert_int_equal(reach_all(r, 5, 2000), ERR_OK);
    assert_int_equal(r[0].is, REACH_OPEN);
    assert_string_equal(r[0].why, "");
    assert_int_equal(r[1].is, REACH_REFUSED);
    assert_string_equal(r[1].why, "Connection refused");
    assert_int_equal(r[2].is, REACH_NAMELESS);
    assert_int_equal(r[3].is, REACH_FAILED);
    assert_non_null(strstr(r[3].why, "has no port"));
    assert_int_equal(r[4].is, REACH_OPEN);       /* where ::1 is its first address, too */
    assert_int_equal(reach_names(r, 2), ERR_OK); /* a name is one, whether somebody listens */
    assert_int_equal(r[1].is, REACH_OPEN);
    assert_int_equal(holder_of_port(socket_port(closed), name, sizeof name), 0);
    close(fd);
    close(closed);
}

/* ---- certificates ---- */

static char folder[64];
enum { DAY = 24 * 3600 };
static const time_t now = 1800000000; /* 2027-01-15 */

static EVP_PKEY *key_new(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

/* Signed by `issuer`'s key; NULL: by its own. */
static X509 *certificate_new(const char *name, EVP_PKEY *key, const X509 *issuer, EVP_PKEY *signer,
                             long from_days, long to_days)
{
    X509 *x = X509_new();
    assert_non_null(x);
    assert_int_equal(X509_set_version(x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 1), 1);
    assert_non_null(ASN1_TIME_set(X509_getm_notBefore(x), now + from_days * DAY));
    assert_non_null(ASN1_TIME_set(X509_getm_notAfter(x), now + to_days * DAY));
    X509_NAME *subject = X509_get_subject_name(x);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(x, issuer ? X509_get_subject_name(issuer) : subject), 1);
    assert_int_equal(X509_set_pubkey(x, key), 1);
    assert_true(X509_sign(x, signer, EVP_sha256()) > 0);
    return x;
}

static void extend(X509 *x, EVP_PKEY *signer, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(x, extension, -1), 1);
    X509_EXTENSION_free(extension);
    assert_true(X509_sign(x, signer, EVP_sha256()) > 0);
}

static void may_sign(X509 *x, EVP_PKEY *key)
{
    extend(x, key, NID_basic_constraints, "critical,CA:TRUE");
}

static const char *path_of(char out[static 128], const char *name)
{
    (void)snprintf(out, 128, "%s/%s", folder, name);
    return out;
}

static void write_certificate(const char *name, X509 *x)
{
    char path[128];
    FILE *file = fopen(path_of(path, name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, x), 1);
    assert_int_equal(fclose(file), 0);
    X509_free(x);
}

/* As while an authority is changed. Frees neither. */
static void write_both(const char *name, X509 *a, X509 *b)
{
    char path[128];
    FILE *file = fopen(path_of(path, name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, a), 1);
    assert_int_equal(PEM_write_X509(file, b), 1);
    assert_int_equal(fclose(file), 0);
}

static void write_key(const char *name, EVP_PKEY *key)
{
    char path[128];
    FILE *file = fopen(path_of(path, name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

static int papers_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/doctor_test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    EVP_PKEY *ca = key_new(), *key = key_new(), *other = key_new();
    X509 *authority = certificate_new("our authority", ca, NULL, ca, -10, 1000);
    X509 *lapsed = certificate_new("an old authority", other, NULL, other, -100, -1);
    X509 *server = certificate_new("ps", key, authority, ca, -1, 100);
    may_sign(authority, ca);
    may_sign(lapsed, other);
    extend(server, ca, NID_ext_key_usage, "serverAuth");
    write_certificate("good.crt", certificate_new("ps", key, authority, ca, -1, 100));
    write_certificate("soon.crt", certificate_new("ps", key, authority, ca, -1, 3));
    write_certificate("old.crt", certificate_new("ps", key, authority, ca, -100, -1));
    write_certificate("early.crt", certificate_new("ps", key, authority, ca, 1, 100));
    write_certificate("strange.crt", certificate_new("ps", key, authority, other, -1, 100));
    write_certificate("server.crt", server);
    write_certificate("of-old.crt", certificate_new("ps", key, lapsed, other, -1, 100));
    write_both("both.crt", lapsed, authority);
    write_certificate("old-ca.crt", lapsed);
    write_certificate("ca.crt", authority);
    write_key("good.key", key);
    write_key("other.key", other);
    EVP_PKEY_free(ca);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    return 0;
}

static int papers_remove(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void look_at_all(const char *cert, const char *key, const char *ca, enum verdict verdict,
                        const char *said)
{
    char at[3][128];
    const struct certificate_files files = {path_of(at[0], cert), path_of(at[1], key),
                                            path_of(at[2], ca)};
    struct finding f = {.name = "certificates"};
    certificate_check(&f, &files, now);
    if (f.verdict != verdict || !strstr(f.text, said))
        fail_msg("%s, %s: verdict %d: %s", cert, key, f.verdict, f.text);
}

static void look_at(const char *cert, const char *key, enum verdict verdict, const char *said)
{
    look_at_all(cert, key, "ca.crt", verdict, said);
}

static void a_certificate_is_of_its_key_its_authority_and_its_time(void **state)
{
    (void)state;
    look_at("good.crt", "good.key", VERDICT_OK, "good.crt, of ps, is good until 2027-04-25");
    look_at("soon.crt", "good.key", VERDICT_WARN, "soon.crt expires on 2027-01-18");
    look_at("old.crt", "good.key", VERDICT_FAIL, "old.crt has expired on 2027-01-14");
    look_at("early.crt", "good.key", VERDICT_FAIL, "early.crt is not good before 2027-01-16");
    look_at("good.crt", "other.key", VERDICT_FAIL, "other.key is not the key of");
    look_at("strange.crt", "good.key", VERDICT_FAIL, "strange.crt is not signed by");
    look_at("nowhere.crt", "good.key", VERDICT_FAIL, "nowhere.crt: No such file");
    look_at("good.key", "good.key", VERDICT_FAIL, "good.key has no certificate");
    look_at("good.crt", "good.crt", VERDICT_FAIL, "good.crt has no private key");
}

static void of_several_authorities_only_its_own_has_to_be_of_this_time(void **state)
{
    (void)state;
    look_at_all("good.crt", "good.key", "both.crt", VERDICT_OK, "good.crt, of ps, is good until");
    look_at_all("of-old.crt", "good.key", "both.crt", VERDICT_FAIL, "both.crt has expired on");
    look_at_all("good.crt", "good.key", "old-ca.crt", VERDICT_FAIL, "good.crt is not signed by");
}

static void a_certificate_is_for_both_sides(void **state)
{
    (void)state;
    look_at("server.crt", "good.key", VERDICT_FAIL, "server.crt is not valid for both sides");
}

static void a_key_that_everybody_can_read_is_warned_of(void **state)
{
    (void)state;
    char path[128];
    assert_int_equal(chmod(path_of(path, "good.key"), 0644), 0);
    look_at("good.crt", "good.key", VERDICT_WARN, "good.key can be read by every user");
    assert_int_equal(chmod(path, 0600), 0);
}

static void files_of_certificates_go_together(void **state)
{
    (void)state;
    struct finding none = {.name = "certificates"}, half = {.name = "certificates"};
    certificate_check(&none, &(struct certificate_files){NULL, NULL, NULL}, now);
    assert_int_equal(none.verdict, VERDICT_OK);
    certificate_check(&half, &(struct certificate_files){"a", NULL, "c"}, now);
    assert_int_equal(half.verdict, VERDICT_FAIL);
    assert_string_equal(half.text, "its key is missing");
}

/* ---- checkpoints ---- */

static char *const dir = folder_dir;

static void write_cut(uint64_t cut)
{
    static float w[16];
    struct errmsg e = {""};
    uint32_t threads[] = {1};
    struct checkpoint_file file;
    struct checkpoint_shard s = {.generation = 1, .elems = 16, .w = w};
    assert_int_equal(checkpoint_write_shard((struct cut){folder_place(dir), cut}, &s, &file, &e),
                     ERR_OK);
    const struct manifest m = {.cut = cut,
                               .generation = 1,
                               .uuid = "u",
                               .total_elems = 16,
                               .identity_text = (char *)"",
                               .files = 1,
                               .file = &file,
                               .ps = 1,
                               .ps_threads = threads};
    assert_int_equal(checkpoint_publish(folder_place(dir), &m, &e), ERR_OK);
}

/* The line that a doctor of the chief, or of a ps, says about the directory. */
static const char *says_of_cuts(bool is_chief)
{
    static char line[2048];
    struct finding f = {.name = "checkpoint"};
    struct check *p = mem_zalloc(1, sizeof *p);
    p->has_job = p->has_cluster = true;
    p->cluster.is_chief = is_chief;
    p->cluster.role = is_chief ? ROLE_WORKER : ROLE_PS;
    p->job.identity_text = (char *)"";
    place_folder(&p->checkpoints, NULL, dir);
    (void)snprintf(p->output, sizeof p->output, "%s", dir);
    check_checkpoint(p, &f);
    finding_line(&f, line, sizeof line);
    mem_free(p);
    return line;
}

static void damage(uint64_t cut)
{
    char path[FILES_PATH_MAX];
    assert_int_equal(folder_cut_path(path, dir, cut, "shard-0.gw"), ERR_OK);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, CHECKPOINT_MAGIC_BYTES + 3, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void a_doctor_finds_the_checkpoint_from_which_the_chief_would_resume(void **state)
{
    (void)state;
    write_cut(1);
    write_cut(2);
    assert_non_null(strstr(says_of_cuts(true), "checkpoint: resumes from checkpoint 2, step 0"));
    damage(2);
    assert_non_null(strstr(says_of_cuts(true),
                           "warn checkpoint: checkpoint 2 cannot be used, the one before it will "
                           "be: "));
    assert_non_null(strstr(says_of_cuts(true), "/cut-0000000002/shard-0.gw: corrupt: the checksum "
                                               "of frame 0 differs"));
    damage(1);
    assert_non_null(strstr(says_of_cuts(true), "FAIL checkpoint: checkpoint 1 cannot be used: "));
}

static void
a_doctor_without_memory_or_descriptors_does_not_say_that_a_checkpoint_is_damaged(void **state)
{
    (void)state;
    static const struct {
        int error;
        const char *says;
    } of[] = {
        {EIO, "warn checkpoint: checkpoint 2 cannot be used, the one before it will be: "},
        {ENOMEM, "FAIL checkpoint: checkpoint 2 is not read: "},
        {EMFILE, "FAIL checkpoint: checkpoint 2 is not read: "},
    };
    write_cut(1);
    write_cut(2);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        for (int chief = 0; chief < 2; chief++) {
            long n = 0;
            for (;; n++) {
                files_fail_read_at(n, of[i].error);
                const char *line = says_of_cuts(chief);
                if (!files_fail_read_fired())
                    break;
                if (!strstr(line, of[i].says) || !strstr(line, strerror(of[i].error)) ||
                    !strstr(line, "/cut-0000000002/"))
                    fail_msg("%ld: %s", n, line);
            }
            assert_true(n > 3);
            files_fail_read_at(-1, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_doctor_finds_the_checkpoint_from_which_the_chief_would_resume, folder_setup,
            folder_teardown),
        cmocka_unit_test_setup_teardown(
            a_doctor_without_memory_or_descriptors_does_not_say_that_a_checkpoint_is_damaged,
            folder_setup, folder_teardown),
        cmocka_unit_test(the_worst_that_was_said_is_the_verdict_and_stands_alone),
        cmocka_unit_test(what_is_too_much_for_a_line_is_counted),
        cmocka_unit_test(a_ps_needs_blocks_slots_and_a_copy_for_a_cut),
        cmocka_unit_test(a_worker_needs_its_data_and_for_each_thread_a_gradient_and_activations),
        cmocka_unit_test(a_share_is_the_plans),
        cmocka_unit_test(a_cut_takes_as_long_as_the_disk_lets_it),
        cmocka_unit_test(a_clock_is_off_when_the_time_on_the_way_does_not_explain_it),
        cmocka_unit_test(each_address_is_reached_refused_or_nameless),
        cmocka_unit_test(a_certificate_is_of_its_key_its_authority_and_its_time),
        cmocka_unit_test(of_several_authorities_only_its_own_has_to_be_of_this_time),
        cmocka_unit_test(a_certificate_is_for_both_sides),
        cmocka_unit_test(a_key_that_everybody_can_read_is_warned_of),
        cmocka_unit_test(files_of_certificates_go_together),
    };
    return cmocka_run_group_tests(tests, papers_make, papers_remove);
}
