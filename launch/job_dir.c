/* A job's DIR, as another process sees it: the program that started the job, and the job's page. */
#include "launch/base/say.h"
#include "launch/job_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/flags/flags.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "launch/base/rundir.h"

bool page_url(const char *dir, char out[PAGE_URL_BYTES])
{
    char path[PATH_MAX], line[512], role[16], at[300];
    FILE *f = rundir_file(dir, OUTPUT_HTTP, path, NULL) ? NULL : fopen(path, "re");
    unsigned index;
    bool found = false;
    while (f && fgets(line, sizeof line,
                      f)) { /* without a separate chief the first worker is the chief */
        bool chief = sscanf(line, "%15s %u %299s", role, &index, at) == 3 && index == 0 &&
                     (strcmp(role, "chief") == 0 || (!found && strcmp(role, "worker") == 0));
        if (chief)
            (void)snprintf(out, PAGE_URL_BYTES, "http://%s/", at);
        found = found || chief;
    }
    if (f)
        (void)fclose(f);
    return found;
}

void page_open(const char *url)
{
    const char *browser = getenv("BROWSER");
    if (browser && *browser)
        (void)execlp(browser, browser, url, (char *)NULL);
    (void)execlp("xdg-open", "xdg-open", url, (char *)NULL);
    say_plain("cannot start a browser (BROWSER names none, and xdg-open is not "
              "installed): open %s",
              url);
}

#define WANTED "DIR is the directory given as --output, or runs/NAME if none was given"

static bool has(const char *dir, const char *name, mode_t kind)
{
    char path[PATH_MAX];
    struct stat s;
    return !rundir_file(dir, name, path, NULL) && stat(path, &s) == 0 &&
           (s.st_mode & S_IFMT) == kind;
}

/* A process that has just begun: it takes the lock before it writes anything else. */
static bool is_locked(const char *dir)
{
    bool lives;
    return dirlock_holder(dir, &lives) > 0 && lives;
}

bool job_dir_is(const char *dir)
{
    return has(dir, OUTPUT_PROCESSES, S_IFDIR) || has(dir, OUTPUT_RENDEZVOUS, S_IFDIR) ||
           (has(dir, OUTPUT_LOCK, S_IFREG) &&
            (has(dir, OUTPUT_CHECKPOINTS, S_IFDIR) || is_locked(dir)));
}

const char *job_dir_given(const char *command, int argc, char **argv)
{
    struct stat s;
    flags_parse(command, argc, argv);
    const char *dir = flags_list(FLAGS_WORDS, NULL)[0];
    if (stat(dir, &s) != 0)
        say_plain("%s: %s; " WANTED, dir, strerror(errno));
    else if (S_ISREG(s.st_mode))
        say_plain("%s is a file; " WANTED, dir);
    else if (!job_dir_is(dir))
        say_plain("%s is not the output directory of a job; " WANTED, dir);
    else
        return dir;
    return NULL;
}

/* ---- the program that started the job ---- */

/* The pid at the beginning of DIR/name; 0: none. */
static long pid_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    long pid = 0;
    FILE *f = rundir_file(dir, name, path, NULL) ? NULL : fopen(path, "re");
    if (f && fscanf(f, "%ld", &pid) != 1)
        pid = 0;
    if (f)
        (void)fclose(f);
    return pid;
}

static bool is_launcher(const char *dir, long pid)
{
    char path[PATH_MAX], line[512];
    long found = 0;
    FILE *f = rundir_file(dir, OUTPUT_PIDS, path, NULL) ? NULL : fopen(path, "re");
    while (f && found != pid && fgets(line, sizeof line, f))
        if (sscanf(line, "launcher 0 %ld", &found) != 1)
            found = 0;
    if (f)
        (void)fclose(f);
    return pid != 0 && (found == pid || pid_in(dir, OUTPUT_LAUNCHER) == pid);
}

/* True: the process on this host executes a launcher, or its program is unknown. */
static bool runs_launcher(pid_t pid)
{
    char link[64], program[PATH_MAX + 1];
    (void)snprintf(link, sizeof link, "/proc/%ld/exe", (long)pid);
    ssize_t n = readlink(link, program, PATH_MAX);
    if (n <= 0)
        return true;
    program[n] = 0;
    char *gone = strstr(program, " (deleted)"); /* an upgrade has replaced the file */
    if (gone)
        *gone = 0;
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    return strcmp(name, "launch") == 0 || strcmp(name, "gradwire-launch") == 0;
}

/* True: the holder is not a launcher, although DIR has processes/ from an earlier launcher. A launcher writes
 * OUTPUT_LAUNCHER immediately after it has taken the lock; release 0.1.0 did not write it. */
static bool is_others(const struct job_dir *d, const char *dir, long pid)
{
    return d->lives ? !runs_launcher(d->holder) : pid != 0 && pid_in(dir, OUTPUT_LAUNCHER) != 0;
}

void job_dir_look(struct job_dir *d, const char *dir)
{
    *d = (struct job_dir){.by = JOB_DIR_TRAIN};
    d->holder = dirlock_holder(dir, &d->lives);
    long pid = pid_in(dir, OUTPUT_LOCK);
    bool ranks = rendezvous_newest(dir, d->folder);
    d->locked_once = pid != 0;
    d->began = ranks && rendezvous_chief(d->folder, &d->chief) && pid != 0 && d->chief.pid == pid;
    if (is_launcher(dir, pid))
        d->by = JOB_DIR_TRAIN;
    else if (d->began)
        d->by = JOB_DIR_RANK;
    else if (d->lives && runs_launcher(d->holder) && !ranks)
        d->by = JOB_DIR_TRAIN; /* it has not written OUTPUT_LAUNCHER yet */
    else if (!has(dir, OUTPUT_PROCESSES, S_IFDIR) || is_others(d, dir, pid))
        d->by = ranks ? JOB_DIR_RANK : JOB_DIR_HAND;
}

/* ---- modification times ---- */

static bool is_older(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

bool job_dir_is_before(const char *dir, const char *name, const char *other)
{
    char path[PATH_MAX];
    struct stat a, b;
    return !rundir_file(dir, name, path, NULL) && stat(path, &a) == 0 &&
           !rundir_file(dir, other, path, NULL) && stat(path, &b) == 0 &&
           is_older(&a.st_mtim, &b.st_mtim);
}

bool job_dir_meets(const struct job_dir *d, const char *dir)
{
    char attempt[PATH_MAX];
    (void)snprintf(attempt, sizeof attempt, OUTPUT_RENDEZVOUS "/%.255s", job_dir_attempt(d));
    return d->folder[0] && !d->began &&
           (!d->locked_once || job_dir_is_before(dir, OUTPUT_LOCK, attempt));
}

const char *job_dir_attempt(const struct job_dir *d)
{
    const char *slash = strrchr(d->folder, '/');
    return slash ? slash + 1 : d->folder;
}
