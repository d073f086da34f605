/* Converts a piece of csv text to rows of cells (table.h). The result for a piece depends on its text alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "job/job.h"
#include "data/meaning/encode.h"
#include "data/meaning/meaning.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_scan.h"

enum {
    CSV_PIECE_BYTES = 512 << 10,    /* of a piece, if the job has few columns */
    CSV_COLUMN_BYTES = 128,         /* for each column, if it has many */
    CSV_TEXT_PAD = 1 + CSV_SCAN_PAD /* behind the text of a piece: an added '\n', and more */
};

/* Columns whose text is kept for each row, whatever else is read of them. */
struct csv_keep {
    const char *key; /* the key or flag that names them, for messages */
    const char *const *
        name; /* (columns) of the header or the job; or column_N, counted from 1, if no field has that name */
    const uint32_t *of; /* (columns) in place of the names: indices of the job's columns; or NULL */
    uint32_t columns;
};

struct csv_text {
    const char *at;
    uint32_t bytes;
};
/* Its key, by which data.validation.column holds rows out. */
static inline uint64_t csv_text_key(const struct csv_text *t)
{
    static const struct job_key_column plain = {.hash = true};
    uint64_t key = 0;
    (void)word_key(&plain, 0, t->at, t->bytes, &key);
    return key;
}

/* Lines that a text seldom has, and then likely by mistake: a warning names the first. */
enum csv_odd {
    CSV_ODD_NUL,
    CSV_ODD_NULS,   /* the line begins or ends with 8 of them or more */
    CSV_ODD_MARK,   /* a byte order mark begins the line, which is not the first */
    CSV_ODD_HEADER, /* the line is the header again */
    CSV_ODD_NAMES, /* without a header, the line has the names of the columns, and is not the first */
    CSV_ODD_SKIPPED, /* the line has the names, and the one before it was left out; say_names warns of it */
    CSV_ODD_COMMENT, /* the line is a comment that could be a row */
    CSV_ODD_QUOTE,   /* a field that is not read swallows line ends, and text follows its quotes */
    CSV_ODD_EMPTY,   /* all fields of the line are empty */
    CSV_ODD_CTRL_Z,  /* the line is DOS' end of a file */
    CSV_ODD_COPY,    /* the line ends the data of PostgreSQL's COPY */
    CSV_ODD_SQL,     /* the line begins a statement of SQL */
    CSV_ODD_LABEL,   /* libsvm: a word that is no label, and no pair follows */
    CSV_ODDS
};

/* Empty lines. */
struct csv_empty {
    uint64_t lines, first; /* first: its number, if there is one */
};

/* Add those of `from`, which come behind, and take them from there. */
static inline void csv_empty_move(struct csv_empty *to, struct csv_empty *from)
{
    if (!to->lines)
        to->first = from->first;
    to->lines += from->lines;
    *from = (struct csv_empty){0};
}

struct csv_piece;

/* Receives batches of rows in place of their encoding: sets out->present and out->first, and makes what it likes of the columns, of which
 * all are read. Errors: ERR_NOMEM. Called on all threads. */
struct csv_receiver {
    enum err (*receive)(void *ctx, struct csv_piece *p, struct encoded_rows *out);
    void *ctx;
};

/* How rows are read: the same for all pieces of a load. */
struct csv_format {
    const struct job_csv *job;
    struct csv_grammar grammar;
    bool libsvm;                         /* the text is libsvm, not csv */
    bool parquet;                        /* columns of Parquet files, and no text */
    const struct csv_keep *keep;         /* NULL: no text is kept */
    const struct csv_receiver *receiver; /* NULL: rows are encoded */
    struct meaning meaning;
    size_t piece_bytes;          /* of a piece of text; also the most bytes that a row can have */
    struct meaning_field *field; /* (job->columns) of each column */
};

/* It borrows the job's texts. */
/* The most bytes of a piece of text, and of a row. */
static inline size_t csv_piece_bytes(const struct job_csv *job)
{
    const size_t wide = (size_t)job->columns * CSV_COLUMN_BYTES;
    return wide < CSV_PIECE_BYTES ? CSV_PIECE_BYTES : wide;
}

