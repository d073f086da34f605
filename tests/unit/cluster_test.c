#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/cluster.h"
#include "common/base/mem.h"

static const struct cluster_flags no_flags = {"", "", "", "", -1, 0};

static struct cluster known(const char *tf_config, const struct cluster_flags *flags)
{
    struct cluster c;
    struct errmsg e = {""};
    if (cluster_init(&c, flags ? flags : &no_flags, tf_config, &e))
        fail_msg("%s", e.text);
    return c;
}

static void refused(const char *tf_config, const struct cluster_flags *flags, const char *why)
{
    struct cluster c;
    struct errmsg e = {""};
    memset(&c, 0xa5, sizeof c);
    struct cluster before = c;
    assert_int_equal(cluster_init(&c, flags ? flags : &no_flags, tf_config, &e), ERR_INPUT);
    assert_string_equal(e.text, why);
    assert_memory_equal(&c, &before, sizeof c); /* unchanged on error */
}

#define DENSE(task)                                                                                \
    "{\"cluster\":{\"ps\":[\"ctr-ps-0.ads.svc:2222\",\"ctr-ps-1.ads.svc:2222\"],"                  \
    "\"worker\":[\"ctr-worker-0.ads.svc:2222\",\"ctr-worker-1.ads.svc:2222\"]},"                   \
    "\"task\":" task ",\"environment\":\"cloud\"}"
#define WITH_CHIEF(chief, task)                                                                    \
    "{\"cluster\":{\"" chief "\":[\"ctr-c-0.ads.svc:2222\"],"                                      \
    "\"evaluator\":[\"ctr-evaluator-0.ads.svc:2222\"],\"ps\":[\"ctr-ps-0.ads.svc:5000\"],"         \
    "\"worker\":[\"ctr-worker-0.ads.svc:6000\",\"ctr-worker-1.ads.svc:6000\"]},"                   \
    "\"task\":" task ",\"environment\":\"cloud\"}"
#define SPARSE(key, worker, ps, task)                                                              \
    "{\"" key "\":{\"worker\":" worker ",\"ps\":" ps "},\"task\":" task "}"
#define TASK(type, index) "{\"type\":\"" type "\",\"index\":" index "}"

static void without_a_word_a_process_is_a_lone_worker(void **state)
{
    static const char *const nothing[] = {NULL, "", " \n"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct cluster c = known(nothing[i], NULL);
        assert_true(c.alone && c.is_chief);
        assert_int_equal(c.role, ROLE_WORKER);
        assert_int_equal(c.n_ps, 0);
        assert_null(c.self);
        cluster_close(&c);
    }
}

static void worker_0_is_the_chief_without_a_chief(void **state)
{
    (void)state;
    struct cluster c = known(DENSE(TASK("worker", "0")), NULL);
    assert_true(c.is_chief && !c.separate_chief && !c.alone && !c.sparse);
    assert_int_equal(c.role, ROLE_WORKER);
    assert_int_equal(c.n_ps, 2);
    assert_int_equal(c.n_workers, 2);
    assert_int_equal(c.worker_id, 0);
    assert_string_equal(c.self, "ctr-worker-0.ads.svc:2222");
    assert_string_equal(c.chief, "ctr-worker-0.ads.svc:2222");
    cluster_close(&c);
    c = known(DENSE(TASK("worker", "1")), NULL);
    assert_false(c.is_chief);
    assert_int_equal(c.worker_id, 1);
    assert_string_equal(c.self, "ctr-worker-1.ads.svc:2222");
    assert_string_equal(c.chief, "ctr-worker-0.ads.svc:2222");
    cluster_close(&c);
    c = known(DENSE(TASK("ps", "1")), NULL);
    assert_int_equal(c.role, ROLE_PS);
    assert_int_equal(c.index, 1);
    assert_false(c.is_chief);
    assert_string_equal(c.self, "ctr-ps-1.ads.svc:2222");
    cluster_close(&c);
}

