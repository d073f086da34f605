/* `gradwire import FILE --output DIR`: the model of another program as a job file and its first weights. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/digits.h"
#include "common/base/printable.h"
#include "common/flags/flags.h"
#include "common/process/files.h"
#include "formats/imports/imports.h"
#include "formats/keras/keras.h"
#include "model_cli/command.h"
#include "export/export.h"

enum { PATH_BYTES = 4400 };

/* ---- the job file ---- */

/* The file's name, without characters that a job's name cannot have. */
static void job_name(const char *file, char name[JOB_NAME_MAX])
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base), at = 0;
    for (size_t i = 0; i < n && at + 1 < JOB_NAME_MAX; i++) {
        char c = base[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || at > 0)
            name[at++] = letter ? c : '-';
    }
    name[at] = 0;
    if (at == 0)
        (void)snprintf(name, JOB_NAME_MAX, "imported");
}

/* The file's name in a comment. */
static void shown(const char *path, char out[256])
{
    (void)snprintf(out, 256, "%s", path);
    for (char *c = out; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
}

/* For free(). */
static char *job_text(const char *file, const struct imported *m)
{
    static const char begin[] = "model:\n";
    char name[JOB_NAME_MAX], path[256], *text = NULL;
    bool says = m->optimizer && *m->optimizer;
    const char *rest =
        m->yaml + (strncmp(m->yaml, begin, sizeof begin - 1) == 0 ? sizeof begin - 1 : 0);
    job_name(file, name);
    shown(file, path);
    int n = asprintf(&text,
                     "# Made by gradwire import from %s\n"
                     "name: %s\n"
                     "model:\n"
                     "%s%s"
                     "\n"
                     "# ---- Data: write your own files here (docs/reference/data.md) ----\n"
                     "data:\n"
                     "  format: npy\n"
                     "  train: [train.npz:x, train.npz:y]   # rows, and their labels\n"
                     "  eval: [eval.npz:x, eval.npz:y]\n"
                     "  scale: %.9g\n"
                     "\n"
                     "# ---- Training (docs/reference/job-file.md) ----\n"
                     "%s"
                     "training:\n"
                     "  epochs: 5\n"
                     "  batch_size: 32\n"
                     "%s",
                     path, name, m->w ? "  weights: weights.safetensors\n" : "", rest,
                     (double)m->scale, says ? m->optimizer : "optimizer: adam\n",
                     says ? m->training : "  learning_rate: 0.001\n");
    return n < 0 ? NULL : text;
}

/* ---- the directory ---- */

static enum err begin_output(const char *dir, struct errmsg *e)
{
    static const char *const names[] = {"job.yaml", EXPORT_WEIGHTS};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (access(path, F_OK) == 0)
            return err_set(e, ERR_INPUT, "%.300s exists; choose another --output", path);
    }
    return files_mkdirs(dir, e);
}

static enum err write_job(const char *file, const char *dir, const struct imported *m,
                          struct errmsg *e)
{
    char path[PATH_BYTES];
    struct job job;
    char *text = job_text(file, m);
    if (!text)
        return err_memory(e);
    (void)snprintf(path, sizeof path, "%s/job.yaml", dir);
    enum err err = job_parse(&job, text, strlen(text), path, dir, NULL, 0, e);
    if (!err) {
        job_close(&job);
        err = files_write(path, text, strlen(text), e);
    }
    free(text);
    return err;
}

static enum err write_weights(const char *dir, const struct layout *l, const float *w,
                              struct errmsg *e)
{
    struct place model;
    place_folder(&model, NULL, dir);
    return export_safetensors(&model, l, w, NULL, 0, e);
}

/* ---- the report ---- */

static void print_tensors(const struct layout *l)
{
    for (uint32_t i = 0; i < l->tensors; i++) {
        printf("  %s (", PRINTABLE(l->tensor[i].name));
        for (uint32_t k = 0; k < l->tensor[i].rank; k++)
            printf("%s%u", k ? ", " : "", l->tensor[i].shape[k]);
        printf(")\n");
    }
}

/* The lines quote the file. */
static void print_lines(FILE *to, const char *before, const char *lines)
{
    char line[PRINTABLE_BYTES];
    for (const char *at = lines; at && *at;) {
        size_t n = strcspn(at, "\n");
        (void)printable_copy(line, sizeof line, at, n);
        (void)fprintf(to, "%s%s\n", before, line);
        at += n + (at[n] == '\n');
    }
}

/* ---- a file with layers ---- */

static enum err check_finite(const char *file, const struct layout *l, const float *w,
                             struct errmsg *e)
{
    for (uint32_t i = 0; i < l->tensors; i++)
        for (uint64_t k = 0; k < l->tensor[i].elems; k++)
            if (!isfinite(w[l->tensor[i].offset_elems + k]))
                return err_set(e, ERR_INPUT,
                               "%.300s: tensor %s has a value that is not finite (%g, element "
                               "%" PRIu64 "); train the model again, with a lower learning rate",
                               file, PRINTABLE(l->tensor[i].name),
                               digits_printed((double)w[l->tensor[i].offset_elems + k]), k);
    return ERR_OK;
}

