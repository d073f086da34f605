#include "launch/local/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/process/files.h"
#include "common/process/output.h"
#include "launch/local/log_line.h"

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
