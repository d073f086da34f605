/* The table of the job file's keys: what each is, may be, is by default, and means. Reading,
 * writing, the identity, hints and docs/reference/job-file.md all go by it. Its rows are in table_*.c. */
#ifndef GRADWIRE_COMMON_JOB_KEYS_H
#define GRADWIRE_COMMON_JOB_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/err.h"
#include "common/job/job.h"

enum job_key_type {
    KEY_NAME, /* char[JOB_NAME_MAX]: letters, digits, . _ - */
    KEY_U32,
    KEY_U64,
    KEY_REAL, /* float */
    KEY_BOOL,
    KEY_WORD,   /* an enum, one of `words` */
    KEY_CHOICE, /* an enum, and options of its own: name, or {name: {option: ..}} */
    KEY_METRICS,
    KEY_CODECS,   /* uint32_t: bit i for each word of value i in a list */
    KEY_SHAPE,    /* uint32_t rank, dim[TENSOR_RANK_MAX] */
    KEY_PAIR,     /* uint32_t[2], height and width: [3, 3], or 3 for both */
    KEY_INTEGERS, /* struct schedule_integers */
    KEY_REALS,    /* struct schedule_reals */
    KEY_NAMES,    /* char[JOB_NAMES_BYTES]: words, joined by commas */
    KEY_TEXT,     /* char[JOB_NAME_MAX]: any text of one line */
    KEY_TEXTS,    /* char *: texts of one line each, joined by '\n'; NULL: none */
    KEY_PATHS,
    KEY_FOLDER, /* char *: an absolute path; NULL: none */
    KEY_LAYERS,
    KEY_COLUMNS,
    KEY_INPUTS, /* of a layer: names of layers before it, and of columns */
    KEY_TABLES,
    KEY_CLASS_WEIGHTS,
    KEY_LATER, /* known, its feature is not there yet: refused unless it says `fallback` */
};

/* One word of an enum. */
struct job_word {
    const char *word;
    int value;        /* JOB_WORD_LATER: not supported yet */
    const char *lone; /* choice: the option that `word: value` sets (dense: 10); NULL: none */
};
enum { JOB_WORD_LATER = -1 };

struct job_key {
    const char *path; /* "training.epochs"; of a layer "model.layers[].dense.units" */
    enum job_key_type type;
    size_t offset; /* in struct job, or in the element for keys of layers and columns */
    bool identity; /* a resumed job must have the same value */
    bool required;
    bool
        or_auto; /* `auto` is allowed. KEY_SHAPE: rank 0; KEY_U32: UINT32_MAX, which `max` is below */
    bool or_null; /* KEY_U32: `null` is allowed, 0 */
    bool alias;   /* another name of a key that is written out: not written itself */
    bool as_job;  /* of a table: the job's key of that name says what it means */
    size_t
        own; /* of a table: the bool in struct job_table that says it has one of its own; 0: it always has */
    uint64_t min, max;            /* KEY_U32, KEY_U64, KEY_PAIR */
    float low, high;              /* KEY_REAL */
    bool low_open, high_open;     /* KEY_REAL: the border itself is not allowed */
    const struct job_word *words; /* ends with a NULL word */
    const struct job_word
        *spellings; /* KEY_WORD: others of the same values, not listed; NULL: none */
    size_t like; /* KEY_PAIR of a layer: by default its value is that of the pair there; 0: not */
    const char *keras; /* KEY_NAME of a layer: what Keras names it, but for a number */
    /* It does something beside the job's other keys; NULL: always. Otherwise only the default may stand, and `unheeded`
     * says why: "%s" in it is the word of training.update. Not of layers and columns. */
    bool (*heeded)(const struct job *job);
    const char *unheeded;
    const char
        *without_tables; /* why only the default goes with tables of rows by key; NULL: any does */
    /* The field of the wire's Settings in which the chief's value goes to the ps and the other workers; NULL: in none,
     * or not as it stands here. */
    const char *setting;
    const char *fallback; /* the default as one would write it; NULL: none, or `fallback_doc` */
    /* Identity keys whose default is `auto`, what a checkpoint has: the value of a checkpoint of a release without the key;
     * NULL: the default. */
    const char *former;
    const char *fallback_doc; /* a default that is worked out, in words */
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
#define JOB_INPUT_NAME "input" /* the model's, among the inputs of layers */

const struct job_key *job_key_find(const char *path); /* NULL: no such key */
/* In the table's order, that of docs/reference/job-file.md; NULL: the first, and behind the last. */
const struct job_key *job_key_next(const struct job_key *key);
size_t job_key_index(const struct job_key *key); /* below JOB_KEYS_MAX */
bool job_key_is_group(const char *path);         /* keys stand under it */
bool job_key_of_layer(const struct job_key *key);
bool job_key_of_column(const struct job_key *key);
bool job_key_of_table(const struct job_key *key);
bool job_key_of_element(const struct job_key *key); /* of a layer, a column or a table */

/* Where the key's value is: in `element` (struct job_layer, job_column, job_table) for a key of one,
 * otherwise in *job. */
const void *job_key_at(const struct job_key *key, const struct job *job, const void *element);

/* What may stand there, in words: "integer, 1 to 8". Returns as snprintf. */
int job_key_allowed(const struct job_key *key, char *out, size_t bytes);
/* The words that are supported, or those that are not, with commas. Returns as snprintf. */
int job_words_list(const struct job_word *words, bool supported, char *out, size_t bytes);
const struct job_word *job_word_find(const struct job_word *words, const char *word);
const char *job_word_of(const struct job_word *words, int value); /* the first with that value */

/* The unknown key `path` (its last name is wrong): a hint, "did you mean ...?" or the keys allowed
 * there. */
void job_key_hint(const char *path, char *out, size_t bytes);

/* The key counts in this job: each choice on its way is the one taken. */
bool job_key_active(const struct job_key *key, const struct job *job, const void *element);

/* The value is the default's; of a key without one: nothing, 0. */
bool job_key_is_default(const struct job_key *key, const struct job *job);

/* Visit each supported, active key in the table's order, those of layers and columns once per
 * element; `path` is written out: "model.layers[1].dense.units". Stops at the first error. */
typedef enum err job_key_visit(void *ctx, const struct job_key *key, const struct job *job,
                               const void *element, const char *path);
enum err job_keys_each(const struct job *job, job_key_visit *visit, void *ctx) MUST_CHECK;

/* docs/reference/job-file.md */
void job_reference_write(FILE *out);

#endif
