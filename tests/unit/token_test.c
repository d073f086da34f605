/* The job's token and its proofs (common/peers/hello.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/sha256.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"

static int teardown(void **state)
{
    (void)state;
    token_forget();
    return 0;
}

static enum err load(const void *text, size_t bytes, struct errmsg *e)
{
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(write(pair[1], text, bytes), (ssize_t)bytes);
    close(pair[1]);
    return token_load(pair[0], "", e); /* which closes it */
}

static void hold(const char *text)
{
    assert_int_equal(load(text, strlen(text), NULL), ERR_OK);
    assert_true(token_held());
}

/* RFC 4231, test cases 1, 2 and 6: a short key, text in parts, and a key longer than a block. */
static void hmac_is_that_of_rfc_4231(void **state)
{
    (void)state;
    uint8_t key1[20], key6[131], out[SHA256_BYTES];
    memset(key1, 0x0b, sizeof key1);
    memset(key6, 0xaa, sizeof key6);
    static const struct sha256_part one[] = {{"Hi There", 8}};
    static const struct sha256_part two[] = {
        {"what do ya ", 11}, {"", 0}, {"want for nothing?", 17}};
    static const struct sha256_part six[] = {
        {"Test Using Larger Than Block-Size Key - Hash Key First", 54}};
    static const struct {
        const void *key;
        size_t bytes;
        const struct sha256_part *parts;
        size_t n;
        uint8_t first[4], last[4];
    } cases[] = {
        {NULL, 20, one, 1, {0xb0, 0x34, 0x4c, 0x61}, {0x2e, 0x32, 0xcf, 0xf7}},
        {"Jefe", 4, two, 3, {0x5b, 0xdc, 0xc1, 0x46}, {0x64, 0xec, 0x38, 0x43}},
        {NULL, 131, six, 1, {0x60, 0xe4, 0x31, 0x59}, {0x0e, 0xe3, 0x7f, 0x54}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const void *key = cases[i].key ? cases[i].key : cases[i].bytes == 20 ? key1 : key6;
        assert_int_equal(sha256_hmac(out, key, cases[i].bytes, cases[i].parts, cases[i].n), 0);
        assert_memory_equal(out, cases[i].first, 4);
        assert_memory_equal(out + SHA256_BYTES - 4, cases[i].last, 4);
    }
}

static void a_token_is_read_to_its_end_without_the_white_space_behind_it(void **state)
{
    (void)state;
    uint8_t nonce[TOKEN_NONCE_BYTES] = {1}, a[TOKEN_PROOF_BYTES], b[TOKEN_PROOF_BYTES];
    assert_false(token_held());
    assert_int_equal(token_load(-1, "", NULL), ERR_OK);
    assert_false(token_held());
    assert_false(token_prove(a, nonce, "hello", 5));
    hold("0123456789abcdef");
    assert_true(token_prove(a, nonce, "hello", 5));
    hold("0123456789abcdef \r\n\n");
    assert_true(token_prove(b, nonce, "hello", 5));
    assert_true(token_equal(a, b));
}

static void a_proof_is_good_for_this_token_nonce_and_hello_alone(void **state)
{
    (void)state;
    uint8_t nonce[TOKEN_NONCE_BYTES] = {1}, other[TOKEN_NONCE_BYTES] = {1};
    uint8_t a[TOKEN_PROOF_BYTES], b[TOKEN_PROOF_BYTES];
    other[TOKEN_NONCE_BYTES - 1] = 1;
    hold("0123456789abcdef");
    assert_true(token_prove(a, nonce, "hello", 5));
    assert_true(token_prove(b, other, "hello", 5));
    assert_false(token_equal(a, b));
    assert_true(token_prove(b, nonce, "hellp", 5));
    assert_false(token_equal(a, b));
    assert_true(token_prove(b, nonce, "hell", 4));
    assert_false(token_equal(a, b));
    hold("0123456789abcdeg");
    assert_true(token_prove(b, nonce, "hello", 5));
    assert_false(token_equal(a, b));
    for (int i = 0; i < TOKEN_PROOF_BYTES; i++) { /* every byte counts */
        memcpy(b, a, sizeof b);
        b[i] ^= 0x80;
        assert_false(token_equal(a, b));
    }
}

static void what_is_no_token_is_refused(void **state)
{
    (void)state;
    struct errmsg e;
    char longest[TOKEN_BYTES_MAX + 1];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(load("0123456789abcde\n", 16, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "--token_fd="));
    assert_non_null(strstr(e.text, "at least 16 bytes"));
    assert_false(token_held());
    assert_int_equal(load(longest, TOKEN_BYTES_MAX, &e), ERR_OK);
    assert_int_equal(load(longest, sizeof longest, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "at most 512 bytes"));
    assert_int_equal(token_load(-1, "/nowhere/token", &e), ERR_INPUT);
    assert_string_equal(e.text, "--token_file=/nowhere/token: No such file or directory");
    assert_int_equal(token_load(0, "file", &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "both given"));
    assert_int_equal(token_load(9999, "", &e), ERR_INPUT);
    assert_string_equal(e.text, "--token_fd=9999: Bad file descriptor");
}

static void each_token_and_each_nonce_is_another(void **state)
{
    (void)state;
    char a[TOKEN_HEX_BYTES], b[TOKEN_HEX_BYTES];
    uint8_t m[TOKEN_NONCE_BYTES], n[TOKEN_NONCE_BYTES];
    assert_true(token_make(a) && token_make(b));
    assert_int_equal(strspn(a, "0123456789abcdef"), 64);
    assert_string_not_equal(a, b);
    assert_true(token_nonce(m) && token_nonce(n));
    assert_memory_not_equal(m, n, sizeof m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_that_of_rfc_4231),
        cmocka_unit_test_teardown(a_token_is_read_to_its_end_without_the_white_space_behind_it,
                                  teardown),
        cmocka_unit_test_teardown(a_proof_is_good_for_this_token_nonce_and_hello_alone, teardown),
        cmocka_unit_test_teardown(what_is_no_token_is_refused, teardown),
        cmocka_unit_test(each_token_and_each_nonce_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
