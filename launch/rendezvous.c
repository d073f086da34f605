#include "launch/rendezvous.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/cluster/cluster.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "launch/base/rundir.h"

#define PAGE_FILE "page"
#define BEGUN_FILE "begun"
#define REFUSED_FILE "refused"

enum { RANK_FILE_BYTES = PROCESS_ADDRESS_BYTES + RENDEZVOUS_HOST_BYTES + 64, RANK_LAST = 999999 };

void rendezvous_host(char out[RENDEZVOUS_HOST_BYTES])
{
    out[0] = 0;
    (void)gethostname(out, RENDEZVOUS_HOST_BYTES - 1);
    out[RENDEZVOUS_HOST_BYTES - 1] = 0;
}

/* ---- a rank's file ---- */

enum err rendezvous_leave(const char *folder, uint32_t rank, const struct rendezvous_rank *me,
                          struct errmsg *e)
{
    char name[16], text[RANK_FILE_BYTES];
    enum err err = files_mkdirs(folder, e);
    if (err)
        return err;
    (void)snprintf(name, sizeof name, "%u", rank);
    int n = snprintf(text, sizeof text, "%s\n%s %u %ld %s\n", me->address, me->role, me->index,
                     me->pid, me->host);
    return rundir_put(folder, name, text, (size_t)n, e);
}

bool rendezvous_read(const char *folder, uint32_t rank, struct rendezvous_rank *out)
{
    char path[PATH_MAX + 16];
    uint8_t *text = NULL;
    size_t bytes;
    struct rendezvous_rank found = {.role = ""};
    (void)snprintf(path, sizeof path, "%s/%u", folder, rank);
    if (files_read(path, RANK_FILE_BYTES, &text, &bytes, NULL))
        return false;
    char *line = strchr((char *)text, '\n');
    if (line)
        *line = 0;
    bool right =
        !cluster_address_problem((char *)text) && strlen((char *)text) < sizeof found.address;
    if (right) {
        (void)snprintf(found.address, sizeof found.address, "%s", (char *)text);
        if (line && sscanf(line + 1, "%15s %u %ld %255s", found.role, &found.index, &found.pid,
                           found.host) != 4)
            found.role[0] = 0;
        *out = found;
    }
    mem_free(text);
    return right;
}

uint32_t rendezvous_end(const char *folder)
{
    uint32_t rank, n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (digits_read(entry->d_name, 0, RANK_LAST, &rank) && rank >= n)
            n = rank + 1;
    if (d)
        (void)closedir(d);
    return n;
}

bool rendezvous_chief(const char *folder, struct rendezvous_rank *chief)
{
    struct rendezvous_rank r;
    uint32_t end = rendezvous_end(folder);
    for (uint32_t i = 0; i < end; i++)
        if (rendezvous_read(folder, i, &r) && strcmp(r.role, "worker") == 0) {
            *chief = r;
            return true;
        }
    return false;
}

/* ---- verdicts ---- */

static enum err leave_text(const char *folder, const char *name, const char *why, struct errmsg *e)
{
    char text[RENDEZVOUS_VERDICT_BYTES];
    int n = snprintf(text, sizeof text, "%.1000s\n", why);
    return rundir_put(folder, name, text, (size_t)n, e);
}

static bool read_text(const char *folder, const char *name, char why[RENDEZVOUS_VERDICT_BYTES])
{
    char path[PATH_MAX];
    uint8_t *text = NULL;
    size_t bytes;
    if (rundir_file(folder, name, path, NULL) ||
        files_read(path, RENDEZVOUS_VERDICT_BYTES - 1, &text, &bytes, NULL))
        return false;
    text[strcspn((char *)text, "\n")] = 0;
    (void)snprintf(why, RENDEZVOUS_VERDICT_BYTES, "%s", (char *)text);
    mem_free(text);
    return true;
}

enum err rendezvous_leave_verdict(const char *folder, uint32_t rank, const char *why,
                                  struct errmsg *e)
{
    char name[32];
    (void)snprintf(name, sizeof name, "verdict-%u", rank);
    return leave_text(folder, name, why, e);
}

bool rendezvous_verdict(const char *folder, uint32_t rank, char why[RENDEZVOUS_VERDICT_BYTES])
{
    char name[32];
    (void)snprintf(name, sizeof name, "verdict-%u", rank);
    return read_text(folder, name, why);
}

/* ---- the page ---- */