static inline struct csv_grammar csv_grammar_of(const struct job_csv *job)
{
    return (struct csv_grammar){.delimiter = job_delimiter_char(job),
                                .quotes = job->quotes,
                                .trim = job->trim,
                                .escape = job_escape_char(job),
                                .comment = job->comment,
                                .comment_bytes = strlen(job->comment)};
}
/* Errors: as meaning_init. Owns: csv_format_close. */
enum err csv_format_init(struct csv_format *f, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e) MUST_CHECK;
void csv_format_close(struct csv_format *f);

struct csv_batch;     /* csv_batch.h */
struct parquet_piece; /* arrow/parquet.h */

/* The names of the header, or of the job's columns if the file has none. */
enum { CSV_HEADER_NAMES = 64 }; /* more are not compared, except as a whole line */
struct csv_header_line {
    const char *at; /* the header's line */
    uint32_t bytes; /* 0: there is none */
    struct csv_text name[CSV_HEADER_NAMES];
    uint32_t names, named, words; /* named: those that are not empty; words: that are no numbers */
    uint8_t begins[32];           /* bits of the bytes that the line can begin with */
};

/* Rows whose columns are found by their order, and whose labels are not read, or can have any text: the texts in the label's field
 * show whether they are others. */
struct csv_labels {
    uint32_t field;              /* from 1; 0: none, or it is not found by its place */
    uint64_t rows, none;         /* that have a text there; and whose text is no label */
    uint64_t line;               /* of the first of these */
    char shown[CSV_SHOWN_BYTES]; /* its text */
    bool first, differ;          /* it is the file's first row; and another text differs */
};

/* One piece: whole rows of text, and the rows of cells made from them. */
struct csv_piece {
    char *text; /* `bytes`, and CSV_SCAN_PAD more after them; fields are unquoted in place */
    size_t bytes;
    uint64_t line;                     /* line number of its first row in the file, from 1 */
    bool begins_file;                  /* no row of the file comes before it */
    uint32_t file;                     /* the file's number, from 0 */
    void *received;                    /* the receiver's; NULL at first */
    bool named;                        /* its first row has the names of the columns */
    const struct meaning_field *field; /* (fields) */
    const uint32_t
        *kept_as; /* (fields) its text is kept: number in struct csv_keep + 1; 0: it is not */
    uint32_t fields;
    struct csv_labels labels;
    struct csv_header_line header; /* of the file, if it has one */
    struct csv_grammar grammar;    /* the format's, without what does not occur in the text */
    bool lone_cr;                  /* a '\r' occurs that no '\n' follows */

    uint32_t *mark;  /* room for bytes + CSV_SCAN_PAD */
    size_t marks;    /* that csv_scan has found in the text; 0: it has not scanned it */
    bool neat;       /* and what csv_scan_neat says of its quotes */
    uint32_t *cells; /* packed rows, one behind the other, and room for the next one */
    size_t used, cell_room;
    uint8_t *present;      /* bits of rows, as batch_bit has them: 0: the row is bad */
    uint64_t present_rows; /* allocated */
    struct csv_text *kept; /* (rows, keep->columns) in the text; NULL: none is kept */
    uint64_t rows, kept_room;
    struct csv_batch *batch;       /* of rows that are not encoded yet */
    struct parquet_piece *parquet; /* rows as a Parquet file has them, in place of the text */
    struct learned learned;        /* by the rows of the thread */
    uint64_t bad, bad_lines;       /* bad_lines: their lines; a field in quotes can have many */
    uint64_t first_bad_line;
    uint32_t first_bad_field; /* at fault; CSV_NO_FIELD: the row itself is */
    struct errmsg first_bad;
    uint64_t odd_line[CSV_ODDS]; /* the first; 0: none */
    uint64_t empty_rows;         /* CSV_ODD_EMPTY: all of them */
    /* of rows of one field, or of libsvm without labels: before a row of the piece, and behind the last */
    struct csv_empty between, behind;
    uint64_t pairs; /* libsvm: of all rows */
    bool unlabeled; /* libsvm: a row begins with its pairs */
    bool worded;    /* libsvm: a row with pairs begins with a word that is no label */
    /* libsvm, with signs: the lines of the first labels 0 and -1; 0: none */
    uint64_t zero_line, minus_line;
};

