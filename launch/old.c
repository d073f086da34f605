/* `gradwire old DIR`: lists and removes the directories DIR.1, DIR.2, ... which `train --fresh` moved aside.
 *
 * Happy path: one line per directory says how its run ended, when, and how much disk it takes; --remove=N or
 * --remove=all removes directories.
 * Failure modes: a directory is kept, with a line that gives the reason, if a job runs in it or ranks are starting one,
 * if its lock cannot be taken, if it is a symbolic link, if gradwire did not make it, or if it has a file that gradwire
 * did not write. If a removal is interrupted, the same command finishes it, because the files that identify the
 * directory are removed last. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/digits.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/flags/flags.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "launch/base/options.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/job_dir.h"
#include "launch/summary.h"

enum { OLD_NUMBER_MAX = 99999, OLD_MAX = 4096, OLD_WHY_BYTES = 600 };

/* ---- one directory ---- */

/* The names of all files and directories that gradwire writes to DIR. The last names identify DIR as a job's directory; they
 * are removed last, in this order. */
static const char *const known[] = {OUTPUT_NAMES};
enum { KNOWN = sizeof known / sizeof *known };

/* True: `end` is the suffix of a temporary file of rundir_put ("~") or files_begin (FILES_TEMPORARY, 16 hex digits). */
static bool is_temporary_end(const char *end)
{
    size_t n = strlen(FILES_TEMPORARY);
    if (strcmp(end, "~") == 0)
        return true;
    return strncmp(end, FILES_TEMPORARY, n) == 0 && strlen(end + n) == 16 &&
           strspn(end + n, "0123456789abcdef") == 16;
}

/* The name's index in `known`; temporary files of gradwire come first. -1: gradwire did not write it. */
static int known_place(const char *name, bool regular)
{
    for (int i = 0; i < KNOWN; i++) {
        size_t n = strlen(known[i]);
        if (strcmp(known[i], name) == 0)
            return i;
        if (regular && strncmp(known[i], name, n) == 0 && is_temporary_end(name + n))
            return 0;
    }
    return -1;
}

static bool is_regular_in(DIR *d, const char *name)
{
    struct stat s;
    return fstatat(dirfd(d), name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode);
}

/* True: `train --fresh` has moved the directory aside, and no job has run in it since. A job would have written its lock. */
static bool old_is_aside(const char *path)
{
    char mark[PATH_MAX];
    struct stat s;
    return !rundir_file(path, OUTPUT_ASIDE, mark, NULL) && lstat(mark, &s) == 0 &&
           S_ISREG(s.st_mode) && !job_dir_is_before(path, OUTPUT_ASIDE, OUTPUT_LOCK);
}

static bool has_only_lock(const char *path)
{
    bool lock = false, other = false;
    DIR *d = opendir(path);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        lock = lock || strcmp(entry->d_name, OUTPUT_LOCK) == 0;
        other = other || (!dots && strcmp(entry->d_name, OUTPUT_LOCK) != 0);
    }
    if (d)
        (void)closedir(d);
    return lock && !other;
}

/* True: the directory belongs to a job and has only gradwire's files. False: `why` has the reason. */
static bool old_is_ours(const char *path, char why[OLD_WHY_BYTES])
{
    struct stat s;
    const char *other = NULL;
    if (lstat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
        (void)snprintf(why, OLD_WHY_BYTES, "it is not a directory");
        return false;
    }
    if (!job_dir_is(path) && !has_only_lock(path) && !old_is_aside(path)) {
        (void)snprintf(why, OLD_WHY_BYTES, "it is not the output directory of a job");
        return false;
    }
    DIR *d = opendir(path);
    for (struct dirent *entry; d && !other && (entry = readdir(d));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            known_place(entry->d_name, is_regular_in(d, entry->d_name)) < 0)
            other = entry->d_name;
    if (!d)
        (void)snprintf(why, OLD_WHY_BYTES, "%s", strerror(errno));
    else if (other)
        (void)snprintf(
            why, OLD_WHY_BYTES,
            "it contains %.255s, which gradwire did not write; move that elsewhere first", other);
    bool ours = d && !other;
    if (d)
        (void)closedir(d);
    return ours;
}

