#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/base/version.h"
#include "common/peers/hello.h"

static char *two[] = {(char *)"a:1", (char *)"b:2"}, *one[] = {(char *)"b:2"};
static struct job job = {.name = "ours", .identity = {1, 2, 3}};
static const struct cluster ps = {.role = ROLE_PS, .index = 1, .n_ps = 2, .ps = two};
static const struct cluster sparse = {
    .role = ROLE_PS, .index = 1, .n_ps = 1, .ps = one, .sparse = true};
static const struct cluster chief = {.role = ROLE_WORKER, .is_chief = true, .n_ps = 2, .ps = two};
static const struct cluster worker = {
    .role = ROLE_WORKER, .index = 3, .worker_id = 3, .n_ps = 2, .ps = two};

static const struct contents contents = {.fingerprint = {7}, .print = {.files = 1}};

static Gradwire__Hello hello(const struct cluster *of)
{
    static Gradwire__Contents room;
    Gradwire__Hello m;
    hello_make(&m, &job, of, 1);
    hello_add_contents(&m, &room, &contents);
    return m;
}

static void takes(const struct cluster *c, const char *uuid, const Gradwire__Hello *m)
{
    const struct hello_host host = {.job = &job, .cluster = c, .uuid = uuid, .contents = &contents};
    struct hello_refusal why = {.reason = GRADWIRE__REASON__UNKNOWN};
    if (!hello_judge(&host, m, &why))
        fail_msg("%s", why.text);
}

static void refuses(const struct cluster *c, const char *uuid, const Gradwire__Hello *m,
                    Gradwire__Reason reason, const char *text)
{
    const struct hello_host host = {.job = &job, .cluster = c, .uuid = uuid, .contents = &contents};
    struct hello_refusal why = {.reason = GRADWIRE__REASON__UNKNOWN};
    assert_false(hello_judge(&host, m, &why));
    assert_string_equal(why.text, text);
    assert_int_equal(why.reason, reason);
}

static void a_hello_says_who_its_sender_is(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&worker);
    assert_string_equal(m.version, GRADWIRE_HELLO);
    assert_string_equal(m.job, "ours");
    assert_int_equal(m.identity.len, sizeof job.identity);
    assert_memory_equal(m.identity.data, job.identity, sizeof job.identity);
    assert_int_equal(m.role, GRADWIRE__ROLE__WORKER);
    assert_int_equal(m.worker, 3);
    assert_int_equal(m.shard, -1);
    assert_int_equal(m.ps_index, 1);
    assert_int_equal(m.n_ps_hosts, 2);
    assert_string_equal(m.ps_hosts[1], "b:2");
    assert_string_equal(m.uuid, "");
    assert_int_equal(hello(&chief).role, GRADWIRE__ROLE__CHIEF);
}

static void who_is_of_the_job_is_taken(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&worker), of_chief = hello(&chief);
    takes(&ps, "", &m);
    takes(&ps, "", &of_chief);
    takes(&sparse, "", &m);
    takes(&chief, "", &m);
    m.uuid = (char *)"run 1";
    takes(&ps, "", &m);
    takes(&ps, "run 1", &m);
    m.role = GRADWIRE__ROLE__DOCTOR;
    m.worker = 0;
    takes(&ps, "run 1", &m);
    takes(&chief, "", &m);
}

static void another_release_is_named_by_both_sides(void **state)
{
    (void)state;
#define RULE ": all processes of a job must run the same release"
    Gradwire__Hello m = hello(&worker), of_chief = hello(&chief);
    m.version = of_chief.version = (char *)"9.9";
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_VERSION,
            "a worker of version 9.9 connected to a ps of version " GRADWIRE_HELLO RULE);
    refuses(&ps, "", &of_chief, GRADWIRE__REASON__OTHER_VERSION,
            "a chief of version 9.9 connected to a ps of version " GRADWIRE_HELLO RULE);
    refuses(&chief, "", &of_chief, GRADWIRE__REASON__OTHER_VERSION,
            "a worker of version 9.9 connected to a chief of version " GRADWIRE_HELLO RULE);
    m.version = (char *)GRADWIRE_VERSION; /* 0.1.0, and builds after it without a protocol */
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_VERSION,
            "a worker of version " GRADWIRE_VERSION
            " connected to a ps of version " GRADWIRE_HELLO RULE);
    m.version = (char *)"9.9";
    m.role = GRADWIRE__ROLE__DOCTOR;
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_VERSION,
            "a doctor of version 9.9 connected to a chief of version " GRADWIRE_HELLO RULE);
