#include "launch/log_watch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "launch/base/say.h"
#include "launch/local/log_line.h"

struct log_place {
    off_t at; /* offset up to which the log was read; the beginning of a line */
    int64_t error_ms;
    char error[LOG_LINE_TEXT_BYTES]; /* an error that may be repeated later; "": none */
};

/* ---- one log ---- */

static void log_watch_on_line(struct log_watch *l, uint32_t i, const char *line)
{
    struct log_line said;
    struct log_place *log = &l->log[i];
    if (!log_line_parse(&said, line))
        return;
    if (said.level == LOG_WARN && *l->loads && strstr(said.text, " s for the chief"))
        return;
    if (said.level == LOG_WARN) {
        warnings_hear(&l->warnings, l->crew->process[i].name, said.text, clock_now_ms());
    } else if (said.level == LOG_ERROR) {
        memcpy(log->error, said.text, sizeof log->error);
        log->error_ms = clock_now_ms();
    }
}

/* Process the complete lines of these bytes. Returns their bytes. If no line is complete, all bytes are skipped, because
 * gradwire's own lines are never so long. */
static size_t log_watch_lines(struct log_watch *l, uint32_t i, char *bytes, size_t n)
{
    size_t at = 0;
    for (char *end; (end = memchr(bytes + at, '\n', n - at)); at = (size_t)(end - bytes) + 1) {
        *end = 0;
        log_watch_on_line(l, i, bytes + at);
    }
    return at > 0 || n < LOG_WATCH_READ_BYTES ? at : n;
}

static void log_watch_read(struct log_watch *l, uint32_t i)
{
    char bytes[LOG_WATCH_READ_BYTES];
    struct stat s;
    struct log_place *log = &l->log[i];
    const char *path = l->crew->process[i].log;
    if (stat(path, &s) != 0)
        return;
    if (s.st_size < log->at) /* truncated, as by logrotate's copytruncate */
        log->at = 0;
    if (s.st_size == log->at)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (s.st_size - log->at > LOG_WATCH_BEHIND_BYTES)
        log->at = s.st_size - LOG_WATCH_READ_BYTES;
    ssize_t n = files_get_at(fd, bytes, sizeof bytes, (uint64_t)log->at);
    if (n > 0)
        log->at += (off_t)log_watch_lines(l, i, bytes, (size_t)n);
    (void)close(fd);
}

/* Repeat an error if its process still runs. */
static void log_watch_old_error(struct log_watch *l, uint32_t i)
{
    struct log_place *log = &l->log[i];
    int64_t now_ms = clock_now_ms();
    if (!log->error[0] || now_ms - log->error_ms < LOG_WATCH_ERROR_MS)
        return;
    warnings_hear(&l->warnings, l->crew->process[i].name, log->error, now_ms);
    log->error[0] = 0;
}

/* ---- all ---- */

static void log_watch_say(struct log_watch *l)
{
    char line[WARNINGS_LINE_BYTES];
    while (warnings_take(&l->warnings, line))
        if (!l->quiet)
            say_warn("%s", line);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct log_watch *l = arg;
    for (uint32_t i = 0; i < l->crew->n; i++) {
        log_watch_read(l, i);
        log_watch_old_error(l, i);
    }
    log_watch_say(l);
}

void log_watch_on_end(struct log_watch *l, uint32_t i)
{
    if (!l->log)
        return;
    log_watch_read(l, i);
    l->log[i].error[0] = 0;
    log_watch_say(l);
}

void log_watch_hush(struct log_watch *l)
{
    log_watch_say(l);
    l->quiet = true;
}

enum err log_watch_init(struct log_watch *l, struct event_base *base, const struct crew *crew,
                        const bool *loads)
{
    struct timeval every = {.tv_usec = LOG_WATCH_EVERY_MS * 1000};
    *l = (struct log_watch){.crew = crew, .loads = loads};
    l->log = mem_zalloc(crew->n, sizeof *l->log);
    l->tick = event_new(base, -1, EV_PERSIST, on_tick, l);
    if (!l->log || !l->tick || event_add(l->tick, &every) != 0)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < crew->n; i++)
        l->log[i].at = crew->process[i].log_from;
    return ERR_OK;
}

void log_watch_close(struct log_watch *l)
{
    if (l->tick)
        event_free(l->tick);
    mem_free(l->log);
    l->tick = NULL;
    l->log = NULL;
}
