/* `gradwire export DIR --format F`: a trained model in the format of another program. The formats are in
 * common/formats/export.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/base/texts.h"
#include "common/flags/flags.h"
#include "common/formats/export.h"
#include "common/process/files.h"
#include "common/process/output.h"
#include "formats/graph/graph.h"
#include "formats/keras/keras.h"
#include "formats/onnx/onnx.h"
#include "formats/tensorflow/saved_model.h"
#include "model_cli/command.h"
#include "model_cli/output.h"
#include "model_cli/trained.h"
#include "predict/folder.h"

/* ---- a directory: a copy of the model as files of its own: weights, job.yaml, encoding.json, manifest.json, and the rows of its
 * tables ---- */

enum { PIECE_BYTES = 1 << 20, PATH_BYTES = FILES_PATH_MAX + 320 };

/* FOLDER/name */
static enum err folder_join(char path[static PATH_BYTES], const char *folder, const char *name,
                            struct errmsg *e)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return n > 0 && n < PATH_BYTES ? ERR_OK
                                   : err_set(e, ERR_INPUT, "%s: the path is too long", folder);
}

static enum err folder_error(const char *path, struct errmsg *e)
{
    return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
}

static enum err append_all(struct files_writer *w, int fd, const char *from, struct errmsg *e)
{
    char *piece = mem_zalloc(PIECE_BYTES, 1);
    ssize_t n = 1;
    enum err err = piece ? ERR_OK : err_memory_of(e, from);
    while (!err && n != 0) {
        n = files_get(fd, piece, PIECE_BYTES);
        err = n < 0 ? folder_error(from, e) : files_append(w, piece, (size_t)n, e);
    }
    mem_free(piece);
    return err;
}

/* Copy FROM/name to TO/name. */
static enum err copy_file(const char *from_folder, const char *to_folder, const char *name,
                          struct errmsg *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    struct files_writer w;
    int fd;
    enum err err = folder_join(from, from_folder, name, e);
    if (!err)
        err = folder_join(to, to_folder, name, e);
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

static enum err folder_write_text(const char *folder, const char *name, const char *text,
                                  struct errmsg *e)
{
    char path[PATH_BYTES];
    enum err err = folder_join(path, folder, name, e);
    return err || !text ? err : files_write(path, text, strlen(text), e);
}

static enum err copy_table_files(const char *from_folder, const char *to_folder, struct errmsg *e)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    enum err err = folder_join(from, from_folder, "tables", e);
    if (!err)
        err = folder_join(to, to_folder, "tables", e);
    if (err)
        return err;
    DIR *d = opendir(from);
    if (!d)
        return errno == ENOENT ? ERR_OK : folder_error(from, e);
    err = mkdir(to, 0777) == 0 ? ERR_OK : folder_error(to, e);
    for (struct dirent *at; !err && (at = readdir(d));)
        if (*at->d_name != '.' && text_ends(at->d_name, ".safetensors"))
            err = copy_file(from, to, at->d_name, e);
    (void)closedir(d);
    return err;
}

static enum err folder_fill(const char *to, const struct folder *f, struct errmsg *e)
{
    enum err err = copy_file(f->path, to, "weights.safetensors", e);
    if (!err)
        err = folder_write_text(to, "job.yaml", f->job.canonical, e);
    if (!err)
        err = folder_write_text(to, "encoding.json", f->encoding, e);
    if (!err)
        err = copy_table_files(f->path, to, e);
    if (err)
        return err;
    err = copy_file(f->path, to, "manifest.json", e);
    return err == ERR_NOTFOUND ? ERR_OK : err; /* earlier releases wrote none */
}

/* A directory that is not complete, and its directory of tables. */
static void remove_all(const char *path)
{
    char tables[PATH_BYTES];
    struct errmsg ignored;
    if (!folder_join(tables, path, "tables", &ignored))
        (void)!files_remove_folder(tables, &ignored);
    (void)!files_remove_folder(path, &ignored);
}

/* Write the directory `path`, which must not exist. It appears with all its files, or not at all. Errors: ERR_INPUT: it
 * exists; ERR_IO. */
static enum err export_folder_write(const char *path, const struct folder *f, struct errmsg *e)
{
    char temporary[FILES_PATH_MAX];
    if (access(path, F_OK) == 0)
        return err_set(e, ERR_INPUT, "%s exists: name a new directory with --output", path);
    enum err err = files_begin_folder(path, temporary, e);
    if (err)
        return err;
    err = folder_fill(temporary, f, e);
    if (!err && rename(temporary, path) != 0)
        err = folder_error(path, e);
    if (err)
        remove_all(temporary);
    return err;
}

/* ---- the exporter ---- */

struct exporter {
    enum export_format format;
    struct folder folder;
    char path[FILES_PATH_MAX];
    struct graph *graph; /* NULL: the format does not use it */
};

/* ---- formats ---- */

static void print_size(const char *path, uint64_t bytes)
{
    printf("%s: %" PRIu64 " KiB to write\n", PRINTABLE(path), (bytes + 1023) >> 10);
    (void)fflush(stdout);
}

static bool uses_graph(enum export_format format)
{
    return format == EXPORT_ONNX || format == EXPORT_SAVEDMODEL;
}

static enum err write_format(const struct exporter *x, struct errmsg *e)
{
    switch (x->format) {
    case EXPORT_ONNX:
        return onnx_write(x->path, x->graph, print_size, e);
    case EXPORT_SAVEDMODEL:
        return saved_model_write(x->path, x->graph, print_size, e);
    case EXPORT_KERAS:
        return keras_export(x->path, &x->folder, e);
    case EXPORT_SAFETENSORS:
    case EXPORT_FORMATS: /* is none */
        break;
    }
    return export_folder_write(x->path, &x->folder, e);
}

