/* A piece of csv text to rows of cells (table.h). What a piece becomes depends on its text alone. */
#ifndef GRADWIRE_WORKER_DATA_CSV_ROWS_H
#define GRADWIRE_WORKER_DATA_CSV_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/job.h"
#include "worker/data/table.h"

enum { CSV_PIECE_BYTES = 512 << 10 }; /* and so the most that a row may have */

/* What a field of the file is; found once. */
struct csv_field {
    enum column_kind kind;
    uint32_t cell;   /* in a row; of key and keys: which of the schema's keys */
    uint32_t column; /* in the job */
};

/* How rows are read: the same for all pieces of a load. */
struct csv_format {
    const struct job_csv *job;
    const struct table_schema *schema;
    char delimiter;
    size_t comment_bytes;
    bool libsvm;               /* text is lines of libsvm, not csv */
    bool signs;                /* libsvm: the label -1 is class 0 */
    bool learning;             /* categories without a given vocabulary learn their words */
    uint32_t classes;          /* labels are below it; 0: any number */
    struct vocabulary names;   /* of classes; empty: labels are numbers */
    uint32_t *class_of;        /* (names.count) */
    uint32_t others;           /* the class of all other names; VOCABULARY_NONE: none */
    struct vocabulary missing; /* markers */
    uint64_t missing_lengths;  /* bit n: there is a marker of n bytes; bit 63: of 63 or more */
};

/* Errors: ERR_INPUT classes that the model has not; ERR_NOMEM. Owns: csv_format_close. */
enum err csv_format_init(struct csv_format *f, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e) MUST_CHECK;
void csv_format_close(struct csv_format *f);

/* One piece: whole rows, and what they become. */
struct csv_piece {
    char *text; /* `bytes`, CSV_SCAN_PAD more behind them; fields are unquoted in place */
    size_t bytes;
    uint64_t line;    /* of its first row in the file, from 1 */
    bool begins_file; /* no row of the file is before it */
    const struct csv_field *field;
    uint32_t fields;
    bool has_quotes;

    uint32_t *mark;  /* room for bytes + CSV_SCAN_PAD */
    uint32_t *cells; /* (rows, table_row_cells) */
    uint64_t rows, room;
    bool *known;     /* (inputs): categories with words that are given: a row has one of them */
    uint32_t *added; /* (inputs): of this row: categories that learned a word */
    struct vocabulary *words; /* (inputs): learning: what cells of categories are numbers in, + 1 */
    uint64_t bad;
    uint64_t first_bad_line;
    struct errmsg first_bad;
    uint64_t zero_line, minus_line; /* libsvm, with signs: the first labels 0 and -1; 0: none */
};

/* Read the rows. A bad one is counted, and the first is described; with data.bad_rows: stop nothing
 * behind it is read. Errors: ERR_NOMEM; ERR_INPUT too many words. Thread: any. */
enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* A line of blanks, or a comment: no row. */
bool csv_is_no_row(const struct csv_format *f, const char *begin, const char *end);

/* A field as it stands: trimmed, its quotes taken off. False: quotes where none may be. */
bool csv_field_text(char **begin, char **end, const struct job_csv *job, bool has_quotes);

#endif
