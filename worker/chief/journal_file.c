#include "worker/chief/journal_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/output.h"

/* ---- text ---- */

static const char *const words[] = {[JOURNAL_REJECTED] = "rejected",
                                    [JOURNAL_RECOVERED] = "recovered",
                                    [JOURNAL_BLAS] = "blas",
                                    [JOURNAL_NAME] = "name",
                                    [JOURNAL_INEXACT] = "inexact"};

enum { CRC_CHARACTERS = 9 }; /* eight hexadecimal digits, and a space */

size_t journal_line(const struct journal_entry *entry, char out[JOURNAL_LINE_MAX])
{
    char cut[24] = "none", *text = out + CRC_CHARACTERS;
    if (entry->cut != UINT64_MAX)
        (void)snprintf(cut, sizeof cut, "%" PRIu64, entry->cut);
    int n = snprintf(text, JOURNAL_LINE_MAX - CRC_CHARACTERS,
                     "%s batch %" PRIu64 " generation %" PRIu64 " cut %s: %s", words[entry->kind],
                     entry->batch, entry->generation, cut, entry->what);
    (void)snprintf(out, CRC_CHARACTERS, "%08" PRIx32, crc32c(0, text, (size_t)n));
    out[CRC_CHARACTERS - 1] = ' ';
    text[n] = '\n';
    text[n + 1] = '\0';
    return CRC_CHARACTERS + (size_t)n + 1;
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

/* The text behind a checksum that fits. Lines of earlier releases have no checksum, and a line with a wrong one makes no sense:
 * it does not begin with a kind. */
static const char *text_of(const char *line)
{
    char crc[CRC_CHARACTERS + 1];
    const char *text = line + CRC_CHARACTERS;
    if (strlen(line) < CRC_CHARACTERS)
        return line;
    (void)snprintf(crc, sizeof crc, "%08" PRIx32 " ", crc32c(0, text, strlen(text)));
    return memcmp(line, crc, CRC_CHARACTERS) == 0 ? text : line;
}

/* `line` has no newline. */
static bool read_line(struct journal_entry *to, const char *line)
{
    char kind[12] = "", cut[24] = "";
    int end = -1;
    struct journal_entry entry;
    line = text_of(line);
    if (sscanf(line, "%11s batch %" SCNu64 " generation %" SCNu64 " cut %23[^:]:%n", kind,
               &entry.batch, &entry.generation, cut, &end) != 4 ||
        end < 0 || line[end] != ' ' || !read_cut(&entry.cut, cut) || !read_kind(&entry.kind, kind))
        return false;
    (void)snprintf(entry.what, sizeof entry.what, "%s", line + end + 1);
    *to = entry;
    return true;
}

/* `at` has a newline. Errors: ERR_NOMEM. */
static enum err take_line(struct journal *j, const char *at, size_t bytes, struct journal_damage *d)
{
    char line[JOURNAL_LINE_MAX];
    struct journal_entry entry;
    bool fits = bytes < sizeof line;
    if (fits) {
        memcpy(line, at, bytes);
        line[bytes] = '\0';
    }
    if (fits && read_line(&entry, line))
        return journal_add(j, &entry);
    if (!d->damaged++)
        d->first = d->lines;
    return ERR_OK;
}

enum err journal_parse(struct journal *j, const char *text, size_t bytes, struct journal_damage *d)
{
    enum err err = ERR_OK;
    const char *end, *at = text;
    *d = (struct journal_damage){0};
    for (; !err && (end = memchr(at, '\n', bytes - (size_t)(at - text))); at = end + 1) {
        d->lines++;
        err = take_line(j, at, (size_t)(end - at), d);
    }
    d->torn = !err && at < text + bytes;
    return err;
}

/* ---- the file ---- */

enum err journal_read(struct journal *j, const struct place *checkpoints, struct journal_damage *d,
                      struct errmsg *e)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    *d = (struct journal_damage){0};
    enum err err = place_get(checkpoints, OUTPUT_JOURNAL, JOURNAL_MAX_BYTES, &text, &bytes, e);
    if (err)
        return err == ERR_NOTFOUND ? ERR_OK : err;
    err = journal_parse(j, (const char *)text, bytes, d);
    mem_free(text);
    return err ? err_set(e, err, "%s/%s: out of memory", checkpoints->where, OUTPUT_JOURNAL)
               : ERR_OK;
}

enum err journal_append(const struct place *checkpoints, const struct journal_entry *entry,
                        size_t n, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = files_mkdirs(checkpoints->where, e);
    if (!err)
        err = place_path(checkpoints, OUTPUT_JOURNAL, path, e);
    if (!err)
        err = line_file_cut_torn(path, e);
    for (size_t i = 0; i < n && !err; i++) {
        char line[JOURNAL_LINE_MAX];
        err = line_file_append(path, line, journal_line(&entry[i], line), e);
    }
    return err ? err : line_file_sync(path, e);
}

/* ---- the mark ---- */

enum { MARK_MAX_BYTES = 4096 };

enum err journal_mark(const struct place *checkpoints, const char *job, struct errmsg *e)
{
    return place_put(checkpoints, OUTPUT_BEGINS, job, strlen(job), e);
}

void journal_unmark(const struct place *checkpoints)
{
    struct errmsg e;
    (void)!place_remove(checkpoints, OUTPUT_BEGINS, &e);
}

bool journal_begins(const struct place *checkpoints, const char *job)
{
    uint8_t *text = NULL;
    size_t bytes = 0;
    struct errmsg e;
    enum err err = place_get(checkpoints, OUTPUT_BEGINS, MARK_MAX_BYTES, &text, &bytes, &e);
    if (err)
        return err != ERR_NOTFOUND; /* it may be this job's */
    bool is = bytes == strlen(job) && memcmp(text, job, bytes) == 0;
    mem_free(text);
    return is;
}
