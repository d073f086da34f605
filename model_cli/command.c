/* Shared by the commands: how they fail, their threads, and the data that their arguments name. */
#include "model_cli/command.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/mem.h"
#include "common/flags/flags.h"
#include "common/process/cgroup.h"
#include "common/process/files.h"
#include "common/process/paths.h"

int command_failed(enum err err, const struct errmsg *e)
{
    (void)fprintf(stderr, "gradwire: %s\n", e->text);
    switch (err) {
    case ERR_INPUT:
    case ERR_NOTFOUND:
    case ERR_CORRUPT:
    case ERR_NEWER:
        return EXIT_INPUT;
    default:
        return EXIT_FAILED;
    }
}

uint32_t command_threads(void)
{
    int64_t threads = flags_number("threads");
    return threads > 0 ? (uint32_t)threads : cores_usable();
}

enum err command_join_names(const char *const *words, char **paths, struct errmsg *e)
{
    size_t bytes = 1;
    for (size_t i = 0; words[i]; i++) {
        if (!words[i][0] || strchr(words[i], '\n'))
            return err_set(e, ERR_INPUT, "\"%.80s\" is not the name of a file", words[i]);
        bytes += strlen(words[i]) + 1;
    }
    char *all = mem_zalloc(bytes, 1);
    if (!all)
        return err_memory(e);
    for (size_t i = 0, at = 0; words[i]; i++)
        at += (size_t)snprintf(all + at, bytes - at, "%s%s", i ? "\n" : "", words[i]);
    mem_free(*paths);
    *paths = all;
    return ERR_OK;
}

enum err command_name_data(struct job *job, bool takes_held, struct errmsg *e)
{
    size_t n;
    const char *const *words = flags_list(FLAGS_WORDS, &n);
    bool generates = job->data.format == DATA_SYNTHETIC;
    if (n < 2 && !job_eval_files(job) && !generates && !(takes_held && job_holds_rows_out(job)))
        return err_set(e, ERR_INPUT, "the job has no data.eval: name the data after %s", words[0]);
    if (n < 2)
        return ERR_OK;
    if (generates && !job_reads_csv(job))
        return err_set(e, ERR_INPUT,
                       "%s: the job generates its rows, so the format of this file is not known: "
                       "give, for example, --set data.format=npy --set data.train=%s",
                       words[1], words[1]);
    for (size_t i = 1; i < n; i++)
        if (strcmp(words[i], "-") == 0 && !job_reads_csv(job))
            return err_set(e, ERR_INPUT, "-: stdin can have csv or libsvm, and no other format");
    if (generates)
        job->data.format = DATA_CSV;
    job->data.eval_named = true;
    return command_join_names(words + 1, &job->data.eval, e);
}

/* A link to the file counts as the file. */
static bool is_same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/* `name` in `dir` is the file. */
static bool is_file_of(const struct stat *out, const char *dir, const char *name)
{
    char file[FILES_PATH_MAX];
    int n = snprintf(file, sizeof file, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof file && is_same_file(out, file);
}

/* Any file in `dir` is the file. */
static bool is_any_of(const struct stat *out, const char *dir)
{
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *at; d && !found && (at = readdir(d));)
        found = is_file_of(out, dir, at->d_name);
    if (d)
        (void)closedir(d);
    return found;
}

static bool is_cut(const char *dir)
{
    const char *slash = strrchr(dir, '/');
    return strncmp(slash ? slash + 1 : dir, "cut-", 4) == 0;
}

/* The model's directory can have files of the user; its tables/ and a checkpoint have none. */
static bool is_of_model(const struct stat *out, const char *dir)
{
    static const char *const names[] = {"weights.safetensors", "encoding.json", "job.yaml",
                                        "manifest.json", "../model/encoding.json"};
    char tables[FILES_PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_file_of(out, dir, names[i]))
            return true;
    int n = snprintf(tables, sizeof tables, "%s/tables", dir);
    return (n > 0 && (size_t)n < sizeof tables && is_any_of(out, tables)) ||
           (is_cut(dir) && is_any_of(out, dir));
}

/* is: what a file of `data` is. */
static enum err check_data(const struct stat *out, const char *data, const char *is,
                           const char *path, struct errmsg *e)
{
    struct paths paths = {0};
    struct errmsg unread; /* the reader says it */
    enum err err = ERR_OK;
    if (!data || paths_expand(&paths, data, &unread))
        return ERR_OK;
    for (size_t i = 0; i < paths.count && !err; i++) {
        char file[PATHS_FILE_MAX];
        (void)paths_member(paths.path[i], file, sizeof file);
        if (strcmp(file, PATHS_STDIN) != 0 && is_same_file(out, file))
            err = err_set(e, ERR_INPUT, "%s: %s; give --output another name", path, is);
    }
    paths_close(&paths);
    return err;
}

enum err command_check_output(const struct job *job, const char *dir, const char *path,
                              struct errmsg *e)
{
    struct stat out;
    const char *const *words = flags_list(FLAGS_WORDS, NULL);
    enum err err = ERR_OK;
    if (!path || stat(path, &out) != 0 || !S_ISREG(out.st_mode))
        return ERR_OK;
    if (is_of_model(&out, dir))
        return err_set(e, ERR_INPUT, "%s: it is a file of the model; give --output another name",
                       path);
    for (size_t i = 1; words[i] && !err; i++)
        err = check_data(&out, words[i], "the rows are read from this file", path, e);
    if (!err)
        err = check_data(&out, job->data.train, "it is a file of the job's data.train", path, e);
    return err ? err
               : check_data(&out, job->data.eval, "it is a file of the job's data.eval", path, e);
}

enum err command_flush(struct errmsg *e)
{
    return fflush(stdout) == 0 && !ferror(stdout)
               ? ERR_OK
               : err_set(e, ERR_IO, "the output cannot be written: %s", strerror(errno));
}
