/* What the fields of a csv file are: by the order of the job's columns, or by the file's header. */
#ifndef GRADWIRE_WORKER_DATA_CSV_HEADER_H
#define GRADWIRE_WORKER_DATA_CSV_HEADER_H

#include "worker/data/csv_rows.h"

struct csv_file {
    const char *path;        /* a view */
    struct csv_field *field; /* (fields); NULL: not known yet */
    uint32_t fields;
};

/* `p` has the beginning of the file: find out what its fields are, and take the header, where there
 * is one, off the piece. Owns: csv_file_close. Errors: ERR_INPUT no header, a column that it does not
 * name, or twice; ERR_NOMEM. */
enum err csv_file_begin(struct csv_file *file, struct csv_piece *p, const struct csv_format *f,
                        struct errmsg *e) MUST_CHECK;
void csv_file_close(struct csv_file *file);

#endif
