#include "launch/remote/check.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/printable.h"
#include "common/process/files.h"
#include "job/job.h"
#include "job/tree.h"
#include "common/base/json.h"
#include "common/base/mem.h"
#include "common/process/paths.h"
#include "common/net/reach.h"
#include "common/net/tls.h"
#include "launch/local/ahead.h"

enum { SHARED_BYTES_MAX = 4096 };

json_t *check_answer_new(void)
{
    return json_pack("{s:[]}", "problems");
}

void check_problem(json_t *answer, const char *fmt, ...)
{
    char text[800];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    (void)json_array_append_new(json_object_get(answer, "problems"), json_text(text));
}

json_t *check_clock(void)
{
    json_t *answer = check_answer_new();
    (void)json_object_set_new(answer, "time_ms", json_integer((json_int_t)clock_wall_ms()));
    return answer;
}

/* ---- the job file, the programs ---- */

bool check_hash_file(const char *path, char hex[static SHA256_HEX_BYTES])
{
    uint8_t *text = NULL;
    size_t bytes;
    if (files_read(path, JOB_TREE_BYTES_MAX, &text, &bytes, NULL))
        return false;
    struct sha256 *h = sha256_new();
    if (h)
        sha256_add(h, text, bytes);
    mem_free(text);
    return sha256_hex(h, hex) == 0;
}

static void check_programs(json_t *answer, const json_t *programs)
{
    size_t i;
    json_t *one;
    json_array_foreach(programs, i, one)
    {
        const char *path = json_string_value(one);
        if (path && access(path, X_OK) != 0)
            check_problem(
                answer,
                "%s does not exist there, or is not executable: build or install gradwire there",
                path);
    }
}

/* ---- the data ---- */

/* Add the names and sizes of the key's files to the hash. */
static void check_key(json_t *answer, const char *key, const char *patterns, struct sha256 *h)
{
    char line[NAME_MAX + 64];
    struct paths found;
    struct errmsg e = {""};
    struct stat s;
    if (!patterns)
        return;
    if (paths_expand(&found, patterns, &e)) {
        check_problem(answer, "%s: %s", key, e.text);
        return;
    }
    for (size_t i = 0; i < found.count; i++) {
        char path[PATHS_FILE_MAX];
        (void)paths_member(found.path[i], path, sizeof path);
        const char *slash = strrchr(path, '/');
        if (stat(path, &s) != 0 || access(path, R_OK) != 0) {
            check_problem(answer, "%s: %s: %s", key, path, strerror(errno));
            continue;
        }
        int n = snprintf(line, sizeof line, "%s %lld\n", slash ? slash + 1 : path,
                         (long long)s.st_size);
        sha256_add(h, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    }
    paths_close(&found);
}

static void check_data(json_t *answer, const struct job *job)
{
    char hex[SHA256_HEX_BYTES];
    struct sha256 *h = sha256_new();
    if (!h)
        return;
    check_key(answer, "data.train", job->data.train, h);
    check_key(answer, "data.eval", job->data.eval, h);
    check_key(answer, "data.validation.files", job->data.validation.files, h);
    if (!sha256_hex(h, hex))
        (void)json_object_set_new(answer, "data_sha256", json_string(hex));
}

/* ---- TLS ---- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static void check_tls(json_t *answer, const json_t *tls)
{
    const struct tls_files files = {text_of(tls, "cert"), text_of(tls, "key"), text_of(tls, "ca"),
                                    text_of(tls, "names")};
    const char *address = text_of(tls, "address");
    struct errmsg e = {""};
    if (tls_try(&files, *address ? address : NULL, &e))
        check_problem(answer, "%s", e.text);
}

/* ---- the model, and memory for the processes on this host ---- */

static void on_warning(void *arg, const char *text)
{
    (void)json_array_append_new(json_object_get(arg, "warnings"), json_text(text));
}

static void check_ahead(json_t *answer, const json_t *ask, const char *path,
                        const char *const *sets, size_t n_sets)
{
    const json_t *crew = json_object_get(ask, "crew");
    uint32_t n[5] = {0};
    struct errmsg e = {""};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        n[i] = (uint32_t)json_integer_value(json_array_get(crew, i));
    const struct ahead a = {
        .worker_program = json_string_value(json_array_get(json_object_get(ask, "programs"), 1)),
        .job = path,
        .sets = sets,
        .n_sets = n_sets,
        .crew = {n[0], n[1], n[2], n[3], n[4]}};
    if (!a.worker_program || access(a.worker_program, X_OK) != 0)
        return; /* already reported */
    (void)json_object_set_new(answer, "warnings", json_array());
    if (ahead_ask(&a, on_warning, answer, &e))
        check_problem(answer, "%s", e.text);
}

json_t *check_job(const json_t *ask)
{
    json_t *answer = check_answer_new(), *sets = json_object_get(ask, "sets");
    const char *path = json_string_value(json_object_get(ask, "job"));
    const char *wanted = json_string_value(json_object_get(ask, "job_sha256"));
    char hex[SHA256_HEX_BYTES];
    struct job job;
    struct errmsg e = {""};
    size_t n = json_array_size(sets);
    const char **set = mem_zalloc(n + 1, sizeof *set);
    for (size_t i = 0; set && i < n; i++)
        set[i] = json_string_value(json_array_get(sets, i));
    check_programs(answer, json_object_get(ask, "programs"));
    check_tls(answer, json_object_get(ask, "tls"));
    if (!set || !path || !wanted)
        check_problem(answer, "out of memory");
    else if (!check_hash_file(path, hex))
        check_problem(answer, "the job file %s does not exist there, or cannot be read", path);
    else if (strcmp(hex, wanted) != 0)
        check_problem(answer, "the job file %s differs from the one on the launcher's host", path);
    else if (job_load(&job, path, set, n, &e))
        check_problem(answer, "%s", e.text);
    else {
        if (json_is_true(json_object_get(ask, "data")))
            check_data(answer, &job);
        job_close(&job);
        if (json_array_size(json_object_get(answer, "problems")) == 0)
            check_ahead(answer, ask, path, set, n);
    }
    mem_free(set);
    return answer;
}

/* ---- the other hosts ---- */

json_t *check_reach(const json_t *ask)
{
    json_t *answer = check_answer_new(), *addresses = json_object_get(ask, "addresses");
    size_t n = json_array_size(addresses);
    struct reach *r = mem_zalloc(n + 1, sizeof *r);
    for (size_t i = 0; r && i < n; i++) {
        const char *address = json_string_value(json_array_get(addresses, i));
        r[i].address = address ? address : "";
    }
    if (!r || reach_all(r, n, REACH_MS))
        check_problem(answer, "out of memory");
    for (size_t i = 0; r && i < n; i++)
        if (r[i].is != REACH_OPEN)
            check_problem(answer, "cannot connect to %s: %s", r[i].address, r[i].why);
    mem_free(r);
    return answer;
}

json_t *check_shared(const json_t *ask)
{
    json_t *answer = check_answer_new();
    const char *path = json_string_value(json_object_get(ask, "path"));
    const char *text = json_string_value(json_object_get(ask, "text"));
    uint8_t *found = NULL;
    size_t bytes;
    bool same = path && text && !files_read(path, SHARED_BYTES_MAX, &found, &bytes, NULL) &&
                strcmp((const char *)found, text) == 0;
    if (!same)
        check_problem(answer,
                      "%s is not the same directory as on the launcher's host: give an --output on "
                      "storage that both hosts share",
                      path ? path : "?");
    mem_free(found);
    return answer;
}
