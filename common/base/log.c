/* Formats a line, remembers warnings and the last words of the process, and writes the line with one call. */
#include "common/base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/printable.h"

enum { LOG_LINE_BYTES = 2048, LOG_WORDS_BYTES = 1024 };

static char log_who[64] = "gradwire";
static enum log_level log_least = LOG_INFO;
static bool log_is_json;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_kept log_kept[LOG_KEPT]; /* a ring */
static uint32_t log_warned; /* number of warnings and errors so far, without forgotten ones */
static char log_last[LOG_WORDS_BYTES], log_last_error[LOG_WORDS_BYTES];

static const char *const log_names[] = {"debug", "info", "warn", "error"};

enum log_level log_level_of(const char *name)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++)
        if (strcmp(name, log_names[i]) == 0)
            return (enum log_level)i;
    return LOG_INFO;
}

/* Fill the closed standard descriptors. Otherwise the next file or socket opened would get such a number, and log
 * lines would be written into it. */
static void log_fill_standard(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

void log_init(const char *who, enum log_level least)
{
    log_fill_standard();
    (void)printable_text(log_who, sizeof log_who, who);
    log_least = least;
}

bool log_may(struct log_budget *b, int64_t now_ms, uint32_t *left_out)
{
    if (b->said == 0 || now_ms - b->since_ms >= LOG_BURST_MS) {
        b->since_ms = now_ms;
        b->said = 0;
    }
    if (b->said == LOG_BURST) {
        b->left_out++;
        return false;
    }
    b->said++;
    *left_out = b->left_out;
    b->left_out = 0;
    return true;
}

void log_json(void)
{
    log_is_json = true;
}

static void keep_warning(enum log_level level, const char *text, const struct timespec *t)
{
    struct log_kept *k = &log_kept[log_warned++ % LOG_KEPT];
    k->time_ms = (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
    k->level = level;
    (void)printable_text(k->text, sizeof k->text, text);
}

uint32_t log_warnings(struct log_kept out[LOG_KEPT])
{
    (void)pthread_mutex_lock(&log_lock);
    uint32_t n = log_warned < LOG_KEPT ? log_warned : LOG_KEPT;
    for (uint32_t i = 0; i < n; i++)
        out[i] = log_kept[(log_warned - n + i) % LOG_KEPT];
    (void)pthread_mutex_unlock(&log_lock);
    return n;
}

static bool is_of_wait(const struct log_kept *k)
{
    const char *at = strstr(k->text, "waiting ");
    return at && strstr(at, " s for ");
}

void log_wait_over(void)
{
    struct log_kept left[LOG_KEPT];
    uint32_t n = 0;
    (void)pthread_mutex_lock(&log_lock);
    for (uint32_t i = log_warned < LOG_KEPT ? 0 : log_warned - LOG_KEPT; i < log_warned; i++)
        if (!is_of_wait(&log_kept[i % LOG_KEPT]))
            left[n++] = log_kept[i % LOG_KEPT];
    memcpy(log_kept, left, n * sizeof *left);
    log_warned = n;
    (void)pthread_mutex_unlock(&log_lock);
}

static void remember(enum log_level level, const char *text, const struct timespec *t)
{
    if (level == LOG_DEBUG)
        return;
    (void)pthread_mutex_lock(&log_lock);
    (void)printable_text(log_last, sizeof log_last, text);
    if (level >= LOG_WARN)
        keep_warning(level, text, t);
    if (level == LOG_ERROR)
        (void)printable_text(log_last_error, sizeof log_last_error, text);
    (void)pthread_mutex_unlock(&log_lock);
}

void log_last_words(bool error, char *out, size_t bytes)
{
    (void)pthread_mutex_lock(&log_lock);
    (void)printable_text(out, bytes, error && log_last_error[0] ? log_last_error : log_last);
    (void)pthread_mutex_unlock(&log_lock);
}

/* Both format the line without the line feed, and return its bytes. */
static size_t format_json(char line[LOG_LINE_BYTES], const char *time, enum log_level level,
                          const char *text)
{
    char who[2 * sizeof log_who];
    (void)printable_quoted(who, sizeof who, log_who);
    size_t n = (size_t)snprintf(
        line, LOG_LINE_BYTES, "{\"time\":\"%s\",\"level\":\"%s\",\"process\":\"%s\",\"message\":\"",
        time, log_names[level], who);
    n += printable_quoted(line + n, LOG_LINE_BYTES - n - 3, text);
    return n + (size_t)sprintf(line + n, "\"}");
}

static size_t format_text(char line[LOG_LINE_BYTES], const char *time, enum log_level level,
                          const char *text)
{
    return printable_format(line, LOG_LINE_BYTES - 1, "%s %s %s: %s", time, log_names[level],
                            log_who, text);
}

void log_at(enum log_level level, const char *fmt, ...)
{
    char line[LOG_LINE_BYTES], text[LOG_LINE_BYTES], time[40];
    if (level < log_least)
        return;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    struct tm tm;
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(time + n, sizeof time - n, ".%03ldZ", t.tv_nsec / 1000000);
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    remember(level, text, &t);
    n = log_is_json ? format_json(line, time, level, text) : format_text(line, time, level, text);
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* if stderr fails, no other output is left to report it */
}
