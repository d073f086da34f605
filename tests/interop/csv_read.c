/* The values that the reader of csv finds in files: `interop_csv_read` reads the paths of jobs from standard input, one a line, and
 * writes for each a line of JSON: {"rows": [[WORD, .., LABEL], ..]}, with the words of the categories by the order of the
 * job as hex, numbers as features or, in buckets, as the bucket from 1, and null for a bad row; with numbers also
 * "encoding", the text of encoding.json; or {"error": TEXT}. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/math/kernels.h"
#include "data/dataset.h"
#include "export/export.h"

static json_t *word_at(const struct schema_input *in, uint32_t cell)
{
    static const char digits[] = "0123456789abcdef";
    size_t bytes;
    const char *text = vocabulary_text(&in->words, cell - 1, &bytes);
    char *hex = malloc(2 * bytes + 1);
    if (!hex)
        exit(1);
    for (size_t i = 0; i < bytes; i++) {
        hex[2 * i] = digits[(unsigned char)text[i] >> 4];
        hex[2 * i + 1] = digits[text[i] & 15];
    }
    json_t *out = json_stringn(hex, 2 * bytes);
    free(hex);
    return out;
}

static json_t *input_at(const struct schema_input *in, uint32_t cell)
{
    if (in->kind == COLUMN_CATEGORY)
        return word_at(in, cell);
    return schema_input_is_id(in) ? json_integer(cell) : json_real((double)schema_float(cell));
}

static json_t *row_at(const struct dataset *d, uint64_t row)
{
    static uint32_t buffer[TABLE_ROW_CELLS_MAX];
    const struct table_schema *s = d->table.schema;
    const uint32_t *cells;
    uint64_t n = 1;
    struct errmsg e;
    if (table_look(&d->table, row, &n, buffer, TABLE_ROW_CELLS_MAX, &cells, &e))
        exit(1);
    float label = schema_float(cells[s->inputs]);
    if (isnan(label))
        return json_null();
    json_t *out = json_array();
    for (uint32_t i = 0; i < s->inputs; i++)
        (void)json_array_append_new(out, input_at(&s->input[i], cells[i]));
    (void)json_array_append_new(out, json_real((double)label));
    return out;
}

static void put_encoding(json_t *out, const struct job *job, const struct table_schema *s)
{
    struct errmsg e;
    char *text;
    if (s->inputs == 0 || s->input[0].kind != COLUMN_NUMBER)
        return;
    if (export_encoding_text(job, s, &text, &e) ||
        json_object_set_new(out, "encoding", json_string(text)))
        exit(1);
    free(text);
}

static json_t *read_job(const char *path)
{
    struct job job;
    struct errmsg e;
    struct dataset d;
    enum err err = job_load(&job, path, NULL, 0, &e);
    if (err)
        return json_pack("{s:s}", "job", e.text);
    err = dataset_load(&d, &job, 0, 0, &e);
    json_t *rows = json_array(), *out;
    for (uint64_t i = 0; !err && i < d.rows; i++)
        (void)json_array_append_new(rows, row_at(&d, i));
    for (char *p = e.text; err && *p; p++) /* text of the file can be in any encoding */
        *p = (unsigned char)*p < 0x80 ? *p : '?';
    out = err ? json_pack("{s:s}", "error", e.text) : json_pack("{s:O}", "rows", rows);
    json_decref(rows);
    if (!err)
        put_encoding(out, &job, d.table.schema);
    if (!err)
        dataset_close(&d);
    job_close(&job);
    return out;
}

int main(void)
{
    char path[512];
    log_init("csv_read", LOG_ERROR);
    kernels_flush_denormals();
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = '\0';
        json_t *out = read_job(path);
        if (!out || json_dumpf(out, stdout, JSON_COMPACT) || putchar('\n') == EOF)
            return 1;
        json_decref(out);
    }
    return 0;
}
