/* Crosses of columns: the key columns of each cross. */
#include <string.h>

#include "common/base/texts.h"
#include "common/base/printable.h"
#include "job/read.h"

/* Returns the key column with this name; csv->columns if there is none. */
static uint32_t find_key(const struct job_csv *csv, const char *name, size_t bytes)
{
    uint32_t i = 0;
    while (i < csv->columns &&
           (csv->column[i].kind != COLUMN_KEY || strlen(csv->column[i].name) != bytes ||
            memcmp(csv->column[i].name, name, bytes) != 0))
        i++;
    return i;
}

uint32_t job_cross_columns(const struct job_csv *csv, const struct job_column *cross,
                           uint32_t of[JOB_CROSS_MAX])
{
    uint32_t n = 0;
    for (const char *at = cross->words, *next; at; at = next) {
        size_t bytes;
        next = texts_next(at, &bytes);
        uint32_t column = find_key(csv, at, bytes);
        if (n == JOB_CROSS_MAX || column == csv->columns)
            return 0;
        of[n++] = column;
    }
    return n < 2 ? 0 : n;
}

/* Reports why job_cross_columns returned 0. */
static enum err refuse_cross(struct job_reader *r, uint32_t cross)
{
    const struct job_csv *csv = &r->job->data.csv;
    const struct job_node *node = job_column_node(r, cross);
    char shown[PRINTABLE_NAME_BYTES];
    for (const char *at = csv->column[cross].words, *next; at; at = next) {
        size_t bytes;
        next = texts_next(at, &bytes);
        (void)printable_name(shown, at, bytes);
        if (find_key(csv, at, bytes) == csv->columns)
            return job_refuse(r, node, JOB_COLUMN_PREFIX,
                              "its of names %s, and there is no column - key: %s", shown, shown);
    }
    return job_refuse(r, node, JOB_COLUMN_PREFIX,
                      "its of must name 2 to %d key columns, like of: [C1, C2]", JOB_CROSS_MAX);
}

enum err job_check_crosses(struct job_reader *r)
{
    const struct job_csv *csv = &r->job->data.csv;
    uint32_t of[JOB_CROSS_MAX];
    for (uint32_t i = 0; i < csv->columns; i++)
        if (csv->column[i].kind == COLUMN_CROSS && job_cross_columns(csv, &csv->column[i], of) == 0)
            return refuse_cross(r, i);
    return ERR_OK;
}
