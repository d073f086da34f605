/* A field of a row as cells of a table (table.h): from its text, or from a typed value. The field is number r->field of the
 * row; messages name it. A value that does not fit its column makes the row bad. */
#ifndef GRADWIRE_DATA_CSV_CELL_H
#define GRADWIRE_DATA_CSV_CELL_H

#include "data/csv_row.h"

/* The field's text, trimmed and without its quotes. For a number or a weight, text[bytes] must be readable, and must not
 * continue a number (csv_number). */
void csv_cell_text(struct csv_row *r, const char *text, size_t bytes);

/* The same for a value that is missing. */
void csv_cell_missing(struct csv_row *r);
/* number; NaN: missing */
void csv_cell_number(struct csv_row *r, double v);
/* key and keys: first no value, then one more with each call. A weight that is not 1 is for keys with weights only. */
void csv_cell_no_keys(struct csv_row *r);
void csv_cell_add_key(struct csv_row *r, uint64_t key, float weight);
void csv_cell_add_word(struct csv_row *r, const char *word, size_t bytes, float weight);

/* All fields are read: make the row's crosses. */
void csv_cell_crosses(struct csv_row *r);

/* Store the row's label, in cell `cell`: csv_row_label, and a number's digits are noted. */
void csv_cell_label(struct csv_row *r, uint32_t cell, const char *text, size_t bytes);

/* True if a line that is left out, a header or a comment, could be a row: a field has a value of its column, and none has what no
 * row has. Unquotes the fields. mark: room for `bytes` + CSV_SCAN_PAD. */
bool csv_cell_fit_row(const struct csv_format *f, const struct csv_field *field, uint32_t fields,
                      const struct csv_grammar *g, char *text, size_t bytes, uint32_t *mark);

#endif
