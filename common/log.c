#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LINE_BYTES = 2048 };

static char log_who[64] = "gradwire";
static enum log_level log_least = LOG_INFO;

static const char *const log_names[] = {"debug", "info", "warn", "error"};

enum log_level log_level_of(const char *name)
{
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++)
        if (strcmp(name, log_names[i]) == 0)
            return (enum log_level)i;
    return LOG_INFO;
}

void log_init(const char *who, enum log_level least)
{
    (void)snprintf(log_who, sizeof log_who, "%s", who);
    log_least = least;
}

static void log_line(enum log_level level, const char *fmt, va_list args)
{
    if (level < log_least)
        return;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    struct tm tm;
    gmtime_r(&t.tv_sec, &tm);
    char line[LOG_LINE_BYTES];
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03ldZ %s %s: ", t.tv_nsec / 1000000,
                          log_names[level], log_who);
    int m = vsnprintf(line + n, sizeof line - n - 1, fmt, args);
    n += m < 0 ? 0 : (size_t)m;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* there is nowhere else to say that stderr is gone */
}

#define LOG_AT(level)                                                                              \
    do {                                                                                           \
        va_list args;                                                                              \
        va_start(args, fmt);                                                                       \
        log_line(level, fmt, args);                                                                \
        va_end(args);                                                                              \
    } while (0)

void log_debug(const char *fmt, ...)
{
    LOG_AT(LOG_DEBUG);
}

void log_info(const char *fmt, ...)
{
    LOG_AT(LOG_INFO);
}

void log_warn(const char *fmt, ...)
{
    LOG_AT(LOG_WARN);
}

void log_error(const char *fmt, ...)
{
    LOG_AT(LOG_ERROR);
}
