/* Converts a piece of csv text to rows of cells (table.h). The result for a piece depends on its text alone. */
#ifndef GRADWIRE_DATA_CSV_ROWS_H
#define GRADWIRE_DATA_CSV_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"
#include "data/table.h"
#include "data/text/csv_scan.h"

enum {
    CSV_SHOWN_BYTES = 48,                              /* of a text in a message */
    CSV_PIECE_BYTES = 512 << 10,                       /* also the most bytes that a row can have */
    CSV_TEXT_ROOM = CSV_PIECE_BYTES + 1 + CSV_SCAN_PAD /* the text of a piece, and an added '\n' */
};

/* The meaning of a field of the file; determined once per file. */
struct csv_field {
    enum column_kind kind;
    uint32_t cell;   /* index in a row; for key and keys: index of the schema's key */
    uint32_t column; /* index of the job's column */
    uint32_t kept;   /* its text is kept: number in struct csv_keep + 1; 0: it is not */
};

/* Columns whose text is kept for each row, whatever else is read of them. */
struct csv_keep {
    const char *const *
        name; /* (columns) of the header or the job; or column_N, counted from 1, if no field has that name */
    const uint32_t *of; /* (columns) in place of the names: indices of the job's columns; or NULL */
    uint32_t columns;
};

struct csv_text {
    const char *at;
    uint32_t bytes;
};

/* Lines that a text seldom has, and then likely by mistake: a warning names the first. */
enum csv_odd {
    CSV_ODD_NUL,
    CSV_ODD_MARK,    /* a byte order mark begins the line, which is not the first */
    CSV_ODD_HEADER,  /* the line is the header again */
    CSV_ODD_COMMENT, /* the line is a comment that could be a row */
    CSV_ODDS
};

/* A marker of a missing value that is a number. A field with the same number in another spelling is not missing. */
struct csv_marker {
    double value;
    uint32_t number; /* in the format's `missing` */
};

/* The first field of a column that has the number of a marker, and is spelled otherwise. */
struct csv_spelling {
    uint64_t line; /* 0: none */
    uint32_t marker;
    char shown[CSV_SHOWN_BYTES];
};

/* The separators in the fields of a `keys` column, of a sample. */
#define CSV_SEPARATORS ",;|\t " /* those that are usual, the likely ones first */
struct csv_divided {
    bool is;                                   /* by the column's separator: of all fields */
    uint64_t fields;                           /* that are not missing */
    uint64_t others;                           /* of these, by a usual one */
    uint64_t other[sizeof CSV_SEPARATORS - 1]; /* by this one; a field can have several */
    uint64_t gaps, before,
        after; /* separators between two values, and those with a blank on this side */
};

struct csv_row; /* csv_row.h */

/* How rows are read: the same for all pieces of a load. */
struct csv_format {
    const struct job_csv *job;
    const struct table_schema *schema;
    struct csv_grammar grammar;
    bool libsvm;                 /* the text is libsvm, not csv */
    bool signs;                  /* libsvm: the label -1 means class 0 */
    bool unlabeled;              /* labels and weights are not read, and can be absent */
    const struct csv_keep *keep; /* NULL: no text is kept */
    bool learning;               /* categories without a given vocabulary learn their words */
    uint32_t classes;            /* labels must be below it; 0: any number */
    bool whole;                  /* labels are whole numbers, however many classes there are */
    struct vocabulary names;     /* names of classes; empty: labels are numbers */
    uint32_t *class_of;          /* (names.count) */
    uint32_t others;             /* the class of all other names; VOCABULARY_NONE: none */
    struct vocabulary missing;   /* markers of a missing value */
    uint64_t missing_lengths;    /* bit n: a marker has n bytes; bit 63: a marker has 63 or more */
    struct csv_marker *marker;   /* (markers) of `missing`, those that are numbers */
    uint32_t markers;
};

/* Errors: ERR_INPUT: classes that the model does not have; ERR_NOMEM. Owns: csv_format_close. */
enum err csv_format_init(struct csv_format *f, const struct job_csv *job,
                         const struct table_schema *schema, bool learning, uint32_t classes,
                         struct errmsg *e) MUST_CHECK;
void csv_format_close(struct csv_format *f);

struct rounding;

