#include "worker/evaluator/chief_end.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/mem.h"
#include "common/process/files.h"

enum { SUMMARY_MAX_BYTES = 256 << 20 };

static bool look(const char *output, const char *name, struct stat *st)
{
    char path[FILES_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", output, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, st) == 0;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Each summary is a new file (files_write). The lock is written when a process takes DIR. */
static bool has_ended(const struct chief_end *c, const char *output)
{
    struct stat now, lock;
    if (!look(output, "summary.json", &now))
        return false;
    bool same = now.st_ino == c->before.st_ino && now.st_dev == c->before.st_dev &&
                now.st_size == c->before.st_size &&
                now.st_mtim.tv_sec == c->before.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == c->before.st_mtim.tv_nsec;
    return !same && !(look(output, "lock", &lock) && is_older(&now.st_mtim, &lock.st_mtim));
}

static json_t *read_summary(const char *output)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    struct errmsg e;
    (void)snprintf(path, sizeof path, "%s/summary.json", output);
    if (files_read_regular(path, SUMMARY_MAX_BYTES, &data, &bytes, &e))
        return NULL;
    json_t *all = json_loadb((const char *)data, bytes, 0, NULL);
    mem_free(data);
    return all;
}

void chief_end_begin(struct chief_end *c, const char *output)
{
    if (!look(output, "summary.json", &c->before))
        *c = (struct chief_end){.before.st_ino = 0};
}

bool chief_end_failed(const struct chief_end *c, const struct job *job, const char *output,
                      int *exit_code, struct errmsg *e)
{
    json_t *all = has_ended(c, output) ? read_summary(output) : NULL;
    const char *status = json_string_value(json_object_get(all, "status"));
    const char *name = json_string_value(json_object_get(all, "job"));
    const char *why = json_string_value(json_object_get(all, "error"));
    json_int_t code = json_integer_value(json_object_get(all, "exit_code"));
    bool failed = status && strcmp(status, "failed") == 0 && name && strcmp(name, job->name) == 0 &&
                  code > 0 && code < 128;
    if (failed) {
        *exit_code = (int)code;
        err_set(e, ERR_CLOSED, "the chief ended the job: %s", why ? why : "its log has the reason");
    }
    json_decref(all);
    return failed;
}
