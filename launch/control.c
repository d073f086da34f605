/* `gradwire stop DIR` and `gradwire logs DIR`: control a job from another process, through the files that its launcher
 * keeps in DIR. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "common/base/printable.h"
#include "common/process/dirlock.h"
#include "common/process/output.h"
#include "common/flags/flags.h"
#include "launch/base/options.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/job_dir.h"
#include "launch/summary.h"

enum {
    CONTROL_SAY_EVERY_MS = 10000,
    CONTROL_LOGS_MAX = 4096,
    CONTROL_LOGS_NAMED = 16 /* log names in an error message */
};

/* ---- stop ---- */

/* A pidfd of DIR's launcher; -1: no launcher runs. The pid is checked after the pidfd is open, so that no other process with
 * the same pid gets the signal. */
static int control_launcher(const char *dir, pid_t *pid)
{
    bool ours;
    *pid = dirlock_holder(dir, &ours);
    int fd = ours ? pidfd_open(*pid, 0) : -1;
    if (fd < 0)
        return -1;
    if (dirlock_holder(dir, &ours) == *pid && ours)
        return fd;
    (void)close(fd);
    return -1;
}

static void control_wait(int pidfd, const char *dir)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    for (int n; (n = poll(&p, 1, CONTROL_SAY_EVERY_MS)) <= 0;)
        if (n == 0)
            say_plain("%s: the job is still ending", dir);
}

/* True: a job without a launcher runs in DIR, so whatever started its processes must end them. */
static bool control_is_others(const char *dir)
{
    struct job_dir d;
    unsigned long job, step;
    job_dir_look(&d, dir);
    if (!d.holder || d.by == JOB_DIR_TRAIN)
        return false;
    if (d.by == JOB_DIR_HAND)
        say_plain("%s: the job has no launcher; send SIGTERM to each process where you started it",
                  dir);
    else if (sscanf(job_dir_attempt(&d), "slurm-%lu-%lu", &job, &step) == 2)
        say_plain("%s: srun started this job; end it with: scancel %lu.%lu", dir, job, step);
    else
        say_plain("%s: the job runs as ranks (%s); end it where you started them", dir,
                  job_dir_attempt(&d));
    return true;
}

int control_stop(int argc, char **argv)
{
    const char *dir = job_dir_given("stop", argc, argv);
    if (!dir)
        return EXIT_INPUT;
    if (control_is_others(dir))
        return EXIT_FAILED;
    pid_t pid;
    int fd = control_launcher(dir, &pid);
    if (fd < 0) {
        (void)printf("%s: nothing to stop: no launcher runs\n", PRINTABLE(dir));
        return 0;
    }
    if (pidfd_send_signal(fd, SIGTERM, NULL, 0) != 0) {
        say_plain("%s: cannot stop pid %ld: %s", dir, (long)pid, strerror(errno));
        (void)close(fd);
        return EXIT_FAILED;
    }
    say_plain("%s: asked the launcher, pid %ld, to end; waiting for it", dir, (long)pid);
    control_wait(fd, dir);
    (void)close(fd);
    summary_print(stdout, dir);
    return 0;
}

/* ---- logs ---- */

static bool control_is_log(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".log") == 0;
}

static bool control_is_wanted(const char *name, const char *const *wanted)
{
    if (!*wanted)
        return true;
    for (; *wanted; wanted++)
        if (strncmp(name, *wanted, strlen(*wanted)) == 0 &&
            (strcmp(name + strlen(*wanted), ".log") == 0 || strcmp(name, *wanted) == 0))
            return true;
    return false;
}

static int control_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Find the wanted logs, sorted by name. Returns their number. */
static size_t control_find_logs(const char *dir, const char *const *wanted, char **found,
                                size_t max)
{
    char folder[PATH_MAX];
    DIR *d = rundir_file(dir, OUTPUT_PROCESSES, folder, NULL) ? NULL : opendir(folder);
    size_t n = 0;
    for (struct dirent *entry; d && n < max && (entry = readdir(d));)
        if (control_is_log(entry->d_name) && control_is_wanted(entry->d_name, wanted) &&
            asprintf(&found[n], "%s/%s", folder, entry->d_name) > 0)
            n++;
    if (d)
        (void)closedir(d);
    qsort(found, n, sizeof *found, control_by_name);
    return n;
}

/* Print the requested name that has no log, and the existing names. */
static void control_no_log(const char *dir, const char *const *wanted)
{
    const char *any = NULL;
    char *found[CONTROL_LOGS_NAMED];
    struct job_dir d;
    job_dir_look(&d, dir);
    if (d.by == JOB_DIR_RANK) {
        say_plain("%s has no logs: its ranks write to the output of srun or mpirun", dir);
        return;
    }
    (void)fprintf(stderr, "gradwire: %s/processes has no log", PRINTABLE(dir));
    for (const char *before = " of"; *wanted; wanted++, before = ",")
        (void)fprintf(stderr, "%s %s", before, PRINTABLE(*wanted));
    size_t n = control_find_logs(dir, &any, found, CONTROL_LOGS_NAMED);
    for (size_t i = 0; i < n; i++) {
        const char *name = strrchr(found[i], '/') + 1;
        found[i][strlen(found[i]) - strlen(".log")] = '\0';
        (void)fprintf(stderr, "%s%s", i ? ", " : "; it has ", PRINTABLE(name));
        free(found[i]);
    }
    (void)fprintf(stderr, "%s\n", n == CONTROL_LOGS_NAMED ? ", ..." : "");
}

int control_logs(int argc, char **argv)
{
    enum { TAIL, ALL_LINES, LAST_LINES, FOLLOW, END_OF_FLAGS, WORDS };
    static char words[WORDS][16] = {"tail", "--lines=+1", "--lines=20", "--follow=name", "--"};
    static char *tail[CONTROL_LOGS_MAX + 8];
    char pid_flag[32];
    const char *dir = job_dir_given("logs", argc, argv);
    if (!dir)
        return EXIT_INPUT;
    const char *const *wanted = flags_list(FLAGS_WORDS, NULL) + 1;
    bool follow = flags_on("follow");
    size_t n = 0;
    tail[n++] = words[TAIL];
    tail[n++] = words[follow ? LAST_LINES : ALL_LINES];
    bool launcher_lives;
    pid_t launcher = dirlock_holder(dir, &launcher_lives);
    if (follow && launcher > 0 && launcher_lives) {
        (void)snprintf(pid_flag, sizeof pid_flag, "--pid=%ld", (long)launcher);
        tail[n++] = words[FOLLOW];
        tail[n++] = pid_flag;
    }
    tail[n++] = words[END_OF_FLAGS];
    size_t logs = control_find_logs(dir, wanted, tail + n, CONTROL_LOGS_MAX);
    if (logs == 0) {
        control_no_log(dir, wanted);
        return EXIT_INPUT;
    }
    execvp(tail[0], tail);
    say_plain("tail: %s", strerror(errno));
    return EXIT_FAILED;
}
