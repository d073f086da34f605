/* Checks for libsvm data: the file format itself determines most options of the two columns, a label and keys. */
#include <string.h>

#include "job/read.h"

#define OF_KEYS JOB_COLUMN_PREFIX ".keys."

void job_note_otherwise(struct job_reader *r)
{
    const struct job_column *c = &r->job->data.csv.column[r->column];
    const struct {
        const char *path;
        bool otherwise;
    } options[] = {
        {OF_KEYS "hash", c->key.hash},
        {OF_KEYS "space", true},
        {OF_KEYS "separator", strcmp(c->key.separator, " ") != 0},
        {OF_KEYS "missing", c->key.missing != KEY_MISSING_NONE},
        {OF_KEYS "weights", !c->key.weights},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options && c->kind == COLUMN_KEYS; i++) {
        const struct job_node *node = job_given(r, options[i].path);
        if (node && options[i].otherwise && !r->otherwise.path)
            r->otherwise = (struct job_otherwise){options[i].path, node, r->item};
    }
}

/* Returns the keys column if the columns are a label and keys, in any order; otherwise NULL. */
static struct job_column *keys_of(const struct job_csv *csv)
{
    struct job_column *a = &csv->column[0], *b = &csv->column[1];
    if (csv->columns == 2 && a->kind == COLUMN_LABEL && b->kind == COLUMN_KEYS)
        return b;
    return csv->columns == 2 && a->kind == COLUMN_KEYS && b->kind == COLUMN_LABEL ? a : NULL;
}

enum err job_check_libsvm(struct job_reader *r)
{
    struct job_column *keys = keys_of(&r->job->data.csv);
    if (!keys)
        return job_refuse(r, NULL, "data.columns",
                          "a row of libsvm is a label and index:value pairs; write [label, keys: "
                          "{name: features, max_values: 64}]");
    if (r->otherwise.path) {
        r->item = r->otherwise.item;
        return job_refuse(
            r, r->otherwise.node, r->otherwise.path,
            "in libsvm the index is the key, and the value its weight; remove this option");
    }
    keys->key.hash = false;
    keys->key.weights = true;
    keys->key.missing = KEY_MISSING_NONE;
    keys->key.space = "";
    memcpy(keys->key.separator, " ", 2);
    return ERR_OK;
}
