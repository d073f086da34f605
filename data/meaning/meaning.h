/* How the values of rows are read: the markers of missing values, the classes of labels, and whether categories learn their
 * words; and the words for a value that does not fit its column. The same for all rows of a data set, and never changed. */
#pragma once

#include <stdbool.h>

#include "common/base/err.h"
#include "data/core/column_batch.h"
#include "data/meaning/schema.h"
#include "job/job.h"

/* A column of the input, as the job has it. */
struct meaning_field {
    enum column_kind kind;
    uint32_t cell;   /* index in a row; of keys: index of the schema's key */
    uint32_t column; /* index of the job's column */
};

/* A marker of a missing value that is a number. A field with the same number in another spelling is not missing. */
struct meaning_marker {
    double value;
    uint32_t number; /* in `missing` */
};

struct meaning {
    const struct table_schema *schema;
    bool learning;             /* categories without a given vocabulary learn their words */
    bool unlabeled;            /* labels and weights are not read, and can be absent */
    bool signs;                /* the label -1 means class 0 */
    bool whole;                /* labels are whole numbers, however many classes there are */
    uint32_t classes;          /* labels must be below it; 0: any number */
    struct vocabulary names;   /* names of classes; empty: labels are numbers */
    uint32_t *class_of;        /* (names.count) */
    uint32_t others;           /* the class of all other names; VOCABULARY_NONE: none */
    bool numbers;              /* the names that are listed are numbers */
    struct vocabulary missing; /* markers of a missing value */
    uint64_t missing_lengths;  /* bit n: a marker has n bytes; bit 63: a marker has 63 or more */
    struct meaning_marker *marker; /* (markers) of `missing`, those that are numbers */
    uint32_t markers;
};

/* signs, unlabeled and whole become false. Errors: ERR_INPUT: classes that the model does not have; ERR_NOMEM. Owns:
 * meaning_close. */
enum err meaning_init(struct meaning *m, const struct job_csv *job,
                      const struct table_schema *schema, bool learning, uint32_t classes,
                      struct errmsg *e) MUST_CHECK;
void meaning_close(struct meaning *m);

/* (columns) The fields of the job's columns; a cross has none. The caller owns them (mem_free). NULL: no memory. */
struct meaning_field *meaning_fields_new(const struct job_csv *job);

/* True if the text is a marker of a missing value. */
static inline bool meaning_is_missing(const struct meaning *m, struct batch_text t)
{
    const bool length = m->missing_lengths >> (t.bytes < 63 ? t.bytes : 63) & 1;
    if (!length || t.bytes == 0) /* only one text has no bytes */
        return length;
    return vocabulary_find(&m->missing, t.at, t.bytes) != VOCABULARY_NONE;
}
/* True if labels are names of classes, and not numbers. */
static inline bool meaning_has_names(const struct meaning *m)
{
    return m->names.count || m->others != VOCABULARY_NONE;
}

/* True if the text of a label says which it is, rightly or not: it is neither empty, nor missing, nor an unknown one's "?". */
static inline bool meaning_tells_label(const struct meaning *m, struct batch_text t)
{
    return t.bytes && *t.at != '?' && !meaning_is_missing(m, t);
}
/* True if it is a class, or if there are none a number. Numbers alone are like the listed names if these are such. As csv_number, of
 * text[bytes]. */
bool meaning_is_label(const struct meaning *m, struct batch_text t);

/* ---- faults ---- */

enum meaning_cause {
    CAUSE_UNREADABLE, /* its reader knows why */
    CAUSE_NUMBER_MISSING,
    CAUSE_NUMBER,
    CAUSE_NUMBER_INFINITE,
    CAUSE_NUMBER_LARGE,
    CAUSE_ID,
    CAUSE_WEIGHT_MISSING,
    CAUSE_WEIGHT,
    CAUSE_LABEL_MISSING,
    CAUSE_LABEL,
    CAUSE_CLASS_NAME,
    CAUSE_CLASS_WHOLE,
    CAUSE_CLASS_NUMBER,
    CAUSE_KEY,
    CAUSE_KEY_OF_LIST,
    CAUSE_KEYS_MANY,
    CAUSE_KEYS_WEIGHT
};

#define MEANING_NO_ROW UINT32_MAX

/* The value of a row that does not fit its column, so the row is bad. */
struct meaning_fault {
    uint32_t row, column; /* of the batch; row: MEANING_NO_ROW: no fault */
    enum meaning_cause cause;
    uint32_t cell;          /* of its field */
    struct batch_text text; /* a view of the batch's text, if the cause is in one */
    double
        number; /* if it is not; CAUSE_CLASS_NUMBER: the label; CAUSE_KEYS_WEIGHT: 1: it is too large */
};

/* A text without its blanks is a likely mistake if `known` has it, or is NULL. False: no hint is of use. */
bool meaning_takes_hint(const struct meaning *m, const struct meaning_fault *f,
                        const struct vocabulary **known);
/* Why the value does not fit. hint: "; .." in place of the usual advice; NULL: that. Not for CAUSE_UNREADABLE. */
enum { MEANING_WHY_BYTES = 300 };
void meaning_why(const struct meaning *m, const struct meaning_fault *f, const char *hint,
                 char why[static MEANING_WHY_BYTES]);
