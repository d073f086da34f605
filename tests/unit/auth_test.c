/* The addresses that are served without a token (common/peers/hello.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/listen.h"
#include "common/peers/hello.h"
#include "common/peers/token.h"

static struct errmsg e;

static int setup(void **state)
{
    (void)state;
    (void)unsetenv(AUTH_POD);
    token_forget();
    e.text[0] = 0;
    return 0;
}

static void hold_a_token(void)
{
    int pair[2];
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(write(pair[1], "0123456789abcdef", 16), 16);
    close(pair[1]);
    assert_int_equal(token_load(pair[0], "", &e), ERR_OK);
}

/* Whether a socket may listen there. */
static enum err served(const char *flag, const char *at)
{
    int fd = -1;
    assert_int_equal(listen_bind(&fd, at, 0, &e), ERR_OK);
    enum err err = auth_check_listener(flag, fd, &e);
    close(fd);
    return err;
}

static void required_without_a_token_is_refused_with_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(auth_check("auto", &e), ERR_OK);
    assert_int_equal(auth_check("none", &e), ERR_OK);
    assert_int_equal(auth_check("required", &e), ERR_INPUT);
    assert_string_equal(e.text, "--auth=required needs a token: give --token_file=FILE for "
                                "all processes ('openssl rand -hex 32' makes one)");
    assert_string_equal(auth_word(), "none");
    hold_a_token();
    assert_int_equal(auth_check("required", &e), ERR_OK);
    assert_int_equal(auth_check("auto", &e), ERR_OK);
    assert_string_equal(auth_word(), "token");
}

static void none_beside_a_token_and_other_words_are_refused(void **state)
{
    (void)state;
    assert_int_equal(auth_check("nobody", &e), ERR_INPUT);
    assert_string_equal(e.text, "--auth: 'nobody' is not allowed; allowed: auto, required, none");
    assert_int_equal(auth_check("", &e), ERR_INPUT);
    hold_a_token();
    assert_int_equal(auth_check("none", &e), ERR_INPUT);
    assert_string_equal(e.text, "--auth=none and a token are both given; give only one of them");
}

static void without_a_token_only_loopback_is_served(void **state)
{
    static const char *const own[] = {"127.0.0.1:0", "127.8.9.1:0", "localhost:0"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_int_equal(served("auto", own[i]), ERR_OK);
    assert_int_equal(served("auto", ":0"), ERR_INPUT);
    assert_non_null(strstr(e.text, "which other hosts can reach, without a token: give "
                                   "--token_file=FILE"));
    assert_non_null(strstr(e.text, "or --auth=none"));
    assert_int_equal(served("auto", "0.0.0.0:0"), ERR_INPUT);
    assert_int_equal(auth_check_listener("auto", -1, &e), ERR_INPUT); /* nobody knows where */
    assert_int_equal(served("none", ":0"), ERR_OK);
    hold_a_token();
    assert_int_equal(served("auto", ":0"), ERR_OK);
}

static void a_pod_that_was_told_who_it_is_serves_its_addresses(void **state)
{
    (void)state;
    assert_int_equal(setenv(AUTH_POD, "1", 1), 0);
    assert_int_equal(served("auto", ":0"), ERR_OK);
    assert_int_equal(auth_check("required", &e), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(required_without_a_token_is_refused_with_what_to_do, setup),
        cmocka_unit_test_setup(none_beside_a_token_and_other_words_are_refused, setup),
        cmocka_unit_test_setup(without_a_token_only_loopback_is_served, setup),
        cmocka_unit_test_setup(a_pod_that_was_told_who_it_is_serves_its_addresses, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
