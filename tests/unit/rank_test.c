/* Which rank this is, by what srun and mpirun put into the environment (launch/rank.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "launch/rank.h"

static char *environment[16]; /* name, value, .. */
static struct errmsg e;

static char *lookup(const char *name)
{
    for (size_t i = 0; environment[i]; i += 2)
        if (strcmp(environment[i], name) == 0)
            return environment[i + 1];
    return NULL;
}

static void set(const char *const *pairs)
{
    memset(environment, 0, sizeof environment);
    for (size_t i = 0; pairs[i]; i++)
        environment[i] = (char *)pairs[i];
}
#define SET(...) set((const char *const[]){__VA_ARGS__, NULL})

static void found(uint32_t rank, uint32_t size)
{
    uint32_t r = 99, n = 99;
    assert_int_equal(rank_find(&r, &n, lookup, &e), ERR_OK);
    assert_int_equal(r, rank);
    assert_int_equal(n, size);
}

static void refused(const char *text)
{
    uint32_t r, n;
    assert_int_equal(rank_find(&r, &n, lookup, &e), ERR_INPUT);
    if (!strstr(e.text, text))
        fail_msg("'%s' is not in '%s'", text, e.text);
}

static void a_rank_is_found_by_each_starter(void **state)
{
    (void)state;
    SET("SLURM_PROCID", "3", "SLURM_NTASKS", "5");
    found(3, 5);
    SET("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "2");
    found(0, 2);
    SET("PMI_RANK", "1", "PMI_SIZE", "2");
    found(1, 2);
}

static void mpirun_in_a_slurm_allocation_counts_by_mpirun(void **state)
{
    (void)state;
    SET("SLURM_PROCID", "0", "SLURM_NTASKS", "1", "OMPI_COMM_WORLD_RANK", "4",
        "OMPI_COMM_WORLD_SIZE", "6");
    found(4, 6);
}

static void a_step_has_its_own_size(void **state)
{
    (void)state;
    SET("SLURM_PROCID", "1", "SLURM_NTASKS", "8", "SLURM_STEP_NUM_TASKS", "2");
    found(1, 2);
}

static void what_is_no_rank_is_refused(void **state)
{
    (void)state;
    SET("HOME", "x");
    refused("no rank: none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID is set");
    SET("SLURM_PROCID", "5", "SLURM_NTASKS", "5");
    refused("SLURM_PROCID=5 and SLURM_NTASKS=5");
    SET("SLURM_PROCID", "-1", "SLURM_NTASKS", "5");
    refused("SLURM_PROCID=-1");
    SET("PMI_RANK", "1");
    refused("PMI_RANK=1 and PMI_SIZE= are not a rank");
}

static void attempt(const char *given, const char *expected)
{
    char out[RANK_ATTEMPT_BYTES];
    assert_int_equal(rank_attempt(out, given, lookup, &e), ERR_OK);
    assert_string_equal(out, expected);
}

static void an_attempt_is_another_at_each_start(void **state)
{
    (void)state;
    SET("SLURM_PROCID", "0", "SLURM_JOB_ID", "17", "SLURM_STEP_ID", "2", "SLURM_RESTART_COUNT",
        "1");
    attempt(NULL, "slurm-17-2-1");
    attempt("7", "given-7");
    attempt("../../etc", "given-______etc");
    SET("SLURM_PROCID", "0", "SLURM_JOB_ID", "17");
    attempt(NULL, "slurm-17-0-0");
    SET("OMPI_COMM_WORLD_RANK", "0", "PMIX_NAMESPACE", "prterun-node-123@1", "SLURM_PROCID", "0",
        "SLURM_JOB_ID", "17");
    attempt(NULL, "mpi-prterun-node-123_1");
    SET("OMPI_COMM_WORLD_RANK", "0", "OMPI_MCA_ess_base_jobid", "99");
    attempt(NULL, "mpi-99");
}

static void without_a_name_for_the_start_one_is_asked_for(void **state)
{
    (void)state;
    char out[RANK_ATTEMPT_BYTES], longest[2 * RANK_ATTEMPT_BYTES];
    SET("PMI_RANK", "0", "PMI_SIZE", "2");
    assert_int_equal(rank_attempt(out, NULL, lookup, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "the same new --attempt ID"));
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(rank_attempt(out, longest, lookup, &e), ERR_INPUT);
    assert_string_equal(e.text, "--attempt: the ID is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_found_by_each_starter),
        cmocka_unit_test(mpirun_in_a_slurm_allocation_counts_by_mpirun),
        cmocka_unit_test(a_step_has_its_own_size),
        cmocka_unit_test(what_is_no_rank_is_refused),
        cmocka_unit_test(an_attempt_is_another_at_each_start),
        cmocka_unit_test(without_a_name_for_the_start_one_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
