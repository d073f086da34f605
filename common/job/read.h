/* The tree of a job file -> struct job, key by key as the table says. */
#ifndef GRADWIRE_COMMON_JOB_READ_H
#define GRADWIRE_COMMON_JOB_READ_H

#include "common/job/keys.h"
#include "common/job/tree.h"

struct job_reader {
    struct job *job;
    const char *name, *dir; /* the file in messages; where its relative paths start */
    struct errmsg *e;
    uint32_t layer, column, table; /* the ones being read */
    uint32_t item;                 /* that column's place in the list as it is written */
    const struct job_word *word;   /* of the choice that was read last */
    const struct job_node *inputs; /* its list of inputs, or NULL */
    const struct job_node *tables; /* the map of tables, or NULL */
    struct job_otherwise { /* an option of keys that libsvm's cannot have, where one is given */
        const char *path;  /* NULL: none is */
        const struct job_node *node;
        uint32_t item;
    } otherwise;
    struct {              /* by layer */
        const char *base; /* its name before the number; NULL: its own */
        const struct job_node *layer, *inputs;
    } at[JOB_LAYERS_MAX];
    const struct job_node
        *given[JOB_KEYS_MAX]; /* by key: where it was given; of elements: in this one */
};

/* Set every default that is one word, outside of layers; then read all that the tree, a map, says. Errors: ERR_INPUT, ERR_NOMEM. */
enum err job_read(struct job_reader *r, const struct job_node *root) MUST_CHECK;

/* Where the key's value goes: in the job, or in the layer, column or table that is being read. */
void *job_read_at(struct job_reader *r, const struct job_key *key);
/* Read a choice: `word`, or `{word: {option: ..}}`. The options that are not given get their defaults. */
enum err job_read_choice(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
enum err job_read_value(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node) MUST_CHECK;
/* Set the key to its default; keys without one are left. */
enum err job_read_default(struct job_reader *r, const struct job_key *key) MUST_CHECK;

/* Read the options of an element: the keys under `group` get their defaults, and what `node`, a map or NULL, says. */
enum err job_read_element(struct job_reader *r, const char *group,
                          const struct job_node *node) MUST_CHECK;

/* layers.c: the list of layers with their names; and, when the columns are known, what each reads. */
enum err job_read_layers(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
enum err job_settle_inputs(struct job_reader *r) MUST_CHECK;

/* inputs.c: columns among a layer's inputs. Add those that the name or range at `node` means to the layer's lookups, or to
 * its last input; *found says whether there are any. */
enum err job_input_columns(struct job_reader *r, const struct job_node *node,
                           bool *found) MUST_CHECK;

/* rates.c: what updates weights, of the job or of the table that is being read, and where its keys stand. */
struct job_updates {
    struct optimizer *o;
    const char *optimizer,
        *rates; /* paths: "optimizer", "training"; "tables[].optimizer", "tables[]" */
};
/* "optimizer.NAME.OPTION" */
const char *job_option_path(const struct job_updates *u, const char *option,
                            char path[JOB_PATH_MAX]);
/* The rate by whichever of its two names was given: *given, otherwise it is left as it is. */
enum err job_settle_rate(struct job_reader *r, const struct job_updates *u, bool *given) MUST_CHECK;
enum err job_check_schedule(struct job_reader *r, const struct job_updates *u) MUST_CHECK;

/* tables.c: tables of rows by key, from the layers that look up in them and the section `tables`. */
enum err job_read_tables(struct job_reader *r, const struct job_key *key,
                         const struct job_node *node) MUST_CHECK;
/* admission.c: keys of a table's admission that do not go together, or do nothing. */
enum err job_check_admission(struct job_reader *r) MUST_CHECK;
enum err job_settle_tables(struct job_reader *r) MUST_CHECK;
/* tables_training.c: what updates the rows of the table that is being read. Errors: ERR_INPUT: options that tables do not
 * have; `node`: the table's map, or NULL. */
enum err job_refuse_table_options(struct job_reader *r, const struct job_node *node) MUST_CHECK;
enum err job_settle_table_training(struct job_reader *r) MUST_CHECK;
/* What is not there yet with tables, and key columns that no layer looks up, are refused. */
enum err job_check_tables(struct job_reader *r) MUST_CHECK;

/* columns.c: the list of columns, and a text or a list of them. */
enum err job_read_columns(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node) MUST_CHECK;
void job_columns_free(struct job_csv *csv);
enum err job_read_text(struct job_reader *r, const struct job_key *key,
                       const struct job_node *node) MUST_CHECK;
enum err job_read_texts(struct job_reader *r, const struct job_key *key,
                        const struct job_node *node) MUST_CHECK;
/* libsvm.c: note options of the keys column just read that libsvm's lines cannot have; and, if the job reads libsvm, check
 * its columns and settle what its lines say of them. */
void job_note_otherwise(struct job_reader *r);
enum err job_check_libsvm(struct job_reader *r) MUST_CHECK;

/* cross.c: a cross is of key columns. */
enum err job_check_crosses(struct job_reader *r) MUST_CHECK;
/* Which columns an embedding with input_dim reads: embeddings.c. */
enum err job_check_embeddings(struct job_reader *r) MUST_CHECK;

/* Where the job says column `column`, which is there; JOB_COLUMN_PREFIX names its place in the list from now on. */
const struct job_node *job_column_node(struct job_reader *r, uint32_t column);

/* What holds between the keys of data.format: csv and libsvm. */
enum err job_check_csv(struct job_reader *r) MUST_CHECK;

/* Forget where the keys with `prefix` were given: another element begins. */
void job_read_forget(struct job_reader *r, const char *prefix);

/* "... is not allowed; allowed: ...". */
enum err job_refuse_value(struct job_reader *r, const struct job_key *key,
                          const struct job_node *node) MUST_CHECK;
/* compression.c: codecs that do not go with the rest of the job. */
enum err job_check_compression(struct job_reader *r) MUST_CHECK;

/* Say what is wrong with the value of `path` at `at`, or, if that is NULL, where it was given: ERR_INPUT. */
enum err job_refuse(struct job_reader *r, const struct job_node *at, const char *path,
                    const char *fmt, ...) PRINTF_LIKE(4, 5);

/* The path as the user would write it: "model.layers[1].dense.units", "tables.ids.optimizer". */
void job_path_shown(const struct job_reader *r, const char *path, char *out, size_t bytes);

/* Where the key was given, or NULL. */
const struct job_node *job_given(const struct job_reader *r, const char *path);

/* update.c: what does not go with training.update is refused. */
enum err job_check_update(struct job_reader *r) MUST_CHECK;

/* unused.c: what nobody heeds beside the job's other keys is refused. */
enum err job_check_unused(struct job_reader *r) MUST_CHECK;

/* identity.c: fill job->canonical, identity_text and identity from all the rest. Errors: ERR_NOMEM; what was filled is the
 * job's (job_close). */
enum err job_identify(struct job *job, struct errmsg *e) MUST_CHECK;

/* A number in the shortest form that reads back the same. */
void job_real_text(float value, char *out, size_t bytes);

#endif