static enum err import_model(const char *file, const char *dir, struct errmsg *e)
{
    struct imported m = {.scale = 1};
    char *refused = NULL;
    enum err err = keras_is_model(file) ? keras_import(&m, file, &refused, e)
                                        : imports_onnx(&m, file, &refused, e);
    if (err) {
        print_lines(stderr, "", refused);
        mem_free(refused);
        return err;
    }
    const struct layout *l = model_layout(m.model);
    err = m.w ? check_finite(file, l, m.w, e) : ERR_OK;
    if (!err)
        err = begin_output(dir, e);
    if (!err && m.w)
        err = write_weights(dir, l, m.w, e);
    if (!err)
        err = write_job(file, dir, &m, e);
    if (!err) {
        printf("%s: %u tensors\n", PRINTABLE(file), l->tensors);
        print_tensors(l);
        print_lines(stdout, "  note: ", m.notes);
        if (!m.w)
            printf("  note: the file has no weights\n");
        printf("%s/job.yaml\n%s%s%s", PRINTABLE(dir), m.w ? dir : "", m.w ? "/" : "",
               m.w ? "weights.safetensors\n" : "");
    }
    imported_close(&m);
    return err;
}

/* ---- a file without layers ---- */

static enum err write_found(const struct named *m, const char *dir, struct errmsg *e)
{
    const struct layout *l = model_layout(m->model);
    struct layout some = {.tensor = mem_zalloc(l->tensors + 1, sizeof *some.tensor)};
    if (!some.tensor)
        return err_memory(e);
    for (uint32_t i = 0; i < l->tensors; i++)
        if (m->found[i])
            some.tensor[some.tensors++] = l->tensor[i];
    enum err err = begin_output(dir, e);
    if (!err)
        err = write_weights(dir, &some, m->w, e);
    if (!err)
        print_tensors(&some);
    mem_free(some.tensor);
    return err;
}

static void print_missing(const struct named *m)
{
    const struct layout *l = model_layout(m->model);
    for (uint32_t i = 0; i < l->tensors; i++)
        if (!m->found[i])
            printf("  note: the file does not have %s\n", PRINTABLE(l->tensor[i].name));
    if (m->others)
        printf("  note: %u tensors of the file are not used\n", m->others);
}

static enum err import_tensors(const char *file, const char *dir, struct errmsg *e)
{
    struct job job;
    struct named m;
    size_t n;
    const char *const *renames = flags_list("rename", &n);
    if (!flags_text("job")[0])
        return err_set(e, ERR_INPUT,
                       "%s: a safetensors file has no layers: name a job file with these layers, "
                       "--job FILE",
                       file);
    enum err err = job_load(&job, flags_text("job"), NULL, 0, e);
    if (err)
        return err;
    if (job_needs_data(&job))
        err = err_set(e, ERR_INPUT, "%s: model.input.shape must be the shape of the data, not auto",
                      flags_text("job"));
    if (!err)
        err = named_read(&m, file, &job, renames, n, e);
    if (!err) {
        printf("%s: %u of the job's %u tensors\n", PRINTABLE(file), m.n,
               model_layout(m.model)->tensors);
        err = write_found(&m, dir, e);
        if (!err)
            print_missing(&m);
        if (!err)
            printf("%s/%s\n", PRINTABLE(dir), EXPORT_WEIGHTS);
        named_close(&m);
    }
    job_close(&job);
    return err;
}

static enum err check_file(const char *file, struct errmsg *e)
{
    struct stat st;
    if (access(file, R_OK) || stat(file, &st))
        return err_set(e, ERR_INPUT, "%s: %s", file, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INPUT, "%s: it is not a regular file", file);
    if ((flags_given("job") || flags_list("rename", NULL)[0]) && !named_is_safetensors(file))
        return err_set(e, ERR_INPUT, "%s: --job and --rename are for a safetensors file", file);
    return ERR_OK;
}

int import_main(int argc, char **argv)
{
    struct errmsg e = {""};
    flags_parse("import", argc, argv);
    const char *file = flags_list(FLAGS_WORDS, NULL)[0], *dir = flags_text("output");
    enum err err = dir[0] ? check_file(file, &e)
                          : err_set(&e, ERR_INPUT, "name the directory to write: --output DIR");
    if (!err)
        err = named_is_safetensors(file) ? import_tensors(file, dir, &e)
                                         : import_model(file, dir, &e);
    if (!err)
        err = command_flush(&e);
    return err ? command_failed(err, &e) : 0;
}
