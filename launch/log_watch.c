/* Follows the processes' logs, and selects the warnings that the terminal shows. */
#include "launch/log_watch.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "launch/base/say.h"
#include "launch/local/process.h"

/* ---- equal warnings ---- */

static bool word_before(const char *text, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at >= n && strncmp(text + at - n, word, n) == 0;
}

static bool word_behind(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && !isalnum((unsigned char)text[n]);
}

static bool is_port(const char *text, size_t at)
{
    return at > 1 && text[at - 1] == ':' &&
           (isdigit((unsigned char)text[at - 2]) || text[at - 2] == ']');
}

/* True: warnings that differ only in the number text[at, end) are the same. */
static bool number_changes(const char *text, size_t at, size_t end)
{
    return is_port(text, at) || word_before(text, at, "step ") || word_before(text, at, "batch ") ||
           word_behind(text + end, " s") || word_behind(text + end, " more") ||
           word_behind(text + end, " since");
}

/* 64-bit FNV-1a over the text without the numbers that can differ. */
uint64_t warnings_key(const char *text)
{
    uint64_t key = 0xCBF29CE484222325;
    for (size_t at = 0, end; text[at]; at = end) {
        size_t digits = strspn(text + at, "0123456789");
        end = at + (digits ? digits : 1);
        if (digits && number_changes(text, at, end))
            continue;
        for (size_t i = at; i < end; i++)
            key = (key ^ (unsigned char)text[i]) * 0x100000001B3;
    }
    return key ? key : 1;
}

/* The remembered warning with this key, or the entry to use for it. */
static struct warning *warnings_kept(struct warnings *w, uint64_t key)
{
    struct warning *oldest = w->kept;
    for (struct warning *k = w->kept; k < w->kept + WARNINGS_KEPT; k++) {
        if (k->key == key || k->key == 0)
            return k;
        if (k->heard_ms < oldest->heard_ms)
            oldest = k;
    }
    return oldest;
}

/* Note the warning. True: it was not logged for WARNINGS_QUIET_MS. */
static bool warnings_is_news(struct warnings *w, uint64_t key, int64_t now_ms)
{
    struct warning *k = warnings_kept(w, key);
    bool news = k->key != key || now_ms - k->heard_ms >= WARNINGS_QUIET_MS;
    *k = (struct warning){.key = key, .heard_ms = now_ms};
    return news;
}

/* ---- lines to show ---- */

static void held_add(struct warning_held *h, const char *name)
{
    size_t n = strlen(h->names);
    if (strcmp(h->last, name) == 0)
        return;
    (void)snprintf(h->last, sizeof h->last, "%s", name);
    if (h->named == WARNINGS_NAMED) {
        h->more++;
        return;
    }
    (void)snprintf(h->names + n, sizeof h->names - n, "%s%s", n ? ", " : "", name);
    h->named++;
}

static struct warning_held *warnings_held(struct warnings *w, uint64_t key)
{
    for (uint32_t i = 0; i < w->n_held; i++)
        if (w->held[i].key == key)
            return &w->held[i];
    return NULL;
}

void warnings_hear(struct warnings *w, const char *name, const char *text, int64_t now_ms)
{
    uint32_t left_out = 0;
    uint64_t key = warnings_key(text);
    bool news = warnings_is_news(w, key, now_ms);
    struct warning_held *h = warnings_held(w, key);
    if (!h && !news)
        return;
    if (!h && w->n_held < WARNINGS_HELD && log_may(&w->budget, now_ms, &left_out)) {
        h = &w->held[w->n_held++];
        *h = (struct warning_held){.key = key};
        (void)snprintf(h->text, sizeof h->text, "%s", text);
        w->left_out += left_out;
    } else if (!h && w->n_held == WARNINGS_HELD) {
        w->left_out++;
    }
    if (h)
        held_add(h, name);
    assert(w->n_held <= WARNINGS_HELD);
}

bool warnings_take(struct warnings *w, char out[WARNINGS_LINE_BYTES])
{
    if (w->left_out) {
        (void)snprintf(out, WARNINGS_LINE_BYTES,
                       "%u more warnings are in the logs of the processes", w->left_out);
        w->left_out = 0;
        return true;
    }
    if (w->n_held == 0)
        return false;
    const struct warning_held *h = &w->held[0];
    if (h->more)
        (void)snprintf(out, WARNINGS_LINE_BYTES, "%s and %u more: %s", h->names, h->more, h->text);
    else
        (void)snprintf(out, WARNINGS_LINE_BYTES, "%s: %s", h->names, h->text);
    w->n_held--;
    memmove(w->held, w->held + 1, w->n_held * sizeof *w->held);
    return true;
}

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