enum err rendezvous_leave_page(const char *folder, const char *bind, uint16_t port,
                               struct errmsg *e)
{
    char host[RENDEZVOUS_HOST_BYTES], text[RENDEZVOUS_URL_BYTES + RENDEZVOUS_HOST_BYTES];
    bool all = strcmp(bind, "0.0.0.0") == 0 || strcmp(bind, "[::]") == 0;
    rendezvous_host(host);
    int n = snprintf(text, sizeof text, "http://%.255s:%u/ %s\n", all ? host : bind, port, host);
    return rundir_put(folder, PAGE_FILE, text, (size_t)n, e);
}

bool rendezvous_page(const char *folder, char url[RENDEZVOUS_URL_BYTES],
                     char host[RENDEZVOUS_HOST_BYTES])
{
    char path[PATH_MAX];
    FILE *f = rundir_file(folder, PAGE_FILE, path, NULL) ? NULL : fopen(path, "re");
    bool found = f && fscanf(f, "%319s %255s", url, host) == 2;
    if (f)
        (void)fclose(f);
    return found;
}

/* ---- attempts ---- */

static bool has_mark(const char *folder, const char *mark)
{
    char path[PATH_MAX];
    return !rundir_file(folder, mark, path, NULL) && access(path, F_OK) == 0;
}

enum err rendezvous_begin(const char *folder, struct errmsg *e)
{
    return rundir_put(folder, BEGUN_FILE, "", 0, e);
}

enum err rendezvous_refuse(const char *folder, const char *why, struct errmsg *e)
{
    return leave_text(folder, REFUSED_FILE, why, e);
}

bool rendezvous_refused(const char *folder, char why[RENDEZVOUS_VERDICT_BYTES])
{
    return read_text(folder, REFUSED_FILE, why);
}

/* DIR/rendezvous while it is listed. */
struct attempts {
    DIR *d;
    char meeting[PATH_MAX], folder[PATH_MAX];
    const char *name; /* of the present one, whose directory is `folder` */
    struct stat stat;
};

static void attempts_open(struct attempts *a, const char *dir)
{
    a->d = rundir_file(dir, OUTPUT_RENDEZVOUS, a->meeting, NULL) ? NULL : opendir(a->meeting);
}

/* Go to the next attempt. False: there is no other, and *a is closed. */
static bool attempts_next(struct attempts *a)
{
    for (struct dirent *entry; a->d && (entry = readdir(a->d));) {
        a->name = entry->d_name;
        if (entry->d_name[0] != '.' && !rundir_file(a->meeting, a->name, a->folder, NULL) &&
            stat(a->folder, &a->stat) == 0 && S_ISDIR(a->stat.st_mode))
            return true;
    }
    if (a->d)
        (void)closedir(a->d);
    return false;
}

bool rendezvous_newest(const char *dir, char folder[PATH_MAX])
{
    struct timespec newest = {0};
    struct attempts a;
    bool found = false;
    attempts_open(&a, dir);
    while (attempts_next(&a)) {
        struct timespec t = a.stat.st_mtim;
        bool newer =
            t.tv_sec > newest.tv_sec || (t.tv_sec == newest.tv_sec && t.tv_nsec > newest.tv_nsec);
        if ((found && !newer) || has_mark(a.folder, REFUSED_FILE))
            continue;
        newest = t;
        memcpy(folder, a.folder, sizeof a.folder);
        found = true;
    }
    return found;
}

bool rendezvous_of(const char *dir, pid_t chief_pid, char attempt[NAME_MAX + 1],
                   struct rendezvous_rank *chief)
{
    struct rendezvous_rank r;
    struct attempts a;
    bool found = false;
    attempts_open(&a, dir);
    while (attempts_next(&a))
        if (!found && rendezvous_chief(a.folder, &r) && r.pid == chief_pid) {
            (void)snprintf(attempt, NAME_MAX + 1, "%s", a.name);
            *chief = r;
            found = true;
        }
    return found;
}

void rendezvous_forget_others(const char *dir, const char *attempt, uint32_t older_s)
{
    struct attempts a;
    char own[PATH_MAX];
    struct stat here;
    bool dated = !rundir_file(dir, OUTPUT_RENDEZVOUS "/", own, NULL);
    size_t at = dated ? strlen(own) : 0;
    (void)snprintf(own + at, sizeof own - at, "%s", attempt);
    dated = dated && stat(own, &here) == 0;
    attempts_open(&a, dir);
    while (attempts_next(&a)) {
        bool old = dated && here.st_mtim.tv_sec - a.stat.st_mtim.tv_sec >= (time_t)older_s;
        if (strcmp(a.name, attempt) == 0 || !(old || has_mark(a.folder, BEGUN_FILE)))
            continue;
        enum err err = files_remove_folder(a.folder, NULL);
        (void)err; /* a leftover file is never read */
    }
}