/* A number that is a float from the start. A column with a scale that an older release has encoded keeps that encoding. */
static inline bool csv_is_rounded(const struct schema_input *in)
{
    return in->kind == COLUMN_NUMBER && !in->ids && in->scale == SCALE_NONE &&
           in->bucketing == BUCKETS_NONE;
}

/* One piece: whole rows of text, and the rows of cells made from them. */
struct csv_piece {
    char *text; /* `bytes`, and CSV_SCAN_PAD more after them; fields are unquoted in place */
    size_t bytes;
    uint64_t line;    /* line number of its first row in the file, from 1 */
    bool begins_file; /* no row of the file comes before it */
    const struct csv_field *field;
    uint32_t fields;
    struct csv_text header;     /* of the file, if it has one; 0 bytes: none */
    struct csv_grammar grammar; /* the format's, without what does not occur in the text */
    bool lone_cr;               /* a '\r' occurs that no '\n' follows */

    uint32_t *mark;  /* room for bytes + CSV_SCAN_PAD */
    size_t marks;    /* that csv_scan has found in the text; 0: it has not scanned it */
    uint32_t *cells; /* packed rows, one behind the other, and room for the next one */
    size_t used, cell_room;
    struct csv_text *kept; /* (rows, keep->columns) in the text; NULL: none is kept */
    uint64_t rows, kept_room;
    bool *known;     /* (inputs) a row has a number of it, or a word that is given */
    uint32_t *added; /* (inputs) for the present row: categories that learned a word */
    /* (inputs) while learning: the words of each category in this piece; a cell of n + 1 is word n of it */
    struct vocabulary *words;
    struct csv_spelling
        *spelled; /* (inputs + 2) also of the label and the weight; NULL: not wanted */
    struct csv_divided *divided; /* (the schema's keys); NULL: not wanted */
    struct rounding **rounding;  /* (inputs + 1) a sample of their numbers; NULL: not wanted */
    uint32_t rounded;            /* of the inputs, those below it are noted */
    uint64_t bad, bad_lines;     /* bad_lines: their lines; a field in quotes can have many */
    uint64_t first_bad_line;
    struct errmsg first_bad;
    uint64_t odd_line[CSV_ODDS]; /* the first; 0: none */
    /* libsvm, with signs: the lines of the first labels 0 and -1; 0: none */
    uint64_t zero_line, minus_line;
};

/* Find what of the grammar occurs in the text. */
void csv_piece_look(struct csv_piece *p, const struct csv_format *f);

/* Read the rows. Bad rows are counted, and the first is described; with data.bad_rows: stop reading ends there.
 * Errors: ERR_NOMEM; ERR_INPUT: too many words, or quotes that are never closed: the message begins with the line.
 * Thread: any. */
enum err csv_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* The error of a text that begins a row, at `line`, and whose end is not the row's. Writes no path. Returns ERR_INPUT. */
enum err csv_refuse_open(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_grammar *g) MUST_CHECK;

/* The error of a text that begins a row, at `line`, of more than CSV_PIECE_BYTES. The same. */
enum err csv_refuse_long(struct errmsg *e, const char *text, size_t bytes, uint64_t line,
                         const struct csv_grammar *g) MUST_CHECK;

/* Read the fields of one row of the piece into the row's cells. It begins at `begin`, and its fields end at the marks
 * `mark` to `end`. Crosses are not made. */
void csv_rows_fields(struct csv_row *r, size_t begin, const uint32_t *mark, const uint32_t *end);

/* True for a line of blanks, or a comment, which is not a row. */
bool csv_is_no_row(const struct csv_format *f, const char *begin, const char *end);

/* The bytes of a row without the '\r' of its line end. */
size_t csv_without_return(const struct csv_grammar *g, const char *text, size_t bytes);
/* The error of a row with a '\r' that is neither in quotes nor escaped: other programs end the row there. NULL: none.
 */
#define CSV_LONE_RETURN                                                                            \
    "it has a CR (\\r) without LF; if CR ends the file's lines, as on old Macs, convert it: tr "   \
    "'\\r' '\\n' < FILE > NEW"
const char *csv_lone_return(const struct csv_grammar *g, const char *text, size_t bytes);

/* Trim a field, and remove its quotes and escapes, in place. False: text follows its quotes. A text that is shorter
 * than the field ends with a byte that continues no number. */
bool csv_field_text(char **begin, char **end, const struct csv_grammar *g);

#endif