static void a_chief_or_master_is_before_the_workers(void **state)
{
    static const char *const configs[] = {WITH_CHIEF("chief", TASK("chief", "0")),
                                          WITH_CHIEF("master", TASK("master", "0"))};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct cluster c = known(configs[i], NULL);
        assert_int_equal(c.role, ROLE_CHIEF);
        assert_true(c.is_chief && c.separate_chief);
        assert_int_equal(c.worker_id, 0);
        assert_int_equal(c.n_workers, 2);
        assert_string_equal(c.self, "ctr-c-0.ads.svc:2222");
        assert_string_equal(c.chief, "ctr-c-0.ads.svc:2222");
        cluster_close(&c);
    }
    struct cluster c = known(WITH_CHIEF("master", TASK("worker", "0")), NULL);
    assert_true(!c.is_chief && c.separate_chief);
    assert_int_equal(c.worker_id, 1);
    assert_string_equal(c.self, "ctr-worker-0.ads.svc:6000");
    cluster_close(&c);
}

static void an_evaluator_may_be_listed_or_not(void **state)
{
    (void)state;
    struct cluster c = known(WITH_CHIEF("chief", TASK("evaluator", "0")), NULL);
    assert_int_equal(c.role, ROLE_EVALUATOR);
    assert_false(c.is_chief);
    assert_string_equal(c.self, "ctr-evaluator-0.ads.svc:2222");
    cluster_close(&c);
    c = known(DENSE(TASK("evaluator", "0")), NULL);
    assert_int_equal(c.role, ROLE_EVALUATOR);
    assert_null(c.self);
    cluster_close(&c);
}

static void who_is_told_of_an_evaluator_knows_it(void **state)
{
    (void)state;
    struct cluster_flags flags = no_flags;
    struct cluster c = known(WITH_CHIEF("chief", TASK("chief", "0")), NULL);
    assert_true(c.has_evaluator);
    cluster_close(&c);
    c = known(DENSE(TASK("worker", "0")), NULL);
    assert_false(c.has_evaluator);
    cluster_close(&c);
    flags.evaluators = 1;
    c = known(DENSE(TASK("worker", "0")), &flags); /* an operator that does not list it */
    assert_true(c.has_evaluator && c.is_chief);
    cluster_close(&c);
    c = known(DENSE(TASK("evaluator", "0")), NULL);
    assert_true(c.has_evaluator);
    cluster_close(&c);
    flags.evaluators = 2;
    refused(DENSE(TASK("worker", "0")), &flags, "--evaluators: 2 is not allowed; allowed: 0, 1");
    refused("{\"cluster\":{\"ps\":[\"p:1\"],\"worker\":[\"w:1\"],\"evaluator\":[\"v:1\",\"u:1\"]},"
            "\"task\":{\"type\":\"evaluator\",\"index\":1}}",
            NULL,
            "the evaluator's task index is 1; allowed: 0, because a cluster has one evaluator");
}