#undef RULE
}

static void another_job_is_refused(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&worker);
    m.job = (char *)"theirs";
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_JOB,
            "a process of job theirs connected to a ps of job ours");
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_JOB,
            "a worker of job theirs connected to the chief of job ours");
    uint8_t identity[sizeof job.identity] = {1, 2, 4};
    m = hello(&worker);
    m.identity.data = identity;
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_JOB,
            "an identity key of job ours has another value here");
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_JOB,
            "a worker of job ours connected to the chief of job ours; an identity key differs");
    m.identity.data = job.identity;
    m.identity.len--;
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_JOB,
            "an identity key of job ours has another value here");
}

static void other_meanings_of_rows_are_refused_by_the_chief(void **state)
{
    (void)state;
    Gradwire__Hello silent = hello(&worker);
    assert_int_equal(silent.encoding.len, 0);
    job.encoded = true;
    job.encoding[2] = 0xab;
    job.encoding[3] = 0xcd;
    Gradwire__Hello m = hello(&worker);
    uint8_t other[sizeof job.encoding] = {0};
    assert_memory_equal(m.encoding.data, job.encoding, sizeof job.encoding);
    takes(&chief, "", &m);
    takes(&chief, "", &silent); /* it has read no rows */
    m.encoding.data = other;
    takes(&ps, "", &m);
    refuses(
        &chief, "", &m, GRADWIRE__REASON__OTHER_JOB,
        "the encodings of the rows differ (words, scales or buckets): worker 3 has 00000000, the "
        "chief 0000abcd; give all processes the same data, data.encoding and checkpoints");
    job.encoded = false;
}

static void a_refusal_for_what_rows_mean_says_which_cut_has_it(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&worker);
    Gradwire__Refuse refuse;
    Gradwire__Contents room;
    uint8_t other[sizeof job.encoding] = {0};
    const struct hello_host host = {
        .job = &job, .cluster = &chief, .uuid = "", .encoding_cut = 8, .contents = &contents};
    struct hello_refusal why = {.reason = GRADWIRE__REASON__UNKNOWN};
    job.encoded = true;
    m.encoding.data = other;
    m.encoding.len = sizeof other;
    assert_false(hello_judge(&host, &m, &why));
    hello_refuse(&refuse, &room, &host, &why);
    assert_int_equal(refuse.encoding_cut, 8);
    assert_int_equal(refuse.encoding.len, sizeof job.encoding);
    assert_memory_equal(refuse.encoding.data, job.encoding, sizeof job.encoding);
    m.job = (char *)"theirs"; /* the meaning of its rows does not matter */
    assert_false(hello_judge(&host, &m, &why));
    hello_refuse(&refuse, &room, &host, &why);
    assert_int_equal(refuse.encoding_cut, 0);
    job.encoded = false;
}

/* A process that has read its data is compared; a doctor has read none. A ps reads none. */
static void other_training_data_are_refused_by_the_chief(void **state)
{
    (void)state;
    Gradwire__Contents other = GRADWIRE__CONTENTS__INIT;
    uint8_t fingerprint[sizeof contents.fingerprint] = {8};
    Gradwire__Hello m = hello(&worker);
    const Gradwire__Role reading[] = {GRADWIRE__ROLE__WORKER, GRADWIRE__ROLE__READER};
    other.files = 2;
    other.fingerprint.data = fingerprint;
    for (size_t i = 0; i < 2; i++) {
        m.role = reading[i];
        for (size_t n = 0; n <= sizeof fingerprint; n += sizeof fingerprint / 2) {
            other.fingerprint.len = n;
            m.contents = &other;
            refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_DATA,
                    "worker 3 has other training data than the chief: it has read 2 files, the "
                    "chief 1");
        }
        m.contents = NULL;
        refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_DATA,
                "worker 3 has other training data than the chief: it has read 0 files, the chief "
                "1");
    }
    job.data.order = ORDER_STREAM; /* a reader asks for the index of the data */
    m.role = GRADWIRE__ROLE__READER;
    takes(&chief, "", &m);
    m.role = GRADWIRE__ROLE__WORKER;
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_DATA,
            "worker 3 has other training data than the chief: it has read 0 files, the chief 1");
    job.data.order = ORDER_SHUFFLED;
    takes(&ps, "", &m);
    const struct hello_host loads = {
        .job = &job, .cluster = &chief, .uuid = ""}; /* it reads its own */
    struct hello_refusal why = {.reason = GRADWIRE__REASON__UNKNOWN};
    assert_true(hello_judge(&loads, &m, &why));
    m.role = GRADWIRE__ROLE__DOCTOR;
    takes(&chief, "", &m);
    m.role = GRADWIRE__ROLE__ARRIVAL; /* it reads them now */
    takes(&chief, "", &m);
    m.role = GRADWIRE__ROLE__WORKER;
    m.idle = true; /* its job is done: it reads none, and trains nothing */
    takes(&chief, "", &m);
}

