/* libgradwire-predict: scores of rows by a model that gradwire has trained.
 *
 *     struct gradwire_model *model;
 *     struct gradwire_scorer *scorer;
 *     struct gradwire_error error;
 *     float score;
 *     if (gradwire_model_open(&model, "runs/adult/model", &error) ||
 *         gradwire_scorer_new(&scorer, model, 1, &error))
 *         ...;                                       -- error.text says why
 *     gradwire_scorer_clear(scorer);
 *     if (gradwire_scorer_add_text(scorer, fields, &error) || -- or gradwire_scorer_add_record: a line of csv
 *         gradwire_scorer_score(scorer, &score, &error))
 *         ...;
 *     gradwire_scorer_free(scorer);
 *     gradwire_model_close(model);
 *
 * A model is read once, and does not change: any number of threads share it. A scorer belongs to one thread at a time. Calls on
 * an existing scorer allocate no memory and take no lock of this library; only the beginning of a csv file takes memory.
 *
 * A row has the number, category, key and keys columns of the job's data.columns, in their order, also those that no layer
 * reads. It does not have the columns label, weight, ignore and cross. Its values are encoded by model/encoding.json, as in
 * training and with the same bits. Rows of other data (idx, npy, cifar10) have no columns: they are plain numbers.
 *
 * All texts are UTF-8 or plain bytes, as in the data. Numbers of arrays are in units of elements; arrays are contiguous, the
 * last dimension varies fastest, and the caller owns their memory. A function that fails leaves its results unchanged,
 * unless its comment says otherwise. A pointer must not be NULL unless its comment allows NULL.
 *
 * Some convolutions use OpenBLAS. gradwire_model_open sets OpenBLAS to one thread, for the whole process: use a scorer for
 * each thread instead. */
#ifndef GRADWIRE_PREDICT_H
#define GRADWIRE_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define GRADWIRE_API __attribute__((visibility("default")))

/* ---- errors ---- */

enum gradwire_status {
    GRADWIRE_OK = 0,
    GRADWIRE_INPUT = 1,   /* an argument, a row or a file is wrong: the caller can change it */
    GRADWIRE_DAMAGED = 2, /* a file of the model is damaged, or does not fit the others */
    GRADWIRE_IO = 3,      /* a file cannot be read */
    GRADWIRE_MEMORY = 4   /* there is not enough memory */
};

/* Why a function failed. A function writes it only if it fails. Can be NULL. */
struct gradwire_error {
    int32_t column; /* index of the wrong column; -1: none */
    char text[508]; /* one line: the file, or the column, what is wrong, and what would be right */
};

/* The release, such as "1.4.0". Thread: any. */
GRADWIRE_API const char *gradwire_version(void);

/* ---- the model ---- */

struct gradwire_model;

/* Open the model in DIR/model, DIR/best or the output directory DIR: weights.safetensors, job.yaml and, for rows with columns,
 * encoding.json. Tables (tables/NAME.safetensors) are mapped, not read into memory. While the model is open, do not shorten
 * these files; replace them by renaming new ones. Owns: *model is the caller's (gradwire_model_close).
 * Errors: GRADWIRE_INPUT, GRADWIRE_DAMAGED, GRADWIRE_IO, GRADWIRE_MEMORY; the text names the file. Thread: any; blocks on
 * the disk. */
GRADWIRE_API enum gradwire_status
gradwire_model_open(struct gradwire_model **model, const char *path, struct gradwire_error *error);
/* All scorers of the model must be freed before. NULL: nothing to do. */
GRADWIRE_API void gradwire_model_close(struct gradwire_model *model);

/* ---- its columns; thread: any; texts are valid as long as the model ---- */

enum gradwire_kind {
    GRADWIRE_NO_COLUMN = 0,
    GRADWIRE_NUMBER = 1,
    GRADWIRE_CATEGORY = 2, /* a word of a vocabulary */
    GRADWIRE_KEY = 3,      /* a word, or a 64-bit key */
    GRADWIRE_KEYS = 4,     /* several of these, each with a weight */
    GRADWIRE_CROSS = 5     /* made from key columns: a row has no value for it */
};
#define GRADWIRE_NONE UINT32_MAX

/* The number of columns of a row; 0: its rows are plain numbers. */
GRADWIRE_API uint32_t gradwire_model_columns(const struct gradwire_model *model);
/* The number of crosses. Cross i has the column index gradwire_model_columns + i. */
GRADWIRE_API uint32_t gradwire_model_crosses(const struct gradwire_model *model);
/* The index of a column or cross; GRADWIRE_NONE: there is no such name. */
GRADWIRE_API uint32_t gradwire_column_find(const struct gradwire_model *model, const char *name);
/* "": the column has no name. NULL: there is no such column. */
GRADWIRE_API const char *gradwire_column_name(const struct gradwire_model *model, uint32_t column);
/* GRADWIRE_NO_COLUMN: there is no such column. */
GRADWIRE_API enum gradwire_kind gradwire_column_kind(const struct gradwire_model *model,
                                                     uint32_t column);
