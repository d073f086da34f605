#include "launch/rendezvous.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/cluster/cluster_given.h"
#include "common/process/files.h"
#include "launch/base/rundir.h"

#define PAGE_FILE "page"

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

/* ---- verdicts ---- */

enum err rendezvous_leave_verdict(const char *folder, uint32_t rank, const char *why,
                                  struct errmsg *e)
{
    char name[32], text[RENDEZVOUS_VERDICT_BYTES];
    (void)snprintf(name, sizeof name, "verdict-%u", rank);
    int n = snprintf(text, sizeof text, "%.1000s\n", why);
    return rundir_put(folder, name, text, (size_t)n, e);
}

bool rendezvous_verdict(const char *folder, uint32_t rank, char why[RENDEZVOUS_VERDICT_BYTES])
{
    char path[PATH_MAX + 32];
    uint8_t *text = NULL;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/verdict-%u", folder, rank);
    if (files_read(path, RENDEZVOUS_VERDICT_BYTES - 1, &text, &bytes, NULL))
        return false;
    text[strcspn((char *)text, "\n")] = 0;
    (void)snprintf(why, RENDEZVOUS_VERDICT_BYTES, "%s", (char *)text);
    mem_free(text);
    return true;
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

bool rendezvous_newest(const char *dir, char folder[PATH_MAX])
{
    char meeting[PATH_MAX], path[PATH_MAX];
    struct timespec newest = {0};
    struct stat s;
    bool found = false;
    DIR *d = rundir_file(dir, RENDEZVOUS_FOLDER, meeting, NULL) ? NULL : opendir(meeting);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        if (entry->d_name[0] == '.' || rundir_file(meeting, entry->d_name, path, NULL) ||
            stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
            continue;
        bool newer = s.st_mtim.tv_sec > newest.tv_sec ||
                     (s.st_mtim.tv_sec == newest.tv_sec && s.st_mtim.tv_nsec > newest.tv_nsec);
        if (found && !newer)
            continue;
        newest = s.st_mtim;
        memcpy(folder, path, sizeof path);
        found = true;
    }
    if (d)
        (void)closedir(d);
    return found;
}

void rendezvous_forget_others(const char *dir, const char *attempt)
{
    char meeting[PATH_MAX], path[PATH_MAX];
    DIR *d = rundir_file(dir, RENDEZVOUS_FOLDER, meeting, NULL) ? NULL : opendir(meeting);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, attempt) != 0 &&
            !rundir_file(meeting, entry->d_name, path, NULL)) {
            enum err err = files_remove_folder(path, NULL);
            (void)err; /* a leftover file is never read */
        }
    if (d)
        (void)closedir(d);
}
