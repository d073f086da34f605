/* `gradwire convert IN... --output DIR`: csv as Parquet.
 *
 * Happy path: the columns' types come from the job or, in a pass of its own, from all values -> the rows are read as for training, in
 * pieces, by all threads -> each piece's rows are columns -> in the order of the rows they join the present part -> a part that is large
 * enough is written by the thread that has completed it -> behind the last, DIR/_UNFINISHED becomes DIR/_SUCCESS.
 * Failure modes: killed at any time, the same command goes on: DIR/_UNFINISHED says of what DIR is made, and where each part begins.
 * A part is there whole, or not at all, and has the same bytes whoever writes it. While the file is there, no reader takes DIR
 * (common/process/paths.h). Other input, options or columns than it says: exit 2. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "common/base/version.h"
#include "common/flags/flags.h"
#include "common/process/files.h"
#include "common/process/paths.h"
#include "common/process/process_state.h"
#include "data/csv_columns.h"
#include "data/dataset.h"
#include "model_cli/command.h"
#include "model_cli/output.h"

enum {
    /* a part ends with the window in which its columns have so many bytes, or with so many windows */
    PART_BYTES = 64 << 20,
    PART_WINDOWS = 64,
    PART_BYTES_MAX = 1 << 30, /* at the latest: of very large rows a part has less than a window */
    STATE_BYTES_MAX = 256 << 20,
    PART_NAME_BYTES = 32
};

struct convert_thread {
    const struct columns *piece; /* of its last piece; NULL: none */
    uint32_t file;               /* of them */
    struct columns *full;        /* a part that it has completed; NULL: none */
    uint64_t part;               /* its number */
};

struct convert {
    struct job job;
    const char *dir;
    uint64_t window;
    struct paths in;
    struct csv_columns of;
    struct text header;            /* the names as a line of csv */
    struct convert_thread *thread; /* (threads) */
    struct columns *part;
    uint64_t parts, rows;
    /* where the present file and its rows are, and what is done already */
    uint32_t file;
    uint64_t file_rows, skip_rows;
    struct text state; /* the first lines of DIR/_UNFINISHED */
    int state_fd, dir_fd;
    struct dataset_streamed read;
};

static enum err convert_piece(void *ctx, uint32_t thread, struct csv_piece *p, struct errmsg *e)
{
    struct convert *x = ctx;
    struct convert_thread *w = &x->thread[thread];
    w->file = x->of.first_file + p->file;
    return csv_columns_of(&x->of, p, &w->piece, e);
}

/* ---- parts ---- */

static void part_name(uint64_t part, char out[static PART_NAME_BYTES])
{
    (void)snprintf(out, PART_NAME_BYTES, "part-%05" PRIu64 ".parquet", part);
}

static enum err part_path(const struct convert *x, const char *name,
                          char out[static FILES_PATH_MAX], struct errmsg *e)
{
    const int n = snprintf(out, FILES_PATH_MAX, "%s/%s", x->dir, name);
    return n < FILES_PATH_MAX ? ERR_OK
                              : err_set(e, ERR_INPUT, "%s: %s", x->dir, strerror(ENAMETOOLONG));
}

static bool is_part(const struct convert *x, uint64_t part)
{
    char name[PART_NAME_BYTES], path[FILES_PATH_MAX];
    part_name(part, name);
    return !part_path(x, name, path, NULL) && access(path, F_OK) == 0;
}

static enum err write_groups(struct convert *x, struct columns *c, struct parquet_writer *w,
                             struct files_writer *file, struct errmsg *e)
{
    const char *bytes;
    size_t n;
    enum err err = ERR_OK;
    for (uint64_t at = 0; at < c->rows && !err; at += x->window) {
        const uint64_t rows = c->rows - at < x->window ? c->rows - at : x->window;
        err = columns_write(c, at, rows, w, &bytes, &n, e);
        if (!err)
            err = files_append(file, bytes, n, e);
    }
    if (!err)
        err = parquet_write(w, NULL, 0, &bytes, &n, e);
    return err ? err : files_append(file, bytes, n, e);
}

