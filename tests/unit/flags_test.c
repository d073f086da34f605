#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/flags/flags.h"
#include "common/flags/table.h"
#include "common/base/version.h"

enum { WORDS_MAX = 16 };

static enum err read_all(const char *program, struct errmsg *e, const char *const *words)
{
    char *argv[WORDS_MAX] = {(char *)(uintptr_t) "program"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    return flags_read(program, argc, argv, e);
}

static void take_all(const char *program, const char *const *words)
{
    struct errmsg e = {""};
    if (read_all(program, &e, words))
        fail_msg("%s", e.text);
}
#define TAKE(program, ...) take_all(program, (const char *const[]){__VA_ARGS__, NULL})

static struct flags flags_of(const char *const *words)
{
    struct flags f;
    take_all("worker", words);
    flags_process(&f);
    return f;
}
#define FLAGS(...) flags_of((const char *const[]){"--job=j", __VA_ARGS__, NULL})

static void refused_all(const char *program, const char *why, const char *const *words)
{
    struct errmsg e = {""};
    assert_int_equal(read_all(program, &e, words), ERR_INPUT);
    assert_string_equal(e.text, why);
}
#define REFUSED(why, ...) refused_all("worker", why, (const char *const[]){__VA_ARGS__, NULL})
#define REFUSED_OF(program, why, ...)                                                              \
    refused_all(program, why, (const char *const[]){__VA_ARGS__, NULL})

/* A file of its own name; the caller removes it. */
static void file_write(char path[64], const char *text)
{
    (void)snprintf(path, 64, "/tmp/gradwire-flags-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static void flags_left_out_have_their_defaults(void **state)
{
    (void)state;
    (void)FLAGS("--task_index=5", "--ps_hosts=a:1", "--log_level=warn", "--listen_fd=4",
                "--set=a=b");
    struct flags f = FLAGS("--output=");
    assert_string_equal(f.job, "j");
    assert_string_equal(f.output, "");
    assert_int_equal(f.cluster.task_index, -1);
    assert_string_equal(f.cluster.job_name, "");
    assert_string_equal(f.cluster.ps_hosts, "");
    assert_int_equal(f.n_sets, 0);
    assert_int_equal(f.listen_fd, -1);
    assert_int_equal(f.progress_fd, -1);
    assert_string_equal(f.log_level, "info");
    assert_string_equal(f.fault, "");
    assert_string_equal(f.auth, "auto");
    assert_string_equal(FLAGS("--auth", "required").auth, "required");
    assert_false(f.waits);
    assert_true(FLAGS("--when_done=wait").waits && !FLAGS("--when_done=exit").waits);
    assert_string_equal(FLAGS("--fault=nan:3").fault, "nan:3");
}

static void the_doctor_wants_no_job_and_others_have_none_of_its_flags(void **state)
{
    (void)state;
    struct flags f;
    TAKE("worker", "--doctor", "--json", "--certificates=a,b,c");
    flags_process(&f);
    assert_true(f.doctor && f.doctor_json);
    assert_string_equal(f.certificates, "a,b,c");
    assert_false(FLAGS("--output=o").doctor);
    REFUSED("--json needs --doctor too", "--job=j", "--json");
    REFUSED("--certificates needs --doctor too", "--job=j", "--certificates=a,b,c");
    REFUSED_OF("ps", "unknown flag --doctor; it is a flag of worker", "--job=j", "--doctor");
}

static void every_way_to_write_a_flag_is_read(void **state)
{
    (void)state;
    struct flags f = FLAGS("--job-name=ps", "-task_index", "3", "--ps-hosts", "a:1,b:2",
                           "--worker_hosts=c:1", "-chief-host=d:1", "--output=o=p");
    assert_string_equal(f.cluster.job_name, "ps");
    assert_int_equal(f.cluster.task_index, 3);
    assert_string_equal(f.cluster.ps_hosts, "a:1,b:2");
    assert_string_equal(f.cluster.worker_hosts, "c:1");
    assert_string_equal(f.cluster.chief_host, "d:1");
    assert_string_equal(f.output, "o=p");
}

static void every_set_is_kept_in_order(void **state)
{
    (void)state;
    char inner[64], outer[64], text[256];
    file_write(inner, "--set b-c=2 x\r\n");
    (void)snprintf(text, sizeof text, "# a comment\n\n  --set=a=1\n--flagfile=%s\n--task-index=7\n",
                   inner);
    file_write(outer, text);
    struct flags f = FLAGS("--set", "z=0", "--flagfile", outer, "--set=y=9");
    assert_int_equal(f.n_sets, 4);
    assert_string_equal(f.sets[0], "z=0");
    assert_string_equal(f.sets[1], "a=1");
    assert_string_equal(f.sets[2], "b-c=2 x");
    assert_string_equal(f.sets[3], "y=9");
    assert_int_equal(f.cluster.task_index, 7);
    unlink(inner);
    unlink(outer);
}

static void a_flagfile_that_is_wrong_names_its_line(void **state)
{
    (void)state;
    char path[64], text[128], why[256];
    file_write(path, "--set a=1\n--jbo=x\n");
    (void)snprintf(why, sizeof why, "%s:2: unknown flag --jbo, did you mean --job?", path);
    (void)snprintf(text, sizeof text, "--flagfile=%s", path);
    REFUSED(why, text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(why, sizeof why, "%s:1: --flagfile=%s: flagfiles nested more than 8 deep", path,
                   path);
    REFUSED(why, text);
    unlink(path);
    REFUSED("--flagfile=/nowhere/f: No such file or directory", "--flagfile=/nowhere/f");
    REFUSED("--flagfile=/tmp: Is a directory", "--flagfile=/tmp");
}

static void wrong_flags_are_one_line(void **state)
{
    (void)state;
    REFUSED("unknown flag --job_nam, did you mean --job_name?", "--job-nam=x");
    REFUSED("unknown flag --zzzzzzz; --help lists all flags", "--zzzzzzz");
    REFUSED("--task_index: 'abc' is not allowed; allowed: a number from 0", "--task_index=abc");
    REFUSED("--task_index: '' is not allowed; allowed: a number from 0", "--task_index=");
    REFUSED("--task_index: '-1' is not allowed; allowed: a number from 0", "--task_index=-1");
    REFUSED("--task_index: '0x1' is not allowed; allowed: a number from 0", "--task_index=0x1");
    REFUSED("--task_index: '99999999999999999999' is not allowed; allowed: a number from 0",
            "--task_index=99999999999999999999");
    REFUSED("--listen_fd: '4294967296' is not allowed; allowed: a number from 0",
            "--listen_fd=4294967296");
    REFUSED("--set needs a value: --set key=value", "--set");
    REFUSED("'train' is not a flag; a flag has the form --name=value", "train");
    REFUSED("'--' is not a flag; a flag has the form --name=value", "--");
    REFUSED("'' is not a flag; a flag has the form --name=value", "");
    REFUSED("--help takes no value", "--help=1");
    REFUSED("--log_level: 'loud' is not allowed; allowed: debug, info, warn, error", "--job=j",
            "--log_level=loud");
    REFUSED("--log_level: 'info, warn' is not allowed; allowed: debug, info, warn, error",
            "--job=j", "--log_level=info, warn");
    REFUSED("--log_format: '' is not allowed; allowed: text, json", "--job=j", "--log_format=");
    REFUSED("--http_port: '65536' is not allowed; allowed: 0 to 65535", "--job=j",
            "--http-port=65536");
    REFUSED("--http_address needs --http_port=PORT too", "--job=j", "--http_address=127.0.0.1");
    REFUSED("--when_done: 'stay' is not allowed; allowed: exit, wait", "--job=j",
            "--when_done=stay");
    REFUSED("--job=FILE is missing; --help lists all flags", "--set=a=1");
}

static void flags_of_the_launcher_are_read_and_refused_alike(void **state)
{
    (void)state;
    size_t n;
    TAKE("train", "--workers", "3", "job.yaml", "--set=a=1", "--set", "b=2",
         "--fault=worker-0=nan:1", "--bin-dir=d", "-tls_cert=c", "--fresh");
    assert_int_equal(flags_number("ps"), 2);
    assert_int_equal(flags_number("workers"), 3);
    assert_int_equal(flags_number("restarts"), 10);
    assert_string_equal(flags_list(FLAGS_WORDS, NULL)[0], "job.yaml");
    assert_string_equal(flags_list("set", &n)[1], "b=2");
    assert_int_equal(n, 2);
    assert_string_equal(flags_list("fault", NULL)[0], "worker-0=nan:1");
    assert_string_equal(flags_given("bin_dir"), "d");
    assert_string_equal(flags_tls().cert, "c");
    assert_null(flags_given("output"));
    assert_true(flags_on("fresh") && !flags_on("chief"));
    TAKE("rank", "--", "--job");
    assert_int_equal(flags_number("ps"), 1);
    assert_string_equal(flags_list(FLAGS_WORDS, NULL)[0], "--job");
    assert_null(flags_list("set", &n)[0]);
    assert_int_equal(n, 0);
    TAKE("logs", "DIR", "-f", "worker-0", "ps-1");
    assert_true(flags_on("follow"));
    assert_string_equal(flags_list(FLAGS_WORDS, &n)[2], "ps-1");
    assert_int_equal(n, 3);
    REFUSED_OF("train", "--ps: '0' is not allowed; allowed: 1 to 256", "j", "--ps=0");
    REFUSED_OF("train", "--workers: 'two' is not allowed; allowed: 0 to 1024", "j",
               "--workers=two");
    REFUSED_OF("train", "--output: '' is not allowed; allowed: DIR", "j", "--output=");
    REFUSED_OF("train", "--rsh needs --hosts=FILE too", "j", "--rsh=x");
    REFUSED_OF("train", "JOB is missing: gradwire train JOB; --help lists all flags", "--ps=1");
    REFUSED_OF("train", "'k' is a second JOB; only one is allowed", "j", "k");
    REFUSED_OF("rank", "unknown flag --workers; it is a flag of train", "j", "--workers=3");
}

static void the_entrypoint_hands_on_what_is_not_its_own(void **state)
{
    (void)state;
    static const char *const rest[] = {"--set",  "training.epochs=3",   "-log-level",
                                       "debug",  "--flagfile=/nowhere", "--json",
                                       "--job=a"};
    size_t n;
    TAKE("entrypoint", "--epochs=3", "-log-level", "debug", "--flagfile=/nowhere", "--doctor",
         "--json", "--job=a");
    const char *const *found = flags_list(FLAGS_REST, &n);
    assert_int_equal(n, sizeof rest / sizeof *rest);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(found[i], rest[i]);
    assert_string_equal(flags_given("job"), "a");
    REFUSED_OF("entrypoint", "--index is given twice: '1' and '1'", "--index=1", "--index=1");
    REFUSED_OF("entrypoint", "--port needs --worker_ips=IP,IP,.. too", "--port=1");
    REFUSED_OF("entrypoint", "--task_index: 'x' is not allowed; allowed: a number from 0",
               "--task_index=x");
}

static void the_help_fits_80_columns_and_names_every_shown_flag(void **state)
{
    static const char *const flags[] = {
        "--job=",        "--output=",    "--set ",          "--job_name=",
        "--task_index=", "--ps_hosts=",  "--worker_hosts=", "--chief_host=",
        "--log_level=",  "--listen_fd=", "--progress_fd=",  "--flagfile=",
        "--help",        "--version",    "--token_file=",   "--auth=auto|required|none",
        "--tls_cert"};
    (void)state;
    for (const struct flags_program *p = flags_programs; p->name; p++) {
        char help[FLAGS_HELP_BYTES];
        flags_help(p->name, help, sizeof help);
        for (size_t i = 0; i < sizeof flags / sizeof flags[0] && (p->is & FLAGS_PROCESS); i++)
            assert_non_null(strstr(help, flags[i]));
        for (const struct flag *f = flags_table; f->programs; f++)
            if (f->name && f->help && (f->programs & p->is))
                assert_non_null(strstr(help, f->name));
        unsigned lines = 0;
        for (const char *line = help; *line; lines++) {
            size_t n = strcspn(line, "\n");
            assert_true(n <= 80);
            line += n + 1;
        }
        bool of_launcher = !(p->is & (FLAGS_ENTRYPOINT | FLAGS_PROCESS));
        assert_true(!of_launcher || lines <= 23); /* and the prompt below */
    }
}

static void files_of_tls_are_handed_on(void **state)
{
    (void)state;
    struct flags f =
        FLAGS("--tls-cert=a", "--tls_key=b", "--tls_ca", "c", "--tls_names=worker=*.x.y");
    assert_string_equal(f.tls.cert, "a");
    assert_string_equal(f.tls.key, "b");
    assert_string_equal(f.tls.ca, "c");
    assert_string_equal(f.tls.names, "worker=*.x.y");
    assert_string_equal(FLAGS("--output=o").tls.cert, "");
}

/* Exit status of flags_parse in a process of its own; what it wrote on either stream. */
static int parse_in_child(const char *program, const char *word, char *said, size_t bytes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *argv[] = {(char *)(uintptr_t) "program", (char *)(uintptr_t)word};
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        flags_parse(program, 2, argv);
        _exit(99);
    }
    close(ends[1]);
    size_t at = 0;
    for (ssize_t n; (n = read(ends[0], said + at, bytes - 1 - at)) > 0;)
        at += (size_t)n;
    said[at] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void help_exits_0_and_a_wrong_flag_2(void **state)
{
    (void)state;
    char said[65536], expected[256];
    for (const struct flags_program *p = flags_programs; p->name; p++) {
        static const char *const asking[] = {"--help", "-h", "-help"};
        (void)snprintf(expected, sizeof expected, "Usage: %s ", p->usage);
        for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
            assert_int_equal(parse_in_child(p->name, asking[i], said, sizeof said), 0);
            assert_memory_equal(said, expected, strlen(expected));
        }
        (void)snprintf(expected, sizeof expected, "gradwire %s %s (a test)\n", p->name,
                       GRADWIRE_VERSION);
        assert_int_equal(parse_in_child(p->name, "--version", said, sizeof said), 0);
        assert_string_equal(said, expected);
        (void)snprintf(expected, sizeof expected,
                       "%.*s: unknown flag --versoin, did you mean --version?\n",
                       (int)strcspn(p->usage, " "), p->usage);
        assert_int_equal(parse_in_child(p->name, "--versoin", said, sizeof said), 2);
        assert_string_equal(said, expected);
    }
    assert_int_equal(parse_in_child("worker", "--print_job_reference", said, sizeof said), 0);
    assert_memory_equal(said, "# The job file", 14);
    assert_int_equal(parse_in_child("worker", "--job=x", said, sizeof said), 99); /* goes on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_doctor_wants_no_job_and_others_have_none_of_its_flags),
        cmocka_unit_test(flags_left_out_have_their_defaults),
        cmocka_unit_test(every_way_to_write_a_flag_is_read),
        cmocka_unit_test(every_set_is_kept_in_order),
        cmocka_unit_test(a_flagfile_that_is_wrong_names_its_line),
        cmocka_unit_test(wrong_flags_are_one_line),
        cmocka_unit_test(flags_of_the_launcher_are_read_and_refused_alike),
        cmocka_unit_test(the_entrypoint_hands_on_what_is_not_its_own),
        cmocka_unit_test(the_help_fits_80_columns_and_names_every_shown_flag),
        cmocka_unit_test(files_of_tls_are_handed_on),
        cmocka_unit_test(help_exits_0_and_a_wrong_flag_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
