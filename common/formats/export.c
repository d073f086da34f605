#include "common/formats/export.h"

#include <inttypes.h>
#include <string.h>

const char *export_format_word(enum export_format f)
{
    static const char *const words[] = {"onnx", "savedmodel", "keras", "safetensors"};
    return words[f];
}

const char *export_format_file(enum export_format f)
{
    static const char *const files[] = {"model.onnx", "savedmodel", "model.keras", "safetensors"};
    return files[f];
}

/* An input of the graph is named as its column, and the output as the last layer. */
static enum err check_names(const struct job *job, enum export_format f, struct errmsg *e)
{
    const char *output = job->model.layer[job->model.layers - 1].name;
    for (uint32_t i = 0; i < job->data.csv.columns; i++) {
        const struct job_column *c = &job->data.csv.column[i];
        bool goes_in =
            c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY || job_column_has_keys(c);
        if (goes_in && !strcmp(c->name, output))
            return err_set(e, ERR_INPUT,
                           "%s: the column \"%s\" and the last layer have the same name, but an "
                           "input and the output of the model need different ones: give the layer "
                           "another name",
                           export_format_word(f), output);
    }
    return ERR_OK;
}

/* The files are messages of protobuf. */
static enum err check_size(const struct job *job, enum export_format f, struct errmsg *e)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->model.layers; i++) {
        const struct job_layer *l = &job->model.layer[i];
        if (l->kind == LAYER_EMBEDDING && !job_layer_looks_up(l))
            bytes += sizeof(float) * l->embedding.input_dim * l->embedding.output_dim;
        if (bytes > INT32_MAX)
            return err_set(e, ERR_INPUT,
                           "%s: with the rows of layer %s the file would have %" PRIu64
                           " MiB, but the format allows 2048: make them a table, embedding without "
                           "input_dim, which can stay outside of the file, or export safetensors",
                           export_format_word(f), l->name, bytes >> 20);
    }
    return ERR_OK;
}

enum err export_check(const struct job *job, enum export_format f, struct errmsg *e)
{
    if (f != EXPORT_ONNX && f != EXPORT_SAVEDMODEL)
        return ERR_OK;
    enum err err = check_names(job, f, e);
    return err ? err : check_size(job, f, e);
}

enum err export_check_job(const struct job *job, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (int f = 0; f < EXPORT_FORMATS && !err; f++)
        if (job->exports >> f & 1)
            err = export_check(job, (enum export_format)f, e);
    return err ? job_blame(job, PLACE_EXPORT, err_wrap(e, err, "export: "), e) : ERR_OK;
}
