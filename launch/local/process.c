/* One process of a job: its name, its log, and the lines of the log. */
#include "launch/local/process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/printable.h"
#include "common/process/files.h"
#include "common/process/output.h"

enum { LOG_LINE_TIME_BYTES = 20 }; /* at least: 2026-01-31T12:00:00Z */

/* False: the name is not a level. (log_level_of accepts any name.) */
static bool level_named(enum log_level *level, const char *name, size_t n)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0) {
            *level = log_level_of(names[i]);
            return true;
        }
    return false;
}

/* TIME LEVEL WHO: TEXT */
static bool parse_text(struct log_line *l, const char *line)
{
    enum log_level level;
    const char *space = strchr(line, ' ');
    if (!space || space - line < LOG_LINE_TIME_BYTES || line[4] != '-' || line[10] != 'T')
        return false;
    const char *name = space + 1, *end = strchr(name, ' ');
    const char *colon = end ? strstr(end, ": ") : NULL;
    if (!colon || !level_named(&level, name, (size_t)(end - name)))
        return false;
    l->level = level;
    (void)snprintf(l->text, sizeof l->text, "%s", colon + 2);
    return true;
}

/* {"time": .., "level": .., "process": .., "message": ..} */
static bool parse_json(struct log_line *l, const char *line)
{
    enum log_level level;
    json_t *object = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(object, "level"));
    const char *text = json_string_value(json_object_get(object, "message"));
    bool ours = name && text && level_named(&level, name, strlen(name));
    if (ours) {
        l->level = level;
        (void)snprintf(l->text, sizeof l->text, "%s", text);
    }
    json_decref(object);
    return ours;
}

bool log_line_parse(struct log_line *l, const char *line)
{
    bool ours = *line == '{' ? parse_json(l, line) : parse_text(l, line);
    if (ours)
        (void)printable_text(l->text, sizeof l->text, l->text);
    return ours;
}

enum { PROCESS_TAIL_BYTES = 64 * 1024 };

enum err process_init(struct process *p, enum role role, uint32_t index, const char *dir,
                      struct errmsg *e)
{
    *p = (struct process){.role = role, .index = index};
    (void)snprintf(p->name, sizeof p->name, "%s %u", role_str(role), index);
    int n = snprintf(p->log, sizeof p->log, "%s/" OUTPUT_PROCESSES "/%s-%u.log", dir,
                     role_str(role), index);
    if (n < 0 || (size_t)n >= sizeof p->log)
        return err_set(e, ERR_IO, "%.200s...: the path is too long", dir);
    return ERR_OK;
}

enum err process_open_log(struct process *p, int *fd, struct errmsg *e)
{
    struct stat s;
    p->started_ms = 0;
    *fd = open(p->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0)
        return err_set(e, ERR_IO, "%s: %s", p->log, strerror(errno));
    p->log_from = fstat(*fd, &s) == 0 ? s.st_size : 0;
    return ERR_OK;
}

void process_peak_rss(struct process *p, uint64_t bytes)
{
    p->peak_rss_bytes = bytes > p->peak_rss_bytes ? bytes : p->peak_rss_bytes;
}

/* The end of this start's log, NUL-terminated; the caller frees it. NULL: no log. */
static char *process_log_tail(const struct process *p)
{
    int fd = open(p->log, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    char *text = calloc(1, PROCESS_TAIL_BYTES + 1);
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from = end - PROCESS_TAIL_BYTES > p->log_from ? end - PROCESS_TAIL_BYTES : p->log_from;
    if (text && files_get_at(fd, text, PROCESS_TAIL_BYTES, (uint64_t)from) < 0)
        text[0] = 0;
    (void)close(fd);
    return text;
}

void process_last_words(const struct process *p, bool any, char *out, size_t bytes)
{
    char last[PROCESS_WORDS_BYTES] = "", last_error[PROCESS_WORDS_BYTES] = "";
    char *tail = process_log_tail(p);
    for (char *save = NULL, *line = tail ? strtok_r(tail, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        struct log_line l;
        bool ours = log_line_parse(&l, line);
        if (ours && l.level == LOG_ERROR)
            (void)snprintf(last_error, sizeof last_error, "%s", l.text);
        (void)snprintf(last, sizeof last, "%s", ours ? l.text : line);
    }
    free(tail);
    const char *words = *last_error ? last_error : any ? last : "";
    (void)snprintf(out, bytes, "%s", words);
}