static struct contents one_file(const char *path, const char *text)
{
    struct contents c = {.files = 0};
    struct errmsg e;
    assert_int_equal(contents_begin(&c, &e), ERR_OK);
    contents_file(&c, path);
    contents_add(&c, text, strlen(text));
    contents_count(&c, strlen(text));
    assert_int_equal(contents_finish(&c, &e), ERR_OK);
    return c;
}

static void each_side_names_its_own_file_that_differs(void **state)
{
    (void)state;
    struct contents ours = one_file("/chief/a.csv", "12345"), theirs = one_file("/own/a.csv", "1");
    const struct hello_host host = {.job = &job, .cluster = &chief, .uuid = "", .contents = &ours};
    struct hello_refusal why;
    Gradwire__Contents room, sent;
    Gradwire__Refuse refuse;
    Gradwire__Hello m = hello(&worker);
    char text[HELLO_WHY_BYTES];
    hello_add_contents(&m, &room, &theirs);
    ours.print.rows = 1000; /* and the worker is of a release that does not tell */
    assert_false(hello_judge(&host, &m, &why));
    assert_string_equal(why.text, "worker 3 has other training data than the chief: /chief/a.csv "
                                  "differs (1 bytes, 5 at the chief)");
    hello_refuse(&refuse, &sent, &host, &why);
    hello_other_data(&refuse, &worker, &theirs, text, sizeof text);
    assert_string_equal(text, "worker 3 has other training data than the chief: /own/a.csv "
                              "differs (1 bytes, 5 at the chief in /chief/a.csv)");
    refuse.differing = theirs.file[0].name;
    hello_other_data(&refuse, &worker, &theirs, text, sizeof text);
    assert_string_equal(text, "worker 3 has other training data than the chief: /own/a.csv "
                              "differs (1 bytes, 5 at the chief)");
    refuse.contents = NULL; /* of a chief that does not send it */
    hello_other_data(&refuse, &worker, &theirs, text, sizeof text);
    assert_string_equal(text, why.text);
    theirs.print.rows = 999;
    hello_add_contents(&m, &room, &theirs);
    assert_false(hello_judge(&host, &m, &why));
    assert_string_equal(why.text, "worker 3 has other training data than the chief: it has 999 "
                                  "rows, the chief 1000; /chief/a.csv differs (1 bytes, 5 at the "
                                  "chief)");
    hello_refuse(&refuse, &sent, &host, &why);
    hello_other_data(&refuse, &worker, &theirs, text, sizeof text);
    assert_string_equal(text, "worker 3 has other training data than the chief: it has 999 rows, "
                              "the chief 1000; /own/a.csv differs (1 bytes, 5 at the chief in "
                              "/chief/a.csv)");
    contents_close(&ours);
    contents_close(&theirs);
}