/* The bytes depend on the rows, the columns and the flags alone. Thread: any. */
static enum err write_part(struct convert *x, struct columns *c, uint64_t part, struct errmsg *e)
{
    char name[PART_NAME_BYTES], path[FILES_PATH_MAX];
    struct parquet_writer w = {.arrow = NULL};
    struct files_writer file = {.fd = -1};
    part_name(part, name);
    enum err err = part_path(x, name, path, e);
    if (!err)
        err = parquet_write_begin(&w, x->header.at, x->header.bytes, x->of.types,
                                  flags_text("compression"), e);
    if (!err)
        err = files_begin(&file, path, e);
    if (err)
        return err;
    columns_finish(c);
    err = write_groups(x, c, &w, &file, e);
    parquet_write_close(&w);
    if (!err)
        err = files_commit(&file, e);
    files_abort(&file);
    return err == ERR_INPUT ? err_wrap(e, ERR_IO, "%s: ", path) : err;
}

/* Between its pieces a thread writes the part that it has completed. */
static enum err convert_work(void *ctx, uint32_t thread, struct errmsg *e)
{
    struct convert *x = ctx;
    struct convert_thread *w = &x->thread[thread];
    if (!w->full)
        return ERR_OK;
    enum err err = is_part(x, w->part) ? ERR_OK : write_part(x, w->full, w->part, e);
    columns_free(w->full);
    w->full = NULL;
    return err;
}

/* Note where the next part begins. A power cut can lose it: then the one before it is written again. */
static enum err note_part(const struct convert *x, struct errmsg *e)
{
    char line[128];
    const int n = snprintf(line, sizeof line, "part %" PRIu64 " %u %" PRIu64 " %" PRIu64 "\n",
                           x->parts, x->file, x->file_rows, x->rows);
    return files_put(x->state_fd, line, (size_t)n) == (size_t)n
               ? ERR_OK
               : err_set(e, ERR_IO, "%s/" PATHS_UNFINISHED ": %s", x->dir, strerror(errno));
}

static bool is_whole(const struct convert *x)
{
    const struct columns *c = x->part;
    return (c->rows % x->window == 0 &&
            (c->bytes >= PART_BYTES || c->rows >= PART_WINDOWS * x->window)) ||
           c->bytes >= PART_BYTES_MAX;
}

static enum err finish_part(struct convert *x, uint32_t thread, struct errmsg *e)
{
    struct convert_thread *w = &x->thread[thread];
    enum err err = convert_work(x, thread, e); /* a piece can complete several small ones */
    w->full = x->part;
    w->part = x->parts++;
    x->part = NULL;
    return err ? err : note_part(x, e);
}

/* Add the rows to the present part, up to the end of a window at a time. */
static enum err convert_put(void *ctx, uint32_t thread, struct errmsg *e)
{
    struct convert *x = ctx;
    const struct convert_thread *w = &x->thread[thread];
    const struct columns *c = w->piece;
    enum err err = ERR_OK;
    if (w->file != x->file)
        x->file_rows = 0;
    x->file = w->file;
    if (!c)
        return ERR_OK;
    uint64_t at = x->skip_rows < c->rows ? x->skip_rows : c->rows;
    x->skip_rows -= at;
    x->file_rows += at;
    loading_rows(c->rows - at);
    while (at < c->rows && !err) {
        if (!x->part && (err = columns_new(&x->part, x->of.names.count, x->of.types)))
            return err_memory(e);
        const uint64_t window = x->window - x->part->rows % x->window, left = c->rows - at;
        const uint32_t n = (uint32_t)(left < window ? left : window);
        if (columns_append(x->part, c, at, n))
            return err_memory_for(e, "part %" PRIu64, x->parts);
        at += n;
        x->rows += n;
        x->file_rows += n;
        if (is_whole(x))
            err = finish_part(x, thread, e);
    }
    return err;
}

/* ---- DIR ---- */

#define CONVERT_LOCKED "%s: another convert writes here"
static const char unfinished[] = PATHS_UNFINISHED, success[] = "_SUCCESS";

