/* Made-up trees of cgroups. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/process/cgroup.h"
#include "common/base/err.h"
#include "common/process/files.h"
#include "tests/lib/folder.h"

static char *const top = folder_dir;

static void put(const char *path, const char *text)
{
    char whole[PATH_MAX], folder[PATH_MAX];
    (void)snprintf(whole, sizeof whole, "%s/%s", top, path);
    (void)snprintf(folder, sizeof folder, "%s", whole);
    *strrchr(folder, '/') = 0;
    assert_int_equal(files_mkdirs(folder, NULL), ERR_OK);
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Of a process whose /proc/self/cgroup is this. */
static struct cgroup_limits limits(const char *self)
{
    char path[PATH_MAX], root[PATH_MAX];
    put("self", self);
    (void)snprintf(path, sizeof path, "%s/self", top);
    (void)snprintf(root, sizeof root, "%s/fs", top);
    return cgroup_read(root, path);
}

static void assert_limits(const char *self, uint32_t cores, uint64_t memory_bytes)
{
    struct cgroup_limits l = limits(self);
    assert_int_equal(l.cores, cores);
    assert_int_equal(l.memory_bytes, memory_bytes);
}

static void without_files_nothing_is_limited(void **state)
{
    (void)state;
    assert_limits("", UINT32_MAX, UINT64_MAX);
    assert_limits("0::/nowhere\n4:cpu,cpuacct:/nowhere\n", UINT32_MAX, UINT64_MAX);
    assert_limits("no line\n:\n0:\n", UINT32_MAX, UINT64_MAX);
    assert_int_equal(cgroup_read("/nowhere", "/nowhere/self").cores, UINT32_MAX);
}

static void in_version_2_the_least_of_all_groups_above_counts(void **state)
{
    (void)state;
    put("fs/a/b/c/cpu.max", "max 100000\n");
    put("fs/a/b/c/memory.max", "max\n");
    assert_limits("0::/a/b/c\n", UINT32_MAX, UINT64_MAX);
    put("fs/a/b/cpu.max", "250000 100000\n"); /* two and a half */
    put("fs/a/b/memory.max", "8000000000\n");
    assert_limits("0::/a/b/c\n", 3, 8000000000);
    put("fs/a/cpu.max", "800000 100000\n");
    put("fs/a/memory.max", "4294967296\n");
    assert_limits("0::/a/b/c\n", 3, 4294967296);
    put("fs/cpu.max", "10000 100000\n");
    assert_limits("0::/a/b/c\n", 1, 4294967296);
    assert_limits("0::/\n", 1, UINT64_MAX);
}

static void a_container_sees_its_own_group_as_the_mount(void **state)
{
    (void)state;
    put("fs/cpu.max", "200000 100000\n");
    put("fs/memory.max", "1000\n");
    assert_limits("0::/kubepods/burstable/pod1/0123\n", 2, 1000);
}

static void in_version_1_each_controller_has_a_mount(void **state)
{
    (void)state;
    put("fs/cpu/docker/1/cpu.cfs_quota_us", "150000\n");
    put("fs/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    put("fs/cpu/cpu.cfs_quota_us", "-1\n");
    put("fs/cpu/cpu.cfs_period_us", "100000\n");
    put("fs/memory/docker/1/memory.limit_in_bytes", "536870912\n");
    put("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_limits("9:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n", 2,
                  536870912);
    assert_limits("9:memory:/\n4:cpu,cpuacct:/\n", UINT32_MAX, UINT64_MAX);
    assert_limits("9:memory:/docker/1\n", UINT32_MAX, 536870912);
}

static void a_mount_may_have_the_name_of_all_its_controllers(void **state)
{
    (void)state;
    put("fs/cpu,cpuacct/g/cpu.cfs_quota_us", "400000\n");
    put("fs/cpu,cpuacct/g/cpu.cfs_period_us", "100000\n");
    assert_limits("4:cpu,cpuacct:/g\n", 4, UINT64_MAX);
}

static void absurd_numbers_limit_nothing(void **state)
{
    (void)state;
    put("fs/cpu.max", "100000 0\n");
    put("fs/memory.max", "lots\n");
    assert_limits("0::/\n", UINT32_MAX, UINT64_MAX);
    put("fs/cpu.max", "9223372036854775807 1\n");
    assert_limits("0::/\n", UINT32_MAX, UINT64_MAX);
}

static void the_cores_of_this_process_are_limited_by_its_root(void **state)
{
    (void)state;
    char root[PATH_MAX];
    /* the groups that this process is in do not exist there: the mounts count */
    put("fs/cpu.max", "1 100000\n");
    put("fs/cpu/cpu.cfs_quota_us", "1\n");
    put("fs/cpu/cpu.cfs_period_us", "100000\n");
    (void)snprintf(root, sizeof root, "%s/fs", top);
    cgroup_set_root(root);
    assert_int_equal(cgroup_limits().cores, 1);
    assert_int_equal(cores_usable(), 1);
    cgroup_set_root("/nowhere");
    assert_int_equal(cgroup_limits().cores, UINT32_MAX);
    assert_true(cores_usable() >= 1);
}

static void swap_counts_as_far_as_the_groups_allow_it(void **state)
{
    (void)state;
    char root[PATH_MAX];
    put("fs/a/memory.swap.max", "max\n");
    assert_true(limits("0::/a\n").swap_bytes == UINT64_MAX);
    put("fs/memory.swap.max", "4096\n");
    assert_int_equal(limits("0::/a\n").swap_bytes, 4096);
    put("fs/memory.max", "1000\n");
    put("fs/memory.swap.max", "0\n");
    (void)snprintf(root, sizeof root, "%s/fs", top);
    cgroup_set_root(root);
    assert_int_equal(cgroup_memory_bytes(), 1000);
    assert_int_equal(cgroup_memory_and_swap_bytes(), 1000);
    cgroup_set_root("/nowhere");
    assert_true(cgroup_memory_and_swap_bytes() >= cgroup_memory_bytes());
}

#define IN_A_TREE(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_TREE(without_files_nothing_is_limited),
        IN_A_TREE(in_version_2_the_least_of_all_groups_above_counts),
        IN_A_TREE(a_container_sees_its_own_group_as_the_mount),
        IN_A_TREE(in_version_1_each_controller_has_a_mount),
        IN_A_TREE(a_mount_may_have_the_name_of_all_its_controllers),
        IN_A_TREE(absurd_numbers_limit_nothing),
        IN_A_TREE(the_cores_of_this_process_are_limited_by_its_root),
        IN_A_TREE(swap_counts_as_far_as_the_groups_allow_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
