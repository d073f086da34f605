/* The table of the job file's keys: the type, the allowed values, the default and the meaning of each. Reading,
 * writing, the identity, suggestions and docs/reference/job-file.md all use it. Its rows are in table_*.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "job/job.h"

enum job_key_type {
    KEY_NAME, /* char[JOB_NAME_MAX]: letters, digits and . _ - */
    KEY_U32,
    KEY_U64,
    KEY_REAL,   /* float */
    KEY_DOUBLE, /* double, within the range of a float */
    KEY_BOOL,
    KEY_WORD,   /* an enum, one of `words` */
    KEY_CHOICE, /* an enum with options: name, or {name: {option: ..}} */
    KEY_METRICS,
    KEY_CODECS,   /* uint32_t: bit i is set if the list contains the word of value i */
    KEY_SHAPE,    /* uint32_t rank, dim[TENSOR_RANK_MAX] */
    KEY_PAIR,     /* uint32_t[2], height and width: [3, 3], or 3 for both */
    KEY_INTEGERS, /* struct schedule_integers */
    KEY_REALS,    /* struct schedule_reals */
    KEY_NAMES,    /* char[JOB_NAMES_BYTES]: words, separated by commas */
    KEY_TEXT,     /* char[JOB_NAME_MAX]: any text of one line */
    /* const char *: any text of up to JOB_TEXT_MAX bytes; "": none */
    KEY_COLUMN_TEXT,
    KEY_TEXTS, /* char *: a list of texts (common/base/texts.h) as of KEY_COLUMN_TEXT; NULL: none */
    KEY_PATHS, /* char *: absolute paths or globs, joined by '\n'; NULL: none */
    KEY_FOLDER, /* char *: an absolute path; NULL: none */
    KEY_FILE,   /* same */
    KEY_LAYERS,
    KEY_COLUMNS,
    KEY_INPUTS, /* of a layer: names of earlier layers and of columns */
    KEY_TABLES,
    KEY_CLASS_WEIGHTS,
    KEY_LATER, /* known but not supported yet: refused unless its value is `fallback` */
};

/* One word of an enum. */
struct job_word {
    const char *word;
    int value; /* JOB_WORD_LATER: not supported yet */
    /* for a choice: the option that a single value sets (dense: 10); NULL: none */
    const char *lone;
    const char *doc; /* the word's meaning, for the reference; NULL: the key's doc explains it */
};
enum { JOB_WORD_LATER = -1 };

struct job_key {
    const char *path; /* "training.epochs"; for a layer "model.layers[].dense.units" */
    enum job_key_type type;
    size_t offset; /* in struct job, or for keys of elements in the element */
    bool identity; /* a resumed job must have the same value, and so must all processes */
    /* each process uses the value of its own job file; of a key that is neither this nor identity, the chief's value holds for
     * all: it is in the settings or the plan, or only the chief reads it (tests/lint/keys.py) */
    bool per_process;
    bool required;
    bool or_auto; /* `auto` is allowed: rank 0 of KEY_SHAPE, UINT32_MAX of KEY_U32 (above `max`) */
    bool or_null; /* for KEY_U32: `null` is allowed and means 0 */
    bool alias;   /* another name of a key; not written itself */
    bool as_job;  /* for a table: the job's key of the same name has the documentation */
    /* for a table: offset of the bool in struct job_table that is true if the table has its own value; 0: it
     * always has */
    size_t own;
    uint64_t min, max;            /* for KEY_U32, KEY_U64, KEY_PAIR */
    float low, high;              /* for KEY_REAL and KEY_DOUBLE */
    bool low_open, high_open;     /* for these: the limit itself is not allowed */
    const struct job_word *words; /* ends with a NULL word */
    /* for KEY_WORD: more spellings of the same values, not documented; NULL: none */
    const struct job_word *spellings;
    size_t like; /* for a KEY_PAIR of a layer: offset of the pair that gives its default; 0: none */
    const char *keras; /* for a KEY_NAME of a layer: its class in Keras; NULL: none */
    /* Returns whether the key has an effect together with the job's other keys; NULL: always. If not, only the
     * default is allowed, and `unheeded` says why, with "%s" for the word of training.update. Not for keys of
     * layers and columns. */
    bool (*heeded)(const struct job *job);
    const char *unheeded;
    /* why a job with tables of rows by key allows only the default; NULL: it allows any value */
    const char *without_tables;
    /* The field of the wire's Settings to which the chief copies the value unchanged; NULL: none, or the chief converts
     * the value. */
    const char *setting;
    const char *fallback; /* the default as a user would write it; NULL: none, or `fallback_doc` */
    /* For identity keys whose default `auto` means the checkpoint's value: the value that a checkpoint of a
     * release without the key has; NULL: the default. */
    const char *former;
    const char *fallback_doc; /* describes a default that is computed */
    const char *example;      /* a value of the key, as YAML; NULL: only for KEY_LATER */
    const char *doc;
};