static void a_sparse_process_knows_its_part(void **state)
{
    static const char *const keys[][2] = {
        {SPARSE("cluster", "{\"1\":\"ctr-worker-1.ads.svc:2222\"}",
                "[\"ctr-ps-0.ads.svc:2222\",\"ctr-ps-1.ads.svc:2222\"]", TASK("worker", "1")),
         SPARSE("cluster", "{}", "[\"ctr-ps-1.ads.svc:2222\"]", TASK("ps", "1"))},
        {SPARSE("sparseCluster", "{\"1\":\"ctr-worker-1.ads.svc:2222\"}",
                "[\"ctr-ps-0.ads.svc:2222\",\"ctr-ps-1.ads.svc:2222\"]", TASK("worker", "1")),
         SPARSE("sparseCluster", "{}", "[\"ctr-ps-1.ads.svc:2222\"]", TASK("ps", "1"))}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct cluster c = known(keys[i][0], NULL);
        assert_true(c.sparse && !c.is_chief && !c.separate_chief);
        assert_int_equal(c.n_ps, 2);
        assert_int_equal(c.n_workers, 1);
        assert_int_equal(c.worker_id, 1);
        assert_string_equal(c.workers[0], "ctr-worker-1.ads.svc:2222");
        assert_string_equal(c.self, "ctr-worker-1.ads.svc:2222");
        assert_null(c.chief);
        cluster_close(&c);
        c = known(keys[i][1], NULL);
        assert_true(c.sparse);
        assert_int_equal(c.index, 1);
        assert_int_equal(c.n_ps, 1);
        assert_string_equal(c.ps[0], "ctr-ps-1.ads.svc:2222");
        assert_string_equal(c.self, "ctr-ps-1.ads.svc:2222");
        cluster_close(&c);
    }
    struct cluster c =
        known(SPARSE("cluster", "{\"0\":\"w:1\"}", "[\"p:1\"]", TASK("worker", "0")), NULL);
    assert_true(c.is_chief && c.sparse);
    assert_string_equal(c.chief, "w:1");
    cluster_close(&c);
    c = known(SPARSE("cluster", "{\"0\":\"w:1\",\"2\":\"x:1\"}", "[\"p:1\"]", TASK("worker", "2")),
              NULL);
    assert_int_equal(c.n_workers, 1);
    assert_string_equal(c.self, "x:1");
    cluster_close(&c);
}

static void a_chief_beside_workers_is_listed_or_worker_0_is_one_too(void **state)
{
    (void)state;
    static const char why[] =
        "this process is the chief, but the cluster lists no chief, so worker 0 is the chief: list "
        "the address of this process as chief (TF_CONFIG: cluster.chief; --chief_host) for all "
        "processes, or leave this process out";
    refused(DENSE(TASK("chief", "0")), NULL, why);
    refused(DENSE(TASK("master", "0")), NULL, why);
    struct cluster_flags flags = {"chief", "p:1", "w:1", "", -1, 0};
    refused(NULL, &flags, why);
    flags.chief_host = "c:1";
    struct cluster c = known(NULL, &flags);
    assert_true(c.is_chief && c.separate_chief);
    cluster_close(&c);
    /* without workers there is nobody to take it for another, and nobody dials it */
    c = known("{\"cluster\":{\"ps\":[\"p:1\"]},\"task\":" TASK("chief", "0") "}", NULL);
    assert_true(c.is_chief && !c.alone && !c.bind);
    cluster_close(&c);
}

static void a_sparse_chief_names_both_ways_out(void **state)
{
    (void)state;
    refused(SPARSE("cluster", "{}", "[]", TASK("chief", "0")), NULL,
            "with dynamic workers TF_CONFIG does not list the ps for this chief: remove the Chief "
            "replica (worker 0 is then the chief), or give --ps_hosts and --chief_host to all "
            "processes");
    refused(SPARSE("cluster", "{}", "[]", TASK("evaluator", "0")), NULL,
            "with dynamic workers TF_CONFIG does not list the ps for this evaluator: remove the "
            "Chief replica (worker 0 is then the chief), or give --ps_hosts and --chief_host to "
            "all processes");
    struct cluster_flags flags = no_flags;
    flags.ps_hosts = "p:1,q:1";
    refused(SPARSE("cluster", "{}", "[]", TASK("chief", "0")), &flags,
            "with dynamic workers TF_CONFIG does not list the chief for this chief: remove the "
            "Chief replica (worker 0 is then the chief), or give --ps_hosts and --chief_host to "
            "all processes");
    flags.chief_host = "c:1";
    struct cluster c = known(SPARSE("cluster", "{}", "[]", TASK("chief", "0")), &flags);
    assert_true(c.is_chief && c.separate_chief && c.sparse);
    assert_int_equal(c.n_ps, 2);
    assert_string_equal(c.self, "c:1");
    cluster_close(&c);
    c = known(SPARSE("cluster", "{\"0\":\"w:1\"}", "[\"p:1\",\"q:1\"]", TASK("worker", "0")),
              &flags);
    assert_true(!c.is_chief && c.separate_chief);
    assert_int_equal(c.worker_id, 1);
    assert_string_equal(c.chief, "c:1");
    cluster_close(&c);
    c = known(SPARSE("cluster", "{}", "[\"q:1\"]", TASK("ps", "1")), &flags);
    assert_false(c.sparse); /* the flags give it the whole list */
    assert_string_equal(c.self, "q:1");
    cluster_close(&c);
}

