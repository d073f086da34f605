/* Exports the tables of a checkpoint: one pass over its rows feeds an export for each table; then their files are written, and
 * files of an earlier end of the job are removed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/texts.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "common/rows/key.h"
#include "export/export.h"
#include "export/table_export.h"

enum { SORT_BYTES = 256 << 20 };

struct exports {
    struct checkpoint_tables tables;
    struct table_export *of[ROW_TABLES_MAX];
};

static enum err check_tables(const struct checkpoint_tables *t, const struct row_layout *l,
                             uint64_t cut, struct errmsg *e)
{
    bool same = t->tables == l->tables;
    for (uint32_t i = 0; same && i < l->tables; i++)
        same =
            strcmp(t->table[i].name, l->table[i].name) == 0 && t->table[i].dim == l->table[i].dim;
    return same
               ? ERR_OK
               : err_set(e, ERR_STATE, "checkpoint %" PRIu64 " has other tables than the job", cut);
}

static enum err exports_add(void *ctx, const struct row_group *g, struct errmsg *e)
{
    struct exports *x = ctx;
    const struct checkpoint_table *t = &x->tables.table[g->table];
    const float *w = g->values;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < g->rows && !err; i++, w += t->dim + t->slots)
        err = table_export_add(x->of[g->table], key_unmix(g->mixed[i]), g->count[i], w, e);
    return err;
}

static bool exports_wrote(const struct exports *x, const char *file)
{
    bool found = false;
    for (uint32_t i = 0; i < x->tables.tables && !found; i++)
        found = table_export_wrote(x->of[i], x->tables.table[i].name, file);
    return found;
}

struct others {
    const struct exports *than;
    const struct place *model;
    enum err err;
    struct errmsg *e;
};

static enum err remove_other(void *ctx, const char *file)
{
    struct others *o = ctx;
    char object[PLACE_NAME_MAX];
    (void)snprintf(object, sizeof object, "tables/%s", file);
    if (text_ends(file, ".safetensors") && !o->err && !exports_wrote(o->than, file))
        o->err = place_remove(o->model, object, o->e);
    return ERR_OK;
}

/* The files of an earlier end of the job are removed, when a table had another number of files: a reader would take them
 * for parts of this one. */
static enum err exports_write(struct exports *x, const struct place *model, struct errmsg *e)
{
    struct others others = {.than = x, .model = model, .e = e};
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < x->tables.tables && !err; i++)
        err = table_export_write(x->of[i], model, x->tables.table[i].name, TABLE_EXPORT_FILE_BYTES,
                                 e);
    if (!err)
        err = place_list(model, "tables", remove_other, &others, e);
    return err ? err : others.err;
}

static enum err export_rows(const struct cut_tables *t, const struct manifest *m, struct exports *x,
                            struct spill *spill, struct errmsg *e)
{
    size_t memory = (t->memory_bytes ? t->memory_bytes : SORT_BYTES) / x->tables.tables;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < x->tables.tables && !err; i++)
        err = table_export_new(&x->of[i], x->tables.table[i].dim, x->tables.rows[i], memory, spill,
                               e);
    if (!err)
        err = checkpoint_read_rows(t->checkpoints, m, (struct bucket_range){0, ROW_BUCKETS},
                                   &(struct row_sink){.rows = exports_add, .ctx = x}, e);
    if (!err)
        err = exports_write(x, t->to, e);
    for (uint32_t i = 0; i < x->tables.tables; i++)
        table_export_free(x->of[i]);
    return err;
}

/* The digest of the dense part, as model/ has it, and of the tables. It is also written into the dense part's file. */
static enum err write_digest(const struct cut_tables *t, const struct checkpoint_tables *tables,
                             char digest[65], struct errmsg *e)
{
    struct export_note note = {.key = "digest"};
    float *w = mem_floats(t->layout->elems);
    if (!w)
        return err_memory_for(e, "the parameters");
    enum err err = export_read_safetensors(t->to, t->layout, w, e);
    if (!err)
        export_digest(t->layout, w, (const uint8_t(*)[SHA256_BYTES])tables->digest, digest);
    (void)snprintf(note.value, sizeof note.value, "%s", err ? "" : digest);
    if (!err)
        err = export_add_note(t->to, t->layout, w, &note, e);
    mem_free(w);
    return err;
}

enum err cut_tables_export(const struct cut_tables *t, const struct manifest *cut, char *digest,
                           struct errmsg *e)
{
    struct exports x = {.of = {NULL}};
    struct spill *spill;
    enum err err = checkpoint_read_tables(t->checkpoints, cut, &x.tables, e);
    if (!err)
        err = check_tables(&x.tables, t->layout->rows, cut->cut, e);
    if (!err && digest)
        err = write_digest(t, &x.tables, digest, e);
    if (!err)
        err = spill_new(&spill, t->job, e);
    if (err)
        return err;
    err = export_rows(t, cut, &x, spill, e);
    spill_unref(spill);
    return err;
}
