/* The hosts file and who runs where (launch/remote/hosts.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "launch/remote/hosts.h"

static struct hosts hosts;
static struct problems problems;

static int teardown(void **state)
{
    (void)state;
    hosts_close(&hosts);
    problems_close(&problems);
    return 0;
}

static enum err parse(const char *text)
{
    (void)teardown(NULL);
    char *copy = mem_strdup(text);
    assert_non_null(copy);
    enum err err = hosts_parse(&hosts, copy, "hosts", &problems);
    mem_free(copy);
    return err;
}

static void assert_problem(size_t i, const char *text)
{
    assert_true(i < problems.kept);
    if (!strstr(problems.line[i], text))
        fail_msg("'%s' is not in '%s'", text, problems.line[i]);
}

static void a_line_says_host_slots_role_ports_and_workdir(void **state)
{
    (void)state;
    assert_int_equal(
        parse("# the cluster\n"
              "\n"
              "node1\n"
              "  me@node2\tslots=3 role=ps ports=5000-5009 workdir=/scratch/gw # fast\r\n"
              "[fd00::1] role=evaluator\n"
              "10.0.0.7 role=chief"),
        ERR_OK);
    assert_int_equal(hosts.n, 4);
    const struct host_line *a = &hosts.host[0], *b = &hosts.host[1];
    assert_string_equal(a->name, "node1");
    assert_string_equal(a->address, "node1");
    assert_false(a->has_role);
    assert_int_equal(a->slots, 0);
    assert_int_equal(a->line, 3);
    assert_int_equal(a->port_low, HOSTS_PORT_LOW);
    assert_int_equal(a->port_high, HOSTS_PORT_HIGH);
    assert_null(a->workdir);
    assert_string_equal(b->name, "me@node2");
    assert_string_equal(b->address, "node2");
    assert_int_equal(b->slots, 3);
    assert_int_equal(b->role, ROLE_PS);
    assert_int_equal(b->port_low, 5000);
    assert_int_equal(b->port_high, 5009);
    assert_string_equal(b->workdir, "/scratch/gw");
    assert_string_equal(hosts.host[2].address, "[fd00::1]");
    assert_int_equal(hosts.host[3].role, ROLE_CHIEF);
}

static void each_wrong_line_has_a_message_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *line, *said;
    } wrong[] = {
        {"a slots=0", "hosts:1: slots=0: must be a number from 1 to 1024"},
        {"a slots=2x", "slots=2x: must be a number"},
        {"a slots=", "slots=: must be a number"},
        {"a slots=2 slots=3", "slots= is given twice"},
        {"a role=PS", "role=PS: must be ps, worker, chief or evaluator"},
        {"a ports=5000", "ports=5000: must be a range of ports"},
        {"a ports=5009-5000", "ports=5009-5000: must be a range"},
        {"a ports=0-10", "ports=0-10: must be a range"},
        {"a ports=1-65536", "ports=1-65536: must be a range"},
        {"a ports=1-2-3", "ports=1-2-3: must be a range"},
        {"a workdir=here", "workdir=here: must be an absolute path"},
        {"a slot=2", "'slot=2': did you mean slots=?"},
        {"a nonsense", "'nonsense': allowed: slots=N"},
        {"slots=2", "'slots=2': a line must begin with the host"},
        {"-oProxyCommand=x", "must not begin with '-'"},
        {"a:22-30", "'a:22-30': give ports as ports=LO-HI"},
        {"a:4", "'a:4': for 4 processes on that host, write: a slots=4"},
        {"me@a:4 role=ps", "'me@a:4': for 4 processes on that host, write: me@a slots=4"},
        {"node[1-2]", "'node[1-2]': a line names one host: write a line for each"},
        {"a,b", "'a,b': a line names one host"},
        {"a/b", "'a/b': its host is neither a name nor an IP address"},
        {"@a", "'@a': write it as user@host"},
        {"me@", "'me@': the host is missing"},
        {"m$(e)@a", "write it as user@host"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse(wrong[i].line), ERR_INPUT);
        assert_int_equal(problems.n, 1);
        assert_problem(0, wrong[i].said);
        assert_problem(0, "hosts:1: ");
    }
}

static void a_mark_at_the_beginning_is_no_part_of_the_first_host(void **state)
{
    (void)state;
    assert_int_equal(parse("\xEF\xBB\xBF"
                           "a\nb\n"),
                     ERR_OK);
    assert_int_equal(hosts.n, 2);
    assert_string_equal(hosts.host[0].name, "a");
}

static void all_wrong_lines_are_told_at_once(void **state)
{
    (void)state;
    assert_int_equal(parse("a slots=0\nb\nc role=x\n\nb slots=2\n"), ERR_INPUT);
    assert_int_equal(problems.n, 3);
    assert_problem(0, "hosts:1: slots=0");
    assert_problem(1, "hosts:3: role=x");
    assert_problem(2, "hosts:5: b is already in line 2");
    assert_int_equal(parse("b role=ps\nb role=worker\nb role=ps"), ERR_INPUT);
    assert_int_equal(problems.n, 1);
    assert_problem(0, "hosts:3: b is already in line 1 for role=ps");
}

static void a_file_without_hosts_is_refused(void **state)
{
    (void)state;
    assert_int_equal(parse("# none\n  \n"), ERR_INPUT);
    assert_problem(0, "hosts: the file names no host");
    (void)teardown(NULL);
    assert_int_equal(hosts_load(&hosts, "/nowhere/hosts", &problems), ERR_INPUT);
    assert_problem(0, "/nowhere/hosts");
}

static void placed(const char *text, struct roles r, const char *expected)
{
    char got[256] = "";
    uint32_t host_of[64];
    assert_int_equal(parse(text), ERR_OK);
    assert_int_equal(hosts_place(&hosts, &r, host_of, &problems), ERR_OK);
    uint32_t n = r.n[ROLE_PS] + r.n[ROLE_CHIEF] + r.n[ROLE_WORKER] + r.n[ROLE_EVALUATOR];
    for (uint32_t i = 0; i < n; i++)
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%s",
                       hosts.host[host_of[i]].name);
    assert_string_equal(got, expected);
}

static struct roles roles(uint32_t ps, uint32_t chief, uint32_t workers)
{
    struct roles r = {{0}};
    r.n[ROLE_PS] = ps;
    r.n[ROLE_CHIEF] = chief;
    r.n[ROLE_WORKER] = workers;
    return r;
}

static void processes_go_to_the_host_with_the_fewest(void **state)
{
    (void)state;
    placed("a\nb\nc", roles(2, 0, 3), "abcab");
    placed("a\nb\nc", roles(2, 1, 1), "abca");
    placed("a\nb slots=1\nc", roles(2, 0, 4), "abcaca");
}

static void a_role_goes_to_its_own_lines(void **state)
{
    (void)state;
    placed("a role=ps\nb\nc", roles(2, 0, 3), "aabcb");
    placed("a role=ps\nb role=worker\nb role=ps", roles(3, 0, 2), "ababb");
    placed("a\nb role=chief", roles(1, 1, 2), "abaa");
}

static void refused(const char *text, struct roles r, const char *said)
{
    uint32_t host_of[64];
    assert_int_equal(parse(text), ERR_OK);
    assert_int_equal(hosts_place(&hosts, &r, host_of, &problems), ERR_INPUT);
    assert_problem(0, said);
}

static void who_finds_no_place_is_named(void **state)
{
    (void)state;
    refused("a slots=1\nb slots=2", roles(2, 0, 2),
            "hosts: only 1 of 2 worker processes have a slot; add slots or hosts");
    refused("a role=ps slots=1\nb", roles(2, 0, 1), "hosts: only 1 of 2 ps processes have a slot");
    refused("a role=ps", roles(1, 0, 1),
            "hosts: no line accepts a worker: every line has another role");
    refused("a\nb role=chief", roles(1, 0, 1),
            "hosts:2: role=chief, but the job has no chief of its own; give --chief");
}

static void a_host_needs_a_port_for_each_process(void **state)
{
    (void)state;
    placed("a ports=20000-20001\nb", roles(2, 0, 2), "abab");
    refused("a\nb ports=20000-20000", roles(4, 0, 4),
            "hosts:2: 4 processes need 4 ports, 20000-20000 has 1");
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        char text[] = "a slots=2 workdir=/x\nb slots=0\n";
        (void)teardown(NULL);
        mem_fail_at(n);
        enum err err = hosts_parse(&hosts, text, "hosts", &problems);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        assert_true(err == ERR_NOMEM || err == ERR_INPUT);
        assert_true(err == ERR_NOMEM || problems.n == 1);
        if (!fired)
            return;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_line_says_host_slots_role_ports_and_workdir, teardown),
        cmocka_unit_test_teardown(each_wrong_line_has_a_message_of_its_own, teardown),
        cmocka_unit_test_teardown(a_mark_at_the_beginning_is_no_part_of_the_first_host, teardown),
        cmocka_unit_test_teardown(all_wrong_lines_are_told_at_once, teardown),
        cmocka_unit_test_teardown(a_file_without_hosts_is_refused, teardown),
        cmocka_unit_test_teardown(processes_go_to_the_host_with_the_fewest, teardown),
        cmocka_unit_test_teardown(a_role_goes_to_its_own_lines, teardown),
        cmocka_unit_test_teardown(who_finds_no_place_is_named, teardown),
        cmocka_unit_test_teardown(a_host_needs_a_port_for_each_process, teardown),
        cmocka_unit_test_teardown(without_memory_it_says_so, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
