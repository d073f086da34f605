#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"
#include "worker/chief/host.h"

static char *const dir = folder_dir;
static const char TEXT[] = "{\"columns\": []}";

/* Each has its encoding, unless `encoding` is NULL. */
static void publish(uint64_t cut, const char *encoding)
{
    float w[4] = {1, 2, 3, 4};
    uint32_t threads[] = {1};
    struct checkpoint_file file;
    struct errmsg e = {""};
    const struct checkpoint_shard s = {.elems = 4, .w = w};
    struct manifest m = {.cut = cut,
                         .total_elems = 4,
                         .identity_text = (char *)"",
                         .files = 1,
                         .file = &file,
                         .ps = 1,
                         .ps_threads = threads};
    if (checkpoint_write_shard((struct cut){folder_place(dir), cut}, &s, &file, &e) ||
        (encoding && checkpoint_write_encoding((struct cut){folder_place(dir), cut}, encoding,
                                               strlen(encoding), &m.encoding, &e)) ||
        checkpoint_publish(folder_place(dir), &m, &e))
        fail_msg("%s", e.text);
}

static struct manifest loaded(uint64_t cut)
{
    struct manifest m;
    struct errmsg e = {""};
    if (checkpoint_load((struct cut){folder_place(dir), cut}, &m, &e))
        fail_msg("%s", e.text);
    return m;
}

static void damage(uint64_t cut, const char *text, size_t bytes)
{
    char path[256];
    struct errmsg e;
    (void)snprintf(path, sizeof path, "%s/cut-%010u/encoding.json", dir, (unsigned)cut);
    if (text)
        assert_int_equal(files_write(path, text, bytes, &e), ERR_OK);
    else
        assert_int_equal(unlink(path), 0);
}

static void a_cut_has_its_encoding_and_one_of_an_earlier_release_none(void **state)
{
    (void)state;
    struct errmsg e = {""};
    char *text;
    size_t bytes;
    publish(1, TEXT);
    publish(2, NULL);
    struct manifest with = loaded(1), without = loaded(2);
    assert_int_equal(with.encoding.bytes, strlen(TEXT));
    assert_int_equal(without.encoding.bytes, 0);
    assert_int_equal(checkpoint_read_encoding(folder_place(dir), &with, &text, &bytes, &e), ERR_OK);
    assert_string_equal(text, TEXT);
    assert_int_equal(bytes, strlen(TEXT));
    mem_free(text);
    manifest_close(&with);
    manifest_close(&without);
}

static void a_cut_whose_encoding_is_damaged_is_passed_over(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {{NULL, "it is missing"},
                 {"{\"columns\": [] }", "does not have the 15 bytes"},
                 {"{\"columns\": [", "does not have the 15 bytes"},
                 {"{\"columns\": {}}", "its checksum differs"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct errmsg e = {""};
        struct manifest m, newest;
        char *text = NULL;
        size_t bytes = 0;
        publish(3, TEXT);
        publish(4, TEXT);
        damage(4, cases[i].text, cases[i].text ? strlen(cases[i].text) : 0);
        newest = loaded(4);
        assert_int_equal(checkpoint_read_encoding(folder_place(dir), &newest, &text, &bytes, &e),
                         ERR_CORRUPT);
        if (!strstr(e.text, cases[i].why))
            fail_msg("%s", e.text);
        assert_int_equal(host_find_cut(folder_place(dir), UINT64_MAX, &m, &e), ERR_OK);
        assert_int_equal(m.cut, 3);
        manifest_close(&m);
        manifest_close(&newest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cut_has_its_encoding_and_one_of_an_earlier_release_none,
                                        folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_cut_whose_encoding_is_damaged_is_passed_over,
                                        folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