/* A pod's own name resolves once the pod is ready, which it is when it listens. */
static void a_name_from_tf_config_is_listened_for_on_all_addresses(void **state)
{
    static const struct {
        const char *address, *bind;
    } cases[] = {{"ctr-ps-0.ads.svc:2222", ":2222"},
                 {"127.0.0.1:7000", "127.0.0.1:7000"},
                 {"[::1]:7000", "[::1]:7000"},
                 {"LocalHost:7000", "LocalHost:7000"},
                 {"127.0.0.1.ads:7000", ":7000"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char config[256];
        (void)snprintf(config, sizeof config,
                       "{\"cluster\":{\"ps\":[\"%s\"],\"worker\":[\"w:1\"]},\"task\":%s}",
                       cases[i].address, TASK("ps", "0"));
        struct cluster c = known(config, NULL);
        assert_string_equal(c.self, cases[i].address);
        assert_string_equal(c.bind, cases[i].bind);
        cluster_close(&c);
    }
    struct cluster_flags flags = {"ps", "node1:7000", "w:1", "", 0, 0};
    struct cluster c = known(NULL, &flags); /* a host of which nobody says that it is a pod */
    assert_string_equal(c.bind, "node1:7000");
    cluster_close(&c);
    c = known(DENSE(TASK("ps", "0")), &flags);
    assert_string_equal(c.bind, "node1:7000");
    cluster_close(&c);
}

static void several_processes_need_a_ps(void **state)
{
    static const char why[] =
        "the cluster has no ps: add one, give --ps_hosts, or start each process with "
        "gradwire-entrypoint, which also runs a ps (a lone worker needs none)";
    (void)state;
    refused(SPARSE("cluster", "{\"0\":\"w:1\"}", "null", TASK("worker", "0")), NULL,
            "with dynamic workers TF_CONFIG gives this worker no address but its own, so the "
            "workers cannot run the ps: add PS replicas, or remove enableDynamicWorker");
    refused("{\"cluster\":{\"worker\":[\"w:1\",\"v:1\"]},\"task\":" TASK("worker", "0") "}", NULL,
            why);
    refused("{\"cluster\":{\"worker\":[\"w:1\"],\"evaluator\":[\"v:1\"]},"
            "\"task\":" TASK("worker", "0") "}",
            NULL, why);
    struct cluster c = known(
        "{\"cluster\":{\"worker\":[\"w:1\"],\"ps\":null},\"task\":" TASK("worker", "0") "}", NULL);
    assert_true(c.alone && c.is_chief);
    assert_string_equal(c.self, "w:1");
    cluster_close(&c);
}

static void an_index_may_be_a_number_in_quotes(void **state)
{
    (void)state;
    struct cluster c = known(DENSE(TASK("worker", "\"1\"")), NULL);
    assert_int_equal(c.index, 1);
    cluster_close(&c);
    refused(DENSE(TASK("worker", "\"$(HOSTNAME)\"")), NULL,
            "TF_CONFIG: task.index is \"$(HOSTNAME)\", but it must be a number from 0: the pod's "
            "ordinal, such as $(JOB_COMPLETION_INDEX) of an Indexed Job or the label "
            "apps.kubernetes.io/pod-index of a StatefulSet, not a name");
    refused(DENSE(TASK("worker", "-1")), NULL,
            "TF_CONFIG: task.index is -1; allowed: a number from 0");
    refused(DENSE(TASK("worker", "2")), NULL,
            "this is worker 2, but the cluster lists 2 of them; allowed: 0 to 1");
    refused(WITH_CHIEF("chief", TASK("chief", "1")), NULL,
            "the chief's task index is 1; allowed: 0");
    refused(DENSE("{\"type\":\"ps\"}"), NULL,
            "TF_CONFIG: task.index is missing: give a number from 0");
}

static void broken_tf_configs_say_what_would_be_right(void **state)
{
    (void)state;
    refused("{\"cluster\":\n ,}", NULL,
            "TF_CONFIG: not JSON: line 2, column 2: unexpected token near ','");
    refused("[]", NULL, "TF_CONFIG: it must be an object with \"cluster\" and \"task\"");
    refused("{\"cluster\":{}}", NULL,
            "TF_CONFIG: \"task\" is missing; example: {\"type\": \"worker\", \"index\": 0}");
    refused(
        "{\"task\":" TASK("ps", "0") "}", NULL,
        "TF_CONFIG: \"cluster\" is missing; example: {\"ps\": [\"host:port\"], \"worker\": [...]}");
    refused("{\"task\":{\"index\":0}}", NULL,
            "TF_CONFIG: task.type is missing; allowed: chief (or master), worker, ps, evaluator");
    refused(DENSE(TASK("PS", "0")), NULL,
            "TF_CONFIG: task.type: unknown type 'PS', did you mean ps? allowed: chief (or master), "
            "worker, ps, evaluator");
    refused("{\"cluster\":{\"parameter\":[]},\"task\":" TASK("ps", "0") "}", NULL,
            "TF_CONFIG: cluster: unknown type 'parameter'; allowed: chief (or master), worker, ps, "
            "evaluator");
    refused(DENSE(TASK("chief", "0") ",\"task\":1"), NULL,
            "TF_CONFIG: not JSON: line 1, column 175: duplicate object key near '\"task\"'");
    refused("{\"cluster\":{\"ps\":{\"0\":\"a:1\"}},\"task\":" TASK("ps", "0") "}", NULL,
            "TF_CONFIG: cluster.ps is not a list of \"host:port\"");
    refused("{\"cluster\":{\"ps\":[7]},\"task\":" TASK("ps", "0") "}", NULL,
            "TF_CONFIG: cluster.ps[0] is not a \"host:port\"");
    refused("{\"cluster\":{\"worker\":{\"x\":\"a:1\"}},\"task\":" TASK("ps", "0") "}", NULL,
            "TF_CONFIG: cluster.worker.x is not a {\"index\": \"host:port\"}");
    refused("{\"cluster\":{\"chief\":[\"a:1\"],\"master\":[\"b:1\"],\"ps\":[\"c:1\"]},"
            "\"task\":" TASK("ps", "0") "}",
            NULL, "TF_CONFIG: the cluster has 2 chiefs (or masters); allowed: one");
    refused("{\"cluster\":{\"worker\":[\"a:1\"]},\"task\":" TASK("ps", "0") "}", NULL,
            "this is ps 0, but the cluster lists no ps");
}

static void an_address_stands_once(void **state)
{
    (void)state;
    refused("{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"c:1\",\"B:1\"]},"
            "\"task\":" TASK("ps", "0") "}",
            NULL, "cluster: worker 1 and ps 1 have the same address, B:1");
}

static void addresses_are_host_and_port(void **state)
{
    static const struct {
        const char *address, *problem;
    } bad[] = {
        {"a", "write it as host:port"},
        {":1", "write it as host:port"},
        {"a:", "its port is not a number from 1 to 65535"},
        {"a:0", "its port is not a number from 1 to 65535"},
        {"a:65536", "its port is not a number from 1 to 65535"},
        {"a:-1", "its port is not a number from 1 to 65535"},
        {"a:22x", "its port is not a number from 1 to 65535"},
        {"a b:1", "its host is neither a name nor an IP address"},
        {"http://a:1", "its host is neither a name nor an IP address"},
        {"$(POD):1", "its host is neither a name nor an IP address"},
        {"::1:2222", "write an IPv6 address in brackets: [::1]:2222"},
        {"10.0.0.256:2222", "its host is not a valid IP address"},
        {"[::g]:2222", "its host is not a valid IP address"},
        {"[]:1", "write it as host:port"},
        {"[a:1", "write it as host:port"},
    };
    (void)state;
    struct cluster_flags flags = {"ps", "", "", "", 0, 0};
    char why[160];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        flags.ps_hosts = bad[i].address;
        (void)snprintf(why, sizeof why, "--ps_hosts: '%s': %s", bad[i].address, bad[i].problem);
        refused(NULL, &flags, why);
    }
    flags.ps_hosts = "[::1]:2222";
    struct cluster c = known(NULL, &flags);
    assert_string_equal(c.self, "[::1]:2222");
    cluster_close(&c);
    flags.ps_hosts = "a:1,,b:1";
    refused(NULL, &flags, "--ps_hosts: '': write it as host:port");
}

