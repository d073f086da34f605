/* Reads the tree of a job file into struct job, key by key, as the table of keys says. Unless a comment says otherwise,
 * errors are ERR_INPUT, with the message in r->e, and ERR_NOMEM. */
#pragma once

#include "job/keys.h"
#include "job/tree.h"

struct job_reader {
    struct job *job;
    /* name: the file's name in messages; dir: start of its relative paths */
    const char *name, *dir;
    struct errmsg *e;
    uint32_t layer, column, table; /* the ones being read */
    uint32_t item;                 /* that column's index in the list as written */
    const struct job_word *word;   /* of the last choice that was read */
    const struct job_node *inputs; /* the layer's list of inputs, or NULL */
    const struct job_node *tables; /* the map of tables, or NULL */
    struct job_otherwise {         /* the first given option of keys that libsvm does not allow */
        const char *path;          /* NULL: none */
        const struct job_node *node;
        uint32_t item;
    } otherwise;
    struct {              /* by layer */
        const char *base; /* its name without the number; NULL: the name was given */
        const struct job_node *layer, *inputs;
    } at[JOB_LAYERS_MAX];
    /* by key: where it was given; for keys of elements: in the present element */
    const struct job_node *given[JOB_KEYS_MAX];
};

/* Sets all simple defaults outside of elements, then reads the tree, which must be a map. Errors: ERR_INPUT,
 * ERR_NOMEM. */
enum err job_read(struct job_reader *r, const struct job_node *root) MUST_CHECK;

/* Returns where to store the key's value: in the job, or in the element being read. */
void *job_read_at(struct job_reader *r, const struct job_key *key);
/* Reads a choice: `word`, or `{word: {option: ..}}`. Options that are not given get their defaults. Errors:
 * ERR_INPUT, ERR_NOMEM. */
enum err job_read_choice(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
/* Reads the value at `node`, of any type, into the key's member. */
enum err job_read_value(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node) MUST_CHECK;
/* Sets the key to its default; does nothing if it has none. */
enum err job_read_default(struct job_reader *r, const struct job_key *key) MUST_CHECK;

/* Reads the options of an element: the keys under `group` get their defaults, then the values in `node`, a map or
 * NULL. */
enum err job_read_element(struct job_reader *r, const char *group,
                          const struct job_node *node) MUST_CHECK;

/* layers.c: reads the list of layers with their names; job_settle_inputs finds their inputs once the columns are
 * known. */
enum err job_read_layers(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
enum err job_settle_inputs(struct job_reader *r) MUST_CHECK;
/* Checks the columns that an embedding with input_dim reads. */
enum err job_check_embeddings(struct job_reader *r) MUST_CHECK;

/* rates.c: the update settings of the job, or of the table being read, and the paths of their keys. */
struct job_updates {
    struct optimizer *o;
    const char *optimizer,
        *rates; /* paths: "optimizer" and "training", or "tables[].optimizer" and "tables[]" */
};
/* Writes "optimizer.NAME.OPTION" to `path` and returns it. */
const char *job_option_path(const struct job_updates *u, const char *option,
                            char path[JOB_PATH_MAX]);
/* Reads the rate, which has two names. *given: one of them was given; otherwise the rate is unchanged. */
enum err job_settle_rate(struct job_reader *r, const struct job_updates *u, bool *given) MUST_CHECK;
enum err job_check_schedule(struct job_reader *r, const struct job_updates *u) MUST_CHECK;

/* tables.c: makes the tables of rows by key, from the layers that use them and the section `tables`. */
enum err job_read_tables(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
enum err job_settle_tables(struct job_reader *r) MUST_CHECK;
/* Refuses settings that tables do not support, and key columns that no layer looks up. */
enum err job_check_tables(struct job_reader *r) MUST_CHECK;

/* columns.c: read the list of columns, a text, and a list of texts. */
enum err job_read_columns(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node) MUST_CHECK;
void job_columns_free(struct job_csv *csv);
enum err job_read_text(struct job_reader *r, const struct job_key *key,
                       const struct job_node *node) MUST_CHECK;
enum err job_read_column_text(struct job_reader *r, const struct job_key *key,
                              const struct job_node *node) MUST_CHECK;
enum err job_read_texts(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node) MUST_CHECK;

/* Returns where the job file defines column `column`, which must exist. From then on JOB_COLUMN_PREFIX in messages
 * means this column. */
const struct job_node *job_column_node(struct job_reader *r, uint32_t column);

/* Checks across the keys of data.format csv and libsvm. */
enum err job_check_csv(struct job_reader *r) MUST_CHECK;

/* Forgets where the keys with `prefix` were given, because another element starts. */
void job_read_forget(struct job_reader *r, const char *prefix);

/* Reports "... is not allowed; allowed: ...". Returns ERR_INPUT. */
enum err job_refuse_value(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node) MUST_CHECK;

/* Reports what is wrong with the value of `path`, at `at`, or where it was given if `at` is NULL. Returns
 * ERR_INPUT. */
enum err job_refuse(struct job_reader *r, const struct job_node *at, const char *path,
                    const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The same for the layer or the column that is read. */
#define REFUSE_LAYER(r, at, ...) job_refuse(r, at, JOB_LAYER_PREFIX, __VA_ARGS__)
#define REFUSE_COLUMN(r, at, ...) job_refuse(r, at, JOB_COLUMN_PREFIX, __VA_ARGS__)

/* Reports the first of these that is broken; `at` as of job_refuse. */
struct job_rule {
    bool broken;
    const char *key;        /* NULL: the end */
    const char *word, *why; /* "%s" in `why` stands for the word */
};
enum err job_check_rules(struct job_reader *r, const struct job_node *at,
                         const struct job_rule *rule) MUST_CHECK;

/* Checks the numbers of an initializer of `path`, which `what` names. Errors: ERR_INPUT: minval is above maxval, or a first weight
 * could be beyond float32. */
enum err job_check_initializer(struct job_reader *r, const struct job_node *node, const char *path,
                               const char *what, const struct job_weights *w) MUST_CHECK;

/* Writes the path as a user would: "model.layers[1].dense.units", "tables.ids.optimizer". */
void job_path_shown(const struct job_reader *r, const char *path, char *out, size_t bytes);

/* Returns where the key was given, or NULL. */
const struct job_node *job_given(const struct job_reader *r, const char *path);

/* identity.c: computes job->canonical, identity_text and identity from all other members. Errors: ERR_NOMEM;
 * job_close frees what was made. */
enum err job_identify(struct job *job, struct errmsg *e) MUST_CHECK;
