/* `gradwire status DIR`: prints if DIR's job is running, and its progress. It uses the files that a launcher or the ranks
 * write to DIR, and DIR/lock, which only a running job holds. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/printable.h"
#include "common/flags/flags.h"
#include "common/process/output.h"
#include "launch/base/options.h"
#include "launch/base/rundir.h"
#include "launch/base/say.h"
#include "launch/job_dir.h"
#include "launch/progress.h"
#include "launch/summary.h"

enum { STATUS_RUNS = 0, STATUS_FAILED = 1, STATUS_DONE = 3, STATUS_TO_RESUME = 4 };

/* ---- a job started by `train` ---- */

static void status_print_launched(const char *dir)
{
    char path[PATH_MAX], line[512], role[16], host[300];
    FILE *f = rundir_file(dir, OUTPUT_PIDS, path, NULL) ? NULL : fopen(path, "re");
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

static void status_print_wait(const json_t *kept)
{
    struct progress_event event = {0};
    char *line = json_dumps(json_object_get(kept, "wait"), 0);
    if (line && !progress_parse(&event, line, strlen(line)) && *event.text) {
        double since = difftime(time(NULL), json_integer_value(json_object_get(kept, "wait_time")));
        (void)printf("  waiting %.0f s for %s\n", since + event.seconds, PRINTABLE(event.text));
    }
    free(line);
}

static void status_print_silence(const json_t *kept)
{
    json_int_t since = json_integer_value(json_object_get(kept, "silent_since"));
    if (since > 0)
        (void)printf("  no sign of the chief for %.0f s: it is stopped or hangs, or its host does "
                     "not answer\n",
                     difftime(time(NULL), (time_t)since));
}

/* Print how far the processes have read their data. False: none reads. */
static bool status_print_loading(const json_t *kept)
{
    char text[PROGRESS_TEXT_BYTES];
    struct progress_event event = {0};
    char *line = json_dumps(json_object_get(kept, "loading"), 0);
    if (!line || progress_parse(&event, line, strlen(line)))
        event.n_loading = 0;
    for (size_t i = 0; i < event.n_loading; i++) {
        progress_format_loading(text, sizeof text, &event.loading[i], 1, 0, 0);
        (void)printf("  %s\n", text);
    }
    if (event.n_loading && event.more_loading)
        (void)printf("  %llu more workers read their data\n",
                     (unsigned long long)event.more_loading);
    free(line);
    return event.n_loading > 0;
}

/* The file of an earlier release has only the time when it was saved. */
static double status_progress_age_s(const json_t *kept)
{
    const json_t *told = json_object_get(kept, "progress_time");
    const json_t *when = told ? told : json_object_get(kept, "time");
    return difftime(time(NULL), (time_t)json_integer_value(when));
}

static void status_print_progress(const char *dir)
{
    char path[PATH_MAX], text[PROGRESS_TEXT_BYTES];
    json_t *kept =
        rundir_file(dir, OUTPUT_PROGRESS, path, NULL) ? NULL : json_load_file(path, 0, NULL);
    char *line = json_dumps(json_object_get(kept, "progress"), 0);
    struct progress_event event = {0};
    bool trains = line && !progress_parse(&event, line, strlen(line));
    if (trains) {
        progress_format_step(text, sizeof text, &event);
        (void)printf("  %s  (%.0f s ago)\n", PRINTABLE(text), status_progress_age_s(kept));
    }
    if (!status_print_loading(kept) && !trains)
        (void)printf("  no step yet\n");
    status_print_silence(kept);
    status_print_wait(kept);
    json_int_t cut = json_integer_value(json_object_get(kept, "cut"));
    if (json_is_integer(json_object_get(kept, "cut")) && cut >= 0)
        (void)printf("  last checkpoint: %lld\n", (long long)cut);
    (void)printf("  restarts: %lld\n",
                 (long long)json_integer_value(json_object_get(kept, "restarts")));
    free(line);
    json_decref(kept);
}

/* ---- a job started by `rank`, or by hand ---- */

static bool is_here(const char *host)
{
    char here[RENDEZVOUS_HOST_BYTES];
    rendezvous_host(here);
    return strcmp(host, here) == 0;
}

static bool is_gone(const struct rendezvous_rank *r)
{
    return is_here(r->host) && kill((pid_t)r->pid, 0) != 0 && errno == ESRCH;
}

/* The number of ranks that have arrived. *alive: at least one of them is a running process on this host. */
static uint32_t status_count_ranks(const struct job_dir *d, bool *alive)
{
    struct rendezvous_rank r;
    uint32_t n = 0, end = rendezvous_end(d->folder);
    *alive = false;
    for (uint32_t i = 0; i < end; i++) {
        bool came = rendezvous_read(d->folder, i, &r);
        n += came;
        *alive = *alive || (came && r.role[0] && is_here(r.host) && !is_gone(&r));
    }
    return n;
}

static void status_print_ranks(const struct job_dir *d)
{
    struct rendezvous_rank r;
    uint32_t end = rendezvous_end(d->folder);
    for (uint32_t i = 0; i < end; i++)
        if (rendezvous_read(d->folder, i, &r) && r.role[0])
            (void)printf("  %s %u: pid %ld on %s%s\n", r.role, r.index, r.pid, PRINTABLE(r.host),
                         is_gone(&r) ? ", gone" : "");
}

/* The number of the newest complete cut; 0: none. *when: the time of its manifest. */
static unsigned long long status_newest_cut(const char *dir, time_t *when)
{
    char folder[PATH_MAX], path[PATH_MAX], name[NAME_MAX + 16];
    unsigned long long cut, newest = 0;
    struct stat s;
    DIR *d = rundir_file(dir, OUTPUT_CHECKPOINTS, folder, NULL) ? NULL : opendir(folder);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        (void)snprintf(name, sizeof name, "%s/manifest.gw", entry->d_name);
        if (sscanf(entry->d_name, "cut-%llu", &cut) != 1 || cut < newest ||
            rundir_file(folder, name, path, NULL) || stat(path, &s) != 0)
            continue;
        newest = cut;
        *when = s.st_mtime;
    }
    if (d)
        (void)closedir(d);
    return newest;
}