/* Find what of the grammar occurs in the text. */
void csv_piece_grammar(struct csv_piece *p, const struct csv_format *f);

/* Read the rows. Bad rows are counted, and the first is described; with data.bad_rows: stop reading ends there.
 * Errors: ERR_NOMEM; ERR_INPUT: quotes that are never closed: the message begins with the line.
 * Thread: any. */
enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* The error of a text that begins a row, at `line`, and whose end is not the row's. Writes no path. Returns ERR_INPUT. */
enum err csv_refuse_open(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_grammar *g) MUST_CHECK;

/* The error of a text that begins a row, at `line`, of more than piece_bytes. The same. */
enum err csv_refuse_long(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_format *f) MUST_CHECK;

/* Add one row, of `lines` lines from `line` on, to the piece's batch. It begins at `begin`, and its fields end at the marks `mark`
 * to `end`. */
void csv_rows_split(struct csv_piece *p, const struct csv_format *f, size_t begin,
                    const uint32_t *mark, const uint32_t *end, uint64_t line, uint32_t lines);

/* True for a line of blanks, or a comment, which is not a row. */
bool csv_is_no_row(const struct csv_format *f, const char *begin, const char *end);

/* True if a line that is left out, a header or a comment, could be a row: a field has a value of its column, and none has what no
 * row has. Unquotes the fields. mark: room for `bytes` + CSV_SCAN_PAD. */
bool csv_reads_like_row(const struct csv_format *f, const struct meaning_field *field,
                        uint32_t fields, const struct csv_grammar *g, char *text, size_t bytes,
                        uint32_t *mark);

/* The error of a row with a '\r' that is neither in quotes nor escaped: other programs end the row there. NULL: none.
 */
#define CSV_LONE_RETURN                                                                            \
    "it has a CR (\\r) without LF; if CR ends the file's lines, as on old Macs, convert it: tr "   \
    "'\\r' '\\n' < FILE > NEW"
const char *csv_lone_return(const struct csv_grammar *g, const char *text, size_t bytes);

/* Trim a field, and remove its quotes and escapes, in place. False: text follows its quotes. A text that is shorter
 * than the field ends with a byte that continues no number. */
bool csv_field_text(char **begin, char **end, const struct csv_grammar *g);

/* ---- libsvm_rows.c ---- */

/* Converts a piece of libsvm text, lines `label index:value index:value ... # comment`, to rows of cells: the label,
 * and a weighted value of the one keys column for each pair. The index is the key, unchanged. As in scikit-learn's
 * load_svmlight_file, indices must ascend within a line, and qid:N after the label is ignored. */

/* Columns of the batch. */
enum { LIBSVM_LABEL, LIBSVM_PAIRS };

/* As csv_rows; the text ends with a newline. */
enum err libsvm_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* Begin the piece's batch. Errors: ERR_NOMEM. */
enum err libsvm_begin(struct csv_piece *p, const struct csv_format *f) MUST_CHECK;
/* Add one row: a line, up to a newline at `stop`. A line of blanks or a comment is no row. */
bool libsvm_is_no_row(const char *line, const char *stop);
void libsvm_row(struct csv_piece *p, const struct csv_format *f, const char *line, const char *stop,
                uint64_t number);
/* Add a row without a label: its pairs alone, up to a newline. */
void libsvm_pairs(struct csv_piece *p, const struct csv_format *f, const char *text);

/* ---- parquet_rows.c ---- */

/* As csv_rows, of p->parquet. */
enum err parquet_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* A row's place as the number of a line, which no text has. Both count from 0, as in pyarrow. */
enum { PARQUET_ROW_BITS = 40 };
static inline uint64_t parquet_line(uint32_t group, uint64_t row)
{
    return (group + UINT64_C(1)) << PARQUET_ROW_BITS | row;
}
