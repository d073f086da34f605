/* Macros for the rows of the table of the job file's keys. The table is split by subject into table_*.c; other
 * files use it through keys.h. */
#pragma once

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

/* For a row: the words of its key, which its meaning explains. */
#define WORD(word, value) LONE_WORD(word, value, NULL)
#define LONE_WORD(word, value, lone)                                                               \
    {                                                                                              \
        word, value, lone, NULL                                                                    \
    }
#define WORDS(...)                                                                                 \
    .words = (const struct job_word[])                                                             \
    {                                                                                              \
        __VA_ARGS__, LAST_WORD                                                                     \
    }
#define SPELLINGS(...)                                                                             \
    .spellings = (const struct job_word[])                                                         \
    {                                                                                              \
        __VA_ARGS__, LAST_WORD                                                                     \
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

/* The options of initializers and regularizers, of layers and tables. KEY: the macro of their rows; path: of the key; in: the
 * struct job_weights. */
#define WEIGHTS_REAL(KEY, path, member, range, by_default, ...)                                    \
    KEY(path, REAL, member, __VA_ARGS__, range, .fallback = by_default)
#define INITIALIZER_OPTIONS(KEY, path, in)                                                         \
    WEIGHTS_REAL(KEY, path ".constant.value", in.init_value, ANY_REAL, "0", "The number.",         \
                 EXAMPLE("0.5")),                                                                  \
        WEIGHTS_REAL(KEY, path ".random_normal.mean", in.init_other, ANY_REAL, "0", "The mean.",   \
                     EXAMPLE("0.1")),                                                              \
        WEIGHTS_REAL(KEY, path ".random_normal.stddev", in.init_value, NOT_NEGATIVE, "0.05",       \
                     "The standard deviation.", EXAMPLE("0.01")),                                  \
        WEIGHTS_REAL(KEY, path ".random_uniform.minval", in.init_other, ANY_REAL, "-0.05",         \
                     "The lower bound.", EXAMPLE("-0.01")),                                        \
        WEIGHTS_REAL(KEY, path ".random_uniform.maxval", in.init_value, ANY_REAL, "0.05",          \
                     "The upper bound.", EXAMPLE("0.01")),                                         \
        WEIGHTS_REAL(KEY, path ".truncated_normal.mean", in.init_other, ANY_REAL, "0",             \
                     "The mean.", EXAMPLE("0.1")),                                                 \
        WEIGHTS_REAL(KEY, path ".truncated_normal.stddev", in.init_value, NOT_NEGATIVE, "0.05",    \
                     "The standard deviation before values are drawn again.", EXAMPLE("0.01"))
#define REGULARIZER_L1(KEY, path, in, by_default)                                                  \
    WEIGHTS_REAL(KEY, path, in.l1, NOT_NEGATIVE, by_default,                                       \
                 "The factor of the sum of the absolute weights.", EXAMPLE("0.001"))
#define REGULARIZER_L2(KEY, path, in, by_default)                                                  \
    WEIGHTS_REAL(KEY, path, in.l2, NOT_NEGATIVE, by_default,                                       \
                 "The factor of the sum of the squared weights.", EXAMPLE("0.001"))
#define REGULARIZER_OPTIONS(KEY, path, in)                                                         \
    REGULARIZER_L1(KEY, path ".l1.l1", in, "0.01"),                                                \
        REGULARIZER_L2(KEY, path ".l2.l2", in, "0.01"),                                            \
        REGULARIZER_L1(KEY, path ".l1_l2.l1", in, "0"),                                            \
        REGULARIZER_L2(KEY, path ".l1_l2.l2", in, "0")
