/* Macros for the rows of the table of the job file's keys. The table is split by subject into table_*.c; other
 * files use it through keys.h. */
#ifndef GRADWIRE_JOB_TABLE_H
#define GRADWIRE_JOB_TABLE_H

#include "job/keys.h"

struct job_key_table {
    const struct job_key *key;
    size_t count;
};
extern const struct job_key_table job_table_model, job_table_tables, job_table_data,
    job_table_training, job_table_run;
extern const struct job_word job_regularizer_words[];
extern const struct job_word job_loss_words[], job_metric_words[], job_monitor_words[];

#define LATER(word)                                                                                \
    {                                                                                              \
        word, JOB_WORD_LATER, NULL, NULL                                                           \
    }
#define LAST_WORD                                                                                  \
    {                                                                                              \
        NULL, 0, NULL, NULL                                                                        \
    }

/* A row: the key's path, its type, the member that holds its value, its meaning, and more. */
#define ROW(key_path, key_type, in, member, text, ...)                                             \
    {                                                                                              \
        .path = key_path, .type = KEY_##key_type, .offset = offsetof(struct in, member),           \
        .doc = text, __VA_ARGS__                                                                   \
    }
#define JOB_KEY(path, type, member, text, ...) ROW(path, type, job, member, text, __VA_ARGS__)
#define RANGE(least, most) .min = least, .max = most
#define EXAMPLE(value) .example = value
#define HEEDED(where, otherwise) .heeded = where, .unheeded = otherwise
#define PER_PROCESS .per_process = true
#define POSITIVE .low = 0, .high = FLT_MAX, .low_open = true
#define NOT_NEGATIVE .low = 0, .high = FLT_MAX
#define NOT_POSITIVE .low = -FLT_MAX, .high = 0
#define ANY_REAL .low = -FLT_MAX, .high = FLT_MAX
#define UP_TO_ONE .low = 0, .high = 1
#define BELOW_ONE .low = 0, .high = 1, .high_open = true
#define NOT_YET(key_path, no_op, text)                                                             \
    {                                                                                              \
        .path = key_path, .type = KEY_LATER, .fallback = no_op, .doc = text                        \
    }

/* The same options in layers and tables. */
#define CONSTANT_VALUE "The number.", EXAMPLE("0.5")
#define NORMAL_MEAN "The mean.", EXAMPLE("0.1")
#define NORMAL_STDDEV "The standard deviation.", EXAMPLE("0.01")
#define TRUNCATED_STDDEV "The standard deviation before values are drawn again.", EXAMPLE("0.01")
#define UNIFORM_MINVAL "The lower bound.", EXAMPLE("-0.01")
#define UNIFORM_MAXVAL "The upper bound.", EXAMPLE("0.01")
#define REGULARIZER_L1_DOC "The factor of the sum of the absolute weights."
#define REGULARIZER_L2_DOC "The factor of the sum of the squared weights."

#endif