static void flags_alone_make_a_cluster(void **state)
{
    (void)state;
    struct cluster_flags flags = {"worker", "p:1,q:1", "w:1,v:1", "", 1, 0};
    struct cluster c = known(NULL, &flags);
    assert_true(!c.is_chief && !c.sparse && !c.separate_chief);
    assert_int_equal(c.worker_id, 1);
    assert_string_equal(c.self, "v:1");
    assert_string_equal(c.chief, "w:1");
    cluster_close(&c);
    flags.chief_host = "c:1";
    c = known(NULL, &flags);
    assert_int_equal(c.worker_id, 2);
    assert_string_equal(c.chief, "c:1");
    assert_int_equal(cluster_workers_most(&c), 3);
    cluster_close(&c);
    flags = (struct cluster_flags){"chief", "p:1", "", "c:1", -1, 0};
    c = known(NULL, &flags);
    assert_true(c.is_chief && !c.sparse);
    assert_int_equal(cluster_workers_most(&c), UINT32_MAX); /* they join by themselves */
    cluster_close(&c);
    flags = (struct cluster_flags){"worker", "p:1", "", "", 3, 0}; /* one more, who joins */
    c = known(NULL, &flags);
    assert_true(c.sparse && !c.is_chief);
    assert_null(c.self);
    cluster_close(&c);
    flags = (struct cluster_flags){"worker", "", "", "", 0, 0};
    c = known(NULL, &flags);
    assert_true(c.alone && c.is_chief);
    cluster_close(&c);
}

