/* One row of text, csv or libsvm, on its way to the cells of a table: room for it, its label, and what is wrong with it. */
#ifndef GRADWIRE_WORKER_DATA_CSV_ROW_H
#define GRADWIRE_WORKER_DATA_CSV_ROW_H

#include "common/rows/key.h"
#include "worker/data/csv_rows.h"

struct csv_row {
    struct csv_piece *piece;
    const struct csv_format *format;
    uint64_t line;
    uint32_t *cells;
    uint32_t field; /* being read; it is named if it is bad */
    uint32_t added; /* categories that learned a word from it */
    bool bad;
    enum err failed; /* not the row's fault */
};
enum { CSV_SHOWN_BYTES = 48 };

/* Room for its cells in the piece; no field is being read. Errors: ERR_NOMEM. */
enum err csv_row_begin(struct csv_row *r) MUST_CHECK;
/* It is read. A bad row keeps its place, without a label, and has taught no words. */
void csv_row_end(struct csv_row *r);

/* The row is bad; the first bad one of a piece is described: `column "age": ...`, or without a name `column 3: ...`. */
void PRINTF_LIKE(2, 3) csv_row_bad(struct csv_row *r, const char *fmt, ...);
/* The row has more fields than there are columns: the header may name those that are wanted. NULL: there is none. */
const char *csv_row_names_hint(const struct csv_row *r, const char *line, size_t bytes);
/* A field is not what its column says: the key that mends it, as far as the text shows it; otherwise `usual`. `known`: words
 * that it is to be one of; NULL: any without blanks. */
const char *csv_row_hint(const struct csv_row *r, const char *text, size_t bytes,
                         const struct vocabulary *known, const char *usual);
/* The beginning of a text, for that: returns out. */
const char *csv_row_shown(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes);

/* A marker of a missing value. */
static inline bool csv_is_missing(const struct csv_format *f, const char *text, size_t bytes)
{
    return f->missing_lengths >> (bytes < 63 ? bytes : 63) & 1 &&
           vocabulary_find(&f->missing, text, bytes) != VOCABULARY_NONE;
}
/* Its label, a number or the name of a class. */
void csv_row_label(struct csv_row *r, uint32_t cell, const char *text, size_t bytes);
/* Mixed: what is looked up, sorted and sent are mixed keys. cells: (TABLE_KEY_CELLS). */
static inline void csv_put_key(uint32_t *cells, uint64_t key)
{
    uint64_t mixed = key_mix(key);
    cells[0] = (uint32_t)mixed;
    cells[1] = (uint32_t)(mixed >> 32);
}

#endif
