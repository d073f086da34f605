/* A shard's status message for the chief. */
#include "ps/core/shard_state.h"

void shard_status_ids(struct shard *s, const struct ids *resolved)
{
    s->told.status.mark = resolved->mark;
    s->told.status.window.data = s->told.window;
    s->told.status.window.len = ids_pack(resolved, s->told.window);
}

static void status_tables(struct shard *s)
{
    uint32_t tables = s->rows.on ? s->layout.rows->tables : 0;
    for (uint32_t i = 0; i < tables; i++) {
        const struct row_counts counts = row_tables_counts(&s->rows.tables, i);
        Gradwire__TableCounts *to = s->told.tables[i] = &s->told.table[i];
        gradwire__table_counts__init(to);
        to->name = s->layout.rows->table[i].name;
#define X(name) to->name = counts.name;
        ROW_COUNTS(X)
#undef X
    }
    s->told.status.n_table = tables;
    s->told.status.table = s->told.tables;
}

const Gradwire__ShardStatus *shard_status(struct shard *s)
{
    gradwire__shard_status__init(&s->told.status);
    s->told.status.shard = s->index;
    s->told.status.step = s->step;
    s->told.status.t = s->t;
    s->told.status.duplicates = s->duplicates;
    s->told.status.clipped = s->clipped;
    s->told.status.dropped = s->dropped;
    s->told.status.rows = s->rows.on ? row_tables_rows(&s->rows.tables) : 0;
    s->told.status.row_bytes = s->rows.on ? row_tables_bytes(&s->rows.tables) : 0;
    status_tables(s);
    s->told.status.squeezed = s->rows.on ? s->rows.tables.budget.squeezed : 0;
    s->told.push = msg_codec_cost(&s->codec.push_cost);
    s->told.reply = msg_codec_cost(&s->reply.cost);
    s->told.status.push = &s->told.push;
    s->told.status.reply = &s->told.reply;
    shard_epochs_say(s, &s->told.epochs);
    s->told.status.epochs = s->told.epochs.epochs;
    s->told.status.n_epochs = s->told.epochs.n;
    if (s->mode && s->mode->status)
        s->mode->status(s, &s->told.status);
    return &s->told.status;
}