static void flags_that_lack_something_name_it(void **state)
{
    (void)state;
    struct cluster_flags flags = {"", "p:1", "", "", -1, 0};
    refused(NULL, &flags, "--job_name is missing; allowed: chief, worker, ps, evaluator");
    flags = (struct cluster_flags){"ps", "p:1,q:1", "", "", -1, 0};
    refused(NULL, &flags,
            "--task_index is missing: give the number, from 0, that says which of the 2 ps "
            "processes this is");
    flags = (struct cluster_flags){"ps", "p:1,q:1", "", "", 2, 0};
    refused(NULL, &flags, "this is ps 2, but the cluster lists 2 of them; allowed: 0 to 1");
    flags = (struct cluster_flags){"wroker", "p:1", "", "", 0, 0};
    refused(NULL, &flags,
            "--job_name: unknown type 'wroker', did you mean worker? allowed: chief (or master), "
            "worker, ps, evaluator");
    flags = (struct cluster_flags){"ps", "p:1", "", "", -7, 0};
    refused(NULL, &flags, "--task_index: -7 is not allowed; allowed: a number from 0");
    flags = (struct cluster_flags){"chief", "p:1", "", "c:1,d:1", -1, 0};
    refused(NULL, &flags, "--chief_host: 2 addresses are given; allowed: one");
}

static void flags_win_over_tf_config(void **state)
{
    (void)state;
    struct cluster_flags flags = no_flags;
    flags.task_index = 1;
    flags.ps_hosts = "x:1";
    struct cluster c = known(DENSE(TASK("worker", "0")), &flags);
    assert_int_equal(c.index, 1);
    assert_int_equal(c.n_ps, 1);
    assert_string_equal(c.ps[0], "x:1");
    assert_int_equal(c.n_workers, 2);
    cluster_close(&c);
    flags = no_flags;
    flags.job_name = "ps"; /* the index of TF_CONFIG was a worker's */
    refused(DENSE(TASK("worker", "0")), &flags,
            "--task_index is missing: give the number, from 0, that says which of the 2 ps "
            "processes this is");
}

