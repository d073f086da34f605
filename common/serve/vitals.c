/* The facts of a process that all roles report: memory, CPU, and the note to the chief. */
#include "common/serve/vitals.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/process/cgroup.h"
#include "common/wire/frame.h"

/* Writes a listening socket's address, such as "127.0.0.1:8080", or ":8080" if it is every address of the host; ""
 * for -1. */
static void vitals_http(int fd, char out[VITALS_HTTP_BYTES])
{
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof at;
    char host[INET6_ADDRSTRLEN];
    out[0] = 0;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &bytes) != 0)
        return;
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&at;
        bool every = in->sin_addr.s_addr == htonl(INADDR_ANY);
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(out, VITALS_HTTP_BYTES, "%s:%u", every ? "" : host, ntohs(in->sin_port));
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&at;
        bool every = memcmp(&in->sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
        (void)inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        if (every)
            (void)snprintf(out, VITALS_HTTP_BYTES, ":%u", ntohs(in->sin6_port));
        else
            (void)snprintf(out, VITALS_HTTP_BYTES, "[%s]:%u", host, ntohs(in->sin6_port));
    }
}

struct vitals {
    uint64_t rss_bytes, peak_rss_bytes;
    double cpu_s;
    double started_s; /* since the Unix epoch */
    uint32_t threads;
};

static struct cgroup_limits limits = {UINT32_MAX, UINT64_MAX, UINT64_MAX};

void vitals_init(void)
{
    limits = cgroup_limits();
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* proc(5): field 20 of stat is the threads, field 22 the start in ticks since boot, field 24 the resident pages. */
static void read_stat(struct vitals *v)
{
    char line[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return;
    const char *rest = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    unsigned long long started = 0;
    long threads = 0, pages = 0;
    if (rest && sscanf(rest,
                       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
                       "%*d %llu %*u %ld",
                       &threads, &started, &pages) == 3) {
        double age_s = seconds_of(CLOCK_BOOTTIME) - (double)started / (double)sysconf(_SC_CLK_TCK);
        v->threads = (uint32_t)threads;
        v->started_s = seconds_of(CLOCK_REALTIME) - age_s;
        v->rss_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    (void)fclose(f);
}

/* Reads /proc, which never waits for a disk. A value that cannot be read is 0. */
static void vitals_read(struct vitals *v)
{
    struct rusage used;
    *v = (struct vitals){0};
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        v->cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
        v->peak_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
    }
    read_stat(v);
}

void vitals_note_make(struct vitals_note *n, int http_fd)
{
    struct vitals v = {0};
    read_stat(&v);
    gradwire__vitals__init(&n->message);
    n->message.resident_bytes = v.rss_bytes;
    vitals_http(http_fd, n->http);
    n->message.http = n->http;
    uint32_t count = log_warnings(n->kept);
    for (uint32_t i = 0; i < count; i++) {
        gradwire__warning__init(&n->warning[i]);
        n->warning[i].time_ms = n->kept[i].time_ms;
        n->warning[i].error = n->kept[i].level == LOG_ERROR;
        n->warning[i].text.data = (uint8_t *)n->kept[i].text;
        n->warning[i].text.len = strlen(n->kept[i].text);
        n->warnings[i] = &n->warning[i];
    }
    n->message.n_warnings = count;
    n->message.warnings = n->warnings;
}

void vitals_metrics(struct metrics *m)
{
    struct vitals v;
    vitals_read(&v);
    metrics_family(m, "gradwire_build_info", METRICS_GAUGE,
                   "Always 1; the labels describe this build.");
    metrics_put(m, 1, "version", GRADWIRE_VERSION, "wire", METRICS_NUMBER(FRAME_VERSION),
                "compiler", __VERSION__, NULL);
    metrics_family(m, "process_cpu_seconds_total", METRICS_COUNTER,
                   "User and system CPU time of this process.");
    metrics_put(m, v.cpu_s, NULL);
    metrics_gauge(m, "process_resident_memory_bytes", "Resident memory.", (double)v.rss_bytes);
    metrics_gauge(m, "gradwire_process_peak_resident_memory_bytes",
                  "Largest resident memory so far.", (double)v.peak_rss_bytes);
    if (limits.memory_bytes != UINT64_MAX)
        metrics_gauge(m, "gradwire_memory_limit_bytes",
                      "Memory limit of the cgroups of this process.", (double)limits.memory_bytes);
    if (limits.cores != UINT32_MAX)
        metrics_gauge(m, "gradwire_cpu_limit_cores",
                      "CPU limit of the cgroups of this process, rounded up.", limits.cores);
    metrics_gauge(m, "process_start_time_seconds",
                  "When this process started, in seconds since the epoch.", v.started_s);
    metrics_gauge(m, "process_threads", "Threads of this process.", v.threads);
}

static json_t *limit_json(uint64_t limit, uint64_t none)
{
    return limit == none ? json_null() : json_integer((json_int_t)limit);
}

json_t *vitals_json(void)
{
    struct vitals v;
    vitals_read(&v);
    return json_pack("{s:I, s:I, s:o, s:o, s:f, s:f, s:i}", "resident_bytes",
                     (json_int_t)v.rss_bytes, "peak_resident_bytes", (json_int_t)v.peak_rss_bytes,
                     "memory_limit_bytes", limit_json(limits.memory_bytes, UINT64_MAX),
                     "cpu_limit_cores", limit_json(limits.cores, UINT32_MAX), "cpu_s", v.cpu_s,
                     "uptime_s", seconds_of(CLOCK_REALTIME) - v.started_s, "threads",
                     (int)v.threads);
}