enum {
    JOB_TABLES = 5,
    JOB_TABLE_KEYS = 256,
    JOB_KEYS_MAX = JOB_TABLES * JOB_TABLE_KEYS,
    JOB_PATH_MAX = 160
};
#define JOB_LAYER_PREFIX "model.layers[]"
#define JOB_COLUMN_PREFIX "data.columns[]"
#define JOB_TABLE_PREFIX "tables[]"
#define JOB_INPUT_NAME "input" /* name of the model's input, among the inputs of layers */

const struct job_key *job_key_find(const char *path); /* NULL: unknown */
/* Returns the next key in the table's order, the order of docs/reference/job-file.md. NULL gives the first
 * key, and the last key gives NULL. */
const struct job_key *job_key_next(const struct job_key *key);
size_t job_key_index(const struct job_key *key); /* below JOB_KEYS_MAX */
bool job_key_is_group(const char *path);         /* there are keys below it */
bool job_key_of_layer(const struct job_key *key);
bool job_key_of_column(const struct job_key *key);
bool job_key_of_table(const struct job_key *key);
bool job_key_of_element(const struct job_key *key); /* of a layer, a column or a table */

/* Returns the address of the key's value: in `element` (struct job_layer, job_column or job_table) for a key of
 * one, otherwise in *job. */
const void *job_key_at(const struct job_key *key, const struct job *job, const void *element);

/* Describes the allowed values: "integer, 1 to 8". Returns as snprintf. */
int job_key_allowed(const struct job_key *key, char *out, size_t bytes);
/* Lists the supported or the unsupported words, separated by commas. Returns as snprintf. */
int job_words_list(const struct job_word *words, bool supported, char *out, size_t bytes);
/* the entry of `word`, also if it is not supported; NULL: none */
const struct job_word *job_word_find(const struct job_word *words, const char *word);
/* the first word with that value */
const char *job_word_of(const struct job_word *words, int value);

/* Writes a suggestion for the unknown key `path`, whose last name is wrong: "did you mean ...?" or the keys
 * allowed there. */
void job_key_hint(const char *path, char *out, size_t bytes);

/* Returns whether the key applies to this job: every choice in its path has that word as its value. */
bool job_key_active(const struct job_key *key, const struct job *job, const void *element);

/* Returns whether the value is the default; for a key without one: 0 or empty. */
bool job_key_is_default(const struct job_key *key, const struct job *job);

/* Visits each supported, active key in the table's order, and keys of elements once per element. `path` is
 * complete: "model.layers[1].dense.units". Stops at the first error. */
typedef enum err job_key_visit(void *ctx, const struct job_key *key, const struct job *job,
                               const void *element, const char *path);
enum err job_keys_each(const struct job *job, job_key_visit *visit, void *ctx) MUST_CHECK;

/* Writes docs/reference/job-file.md. */
void job_reference_write(FILE *out);

/* Names that other programs use for words and keys of the job file, as suggestions for users who know those
 * programs. Comparison ignores case and everything but letters and digits: BCELoss, bce_loss and bce-loss are
 * equal. Pure. */

/* Returns the one of `words` that `word` means, possibly with an option, such as "sgd: {momentum: 0.9}"; NULL:
 * none. */
const char *job_meaning_word(const struct job_word *words, const char *word);

/* Finds the key that `name` means, first under `group` ("": the top level), then anywhere, and writes its path to
 * `out`. Returns false if there is none; `out` is then undefined. */
bool job_meaning_key(const char *group, const char *name, char out[JOB_PATH_MAX]);

/* Returns the hint for a name that means something that no key does; NULL: no such name. */
const char *job_meaning_other(const char *name);