static void a_chief_of_other_data_does_not_take_over_what_a_ps_holds(void **state)
{
    (void)state;
    const uint8_t held[sizeof contents.fingerprint] = {7}, other[sizeof held] = {8};
    struct hello_host host = {.job = &job, .cluster = &ps, .uuid = "run 1", .data = held};
    struct hello_refusal why;
    Gradwire__Hello of_chief = hello(&chief), of_worker = hello(&worker);
    assert_true(hello_judge(&host, &of_chief, &why));
    host.data = other;
    assert_false(hello_judge(&host, &of_chief, &why));
    assert_int_equal(why.reason, GRADWIRE__REASON__OTHER_DATA);
    assert_string_equal(why.text,
                        "the chief has other training data than the run that this ps holds");
    assert_true(hello_judge(&host, &of_worker, &why)); /* the chief compares it */
    host.data = held;
    of_chief.contents = NULL;
    assert_false(hello_judge(&host, &of_chief, &why));
}

static void another_run_is_refused_by_a_ps(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&worker);
    m.uuid = (char *)"run 1";
    refuses(&ps, "run 2", &m, GRADWIRE__REASON__OTHER_JOB,
            "run run 1 of job ours connected to a ps of run run 2");
}

#define SAME "; give all processes the same list"
#define REACHED ": give all processes the same list of ps"

static void another_ps_list_is_refused_naming_both(void **state)
{
    (void)state;
    char *others[] = {(char *)"a:1", (char *)"c:3", (char *)"d:4"};
    char *swapped[] = {(char *)"b:2", (char *)"a:1"};
    Gradwire__Hello m = hello(&worker), of_chief = hello(&chief);
    m.ps_hosts = others;
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "the lists of ps differ: worker 3 has c:3 as ps 1 (2 ps in all), ps 1 has b:2 (2 in "
            "all)" SAME);
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "the lists of ps differ: worker 3 has c:3 as ps 1 (2 ps in all), the chief has b:2 (2 "
            "in all)" SAME);
    m.n_ps_hosts = 3;
    others[1] = two[1];
    refuses(
        &ps, "", &m, GRADWIRE__REASON__OTHER_LISTS,
        "the lists of ps differ: worker 3 has d:4 as ps 2 (3 ps in all), ps 1 has nothing (2 in "
        "all)" SAME);
    m.n_ps_hosts = 1;
    refuses(&chief, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "the lists of ps differ: worker 3 has nothing as ps 1 (1 ps in all), the chief has b:2 "
            "(2 in all)" SAME);
    of_chief.ps_hosts = swapped;
    for (int arrives = 0; arrives < 2; arrives++) {
        of_chief.role = arrives ? GRADWIRE__ROLE__ARRIVAL : GRADWIRE__ROLE__CHIEF;
        of_chief.chief_address = (char *)"c:3";
        refuses(&ps, "", &of_chief, GRADWIRE__REASON__OTHER_LISTS,
                "the lists of ps differ: the chief has b:2 as ps 0 (2 ps in all), ps 1 has a:1 (2 "
                "in all)" SAME);
    }
}

static void who_reaches_another_ps_than_it_dialed_is_refused(void **state)
{
    (void)state;
    char *others[] = {(char *)"a:1", (char *)"c:3"};
    Gradwire__Hello m = hello(&worker);
    m.ps_index = 0;
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "worker 3 connected to ps 0 at a:1, and reached ps 1, which is at b:2" REACHED);
    refuses(&sparse, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "worker 3 connected to ps 0 at a:1, and reached ps 1, which is at b:2" REACHED);
    m.ps_index = 7;
    refuses(&sparse, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "worker 3 connected to ps 7 at ?, and reached ps 1, which is at b:2" REACHED);
    m.ps_index = 1;
    m.ps_hosts = others;
    refuses(&sparse, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "worker 3 connected to ps 1 at c:3, and reached ps 1, which is at b:2" REACHED);
}

