#include "launch/control.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/process/dirlock.h"
#include "common/flags/flags.h"
#include "launch/progress.h"
#include "launch/base/options.h"
#include "launch/base/rundir.h"
#include "launch/page.h"
#include "launch/summary.h"

enum {
    CONTROL_SAY_EVERY_MS = 10000,
    CONTROL_LOGS_MAX = 4096,
    CONTROL_LOGS_NAMED = 16 /* where none is of the wanted name */
};

enum { STATUS_RUNS = 0, STATUS_FAILED = 1, STATUS_DONE = 3, STATUS_TO_RESUME = 4 };

/* DIR of the command line, or NULL after one line on stderr. */
static const char *control_dir(const char *command, int argc, char **argv)
{
    struct stat s;
    char processes[PATH_MAX];
    flags_parse(command, argc, argv);
    const char *dir = flags_list(FLAGS_WORDS, NULL)[0];
    if (stat(dir, &s) != 0) {
        (void)fprintf(stderr, "gradwire: %s: %s\n", dir, strerror(errno));
        return NULL;
    }
    if (rundir_file(dir, "processes", processes, NULL) || stat(processes, &s) != 0) {
        (void)fprintf(stderr, "gradwire: %s is not the output folder of a job\n", dir);
        return NULL;
    }
    return dir;
}

/* ---- status ---- */

static void control_print_processes(const char *dir)
{
    char path[PATH_MAX], line[512], role[16], host[300];
    FILE *f = rundir_file(dir, "processes/pids", path, NULL) ? NULL : fopen(path, "re");
    unsigned index;
    long pid;
    while (f && fgets(line, sizeof line, f)) {
        int words = sscanf(line, "%15s %u %ld %299s", role, &index, &pid, host);
        if (words < 3 || strcmp(role, "launcher") == 0)
            continue;
        bool gone = words == 3 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
        (void)printf("  %s %u: pid %ld%s%s%s\n", role, index, pid, words == 4 ? " on " : "",
                     words == 4 ? host : "", gone ? ", gone" : "");
    }
    if (f)
        (void)fclose(f);
}

/* Whom training waits for, if for anybody. */
static void control_print_wait(const json_t *kept)
{
    struct progress_event event = {0};
    char *line = json_dumps(json_object_get(kept, "wait"), 0);
    if (line && !progress_parse(&event, line, strlen(line)) && *event.text) {
        double since = difftime(time(NULL), json_integer_value(json_object_get(kept, "wait_time")));
        (void)printf("  waiting %.0f s for %s\n", since + event.seconds, event.text);
    }
    free(line);
}

static void control_print_progress(const char *dir)
{
    char path[PATH_MAX], text[PROGRESS_TEXT_BYTES];
    json_t *kept = rundir_file(dir, "processes/progress.json", path, NULL)
                       ? NULL
                       : json_load_file(path, 0, NULL);
    char *line = json_dumps(json_object_get(kept, "progress"), 0);
    struct progress_event event = {0};
    if (line && !progress_parse(&event, line, strlen(line))) {
        json_int_t batch_size = json_integer_value(json_object_get(kept, "batch_size"));
        progress_format_step(text, sizeof text, &event, (uint32_t)batch_size);
        (void)printf("  %s  (%lld s ago)\n", text,
                     (long long)(time(NULL) - json_integer_value(json_object_get(kept, "time"))));
    } else {
        (void)printf("  no step yet\n");
    }
    control_print_wait(kept);
    json_int_t cut = json_integer_value(json_object_get(kept, "cut"));
    if (json_is_integer(json_object_get(kept, "cut")) && cut >= 0)
        (void)printf("  last checkpoint: cut %lld\n", (long long)cut);
    (void)printf("  restarts: %lld\n",
                 (long long)json_integer_value(json_object_get(kept, "restarts")));
    free(line);
    json_decref(kept);
}

/* Of a job that does not run. */
static int control_last_run(const char *dir)
{
    enum summary_end end = summary_end(dir);
    if (end == SUMMARY_NONE) {
        (void)printf("%s: not running; the last run left no summary (its launcher was killed): "
                     "run train again to resume\n",
                     dir);
        return STATUS_TO_RESUME;
    }
    (void)printf("%s: not running%s; the last run:\n", dir,
                 end == SUMMARY_INTERRUPTED ? ", run train again to resume" : "");
    summary_print(stdout, dir);
    if (end == SUMMARY_INTERRUPTED)
        return STATUS_TO_RESUME;
    return end == SUMMARY_DONE ? STATUS_DONE : STATUS_FAILED;
}

