#include "model_cli/export_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"

enum { PIECE_BYTES = 1 << 20, PATH_BYTES = FILES_PATH_MAX + 320 };

/* FOLDER/name */
static enum err join(char path[static PATH_BYTES], const char *folder, const char *name,
                     struct errmsg *e)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return n > 0 && n < PATH_BYTES ? ERR_OK
                                   : err_set(e, ERR_INPUT, "%s: the path is too long", folder);
}

static enum err io_error(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
}

/* ---- files ---- */

static enum err append_all(struct files_writer *w, int fd, const char *from, struct errmsg *e)
{
    char *piece = mem_zalloc(PIECE_BYTES, 1);
    ssize_t n = 1;
    enum err err = piece ? ERR_OK : err_set(e, ERR_NOMEM, "%s: out of memory", from);
    while (!err && n != 0) {
        n = files_get(fd, piece, PIECE_BYTES);
        err = n < 0 ? io_error(from, e) : files_append(w, piece, (size_t)n, e);
    }
    mem_free(piece);
    return err;
}

/* Copy FROM/name to TO/name. */
static enum err copy(const char *from_folder, const char *to_folder, const char *name,
                     struct errmsg *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    struct files_writer w;
    int fd;
    enum err err = join(from, from_folder, name, e);
    if (!err)
        err = join(to, to_folder, name, e);
    if (!err)
        err = files_open(from, &fd, e);
    if (err)
        return err;
    err = files_begin(&w, to, e);
    if (!err) {
        err = append_all(&w, fd, from, e);
        if (!err)
            err = files_commit(&w, e);
        if (err)
            files_abort(&w);
    }
    (void)close(fd);
    return err;
}

static enum err write_text(const char *folder, const char *name, const char *text, struct errmsg *e)
{
    char path[PATH_BYTES];
    enum err err = join(path, folder, name, e);
    return err || !text ? err : files_write(path, text, strlen(text), e);
}

static bool is_rows(const char *name)
{
    static const char ending[] = ".safetensors";
    size_t n = strlen(name);
    return *name != '.' && n > strlen(ending) && !strcmp(name + n - strlen(ending), ending);
}

static enum err copy_tables(const char *from_folder, const char *to_folder, struct errmsg *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    enum err err = join(from, from_folder, "tables", e);
    if (!err)
        err = join(to, to_folder, "tables", e);
    if (err)
        return err;
    DIR *d = opendir(from);
    if (!d)
        return errno == ENOENT ? ERR_OK : io_error(from, e);
    err = mkdir(to, 0777) == 0 ? ERR_OK : io_error(to, e);
    for (struct dirent *at; !err && (at = readdir(d));)
        if (is_rows(at->d_name))
            err = copy(from, to, at->d_name, e);
    (void)closedir(d);
    return err;
}

static enum err fill(const char *to, const struct folder *f, struct errmsg *e)
{
    enum err err = copy(f->path, to, "weights.safetensors", e);
    if (!err)
        err = write_text(to, "job.yaml", f->job.canonical, e);
    if (!err)
        err = write_text(to, "encoding.json", f->encoding, e);
    if (!err)
        err = copy_tables(f->path, to, e);
    if (err)
        return err;
    err = copy(f->path, to, "manifest.json", e);
    return err == ERR_NOTFOUND ? ERR_OK : err; /* earlier releases wrote none */
}

/* ---- the directory ---- */

/* A directory that is not complete, and its directory of tables. */
static void remove_all(const char *path)
{
    char tables[PATH_BYTES];
    struct errmsg ignored;
    if (!join(tables, path, "tables", &ignored))
        (void)!files_remove_folder(tables, &ignored);
    (void)!files_remove_folder(path, &ignored);
}

enum err export_folder_write(const char *path, const struct folder *f, struct errmsg *e)
{
    char temporary[FILES_PATH_MAX];
    if (access(path, F_OK) == 0)
        return err_set(e, ERR_INPUT, "%s exists: name a new directory with --output", path);
    enum err err = files_begin_folder(path, temporary, e);
    if (err)
        return err;
    err = fill(temporary, f, e);
    if (!err && rename(temporary, path) != 0)
        err = io_error(path, e);
    if (err)
        remove_all(temporary);
    return err;
}