static enum err choose_format(struct exporter *x, struct errmsg *e)
{
    const char *word = flags_text("format");
    for (int i = 0; i < EXPORT_FORMATS; i++)
        if (!strcmp(export_format_word((enum export_format)i), word)) {
            x->format = (enum export_format)i;
            return ERR_OK;
        }
    return err_set(e, ERR_INPUT, "export needs --format: onnx, savedmodel, keras or safetensors");
}

/* ---- the path ---- */

static enum err export_make_folder(const char *path, struct errmsg *e)
{
    char folder[FILES_PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return ERR_OK;
    *slash = '\0';
    return files_mkdirs(folder, e);
}

static enum err choose_path(struct exporter *x, const char *dir, struct errmsg *e)
{
    const char *given = flags_text("output");
    int n = *given ? snprintf(x->path, sizeof x->path, "%s", given)
                   : snprintf(x->path, sizeof x->path, "%s/" OUTPUT_EXPORT "/%s", dir,
                              export_format_file(x->format));
    while (n > 1 && (size_t)n < sizeof x->path && x->path[n - 1] == '/')
        x->path[--n] = '\0';
    if (n <= 0 || (size_t)n >= sizeof x->path)
        return err_set(e, ERR_INPUT, "--output: the path is too long");
    bool is_file = x->format == EXPORT_ONNX || x->format == EXPORT_KERAS;
    enum err err = is_file ? output_check(x->path, e) : ERR_OK;
    if (!err)
        err = command_check_output(&x->folder.job, x->folder.path, x->path, e);
    return err ? err : export_make_folder(x->path, e);
}

/* ---- what was written ---- */

static void print_value(const struct graph_value *v, const char *note)
{
    static const char *const types[] = {"float32", "float64", "int64", "bool", "string"};
    printf("  %s  %s (n", PRINTABLE(v->name), types[v->type]);
    for (uint32_t i = 1; i < v->rank; i++)
        printf(", %u", v->dim[i]);
    printf(")%s%s\n", *note ? "  " : "", PRINTABLE(note));
}

static void print_input(const struct exporter *x, const struct graph_input *in)
{
    static const char *const notes[] = {[GRAPH_RAW] = "",
                                        [GRAPH_NUMBER] = "NaN: missing",
                                        [GRAPH_WORD] = "",
                                        [GRAPH_KEY] = "a key",
                                        [GRAPH_KEYS] = "keys",
                                        [GRAPH_WEIGHTS] = "0: no key",
                                        [GRAPH_VECTORS] = "the layer's output"};
    print_value(&x->graph->value[in->value], notes[in->source]);
    if (in->source == GRAPH_VECTORS)
        printf("    its table is not inside: %s\n", PRINTABLE(in->why));
}

static void print_graph(const struct exporter *x)
{
    printf("inputs:\n");
    for (uint32_t i = 0; i < x->graph->inputs; i++)
        print_input(x, &x->graph->input[i]);
    printf("output:\n");
    print_value(&x->graph->value[x->graph->output], "");
}

static void print_keras_value(void *arg, const char *name, const char *shape)
{
    (void)arg;
    printf("  %s  float32 %s\n", PRINTABLE(name), shape);
}

static enum err print_result(const struct exporter *x, struct errmsg *e)
{
    printf("%s: %s\n", export_format_word(x->format), PRINTABLE(x->path));
    if (x->graph)
        print_graph(x);
    if (x->format == EXPORT_SAVEDMODEL && saved_model_check_names(x->graph, e))
        (void)fprintf(
            stderr,
            "gradwire: warning: tf.saved_model.load cannot load it: %s; rename a column, or "
            "use another program, such as TensorFlow Serving\n",
            e->text);
    if (x->format != EXPORT_KERAS)
        return ERR_OK;
    printf("inputs, and the output:\n");
    return keras_values(&x->folder, print_keras_value, NULL, e);
}

/* ---- the command ---- */

static volatile sig_atomic_t signal_number; /* 0: none came */

static void export_on_signal(int number)
{
    signal_number = number;
    files_interrupt();
}

/* Write the export. A signal ends the write, and then what is written is removed. */
static enum err export_write(const struct exporter *x, struct errmsg *e)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = export_on_signal, .sa_flags = SA_RESTART}, was;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            (void)sigaction(numbers[i], &action, NULL);
    return write_format(x, e);
}

static enum err export_model(struct exporter *x, struct errmsg *e)
{
    const char *dir = flags_list(FLAGS_WORDS, NULL)[0];
    const struct graph_options options = {
        .tables_inside_bytes = (uint64_t)flags_number("tables_mb") << 20,
        .key_bytes = x->format == EXPORT_ONNX ? onnx_key_bytes : NULL};
    enum err err = folder_open(&x->folder, dir, e);
    if (!err)
        err = written_check(&x->folder, e);
    if (!err)
        err = export_check(&x->folder.job, x->format, e);
    if (!err)
        err = choose_path(x, dir, e);
    if (!err && uses_graph(x->format))
        err = graph_new(&x->graph, &x->folder, &options, e);
    if (!err)
        err = export_write(x, e);
    if (!err)
        err = print_result(x, e);
    return err ? err : command_flush(e);
}

int export_main(int argc, char **argv)
{
    struct errmsg e;
    struct exporter x = {.graph = NULL};
    flags_parse("export", argc, argv);
    enum err err = choose_format(&x, &e);
    if (!err)
        err = export_model(&x, &e);
    graph_free(x.graph);
    if (x.folder.model)
        folder_close(&x.folder);
    if (err && signal_number)
        return 128 + signal_number;
    return err ? command_failed(err, &e) : 0;
}
