/* Each line names a file, the member of an archive (FILE.npz:MEMBER), or a glob, whose matches come in the order of their bytes. A
 * file whose name looks like a glob is that file. */
#include "common/process/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"

void paths_close(struct paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        mem_free(p->path[i]);
    mem_free(p->path);
    *p = (struct paths){0};
}

enum err paths_add(struct paths *p, const char *path, struct errmsg *e)
{
    if (p->count == PATHS_MAX)
        return err_set(e, ERR_INPUT, "more than %d files are named", PATHS_MAX);
    char **grown = mem_resize(p->path, p->count + 1, sizeof *grown);
    if (!grown)
        return err_memory(e);
    p->path = grown;
    char *copy = mem_strdup(path);
    if (!copy)
        return err_memory(e);
    p->path[p->count++] = copy;
    return ERR_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *paths_member(const char *path, char *file, size_t bytes)
{
    static const char archive[] = ".npz:";
    const char *at = access(path, F_OK) == 0 ? NULL : strstr(path, archive);
    size_t n = at ? (size_t)(at - path) + sizeof archive - 2 : strlen(path);
    n = n < bytes ? n : bytes - 1;
    memcpy(file, path, n);
    file[n] = '\0';
    return at ? at + sizeof archive - 1 : NULL;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Of the names in a directory: _SUCCESS and .part-0.parquet.crc are no data. */
static bool is_hidden(const FTSENT *at)
{
    return at->fts_level > FTS_ROOTLEVEL && (*at->fts_name == '_' || *at->fts_name == '.');
}

/* And is longer. */
static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), bytes = strlen(ending);
    return n > bytes && strcmp(name + n - bytes, ending) == 0;
}

/* Whether the directory has `name` or, with an ending, `name` is a directory of it with such a file. */
static bool has_entry(const char *folder, const char *name, const char *ending)
{
    char path[PATHS_FILE_MAX];
    bool has = false;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return false;
    if (!*ending)
        return access(path, F_OK) == 0;
    DIR *all = opendir(path);
    for (const struct dirent *at; all && !has && (at = readdir(all));)
        has = ends_in(at->d_name, ending);
    if (all)
        (void)closedir(all);
    return has;
}

static const char *lake_of(const char *folder)
{
    static const struct {
        const char *log, *ending, *kind;
    } lakes[] = {{"_delta_log", "", "Delta Lake (_delta_log)"},
                 {".hoodie", "", "Apache Hudi (.hoodie)"},
                 {"metadata", ".metadata.json", "Apache Iceberg (metadata/*.metadata.json)"}};
    for (size_t i = 0; i < sizeof lakes / sizeof *lakes; i++)
        if (has_entry(folder, lakes[i].log, lakes[i].ending))
            return lakes[i].kind;
    return NULL;
}

const char *paths_lake(const char *path)
{
    char folder[PATHS_FILE_MAX];
    (void)snprintf(folder, sizeof folder, "%s", path);
    for (char *last; (last = strrchr(folder, '/')); *last = '\0') {
        const char *lake = lake_of(folder);
        if (lake || (!strchr(last, '=') && strcmp(last, "/data") && !ends_in(last, ".parquet")))
            return lake;
    }
    return NULL;
}

/* An entry below a directory. A link that leads nowhere, or back, would be left out without a word. */
static enum err add_entry(struct paths *p, FTS *all, FTSENT *at, struct errmsg *e)
{
    if (is_hidden(at)) {
        (void)fts_set(all, at, FTS_SKIP);
        return ERR_OK;
    }
    const char *lake;
    switch (at->fts_info) {
    case FTS_D:
        lake = paths_lake(at->fts_path);
        if (lake)
            return err_set(
                e, ERR_INPUT,
                "%s: it belongs to a table of %s, which keeps files of earlier versions: "
                "export the rows of its current version, or list its current files",
                at->fts_path, lake);
        return ERR_OK;
    case FTS_DP:
        return ERR_OK;
    case FTS_DC:
        return err_set(e, ERR_INPUT, "%s: this link leads to a directory that contains it",
                       at->fts_path);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return err_set(e, ERR_IO, "%s: %s", at->fts_path, strerror(at->fts_errno));
    default: /* a link that leads nowhere is refused when it is read */
        return ends_in(at->fts_name, ".parquet") ? paths_add(p, at->fts_path, e) : ERR_OK;
    }
}

