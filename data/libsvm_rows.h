/* Converts a piece of libsvm text, lines `label index:value index:value ... # comment`, to rows of cells: the label,
 * and a weighted value of the one keys column for each pair. The index is the key, unchanged. As in scikit-learn's
 * load_svmlight_file, indices must ascend within a line, and qid:N after the label is ignored. */
#ifndef GRADWIRE_DATA_LIBSVM_ROWS_H
#define GRADWIRE_DATA_LIBSVM_ROWS_H

#include "data/csv_rows.h"

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

#endif