/* Show the page, where that is asked for; otherwise, and where it cannot be shown, go on. `url` NULL: there is none. */
static int control_open(const char *dir, const char *url, int exit_code)
{
    if (!flags_on("open"))
        return exit_code;
    (void)fflush(stdout);
    if (url) {
        page_open(url);
        return EXIT_FAILED;
    }
    (void)fprintf(stderr, "gradwire: %s has no page now: a job has one while it runs\n", dir);
    return exit_code;
}

int control_status(int argc, char **argv)
{
    const char *dir = control_dir("status", argc, argv);
    char url[PAGE_URL_BYTES];
    if (!dir)
        return EXIT_INPUT;
    bool launcher_lives;
    pid_t holder = dirlock_holder(dir, &launcher_lives);
    if (holder <= 0)
        return control_open(dir, NULL, control_last_run(dir));
    (void)printf("%s: %s, launcher pid %ld\n", dir,
                 launcher_lives ? "running" : "ending, its launcher is gone", (long)holder);
    control_print_processes(dir);
    control_print_progress(dir);
    bool page = page_url(dir, url);
    if (page)
        (void)printf("  page: %s\n", url);
    return control_open(dir, page ? url : NULL, STATUS_RUNS);
}

/* ---- stop ---- */

/* A pidfd of DIR's launcher, checked after it was opened, so that no other process of that number
 * is hit. -1: no launcher. */
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
            (void)fprintf(stderr, "gradwire: %s is still ending\n", dir);
}

int control_stop(int argc, char **argv)
{
    const char *dir = control_dir("stop", argc, argv);
    if (!dir)
        return EXIT_INPUT;
    pid_t pid;
    int fd = control_launcher(dir, &pid);
    if (fd < 0) {
        (void)printf("%s: nothing to stop, no launcher runs\n", dir);
        return 0;
    }
    if (pidfd_send_signal(fd, SIGTERM, NULL, 0) != 0) {
        (void)fprintf(stderr, "gradwire: %s: cannot stop pid %ld: %s\n", dir, (long)pid,
                      strerror(errno));
        (void)close(fd);
        return EXIT_FAILED;
    }
    (void)fprintf(stderr, "gradwire: %s: pid %ld is told to end\n", dir, (long)pid);
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

/* The wanted logs in order of their names; how many. */
static size_t control_find_logs(const char *dir, const char *const *wanted, char **found,
                                size_t max)
{
    char folder[PATH_MAX];
    DIR *d = rundir_file(dir, "processes", folder, NULL) ? NULL : opendir(folder);
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

/* What was asked for, and what there is. */
static void control_no_log(const char *dir, const char *const *wanted)
{
    const char *any = NULL;
    char *found[CONTROL_LOGS_NAMED];
    (void)fprintf(stderr, "gradwire: %s/processes has no log", dir);
    for (const char *before = " of"; *wanted; wanted++, before = ",")
        (void)fprintf(stderr, "%s %s", before, *wanted);
    size_t n = control_find_logs(dir, &any, found, CONTROL_LOGS_NAMED);
    for (size_t i = 0; i < n; i++) {
        const char *name = strrchr(found[i], '/') + 1;
        (void)fprintf(stderr, "%s%.*s", i ? ", " : "; there are ", (int)strlen(name) - 4, name);
        free(found[i]);
    }
    (void)fprintf(stderr, "%s\n", n == CONTROL_LOGS_NAMED ? ", .." : "");
}

int control_logs(int argc, char **argv)
{
    enum { TAIL, ALL_LINES, LAST_LINES, FOLLOW, END_OF_FLAGS, WORDS };
    static char words[WORDS][16] = {"tail", "--lines=+1", "--lines=20", "--follow=name", "--"};
    static char *tail[CONTROL_LOGS_MAX + 8];
    char pid_flag[32];
    const char *dir = control_dir("logs", argc, argv);
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
    (void)fprintf(stderr, "gradwire: tail: %s\n", strerror(errno));
    return EXIT_FAILED;
}