static void status_print_cut(const char *dir)
{
    time_t when = 0;
    unsigned long long cut = status_newest_cut(dir, &when);
    if (when)
        (void)printf("  last checkpoint: %llu  (%.0f s ago)\n", cut, difftime(time(NULL), when));
    else
        (void)printf("  no checkpoint yet\n");
}

/* ---- a job that is not running ---- */

static int status_no_summary(const struct job_dir *d, const char *dir, bool before)
{
    const char *by = d->by == JOB_DIR_TRAIN ? "launcher" : "chief";
    (void)printf("%s: not running; the last run left no summary (its %s was killed%s): %s to "
                 "resume\n",
                 PRINTABLE(dir), by,
                 d->by == JOB_DIR_TRAIN ? "" : ", or refused to start: read its log",
                 d->by == JOB_DIR_TRAIN ? "run train again" : "start it again");
    if (before) {
        (void)printf("  the run before it:\n");
        summary_print(stdout, dir);
    }
    return STATUS_TO_RESUME;
}

static int status_last_run(const struct job_dir *d, const char *dir)
{
    enum summary_end end = summary_end(dir);
    /* the last run took the lock later, and wrote no summary */
    bool old = d->by != JOB_DIR_TRAIN && job_dir_is_before(dir, OUTPUT_SUMMARY, OUTPUT_LOCK);
    if (end == SUMMARY_NONE || old)
        return status_no_summary(d, dir, old);
    const char *again =
        d->by == JOB_DIR_TRAIN ? ", run train again to resume" : ", start it again to resume";
    (void)printf("%s: not running%s; the last run:\n", PRINTABLE(dir),
                 end == SUMMARY_INTERRUPTED ? again : "");
    summary_print(stdout, dir);
    if (end == SUMMARY_INTERRUPTED)
        return STATUS_TO_RESUME;
    return end == SUMMARY_DONE ? STATUS_DONE : STATUS_FAILED;
}

