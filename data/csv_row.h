/* One row of text, csv or libsvm, on its way to the cells of a table: room for the cells, the label, and the errors. */
#ifndef GRADWIRE_DATA_CSV_ROW_H
#define GRADWIRE_DATA_CSV_ROW_H

#include "common/rows/key.h"
#include "data/csv_rows.h"

struct csv_row {
    struct csv_piece *piece;
    const struct csv_format *format;
    uint64_t line;
    uint32_t *cells;
    uint32_t field;   /* that is being read; messages name it if it is bad; CSV_NO_FIELD: none */
    uint32_t wrong;   /* of a bad row: the field at fault; CSV_NO_FIELD: the row itself is */
    uint32_t added;   /* number of categories that learned a word from this row */
    enum csv_odd odd; /* of its line, if there is a hint */
    const char *hint; /* of its line as a whole, in place of others; NULL: none */
    bool bad;
    enum err failed; /* an error that is not the row's fault */
};
#define CSV_NO_FIELD UINT32_MAX

/* Note that its line, [text, bytes), begins with a byte order mark, or is the header again, in r->hint. */
void csv_row_look(struct csv_row *r, const char *text, size_t bytes);
/* Make room for the row's cells in the piece; no field is being read. Errors: ERR_NOMEM. */
enum err csv_row_begin(struct csv_row *r) MUST_CHECK;
/* The row is read. A bad row keeps its position, without a label, and the words that it taught are removed. */
void csv_row_end(struct csv_row *r);

/* The row is bad. The first bad row of a piece is described: `column "age": ...`, or without a name `column 3: ...`. */
void PRINTF_LIKE(2, 3) csv_row_bad(struct csv_row *r, const char *fmt, ...);
/* A hint for a row with more fields than the job has columns: the header could name the wanted ones. NULL: no hint. */
const char *csv_row_names_hint(const struct csv_row *r, const char *line, size_t bytes);
/* A hint for a field that does not fit its column: the key that fixes it, if the text shows which; otherwise
 * `usual`. `known`: the words that are allowed; NULL: any word without blanks. */
const char *csv_row_hint(const struct csv_row *r, const char *text, size_t bytes,
                         const struct vocabulary *known, const char *usual);
/* The beginning of a text for such messages. Returns out. */
const char *csv_row_shown(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes);

/* True if the text is a marker of a missing value. */
static inline bool csv_is_missing(const struct csv_format *f, const char *text, size_t bytes)
{
    return f->missing_lengths >> (bytes < 63 ? bytes : 63) & 1 &&
           vocabulary_find(&f->missing, text, bytes) != VOCABULARY_NONE;
}
/* Store the row's label, a number or the name of a class, in cell `cell`. */
void csv_row_label(struct csv_row *r, uint32_t cell, const char *text, size_t bytes);
/* Store a key, mixed: lookups, sorting and messages all use mixed keys. cells: (SCHEMA_KEY_CELLS). */
static inline void csv_put_key(uint32_t *cells, uint64_t key)
{
    uint64_t mixed = key_mix(key);
    cells[0] = (uint32_t)mixed;
    cells[1] = (uint32_t)(mixed >> 32);
}

#endif
