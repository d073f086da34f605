/* Converts a piece of libsvm text, lines `label index:value index:value ... # comment`, to rows of cells: the label,
 * and a weighted value of the one keys column for each pair. The index is the key, unchanged. As in scikit-learn's
 * load_svmlight_file, indices must ascend within a line, and qid:N after the label is ignored. */
#ifndef GRADWIRE_DATA_LIBSVM_ROWS_H
#define GRADWIRE_DATA_LIBSVM_ROWS_H

#include "data/csv_row.h"

/* As csv_rows; the text ends with a newline. */
enum err libsvm_rows(struct csv_piece *p, const struct csv_format *f, struct errmsg *e) MUST_CHECK;

/* One row: a line, up to a newline at `stop`. A line of blanks or a comment is no row. */
bool libsvm_is_no_row(const char *line, const char *stop);
void libsvm_row(struct csv_row *r, const char *line, const char *stop);

/* The pairs of one row, the text after its label, up to a newline: the cells of the row's keys column. */
void libsvm_pairs(struct csv_row *r, const char *text);

#endif