/* Where a chief is apart from the workers, worker 0 has the id that worker 1 has otherwise. */
static void who_is_the_chief_must_be_the_same_in_all_lists(void **state)
{
    (void)state;
    struct cluster apart = chief, apart_worker = worker, dense = worker;
    apart.n_workers = apart_worker.n_workers = dense.n_workers = 4;
    apart.separate_chief = apart_worker.separate_chief = true;
    struct cluster dynamic = apart;
    Gradwire__Hello m = hello(&dense), of_apart = hello(&apart_worker), of_sparse = hello(&worker);
    takes(&apart, "", &of_apart);
    takes(&chief, "", &m);
    takes(&apart, "", &of_sparse);
    Gradwire__Hello arrival = hello(&dense);
    arrival.role = GRADWIRE__ROLE__ARRIVAL;
    takes(&chief, "", &arrival);
    refuses(&apart, "", &arrival, GRADWIRE__REASON__OTHER_LISTS,
            "the lists differ: by the worker's list worker 0 is the chief, but here the chief is a "
            "process of its own; give all processes the same lists");
    refuses(&apart, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "the lists differ: by the worker's list worker 0 is the chief, but here the chief is a "
            "process of its own; give all processes the same lists");
    refuses(&chief, "", &of_apart, GRADWIRE__REASON__OTHER_LISTS,
            "the lists differ: the worker's list has a chief of its own, but here worker 0 is the "
            "chief; give all processes the same lists");
    dynamic.sparse = true; /* it cannot know */
    takes(&dynamic, "", &m);
}

static void a_worker_beside_a_separate_chief_has_the_number_that_users_give_it(void **state)
{
    (void)state;
    struct cluster apart = chief, third = worker;
    apart.separate_chief = third.separate_chief = true;
    Gradwire__Hello m = hello(&third);
    m.contents = NULL;
    refuses(&apart, "", &m, GRADWIRE__REASON__OTHER_DATA,
            "worker 2 has other training data than the chief: it has read 0 files, the chief 1");
    m.worker = WORKERS_MAX;
    refuses(&apart, "", &m, GRADWIRE__REASON__BAD_MESSAGE,
            "worker 1023 connected to the chief; allowed: 0 to 1022");
    m.worker = 3;
    m.ps_index = 7;
    refuses(&ps, "", &m, GRADWIRE__REASON__OTHER_LISTS,
            "worker 2 connected to ps 7 at ?, and reached ps 1, which is at b:2: give all "
            "processes the same list of ps");
}

static void who_cannot_be_is_refused(void **state)
{
    (void)state;
    Gradwire__Hello m = hello(&chief);
    refuses(&chief, "", &m, GRADWIRE__REASON__BAD_MESSAGE, "a chief connected to the chief");
    m.worker = 4;
    refuses(&ps, "", &m, GRADWIRE__REASON__BAD_MESSAGE,
            "worker 4 claims to be the chief, which is worker 0");
    m.role = GRADWIRE__ROLE__ARRIVAL;
    takes(&ps, "", &m);
    m.chief_address = (char *)"a:1"; /* ps 0 would send the other arrivals there */
    refuses(&ps, "", &m, GRADWIRE__REASON__BAD_MESSAGE,
            "worker 4 claims to be the chief, which is worker 0");
    m = hello(&worker);
    m.worker = 0;
    refuses(&chief, "", &m, GRADWIRE__REASON__BAD_MESSAGE,
            "worker 0 connected to the chief; allowed: 1 to 1023");
    m.worker = 1024;
    refuses(&chief, "", &m, GRADWIRE__REASON__BAD_MESSAGE,
            "worker 1024 connected to the chief; allowed: 1 to 1023");
    m.worker = 1023;
    takes(&chief, "", &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_says_who_its_sender_is),
        cmocka_unit_test(who_is_of_the_job_is_taken),
        cmocka_unit_test(another_release_is_named_by_both_sides),
        cmocka_unit_test(another_job_is_refused),
        cmocka_unit_test(other_meanings_of_rows_are_refused_by_the_chief),
        cmocka_unit_test(a_refusal_for_what_rows_mean_says_which_cut_has_it),
        cmocka_unit_test(other_training_data_are_refused_by_the_chief),
        cmocka_unit_test(each_side_names_its_own_file_that_differs),
        cmocka_unit_test(a_chief_of_other_data_does_not_take_over_what_a_ps_holds),
        cmocka_unit_test(another_run_is_refused_by_a_ps),
        cmocka_unit_test(another_ps_list_is_refused_naming_both),
        cmocka_unit_test(who_reaches_another_ps_than_it_dialed_is_refused),
        cmocka_unit_test(who_is_the_chief_must_be_the_same_in_all_lists),
        cmocka_unit_test(a_worker_beside_a_separate_chief_has_the_number_that_users_give_it),
        cmocka_unit_test(who_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