/* Lock the directory; *fd is -1 if it has no lock file. False: a job runs in it, or could start; `why` has the reason. */
static bool old_lock(const char *path, int *fd, char why[OLD_WHY_BYTES])
{
    char lock[PATH_MAX];
    struct job_dir d;
    job_dir_look(&d, path);
    if (!d.holder && job_dir_meets(&d, path)) {
        (void)snprintf(why, OLD_WHY_BYTES,
                       "ranks are meeting in it and have not begun; if they are gone, remove "
                       "its " OUTPUT_RENDEZVOUS " first");
        return false;
    }
    *fd = rundir_file(path, "lock", lock, NULL) ? -1 : open(lock, O_RDWR | O_CLOEXEC);
    int error = *fd < 0 || flock(*fd, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
    if (!error || (*fd < 0 && error == ENOENT))
        return true;
    if (error == EWOULDBLOCK)
        (void)snprintf(why, OLD_WHY_BYTES, "a job is running in it");
    else
        (void)snprintf(why, OLD_WHY_BYTES, "its lock: %s", strerror(error));
    files_close(fd);
    return false;
}

/* Sort the top directory's names by their index in `known`. */
static int by_place(const FTSENT **a, const FTSENT **b)
{
    bool top = (*a)->fts_level == 1;
    int one = top ? known_place((*a)->fts_name, true) : 0;
    int two = top ? known_place((*b)->fts_name, true) : 0;
    return one != two ? (one > two) - (one < two) : strcmp((*a)->fts_name, (*b)->fts_name);
}

static FTS *walk(const char *path)
{
    char *paths[] = {(char *)path, NULL};
    return fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_place);
}

static uint64_t old_bytes(const char *path)
{
    FTS *tree = walk(path);
    uint64_t bytes = 0;
    for (FTSENT *f; tree && (f = fts_read(tree));)
        if (f->fts_info != FTS_DP && f->fts_info != FTS_NS)
            bytes += (uint64_t)f->fts_statp->st_blocks * 512;
    if (tree)
        (void)fts_close(tree);
    return bytes;
}

/* Remove the directory; symbolic links are removed, not followed. *lock is closed before the directory itself is removed,
 * because on NFS an open file would still be in it. False: `why` has the reason. */
static bool old_delete(const char *path, int *lock, char why[OLD_WHY_BYTES])
{
    FTS *tree = walk(path);
    bool gone = tree != NULL;
    for (FTSENT *f; gone && (f = fts_read(tree));) {
        int error = f->fts_info == FTS_DNR || f->fts_info == FTS_ERR || f->fts_info == FTS_NS
                        ? f->fts_errno
                        : 0;
        if (f->fts_info == FTS_D)
            continue;
        if (f->fts_level == FTS_ROOTLEVEL)
            files_close(lock);
        if (!error && (f->fts_info == FTS_DP ? rmdir : unlink)(f->fts_accpath) != 0)
            error = errno;
        if (error)
            (void)snprintf(why, OLD_WHY_BYTES, "%.400s: %s", f->fts_path, strerror(error));
        gone = error == 0;
    }
    if (!tree)
        (void)snprintf(why, OLD_WHY_BYTES, "%s", strerror(errno));
    else
        (void)fts_close(tree);
    return gone;
}

/* ---- all directories of DIR ---- */

struct old {
    char dir[PATH_MAX]; /* without trailing slashes */
    uint32_t number[OLD_MAX];
    size_t n;
};

static void old_path(const struct old *o, uint32_t number, char out[PATH_MAX + 16])
{
    (void)snprintf(out, PATH_MAX + 16, "%s.%u", o->dir, number);
}

static int by_number(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, two = *(const uint32_t *)b;
    return (one > two) - (one < two);
}