static int status_no_chief(const struct job_dir *d, const char *dir)
{
    bool alive;
    uint32_t n = status_count_ranks(d, &alive);
    (void)printf("%s: %u rank%s of %s %s arrived, and the chief has not begun%s\n", PRINTABLE(dir),
                 n, n == 1 ? "" : "s", PRINTABLE(job_dir_attempt(d)), n == 1 ? "has" : "have",
                 alive ? "" : "; the ranks are on other hosts, or gone");
    return alive ? STATUS_RUNS : STATUS_TO_RESUME;
}

/* ---- the page ---- */

/* Find the page of a running job. False: DIR has no address. `host`: the page can be opened only on that host; "": on this
 * host, too. */
static bool status_page(const struct job_dir *d, const char *dir, char url[PAGE_URL_BYTES],
                        char host[RENDEZVOUS_HOST_BYTES])
{
    host[0] = 0;
    if (d->by == JOB_DIR_TRAIN)
        return page_url(dir, url);
    if (d->by == JOB_DIR_HAND || !rendezvous_page(d->folder, url, host))
        return false;
    bool loopback = strncmp(url, "http://127.", 11) == 0 || strncmp(url, "http://[::1]", 12) == 0 ||
                    strncmp(url, "http://localhost:", 17) == 0;
    if (!loopback || is_here(host))
        host[0] = 0;
    return true;
}

static void status_print_page(const char *url, const char *host)
{
    const char *colon = strrchr(url, ':');
    unsigned port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    if (!*host)
        (void)printf("  page: %s\n", PRINTABLE(url));
    else
        (void)printf(
            "  page: %s on host %s only; to reach it from here: ssh -L %u:127.0.0.1:%u %s\n",
            PRINTABLE(url), PRINTABLE(host), port, port, PRINTABLE(host));
}

/* --open: show the page, by exec. Returns `exit_code` if the page cannot be shown. `url` NULL: the job has no page. */
static int status_open(const char *dir, const char *url, const char *host, int exit_code)
{
    if (!flags_on("open"))
        return exit_code;
    (void)fflush(stdout);
    if (url && !*host) {
        page_open(url);
        return EXIT_FAILED;
    }
    if (url)
        say_plain("the page is only on host %s: run the ssh command above, then open "
                  "%s; or start the ranks with --http-address",
                  host, url);
    else
        say_plain("%s has no page: a job has one only while it runs", dir);
    return url ? EXIT_FAILED : exit_code;
}

/* ---- the command ---- */

static void status_print_running(const struct job_dir *d, const char *dir)
{
    long pid = (long)d->holder;
    if (d->by == JOB_DIR_TRAIN) {
        (void)printf("%s: %s, launcher pid %ld\n", PRINTABLE(dir),
                     d->lives ? "running" : "ending, its launcher is gone", pid);
        status_print_launched(dir);
        status_print_progress(dir);
    } else if (d->by == JOB_DIR_RANK && !d->began) {
        (void)printf("%s: running, chief pid %ld; ranks of %s have arrived since then\n",
                     PRINTABLE(dir), pid, PRINTABLE(job_dir_attempt(d)));
        status_print_cut(dir);
    } else if (d->by == JOB_DIR_RANK) {
        (void)printf("%s: running, %s, chief pid %ld on %s\n", PRINTABLE(dir),
                     PRINTABLE(job_dir_attempt(d)), pid, PRINTABLE(d->chief.host));
        status_print_ranks(d);
        status_print_cut(dir);
    } else {
        (void)printf("%s: running, started by hand, chief pid %ld\n", PRINTABLE(dir), pid);
        status_print_cut(dir);
    }
}

int status_main(int argc, char **argv)
{
    const char *dir = job_dir_given("status", argc, argv);
    char url[PAGE_URL_BYTES], host[RENDEZVOUS_HOST_BYTES];
    struct job_dir d;
    if (!dir)
        return EXIT_INPUT;
    job_dir_look(&d, dir);
    if (d.holder <= 0)
        return status_open(dir, NULL, "",
                           job_dir_meets(&d, dir) ? status_no_chief(&d, dir)
                                                  : status_last_run(&d, dir));
    status_print_running(&d, dir);
    bool page = status_page(&d, dir, url, host);
    if (page)
        status_print_page(url, host);
    return status_open(dir, page ? url : NULL, host, STATUS_RUNS);
}