/* Every case of a file of [{"pods": {"NAME-TYPE-I": TF_CONFIG or null}}] gives the role of its pod.
 */
static void check_pod(const char *pod, const json_t *config)
{
    struct cluster c;
    struct errmsg e = {""};
    enum err err = cluster_init(&c, &no_flags, json_string_value(config), &e);
    if (err) { /* a case that cannot work under dynamic workers is refused in one line */
        assert_non_null(strstr(json_string_value(config), "\"worker\":{"));
        assert_non_null(strstr(e.text, " ps"));
        return;
    }
    char type_and_index[64];
    const char *type = strstr(pod, "master") ? "master" : role_str(c.role);
    (void)snprintf(type_and_index, sizeof type_and_index, "-%s-%u", type, c.index);
    if (json_is_string(config)) {
        assert_non_null(strstr(pod, type_and_index));
        assert_memory_equal(c.self, pod, strlen(pod));
    } else {
        assert_true(c.alone);
    }
    cluster_close(&c);
}

static void what_an_operator_gives_is_understood(void **state)
{
    (void)state;
    const char *folder = getenv("GRADWIRE_K8S"), *pod;
    char path[4096];
    if (!folder) {
        print_message("GRADWIRE_K8S is not set\n");
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/tf_config_cases.json", folder);
    json_error_t problem;
    json_t *cases = json_load_file(path, 0, &problem), *one, *config;
    assert_non_null(cases);
    size_t i;
    json_array_foreach(cases, i, one)
    {
        json_object_foreach(json_object_get(one, "pods"), pod, config) check_pod(pod, config);
    }
    assert_true(i > 0);
    json_decref(cases);
}

static void running_out_of_memory_anywhere_is_told(void **state)
{
    (void)state;
    struct cluster_flags flags = no_flags;
    flags.chief_host = "c:1";
    long n = 0;
    for (;; n++) {
        struct cluster c;
        struct errmsg e;
        mem_fail_at(n);
        enum err err = cluster_init(&c, &flags, DENSE(TASK("worker", "0")), &e);
        int fired = mem_fail_fired();
        mem_fail_at(-1);
        if (!fired) {
            assert_int_equal(err, ERR_OK);
            cluster_close(&c);
            break;
        }
        assert_int_equal(err, ERR_NOMEM);
    }
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_a_process_is_a_lone_worker),
        cmocka_unit_test(worker_0_is_the_chief_without_a_chief),
        cmocka_unit_test(a_chief_or_master_is_before_the_workers),
        cmocka_unit_test(an_evaluator_may_be_listed_or_not),
        cmocka_unit_test(who_is_told_of_an_evaluator_knows_it),
        cmocka_unit_test(a_sparse_process_knows_its_part),
        cmocka_unit_test(a_chief_beside_workers_is_listed_or_worker_0_is_one_too),
        cmocka_unit_test(a_sparse_chief_names_both_ways_out),
        cmocka_unit_test(a_name_from_tf_config_is_listened_for_on_all_addresses),
        cmocka_unit_test(several_processes_need_a_ps),
        cmocka_unit_test(an_index_may_be_a_number_in_quotes),
        cmocka_unit_test(broken_tf_configs_say_what_would_be_right),
        cmocka_unit_test(an_address_stands_once),
        cmocka_unit_test(addresses_are_host_and_port),
        cmocka_unit_test(flags_alone_make_a_cluster),
        cmocka_unit_test(flags_that_lack_something_name_it),
        cmocka_unit_test(flags_win_over_tf_config),
        cmocka_unit_test(what_an_operator_gives_is_understood),
        cmocka_unit_test(running_out_of_memory_anywhere_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
