#include "predict/columns.h"

#include "common/base/mem.h"
#include "data/csv_header.h"

static bool is_value(enum column_kind kind)
{
    return kind == COLUMN_NUMBER || kind == COLUMN_CATEGORY || kind == COLUMN_KEY ||
           kind == COLUMN_KEYS;
}

enum err columns_init(struct columns *out, const struct folder *f, struct errmsg *e)
{
    const struct job_csv *csv = &f->job.data.csv;
    struct columns c = {0};
    uint32_t keys = 0;
    if (f->schema && !(c.of = mem_zalloc(csv->columns, sizeof *c.of)))
        return err_set(e, ERR_NOMEM, "no memory for the columns");
    for (uint32_t i = 0; f->schema && i < csv->columns; i++)
        if (is_value(csv->column[i].kind))
            c.of[c.values++] = csv_field_of(csv, i);
    for (uint32_t i = 0; f->schema && i < csv->columns; i++) {
        if (csv->column[i].kind == COLUMN_CROSS)
            c.of[c.values + c.crosses++] =
                (struct csv_field){.kind = COLUMN_CROSS, .cell = keys, .column = i};
        keys += job_column_has_keys(&csv->column[i]);
    }
    *out = c;
    return ERR_OK;
}

void columns_close(struct columns *c)
{
    mem_free(c->of);
    *c = (struct columns){0};
}