/* Adds the Parquet files below the directory; a directory without them stays as it is, and is refused when it is read. */
static enum err add_folder(struct paths *p, const char *path, struct errmsg *e)
{
    char *const roots[] = {(char *)(uintptr_t)path, NULL};
    const size_t before = p->count;
    FTS *all = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    enum err err = ERR_OK;
    errno = all ? 0 : errno;
    for (FTSENT *at; all && !err && (at = fts_read(all)); errno = 0)
        err = add_entry(p, all, at, e);
    if (!err && errno)
        err = err_set(e, err_of_errno(errno), "%s: %s", path, strerror(errno));
    if (all)
        (void)fts_close(all);
    return !err && p->count == before ? paths_add(p, path, e) : err;
}

/* Adds a file, or the files of a directory. */
static enum err add_there(struct paths *p, const char *path, struct errmsg *e)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) ? add_folder(p, path, e)
                                                     : paths_add(p, path, e);
}

/* Adds FILE:MEMBER, or FILE if `member` is NULL. */
static enum err add_member(struct paths *p, const char *file, const char *member, struct errmsg *e)
{
    char path[PATHS_FILE_MAX];
    if (!member)
        return add_there(p, file, e);
    if ((size_t)snprintf(path, sizeof path, "%s:%s", file, member) >= sizeof path)
        return err_set(e, ERR_INPUT, "%s: %s", file, strerror(ENAMETOOLONG));
    return paths_add(p, path, e);
}

static enum err add_matches(struct paths *p, const char *path, struct errmsg *e)
{
    char pattern[PATHS_FILE_MAX];
    const char *member = paths_member(path, pattern, sizeof pattern);
    if (member && access(pattern, F_OK) == 0)
        return add_member(p, pattern, member, e);
    if (strcmp(path, PATHS_STDIN) == 0)
        return paths_add(p, path, e);
    if (strstr(pattern, "**"))
        return err_set(e, ERR_INPUT,
                       "%s: ** does not go into directories of any depth here: give a pattern for "
                       "each depth, as in [*.csv, */*.csv]",
                       pattern);
    glob_t found;
    int rc = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (rc == GLOB_NOMATCH) {
        globfree(&found);
        return strpbrk(pattern, "*?[") ? err_set(e, ERR_INPUT, "no file matches %s", pattern)
                                       : err_set(e, ERR_INPUT, "%s: %s", pattern, strerror(ENOENT));
    }
    if (rc != 0) {
        globfree(&found);
        return err_set(e, rc == GLOB_NOSPACE ? ERR_NOMEM : ERR_IO, "%s: %s", pattern,
                       rc == GLOB_NOSPACE ? "out of memory" : "its directory cannot be searched");
    }
    /* the same order in every locale */
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    enum err err = ERR_OK;
    for (size_t i = 0; i < found.gl_pathc && !err; i++)
        err = add_member(p, found.gl_pathv[i], member, e);
    globfree(&found);
    return err;
}

static enum err expand(struct paths *p, char *lines, struct errmsg *e)
{
    char *rest = lines, *line;
    while ((line = strsep(&rest, "\n"))) {
        if (*line == '\0')
            continue;
        enum err err = access(line, F_OK) == 0 ? add_there(p, line, e) : add_matches(p, line, e);
        if (err)
            return err;
    }
    return p->count ? ERR_OK : err_set(e, ERR_INPUT, "no file is named");
}

/* The directory of a file, or one without files *.parquet, is one that convert has not finished. last: one that is. */
static enum err check_finished(const char *path, char last[static PATHS_FILE_MAX], struct errmsg *e)
{
    char folder[PATHS_FILE_MAX], marker[PATHS_FILE_MAX];
    struct stat s;
    const char *slash = strrchr(path, '/');
    const bool is_folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    const size_t n = is_folder ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    if ((!is_folder && !ends_in(path, ".parquet")) || strcmp(folder, last) == 0)
        return ERR_OK;
    const int bytes =
        snprintf(marker, sizeof marker, "%s%s%s", folder, n ? "/" : "", PATHS_UNFINISHED);
    memcpy(last, folder, n + 1);
    return bytes >= PATHS_FILE_MAX || access(marker, F_OK) != 0
               ? ERR_OK
               : err_set(e, ERR_INPUT,
                         "%s: gradwire convert has not finished this directory: run it again",
                         n ? folder : ".");
}

static enum err check_all_finished(const struct paths *p, struct errmsg *e)
{
    char last[PATHS_FILE_MAX] = "/";
    enum err err = ERR_OK;
    for (size_t i = 0; i < p->count && !err; i++)
        err = check_finished(p->path[i], last, e);
    return err;
}

enum err paths_expand(struct paths *out, const char *patterns, struct errmsg *e)
{
    struct paths p = {0};
    char *lines = mem_strdup(patterns);
    if (!lines)
        return err_memory(e);
    enum err err = expand(&p, lines, e);
    mem_free(lines);
    if (!err)
        err = check_all_finished(&p, e);
    if (err)
        paths_close(&p);
    else
        *out = p;
    return err;
}
