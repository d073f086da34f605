#include "worker/chief/journal_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/line_file.h"

/* ---- text ---- */

static const char *const words[] = {[JOURNAL_REJECTED] = "rejected",
                                    [JOURNAL_RECOVERED] = "recovered",
                                    [JOURNAL_BLAS] = "blas",
                                    [JOURNAL_NAME] = "name",
                                    [JOURNAL_INEXACT] = "inexact"};

size_t journal_line(const struct journal_entry *entry, char out[JOURNAL_LINE_MAX])
{
    char cut[24] = "none";
    if (entry->cut != UINT64_MAX)
        (void)snprintf(cut, sizeof cut, "%" PRIu64, entry->cut);
    int n =
        snprintf(out, JOURNAL_LINE_MAX, "%s batch %" PRIu64 " generation %" PRIu64 " cut %s: %s\n",
                 words[entry->kind], entry->batch, entry->generation, cut, entry->what);
    return (size_t)n;
}

/* A number, or "none". Earlier releases wrote the digits of UINT64_MAX for none. */
static bool read_cut(uint64_t *cut, const char *text)
{
    int end = -1;
    if (strcmp(text, "none") == 0) {
        *cut = UINT64_MAX;
        return true;
    }
    return sscanf(text, "%" SCNu64 "%n", cut, &end) == 1 && end > 0 && !text[end];
}

static bool read_kind(enum journal_kind *kind, const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i]) == 0) {
            *kind = (enum journal_kind)i;
            return true;
        }
    }
    return false;
}

/* `line` has no newline. */
static bool read_line(struct journal_entry *to, const char *line)
{
    char kind[12] = "", cut[24] = "";
    int end = -1;
    struct journal_entry entry;
    if (sscanf(line, "%11s batch %" SCNu64 " generation %" SCNu64 " cut %23[^:]: %n", kind,
               &entry.batch, &entry.generation, cut, &end) != 4 ||
        end < 0 || !read_cut(&entry.cut, cut) || !read_kind(&entry.kind, kind))
        return false;
    (void)snprintf(entry.what, sizeof entry.what, "%s", line + end);
    *to = entry;
    return true;
}

enum err journal_parse(struct journal *j, const char *text, size_t bytes)
{
    enum err err = ERR_OK;
    const char *end;
    for (const char *at = text; !err && (end = memchr(at, '\n', bytes - (size_t)(at - text)));
         at = end + 1) {
        char line[JOURNAL_LINE_MAX];
        struct journal_entry entry;
        if ((size_t)(end - at) >= sizeof line)
            continue;
        memcpy(line, at, (size_t)(end - at));
        line[end - at] = '\0';
        if (read_line(&entry, line))
            err = journal_add(j, &entry);
    }
    return err;
}

/* ---- the file ---- */

static void journal_path(char out[4200], const char *checkpoints)
{
    (void)snprintf(out, 4200, "%s/journal", checkpoints);
}

enum err journal_read(struct journal *j, const char *checkpoints, struct errmsg *e)
{
    char path[4200];
    journal_path(path, checkpoints);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? ERR_OK : files_read_error(path, e);
    char line[JOURNAL_LINE_MAX];
    enum err err = ERR_OK;
    while (!err && fgets(line, sizeof line, file))
        err = journal_parse(j, line, strlen(line));
    if (!err && ferror(file))
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    else if (err)
        err_set(e, err, "%s: out of memory", path);
    (void)fclose(file);
    return err;
}

enum err journal_append(const char *checkpoints, const struct journal_entry *entry, size_t n,
                        struct errmsg *e)
{
    char path[4200];
    enum err err = files_mkdirs(checkpoints, e);
    journal_path(path, checkpoints);
    for (size_t i = 0; i < n && !err; i++) {
        char line[JOURNAL_LINE_MAX];
        err = line_file_append(path, line, journal_line(&entry[i], line), e);
    }
    return err ? err : line_file_sync(path, e);
}

/* ---- the mark ---- */

enum { MARK_MAX_BYTES = 4096 };

static void mark_path(char out[4200], const char *checkpoints)
{
    (void)snprintf(out, 4200, "%s/.begins", checkpoints);
}

enum err journal_mark(const char *checkpoints, const char *job, struct errmsg *e)
{
    char path[4200];
    mark_path(path, checkpoints);
    return files_write(path, job, strlen(job), e);
}

void journal_unmark(const char *checkpoints)
{
    char path[4200];
    mark_path(path, checkpoints);
    (void)unlink(path);
}

bool journal_begins(const char *checkpoints, const char *job)
{
    char path[4200];
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct errmsg e;
    mark_path(path, checkpoints);
    bool is = files_read_regular(path, MARK_MAX_BYTES, &text, &bytes, &e) == ERR_OK &&
              bytes == strlen(job) && memcmp(text, job, bytes) == 0;
    mem_free(text);
    return is;
}
