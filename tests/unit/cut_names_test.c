#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/checkpoint/checkpoint.h"

static void only_files_of_a_cut_have_names(void **state)
{
    (void)state;
    static const char *const shards[] = {"shard-0.gw", "shard-7.gw", "shard-4095.gw"};
    static const char *const others[] = {"",
                                         "shard-.gw",
                                         "shard-01.gw",
                                         "shard-1.gw.tmp-1",
                                         "shard--1.gw",
                                         "shard-1.gx",
                                         "/shard-1.gw",
                                         "../cut-1/shard-1.gw",
                                         "shard-1.gw/..",
                                         "shard-99999999999.gw",
                                         "shard-1",
                                         " shard-1.gw",
                                         "shard- 1.gw",
                                         "SHARD-1.gw",
                                         "manifest.gw ",
                                         "manifest",
                                         "./manifest.gw"};
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++)
        assert_true(cut_file_is_shard(shards[i]) && !cut_file_is_manifest(shards[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(!cut_file_is_shard(others[i]) && !cut_file_is_manifest(others[i]) &&
                    !cut_file_is_encoding(others[i]));
    assert_true(cut_file_is_manifest("manifest.gw") && !cut_file_is_shard("manifest.gw"));
    assert_true(cut_file_is_encoding("encoding.json") && !cut_file_is_manifest("encoding.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_files_of_a_cut_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