/* A number or category becomes the features [first, first + width) of the row. Returns the width, and writes `first`; 0: it
 * has no features. */
GRADWIRE_API uint32_t gradwire_column_features(const struct gradwire_model *model, uint32_t column,
                                               uint32_t *first);
/* The most keys that a row has in the column: 1 for key and cross; 0: it has no keys. */
GRADWIRE_API uint32_t gradwire_column_max_values(const struct gradwire_model *model,
                                                 uint32_t column);

/* ---- its inputs and outputs; thread: any; texts are valid as long as the model ---- */

enum { GRADWIRE_RANK_MAX = 4 };

/* The number of features of an encoded row; 0: the model reads only keys. */
GRADWIRE_API uint32_t gradwire_model_features(const struct gradwire_model *model);
/* The features' shape without the row: writes up to GRADWIRE_RANK_MAX dimensions, and returns their number. */
GRADWIRE_API uint32_t gradwire_model_shape(const struct gradwire_model *model,
                                           uint32_t shape[GRADWIRE_RANK_MAX]);

/* The number of outputs of a row, and the name of the layer that makes them. With a cross-entropy and a last softmax or
 * sigmoid they are probabilities: of each class, or of class 1 if there is one output. With from_logits they are logits, and
 * otherwise values. */
GRADWIRE_API uint32_t gradwire_model_outputs(const struct gradwire_model *model);
GRADWIRE_API const char *gradwire_model_output_name(const struct gradwire_model *model);
/* The number of classes, 2 for one output of binary_crossentropy; 0: the output is a value. */
GRADWIRE_API uint32_t gradwire_model_classes(const struct gradwire_model *model);
/* The names of a class in the label column's `classes`, such as "<=50K|<=50K."; a backslash before '|' makes it a part of the
 * name. NULL: the job does not name it. */
GRADWIRE_API const char *gradwire_class_name(const struct gradwire_model *model, uint32_t label);

/* The layers that look up rows of tables: their number, and of each the name and the length of its output for a row. NULL
 * and 0: there is no such layer. */
GRADWIRE_API uint32_t gradwire_model_layers(const struct gradwire_model *model);
GRADWIRE_API const char *gradwire_layer_name(const struct gradwire_model *model, uint32_t layer);
GRADWIRE_API uint32_t gradwire_layer_width(const struct gradwire_model *model, uint32_t layer);

/* ---- a scorer: the memory of one thread for up to rows_max rows ---- */

struct gradwire_scorer;

/* The model must outlive it. Owns: *scorer is the caller's (gradwire_scorer_free). Errors: GRADWIRE_INPUT: rows_max is 0, or
 * too large for this model; GRADWIRE_MEMORY. Thread: any. */
GRADWIRE_API enum gradwire_status gradwire_scorer_new(struct gradwire_scorer **scorer,
                                                      const struct gradwire_model *model,
                                                      uint32_t rows_max,
                                                      struct gradwire_error *error);
GRADWIRE_API void gradwire_scorer_free(struct gradwire_scorer *scorer); /* NULL: nothing to do */

/* ---- rows; thread: one at a time for a scorer, as for all functions below ---- */

/* Forget all rows. */
GRADWIRE_API void gradwire_scorer_clear(struct gradwire_scorer *scorer);
/* The number of rows that were added since the last gradwire_scorer_clear. */
GRADWIRE_API uint32_t gradwire_scorer_rows(const struct gradwire_scorer *scorer);

/* A text of `bytes` bytes; no NUL is needed. */
struct gradwire_text {
    const char *text;
    size_t bytes;
};

/* Add a row. fields: (gradwire_model_columns) the texts of its fields, as in the csv file, without quotes around a field; the
 * field of a libsvm row is the text after the label. Errors: GRADWIRE_INPUT: a field does not fit its column, which the error
 * names, or there are rows_max rows; the row is then not added. */
GRADWIRE_API enum gradwire_status gradwire_scorer_add_text(struct gradwire_scorer *scorer,
                                                           const struct gradwire_text *fields,
                                                           struct gradwire_error *error);

enum gradwire_type {
    GRADWIRE_VALUE_MISSING = 0, /* no value: for all kinds */
    GRADWIRE_VALUE_TEXT = 1,    /* `text`: the field as in the csv file: for all kinds */
    GRADWIRE_VALUE_NUMBER = 2,  /* `number`; NaN: missing: for number */
    GRADWIRE_VALUE_KEY = 3,     /* `key`: for key */
    GRADWIRE_VALUE_WORDS = 4,   /* `words`: for keys */
    GRADWIRE_VALUE_KEYS = 5,    /* `keys`: for keys */
    GRADWIRE_VALUE_DOUBLE = 6 /* `real`; NaN: missing: for number, as training reads it from text */
};

