#include "worker/chief/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/process/files.h"

/* ---- text ---- */

size_t journal_line(const struct journal_entry *entry, char out[JOURNAL_LINE_MAX])
{
    char cut[24] = "none";
    if (entry->cut != UINT64_MAX)
        (void)snprintf(cut, sizeof cut, "%" PRIu64, entry->cut);
    int n =
        snprintf(out, JOURNAL_LINE_MAX, "%s batch %" PRIu64 " generation %" PRIu64 " cut %s: %s\n",
                 entry->kind == JOURNAL_RECOVERED ? "recovered" : "rejected", entry->batch,
                 entry->generation, cut, entry->what);
    return (size_t)n;
}

/* A number, or "none"; written before there was that word, none is UINT64_MAX's digits. */
static bool read_cut(uint64_t *cut, const char *text)
{
    int end = -1;
    if (strcmp(text, "none") == 0) {
        *cut = UINT64_MAX;
        return true;
    }
    return sscanf(text, "%" SCNu64 "%n", cut, &end) == 1 && end > 0 && !text[end];
}

/* A line without its end. */
static bool read_line(struct journal_entry *to, const char *line)
{
    char kind[12] = "", cut[24] = "";
    int end = -1;
    struct journal_entry entry = {.kind = JOURNAL_REJECTED};
    if (sscanf(line, "%11s batch %" SCNu64 " generation %" SCNu64 " cut %23[^:]: %n", kind,
               &entry.batch, &entry.generation, cut, &end) != 4 ||
        end < 0 || !read_cut(&entry.cut, cut))
        return false;
    if (strcmp(kind, "recovered") == 0)
        entry.kind = JOURNAL_RECOVERED;
    else if (strcmp(kind, "rejected") != 0)
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
        return errno == ENOENT ? ERR_OK : err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
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

/* A torn line at the end must not swallow the next one: behind it the append begins with an end of line. */
static bool is_torn(int fd)
{
    char last = '\n';
    off_t bytes = lseek(fd, 0, SEEK_END);
    return bytes != 0 && (bytes < 0 || pread(fd, &last, 1, bytes - 1) != 1 || last != '\n');
}

static enum err write_all(int fd, const struct journal_entry *entry, size_t n)
{
    char line[JOURNAL_LINE_MAX + 1] = "\n";
    size_t before = is_torn(fd) ? 1 : 0;
    for (size_t i = 0; i < n; i++, before = 0) {
        size_t bytes = before + journal_line(&entry[i], line + before), done = 0;
        while (done < bytes) {
            ssize_t written = write(fd, line + done, bytes - done);
            if (written < 0 && errno != EINTR)
                return ERR_IO;
            done += written > 0 ? (size_t)written : 0;
        }
    }
    return fsync(fd) ? ERR_IO : ERR_OK;
}

enum err journal_append(const char *checkpoints, const struct journal_entry *entry, size_t n,
                        struct errmsg *e)
{
    char path[4200];
    enum err err = files_mkdirs(checkpoints, e);
    if (err)
        return err;
    journal_path(path, checkpoints);
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    err = write_all(fd, entry, n);
    if (err)
        err_set(e, err, "%s: %s", path, strerror(errno));
    if (close(fd) && !err)
        err = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return err ? err : files_sync_folder(checkpoints, e);
}
