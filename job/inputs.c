/* Columns as inputs of a layer: key columns are looked up; numbers and categories are selected from the model's
 * input. */
#include <string.h>

#include "job/range.h"
#include "job/read.h"
#include "common/base/mem.h"
#include "common/base/printable.h"

/* Returns the column with this name; csv->columns if there is none. */
static uint32_t find_column(const struct job_csv *csv, const char *name)
{
    uint32_t i = 0;
    while (i < csv->columns && strcmp(csv->column[i].name, name) != 0)
        i++;
    return i;
}

static enum err add_lookup(struct job_reader *r, const struct job_node *node, uint32_t column)
{
    struct job *job = r->job;
    struct job_layer *layer = &job->model.layer[r->layer];
    for (uint32_t i = 0; i < layer->lookups; i++)
        if (job->model.lookup[layer->first_lookup + i].column == column)
            return job_refuse(r, node, JOB_LAYER_PREFIX, "column %s occurs twice in its inputs",
                              SHOWN(job->data.csv.column[column].name));
    if (job->model.lookups == JOB_LOOKUPS_MAX)
        return job_refuse(r, node, JOB_LAYER_PREFIX,
                          "more than %d columns are looked up by all layers together",
                          JOB_LOOKUPS_MAX);
    struct job_lookup *grown =
        mem_resize(job->model.lookup, (size_t)job->model.lookups + 1, sizeof *grown);
    if (!grown)
        return err_set(r->e, ERR_NOMEM, "out of memory");
    job->model.lookup = grown;
    if (layer->lookups++ == 0)
        layer->first_lookup = job->model.lookups;
    grown[job->model.lookups++] = (struct job_lookup){.column = column};
    return ERR_OK;
}

/* Adds an input without columns. */
static enum err begin_selection(struct job_reader *r, const struct job_node *node)
{
    struct job *job = r->job;
    struct job_layer *layer = &job->model.layer[r->layer];
    uint32_t first = 0, last = job->model.selections;
    if (layer->inputs == JOB_INPUTS_MAX)
        return job_refuse(r, node, JOB_LAYER_PREFIX, "at most %d inputs are allowed",
                          JOB_INPUTS_MAX);
    if (last > 0)
        first = job->model.selection[last - 1].first + job->model.selection[last - 1].columns;
    job->model.selection[job->model.selections++] = (struct job_selection){.first = first};
    layer->input[layer->inputs++] = JOB_INPUT_SELECTION + last;
    return ERR_OK;
}

/* Consecutive columns in the list form one input. */
static enum err add_selected(struct job_reader *r, const struct job_node *node, uint32_t column)
{
    struct job *job = r->job;
    const struct job_layer *layer = &job->model.layer[r->layer];
    bool goes_on = layer->inputs && layer->input[layer->inputs - 1] >= JOB_INPUT_SELECTION;
    enum err err = goes_on ? ERR_OK : begin_selection(r, node);
    if (err)
        return err;
    struct job_selection *s = &job->model.selection[job->model.selections - 1];
    size_t used = (size_t)s->first + s->columns;
    if (used == JOB_LOOKUPS_MAX)
        return job_refuse(r, node, JOB_LAYER_PREFIX,
                          "more than %d columns are named by all layers together", JOB_LOOKUPS_MAX);
    uint32_t *grown = mem_resize(job->model.selected, used + 1, sizeof *grown);
    if (!grown)
        return err_set(r->e, ERR_NOMEM, "out of memory");
    job->model.selected = grown;
    grown[used] = column;
    s->columns++;
    return ERR_OK;
}

static enum err add_column(struct job_reader *r, const struct job_node *node, uint32_t column)
{
    const struct job_column *c = &r->job->data.csv.column[column];
    const struct job_layer *layer = &r->job->model.layer[r->layer];
    bool is_key = job_column_has_keys(c);
    if (c->kind == COLUMN_LABEL || c->kind == COLUMN_WEIGHT || c->kind == COLUMN_IGNORE)
        return job_refuse(r, node, JOB_LAYER_PREFIX, "column %s is not an input: it is %s",
                          SHOWN(c->name),
                          c->kind == COLUMN_LABEL    ? "the label"
                          : c->kind == COLUMN_WEIGHT ? "the weight of rows"
                                                     : "ignored");
    if (is_key && !job_layer_looks_up(layer))
        return job_refuse(
            r, node, JOB_LAYER_PREFIX,
            "column %s holds keys; only embedding, embedding_bag and linear look them up",
            SHOWN(c->name));
    if (!is_key && job_layer_looks_up(layer))
        return job_refuse(
            r, node, JOB_LAYER_PREFIX,
            "it looks up keys, and column %s holds none; to make it one, write - key: %s",
            SHOWN(c->name), SHOWN(c->name));
    if (c->kind == COLUMN_KEYS && layer->kind == LAYER_EMBEDDING)
        return job_refuse(
            r, node, JOB_LAYER_PREFIX,
            "column %s has several keys a row; use embedding_bag, which combines their rows",
            SHOWN(c->name));
    return is_key ? add_lookup(r, node, column) : add_selected(r, node, column);
}

enum err job_input_columns(struct job_reader *r, const struct job_node *node, bool *found)
{
    const struct job_csv *csv = &r->job->data.csv;
    struct job_range range;
    char name[JOB_TEXT_MAX + 1];
    *found = false;
    if (job_range_parse(&range, node->text))
        return job_refuse(
            r, node, JOB_LAYER_PREFIX,
            "'%s' is not a valid range; write a range like C{1..26}, or \\{ for a { of the name",
            SHOWN(node->text));
    enum err err = ERR_OK;
    for (uint32_t i = range.first; i <= range.last && !err; i++) {
        uint32_t column =
            job_range_name(&range, i, name, sizeof name) ? csv->columns : find_column(csv, name);
        if (column == csv->columns && !range.many)
            return ERR_OK;
        if (column == csv->columns)
            return job_refuse(r, node, JOB_LAYER_PREFIX, "no column is called %s", SHOWN(name));
        *found = true;
        err = add_column(r, node, column);
    }
    return err;
}