/* Find the numbers N for which DIR.N exists. */
static void old_find(struct old *o)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(o->dir, '/'), *name = slash ? slash + 1 : o->dir;
    size_t bytes = strlen(name);
    (void)snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - o->dir + 1) : 1,
                   slash ? o->dir : ".");
    DIR *d = opendir(parent);
    for (struct dirent *entry; d && o->n < OLD_MAX && (entry = readdir(d));) {
        const char *rest = entry->d_name + bytes;
        if (strncmp(entry->d_name, name, bytes) == 0 && rest[0] == '.' && rest[1] != '0' &&
            digits_read(rest + 1, 1, OLD_NUMBER_MAX, &o->number[o->n]))
            o->n++;
    }
    if (d)
        (void)closedir(d);
    qsort(o->number, o->n, sizeof *o->number, by_number);
}

/* out = "12.3 MB" */
static void size_text(char *out, size_t bytes, uint64_t size)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    size_t i = 0;
    double x = (double)size;
    for (; x >= 999.5 && i + 1 < sizeof unit / sizeof *unit; i++)
        x /= 1000;
    (void)snprintf(out, bytes, i && x < 99.5 ? "%.1f %s" : "%.0f %s", x, unit[i]);
}

static const char *state_text(const char *path)
{
    static const char *const end[] = {[SUMMARY_NONE] = "no summary",
                                      [SUMMARY_DONE] = "done",
                                      [SUMMARY_INTERRUPTED] = "interrupted",
                                      [SUMMARY_FAILED] = "failed"};
    struct job_dir d;
    job_dir_look(&d, path);
    return d.holder ? "running" : end[summary_end(path)];
}

/* out = the date at which the last run ended: that of the summary, or of the lock. */
static void date_text(char out[32], const char *path)
{
    static const char *const file[] = {OUTPUT_SUMMARY, OUTPUT_LOCK, "."};
    char name[PATH_MAX];
    struct stat s;
    struct tm t;
    (void)snprintf(out, 32, "?");
    for (size_t i = 0; i < sizeof file / sizeof *file; i++)
        if (!rundir_file(path, file[i], name, NULL) && stat(name, &s) == 0 &&
            localtime_r(&s.st_mtime, &t)) {
            (void)strftime(out, 32, "%Y-%m-%d %H:%M", &t);
            return;
        }
}

/* True: `--remove all` may remove it. False: `why` has the reason. */
static bool old_is_of_dir(const char *path, uint32_t number, char why[OLD_WHY_BYTES])
{
    if (!old_is_ours(path, why))
        return false;
    if (old_is_aside(path))
        return true;
    (void)snprintf(why, OLD_WHY_BYTES,
                   "it has no mark of train --fresh, so it may be the output of another job; "
                   "--remove %u removes it",
                   number);
    return false;
}

static void old_print(const struct old *o)
{
    char path[PATH_MAX + 16], size[32], date[32], why[OLD_WHY_BYTES];
    for (size_t i = 0; i < o->n; i++) {
        old_path(o, o->number[i], path);
        if (!old_is_of_dir(path, o->number[i], why)) {
            (void)printf("%s  kept: %s\n", PRINTABLE(path), PRINTABLE(why));
            continue;
        }
        size_text(size, sizeof size, old_bytes(path));
        date_text(date, path);
        (void)printf("%s  %-11s  %8s  %s\n", PRINTABLE(path), state_text(path), size, date);
    }
}

/* ---- --remove ---- */

static bool old_remove(const struct old *o, uint32_t number)
{
    char path[PATH_MAX + 16], size[32], why[OLD_WHY_BYTES];
    int lock = -1;
    old_path(o, number, path);
    bool gone = old_is_ours(path, why) && old_lock(path, &lock, why);
    if (gone) {
        size_text(size, sizeof size, old_bytes(path));
        gone = old_delete(path, &lock, why);
        files_close(&lock);
    }
    if (gone)
        (void)printf("%s: removed, %s\n", PRINTABLE(path), size);
    else
        say_plain("%s is kept: %s", path, why);
    return gone;
}

