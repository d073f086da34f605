/* Checks the columns that an embedding with its own rows (input_dim) reads. All these columns share the rows, so
 * ids that are counted separately for each column would mean the same rows. */
#include <string.h>

#include "common/base/printable.h"
#include "job/read.h"

enum { NAMED_MAX = 2, NAMED_BYTES = NAMED_MAX * (JOB_NAME_MAX + 2) };

/* Iterates over the feature columns of an input; see `next`. */
struct columns {
    const struct job *job;
    const struct job_selection *selection; /* NULL: all */
    uint32_t at;
};

static bool is_feature(const struct job_column *c)
{
    return c->kind == COLUMN_NUMBER || c->kind == COLUMN_CATEGORY;
}

static const struct job_column *next(struct columns *c)
{
    const struct job *job = c->job;
    if (c->selection && c->at < c->selection->columns)
        return &job->data.csv.column[job->model.selected[c->selection->first + c->at++]];
    while (!c->selection && c->at < job->data.csv.columns) {
        const struct job_column *column = &job->data.csv.column[c->at++];
        if (is_feature(column))
            return column;
    }
    return NULL;
}

/* Finds the columns that a layer reads. Only flatten and reshape can be in between; they have one input each.
 * Returns false if it reads another layer. */
static bool columns_of(const struct job *job, const struct job_layer *layer, struct columns *out)
{
    uint32_t input = layer->input[0];
    while (input > 0 && input < JOB_INPUT_SELECTION) {
        layer = &job->model.layer[input - 1];
        if (layer->kind != LAYER_FLATTEN && layer->kind != LAYER_RESHAPE)
            return false;
        input = layer->input[0];
    }
    *out = (struct columns){.job = job};
    if (input >= JOB_INPUT_SELECTION)
        out->selection = &job->model.selection[input - JOB_INPUT_SELECTION];
    return true;
}

static void name_it(char out[NAMED_BYTES], const char *name)
{
    size_t n = strlen(out);
    (void)snprintf(out + n, NAMED_BYTES - n, "%s%s", n ? ", " : "", *name ? name : "NAME");
}

/* Columns of numbers only are allowed: they are row numbers already. */
static enum err refuse_mixed(struct job_reader *r, struct columns columns)
{
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    char ids[NAMED_BYTES] = "";
    const char *other = NULL;
    uint32_t n = 0;
    for (const struct job_column *c; (c = next(&columns));) {
        if (c->encode != ENCODE_ID)
            other = *c->name ? c->name : "a column without a name";
        else if (n++ < NAMED_MAX)
            name_it(ids, SHOWN(c->name));
    }
    if (n == 0 || (n == 1 && !other))
        return ERR_OK;
    const char *more = n > NAMED_MAX ? ", .." : "";
    return job_refuse(
        r, r->at[r->layer].layer, JOB_LAYER_PREFIX,
        "%s has one set of rows for the ids of %s%s%s%s, %s; make each of them a column - key: "
        "NAME, and look it up in a table: - embedding: {inputs: [%s%s], output_dim: %u}",
        layer->name, ids, more, n > 1 ? "" : " and for ", n > 1 ? "" : SHOWN(other),
        n > 1 ? "and id 1 of each would be the same row" : "which has no ids", ids, more,
        layer->embedding.output_dim);
}

/* The numbers themselves are ids. Others are refused where they are looked up. */
static bool is_id(const struct job_column *c)
{
    return c->kind == COLUMN_NUMBER && c->scale == SCALE_NONE && c->buckets == BUCKETS_NONE;
}

static enum err note_ids(struct job_reader *r, struct columns columns)
{
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    uint32_t rows = layer->embedding.input_dim;
    for (const struct job_column *c; (c = next(&columns));) {
        if (!is_id(c))
            continue;
        struct job_column *of = &r->job->data.csv.column[c - r->job->data.csv.column];
        of->ids = of->ids && of->ids < rows ? of->ids : rows;
        double id = c->missing_value;
        bool fits = (double)(float)id == id && job_is_id((float)id, of->ids);
        if (c->missing == MISSING_VALUE && !fits)
            return job_refuse(
                r, r->at[r->layer].layer, JOB_LAYER_PREFIX,
                "%s has rows 0 to %u, but a missing number of column %s is %.9g: see its "
                "missing: {value: ..}",
                layer->name, rows - 1, SHOWN(c->name), id);
    }
    return ERR_OK;
}

uint32_t job_input_ids(const struct job *job)
{
    uint32_t ids = 0;
    struct columns unused;
    for (uint32_t i = 0; i < job->model.layers && !job_reads_columns(job); i++) {
        const struct job_layer *layer = &job->model.layer[i];
        uint32_t rows = layer->embedding.input_dim;
        if (layer->kind == LAYER_EMBEDDING && rows > 0 && columns_of(job, layer, &unused))
            ids = ids && ids < rows ? ids : rows;
    }
    return ids;
}

enum err job_check_embeddings(struct job_reader *r)
{
    const struct job *job = r->job;
    struct columns columns;
    if (!job_reads_columns(job))
        return ERR_OK;
    for (r->layer = 0; r->layer < job->model.layers; r->layer++) {
        const struct job_layer *layer = &job->model.layer[r->layer];
        enum err err = ERR_OK;
        if (layer->kind == LAYER_EMBEDDING && !job_layer_looks_up(layer) &&
            columns_of(job, layer, &columns))
            err = refuse_mixed(r, columns);
        if (!err && layer->kind == LAYER_EMBEDDING && !job_layer_looks_up(layer) &&
            columns_of(job, layer, &columns))
            err = note_ids(r, columns);
        if (err)
            return err;
    }
    return ERR_OK;
}