/* A value of a row. A key is as in docs/reference/data.md: the hash of a word, or the integer itself with hash: false. The
 * library takes it modulo the column's buckets. A list has `count` elements; weight NULL: all weights are 1. */
struct gradwire_value {
    enum gradwire_type type;
    uint32_t count;
    union {
        struct gradwire_text text;
        float number;
        double real;
        uint64_t key;
        struct {
            const struct gradwire_text *word;
            const float *weight;
        } words;
        struct {
            const uint64_t *key;
            const float *weight;
        } keys;
    } as;
};

/* Add a row of typed values. values: (gradwire_model_columns). Errors: as gradwire_scorer_add_text. */
GRADWIRE_API enum gradwire_status gradwire_scorer_add_values(struct gradwire_scorer *scorer,
                                                             const struct gradwire_value *values,
                                                             struct gradwire_error *error);

/* The rows of a text file, csv or libsvm, read as gradwire itself reads them, by the keys under `data` of the model's job:
 * delimiter, quotes, escape, trim, comment, header and missing. The text is not compressed. The columns of the label and the
 * weight are not read, and can be absent. A file is read record by record: a row, which has several lines if a field in quotes
 * has a line end; a header; a comment; or an empty line. */

/* A file begins: a header is expected again, and lines are counted from 1. A new scorer is at the beginning of a file.
 * name: of the file, for errors; it must stay valid until the next file begins. NULL: "input". */
GRADWIRE_API void gradwire_scorer_begin_file(struct gradwire_scorer *scorer, const char *name);
/* The bytes of the first record of the text, with its line end, which is a newline. The text follows the record that was
 * added last. 0: the text ends before the record does, as at the end of a file without a last newline; or the record is
 * longer than 512 KiB, and gradwire_scorer_add_record refuses it. */
GRADWIRE_API size_t gradwire_scorer_record_bytes(const struct gradwire_scorer *scorer,
                                                 const char *text, size_t bytes);
/* Add the row of one record, given with or without its line end. A header, a comment and an empty line add no row: see
 * gradwire_scorer_rows. Errors: GRADWIRE_INPUT: the row has too many or too few fields, or a field that does not fit its column;
 * the header lacks a column; a quote is not closed; there are rows_max rows. The text begins with the file and the line. The
 * row is then not added, and the next record can follow. GRADWIRE_MEMORY: for the first record of a file. */
GRADWIRE_API enum gradwire_status gradwire_scorer_add_record(struct gradwire_scorer *scorer,
                                                             const char *record, size_t bytes,
                                                             struct gradwire_error *error);

/* Add a row of plain numbers, for a model whose rows have no columns. numbers: (gradwire_model_features), raw, as in the data;
 * the library divides them by the job's data.scale. Errors: GRADWIRE_INPUT: rows of this model have columns, a number is not
 * finite, or there are rows_max rows. */
GRADWIRE_API enum gradwire_status gradwire_scorer_add_numbers(struct gradwire_scorer *scorer,
                                                              const float *numbers,
                                                              struct gradwire_error *error);

/* ---- scores ---- */

/* Compute the outputs of all added rows. The rows stay. outputs: (rows, gradwire_model_outputs). Errors: GRADWIRE_INPUT: an
 * embedding layer has no row for a number; `outputs` is then meaningless. */
GRADWIRE_API enum gradwire_status
gradwire_scorer_score(struct gradwire_scorer *scorer, float *outputs, struct gradwire_error *error);
/* Compute the outputs of n encoded rows, for a model without tables. Rows that were added are not affected.
 * features: (n, gradwire_model_features). Errors: GRADWIRE_INPUT: also for more than rows_max rows, or a model with tables. */
GRADWIRE_API enum gradwire_status gradwire_scorer_score_features(struct gradwire_scorer *scorer,
                                                                 const float *features, uint32_t n,
                                                                 float *outputs,
                                                                 struct gradwire_error *error);

/* ---- the encoding alone, of the rows that were added: for models in other formats ---- */

/* features: (rows, gradwire_model_features). */
GRADWIRE_API void gradwire_scorer_features(const struct gradwire_scorer *scorer, float *features);
/* The keys of a key, keys or cross column. keys, weights: (rows, gradwire_column_max_values); a position without a key gets
 * key 0 and weight 0. weights can be NULL. Errors: GRADWIRE_INPUT: the column has no keys. */
GRADWIRE_API enum gradwire_status gradwire_scorer_keys(const struct gradwire_scorer *scorer,
                                                       uint32_t column, uint64_t *keys,
                                                       float *weights,
                                                       struct gradwire_error *error);
/* The output of a layer that looks up rows of a table: (rows, gradwire_layer_width). Errors: GRADWIRE_INPUT: there is no such
 * layer. */
GRADWIRE_API enum gradwire_status gradwire_scorer_vectors(struct gradwire_scorer *scorer,
                                                          uint32_t layer, float *vectors,
                                                          struct gradwire_error *error);

#if defined(__cplusplus)
}
#endif

#endif