static bool old_check(const struct old *o, const char *const *which, size_t n)
{
    uint32_t number;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(which[i], "all") == 0)
            continue;
        if (!digits_read(which[i], 1, OLD_NUMBER_MAX, &number)) {
            say_plain("--remove: '%s' is not allowed; allowed: all, or a number N of %s.N",
                      which[i], o->dir);
            return false;
        }
        if (bsearch(&number, o->number, o->n, sizeof number, by_number))
            continue;
        (void)fprintf(stderr, "gradwire: --remove: %s.%u does not exist", PRINTABLE(o->dir),
                      number);
        for (size_t k = 0; k < o->n; k++)
            (void)fprintf(stderr, "%s%s.%u", k ? ", " : "; these exist: ", PRINTABLE(o->dir),
                          o->number[k]);
        (void)fprintf(stderr, "\n");
        return false;
    }
    return true;
}

static bool is_named(const char *const *which, size_t n, uint32_t number)
{
    uint32_t one;
    for (size_t i = 0; i < n; i++)
        if (digits_read(which[i], 1, OLD_NUMBER_MAX, &one) && one == number)
            return true;
    return false;
}

static bool is_all(const char *const *which, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(which[i], "all") == 0)
            return true;
    return false;
}

/* `--remove all`: remove this directory only if it was moved aside. */
static bool old_remove_one_of_all(const struct old *o, uint32_t number)
{
    char path[PATH_MAX + 16], why[OLD_WHY_BYTES];
    old_path(o, number, path);
    if (old_is_aside(path))
        return old_remove(o, number);
    if (!old_is_of_dir(path, number, why))
        say_plain("%s is kept: %s", path, why);
    return true;
}

static int old_remove_all(const struct old *o, const char *const *which, size_t n)
{
    bool all = true;
    if (!old_check(o, which, n))
        return EXIT_INPUT;
    for (size_t i = 0; i < o->n; i++)
        if (is_named(which, n, o->number[i]))
            all = old_remove(o, o->number[i]) && all;
        else if (is_all(which, n))
            all = old_remove_one_of_all(o, o->number[i]) && all;
    return all ? 0 : EXIT_FAILED;
}

/* ---- the command ---- */

static int old_none(const struct old *o)
{
    struct stat s;
    const char *dot = strrchr(o->dir, '.');
    uint32_t number;
    bool aside = dot && digits_read(dot + 1, 1, OLD_NUMBER_MAX, &number);
    if (stat(o->dir, &s) != 0)
        say_plain("%s: %s", o->dir, strerror(errno));
    else if (!job_dir_is(o->dir))
        say_plain("%s is not the output directory of a job", o->dir);
    else if (aside)
        say_plain("%s has no earlier runs; did you mean %.*s?", o->dir, (int)(dot - o->dir),
                  o->dir);
    else {
        (void)printf("%s has no earlier runs; train --fresh keeps them as %s.1, %s.2\n",
                     PRINTABLE(o->dir), PRINTABLE(o->dir), PRINTABLE(o->dir));
        return 0;
    }
    return EXIT_INPUT;
}

/* True: the last component is "." or "..". */
static bool old_is_dots(const char *dir)
{
    const char *slash = strrchr(dir, '/'), *name = slash ? slash + 1 : dir;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int old_main(int argc, char **argv)
{
    size_t n;
    char real[PATH_MAX];
    flags_parse("old", argc, argv);
    const char *dir = flags_list(FLAGS_WORDS, NULL)[0];
    const char *const *which = flags_list("remove", &n);
    size_t bytes = strlen(dir);
    struct old *o = mem_zalloc(1, sizeof *o);
    while (bytes > 1 && dir[bytes - 1] == '/')
        bytes--;
    if (!o || bytes + 16 >= sizeof o->dir) {
        say_plain("%.200s: %s", dir, o ? "the path is too long" : "out of memory");
        mem_free(o);
        return o ? EXIT_INPUT : EXIT_FAILED;
    }
    (void)snprintf(o->dir, sizeof o->dir, "%.*s", (int)bytes, dir);
    if (old_is_dots(o->dir) && realpath(o->dir, real) && strlen(real) + 16 < sizeof o->dir)
        memcpy(o->dir, real, strlen(real) + 1); /* the real name, since "." + ".1" would be "..1" */
    old_find(o);
    int exit_code = 0;
    if (n > 0)
        exit_code = old_remove_all(o, which, n);
    else if (o->n == 0)
        exit_code = old_none(o);
    else
        old_print(o);
    mem_free(o);
    return exit_code;
}