static void state_add(struct convert *x, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void state_add(struct convert *x, const char *fmt, ...)
{
    char line[FILES_PATH_MAX + 128];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    text_add(&x->state, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* The job's keys of the rows, but not the names of the files. */
static uint64_t hash_keys(const struct job *job)
{
    uint64_t hash = 0;
    for (const char *line = job->identity_text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (strncmp(line, "data.", 5) == 0 && strncmp(line, "data.train", 10) != 0 &&
            strncmp(line, "data.eval", 9) != 0)
            hash = XXH3_64bits_withSeed(line, (size_t)(end - line), hash);
    }
    return hash;
}

/* The input and the flags: with other ones DIR has other bytes. */
static enum err describe_input(struct convert *x, struct errmsg *e)
{
    state_add(x, "gradwire convert %s\nwindow %" PRIu64 "\ncompression %s\nkeys %016" PRIx64 "\n",
              GRADWIRE_VERSION, x->window, flags_text("compression"), hash_keys(&x->job));
    for (size_t i = 0; i < x->in.count; i++) {
        struct stat s;
        if (stat(x->in.path[i], &s) != 0)
            return err_set(e, ERR_INPUT, "%s: %s", x->in.path[i], strerror(errno));
        state_add(x, "input %lld %lld.%09ld %s\n", (long long)s.st_size,
                  (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec, x->in.path[i]);
    }
    return x->state.failed ? err_memory(e) : ERR_OK;
}

/* The first line in which a state differs from this command. */
static enum err refuse_other(const struct convert *x, const char *path, const char *at,
                             struct errmsg *e)
{
    const char *own = x->state.at, *end = own + x->state.bytes;
    while (own < end && *own == *at && *at) {
        own++;
        at++;
    }
    while (own > x->state.at && own[-1] != '\n') {
        own--;
        at--;
    }
    char is[PRINTABLE_NAME_BYTES], was[PRINTABLE_NAME_BYTES];
    return err_set(e, ERR_INPUT,
                   "%s: it was begun by another convert: there \"%s\", here \"%s\"; give --output "
                   "another directory, or remove this one",
                   path, printable_name(was, at, strcspn(at, "\n")),
                   printable_name(is, own, own < end ? strcspn(own, "\n") : 0));
}

/* The types of the columns, as a state has them: "column d price". */
static bool read_types(struct convert *x, const char **at)
{
    for (uint32_t i = 0; i < x->of.names.count; i++) {
        size_t n;
        const char *name = csv_columns_name(&x->of, i, &n);
        if (strncmp(*at, "column ", 7) != 0 || !strchr("sdi", (*at)[7]) || !(*at)[7] ||
            (*at)[8] != ' ' || strncmp(*at + 9, name, n) != 0 || (*at)[9 + n] != '\n')
            return false;
        x->of.types[i] = (*at)[7];
        *at += 9 + n + 1;
    }
    return true;
}

/* The last part before which all are there is the next. */
static void read_parts(struct convert *x, const char *at)
{
    uint64_t part, file_rows, rows, done = 0;
    uint32_t file;
    int n = 0;
    while (is_part(x, done))
        done++;
    for (const char *end; (end = strchr(at, '\n')); at = end + 1)
        if (sscanf(at, "part %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu64 "%n", &part, &file,
                   &file_rows, &rows, &n) == 4 &&
            at + n == end && /* not the beginning of one, when the disk was full, and the next */
            part <= done && part > x->parts && file < x->in.count) {
            x->parts = part;
            x->of.first_file = x->file = file;
            x->skip_rows = file_rows;
            x->rows = rows;
        }
}

/* The directory has no file but a state, or what a killed write of it has left. */
static bool is_bare(const struct convert *x)
{
    DIR *dir = opendir(x->dir);
    bool found = false;
    for (struct dirent *at; dir && !found && (at = readdir(dir));)
        found = strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0 &&
                strncmp(at->d_name, unfinished, sizeof unfinished - 1) != 0;
    if (dir)
        (void)closedir(dir);
    return !found;
}

/* Read a state. *is: it is there; one of another command without files does not count. */
static enum err read_state(struct convert *x, const char *name, bool *is, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    uint8_t *data = NULL;
    size_t bytes;
    enum err err = part_path(x, name, path, e);
    if (!err)
        err = files_read_regular(path, STATE_BYTES_MAX, &data, &bytes, e);
    *is = !err;
    if (err)
        return err == ERR_NOTFOUND ? ERR_OK : err;
    const char *at = (const char *)data;
    if (bytes < x->state.bytes || memcmp(at, x->state.at, x->state.bytes) != 0) {
        *is = !is_bare(x);
        err = *is ? refuse_other(x, path, at, e) : ERR_OK;
        mem_free(data);
        return err;
    }
    at += x->state.bytes;
    if (!read_types(x, &at))
        err = err_set(e, ERR_INPUT, "%s: its columns are others; give --output another directory",
                      path);
    if (!err)
        read_parts(x, at);
    mem_free(data);
    return err;
}

static enum err write_state(struct convert *x, const char *name, bool finished, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    const size_t own = x->state.bytes;
    for (uint32_t i = 0; i < x->of.names.count; i++) {
        size_t n;
        const char *text = csv_columns_name(&x->of, i, &n);
        state_add(x, "column %c ", x->of.types[i]);
        text_add(&x->state, text, n);
        text_add(&x->state, "\n", 1);
    }
    if (finished)
        state_add(x, "rows %" PRIu64 "\nparts %" PRIu64 "\n", x->rows, x->parts);
    enum err err = x->state.failed ? err_memory(e) : part_path(x, name, path, e);
    if (!err)
        err = files_write(path, x->state.at, x->state.bytes, e);
    x->state.bytes = own;
    return err;
}

/* As long as it is open, no other convert begins here, also before there is a state. NFS has no locks of directories: there
 * open_state finds one that has begun. */
static enum err lock_dir(struct convert *x, struct errmsg *e)
{
    x->dir_fd = open(x->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (x->dir_fd < 0)
        return files_write_error(x->dir, e);
    return flock(x->dir_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK
               ? ERR_OK
               : err_set(e, ERR_INPUT, CONVERT_LOCKED, x->dir);
}

/* As long as it is open, no other convert writes here. It need not be there. */
static enum err open_state(struct convert *x, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = part_path(x, unfinished, path, e);
    files_close(&x->state_fd);
    if (err)
        return err;
    x->state_fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (x->state_fd < 0)
        return errno == ENOENT ? ERR_OK : files_write_error(path, e);
    return flock(x->state_fd, LOCK_EX | LOCK_NB) == 0
               ? ERR_OK
               : err_set(e, ERR_INPUT, CONVERT_LOCKED, x->dir);
}

/* Killed between the two, the next command ends here, too. */
static enum err finish_dir(struct convert *x, struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    enum err err = part_path(x, unfinished, path, e);
    if (!err && unlink(path) != 0 && errno != ENOENT)
        err = files_write_error(path, e);
    return err ? err : files_sync_folder(x->dir, e);
}

/* ---- the command ---- */

/* So many bytes, in a unit that fits. */
enum { SIZE_BYTES = 32 };
static const char *size_shown(char out[static SIZE_BYTES], uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    double v = (double)bytes;
    size_t i = 0;
    for (; v >= 1000 && i + 1 < sizeof unit / sizeof *unit; i++)
        v /= 1000;
    (void)snprintf(out, SIZE_BYTES, i ? "%.1f %s" : "%.0f %s", v, unit[i]);
    return out;
}

/* Once a second on a terminal, and each 10 s elsewhere. */
static void tell(void *ctx, const struct loading *now)
{
    enum { EACH = 10 };
    const struct convert *x = ctx;
    static unsigned seconds;
    char left[48] = "", a[SIZE_BYTES], b[SIZE_BYTES];
    const bool terminal = isatty(STDERR_FILENO);
    const long s = isnan(now->left_s) ? 0 : lround(now->left_s);
    if (!terminal && ++seconds % EACH)
        return;
    if (!isnan(now->left_s))
        (void)snprintf(left, sizeof left, ", %ld:%02ld:%02ld left", s / 3600, s / 60 % 60, s % 60);
    (void)fprintf(stderr, "%sgradwire: %s%s of %s, %" PRIu64 " rows%s%s",
                  terminal ? "\r\033[K" : "", x->of.looks ? "types: " : "",
                  size_shown(a, now->bytes), size_shown(b, now->of_bytes), now->rows, left,
                  terminal ? "" : "\n");
}

static enum err read_rows(struct convert *x, struct errmsg *e)
{
    const struct csv_receiver receiver = {csv_columns_receive, &x->of};
    const struct dataset_sink sink = {.take = convert_piece,
                                      .put = convert_put,
                                      .ctx = x,
                                      .receiver = &receiver,
                                      .work = convert_work};
    struct text files = {.at = NULL};
    uint64_t bytes = 0;
    for (size_t i = x->of.first_file; i < x->in.count; i++) {
        struct stat s;
        bytes += stat(x->in.path[i], &s) == 0 ? (uint64_t)s.st_size : 0;
        text_add(&files, x->in.path[i], strlen(x->in.path[i]));
        text_add(&files, "\n", 1);
    }
    text_add(&files, "", 1);
    mem_free(x->job.data.eval);
    x->job.data.eval = files.failed ? NULL : files.at;
    x->job.data.eval_named = true;
    if (files.failed)
        return err_memory(e);
    loading_begin(bytes, tell, x);
    enum err err = dataset_columns(&x->job, x->of.schema, &sink, &x->read, e);
    loading_end();
    if (isatty(STDERR_FILENO))
        (void)fputs("\r\033[K", stderr);
    return err;
}

/* The pass for the types. */
static enum err find_types(struct convert *x, struct errmsg *e)
{
    x->of.looks = true;
    enum err err = read_rows(x, e);
    x->of.looks = false;
    if (!err)
        csv_columns_looked(&x->of);
    log_init("model", LOG_ERROR); /* the next pass has the same warnings */
    x->file = 0;
    return err;
}

static enum err write_rest(struct convert *x, struct errmsg *e)
{
    enum err err = ERR_OK;
    if (!x->part && x->parts == 0 && columns_new(&x->part, x->of.names.count, x->of.types))
        return err_memory(e);
    if (x->part) {
        err = is_part(x, x->parts) ? ERR_OK : write_part(x, x->part, x->parts, e);
        x->parts++;
    }
    if (!err)
        err = write_state(x, success, true, e);
    return err ? err : finish_dir(x, e);
}

/* Without a job: csv with a header. Its columns are those of the files. */
static const char plain_job[] =
    "model: {input: {shape: auto}, layers: [{dense: 1}], loss: mse}\n"
    "optimizer: sgd\n"
    "data: {format: csv, header: names, train: IN, columns: [label: y, number: x]}\n";

/* *guesses: there is none. */
static enum err load_job(struct convert *x, bool *guesses, struct errmsg *e)
{
    const char *path = flags_text("job");
    size_t sets;
    const char *const *set = flags_list("set", &sets);
    *guesses = !*path;
    enum err err =
        *guesses ? job_parse(&x->job, plain_job, sizeof plain_job - 1, "--set", ".", set, sets, e)
                 : job_load(&x->job, path, set, sets, e);
    if (err)
        return err;
    if (x->job.data.format == DATA_LIBSVM)
        return err_set(e, ERR_INPUT, CSV_COLUMNS_NO_LIBSVM);
    if (x->job.data.format != DATA_CSV)
        return err_set(e, ERR_INPUT,
                       "data.format of the job is not csv, of which its columns must be: add --set "
                       "data.format=csv and, for example, --set data.header=names");
    x->job.worker.threads = command_threads();
    return ERR_OK;
}

/* *done: the directory is what this command makes. */
static enum err begin_dir(struct convert *x, bool *done, struct errmsg *e)
{
    bool begun = false;
    *done = false;
    enum err err = files_mkdirs(x->dir, e);
    if (!err)
        err = lock_dir(x, e);
    if (!err)
        err = read_state(x, success, done, e);
    if (!err && *done)
        err = finish_dir(x, e);
    if (!err && !*done)
        err = open_state(x, e);
    if (!err && !*done)
        err = read_state(x, unfinished, &begun, e);
    if (err || *done)
        return err;
    if (!begun && !is_bare(x))
        return err_set(e, ERR_INPUT,
                       "%s: it has files that convert has not made; give --output another "
                       "directory",
                       x->dir);
    files_clean(x->dir, true);
    if (begun)
        return ERR_OK;
    if (x->of.guesses)
        err = find_types(x, e);
    if (!err)
        err = write_state(x, unfinished, false, e);
    return err ? err : open_state(x, e);
}

/* And room for the threads. */
static enum err make_header(struct convert *x, struct errmsg *e)
{
    for (uint32_t i = 0; i < x->of.names.count; i++) {
        size_t bytes;
        const char *name = csv_columns_name(&x->of, i, &bytes);
        text_add(&x->header, ",", i > 0);
        text_add_field(&x->header, name, bytes);
    }
    x->thread = mem_zalloc(x->job.worker.threads, sizeof *x->thread);
    return x->thread && !x->header.failed ? ERR_OK : err_memory(e);
}

static enum err convert(struct convert *x, bool *done, struct errmsg *e)
{
    const char *const *words = flags_list(FLAGS_WORDS, NULL);
    char *patterns = NULL;
    bool guesses = false;
    x->dir = flags_text("output");
    x->window = (uint64_t)flags_number("window");
    if (!*x->dir)
        return err_set(e, ERR_INPUT, "--output=DIR is missing: the directory to write");
    enum err err = load_job(x, &guesses, e);
    if (!err)
        err = command_join_names(words, &patterns, e);
    if (!err)
        err = paths_expand(&x->in, patterns, e);
    mem_free(patterns);
    for (size_t i = 0; i < x->in.count && !err; i++)
        if (strcmp(x->in.path[i], PATHS_STDIN) == 0)
            err = err_set(e, ERR_INPUT, "-: stdin cannot be read again: name a file");
    if (!err)
        err = csv_columns_init(&x->of, &x->job, guesses, &x->in, e);
    if (!err)
        err = make_header(x, e);
    if (!err)
        err = describe_input(x, e);
    if (!err)
        err = begin_dir(x, done, e);
    if (err || *done)
        return err;
    if (x->parts)
        (void)fprintf(stderr, "gradwire: %s: %" PRIu64 " parts of %" PRIu64 " rows are there\n",
                      x->dir, x->parts, x->rows);
    err = read_rows(x, e);
    return err ? err : write_rest(x, e);
}

static void print_columns(const struct convert *x)
{
    static const char *const words[] = {
        ['d' - 'a'] = "double", ['i' - 'a'] = "int64", ['s' - 'a'] = "text"};
    for (uint32_t i = 0; i < x->of.names.count; i++) {
        const struct csv_columns_seen *s = &x->of.seen[i];
        const struct csv_columns_place *why =
            x->of.types[i] == 's' && s->text.is ? &s->text : &s->fraction;
        printf("  %s  %s", csv_columns_shown(&x->of, i, (char[PRINTABLE_NAME_BYTES]){""}),
               words[x->of.types[i] - 'a']);
        if (why->is)
            printf("  (%s:%" PRIu64 ": \"%s\")", PRINTABLE(x->in.path[why->file]), why->line,
                   why->shown);
        printf("\n");
    }
}

static void convert_close(struct convert *x)
{
    files_close(&x->state_fd);
    files_close(&x->dir_fd);
    for (uint32_t i = 0; x->thread && i < x->job.worker.threads; i++)
        columns_free(x->thread[i].full);
    mem_free(x->thread);
    columns_free(x->part);
    csv_columns_close(&x->of);
    text_close(&x->header);
    text_close(&x->state);
    job_close(&x->job);
    paths_close(&x->in);
}

int convert_main(int argc, char **argv)
{
    static struct convert x = {.state_fd = -1, .dir_fd = -1};
    struct errmsg e;
    bool done = false;
    flags_parse("convert", argc, argv);
    enum err err = convert(&x, &done, &e);
    if (!err && done)
        printf("%s: it is complete\n", PRINTABLE(x.dir));
    else if (!err)
        printf("%s: %" PRIu64 " rows in %" PRIu64 " file%s\n", PRINTABLE(x.dir), x.rows, x.parts,
               x.parts == 1 ? "" : "s");
    if (!err && !done)
        print_columns(&x);
    if (!err)
        err = command_flush(&e);
    convert_close(&x);
    return err ? command_failed(err, &e) : 0;
}
