#include "worker/chief/core/journal.h"

#include "common/base/mem.h"

void journal_close(struct journal *j)
{
    mem_free(j->entry);
    *j = (struct journal){0};
}

enum err journal_add(struct journal *j, const struct journal_entry *entry)
{
    if (j->n == j->room) {
        size_t room = j->room ? 2 * j->room : 16;
        struct journal_entry *grown = mem_resize(j->entry, room, sizeof *grown);
        if (!grown)
            return ERR_NOMEM;
        j->entry = grown;
        j->room = room;
    }
    j->entry[j->n++] = *entry;
    return ERR_OK;
}

enum err journal_join(struct journal *to, const struct journal *from)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < from->n && !err; i++)
        err = journal_add(to, &from->entry[i]);
    return err;
}

/* ---- counts ---- */

static bool has_before(const struct journal *j, uint64_t batch, size_t end)
{
    for (size_t i = 0; i < end; i++)
        if (j->entry[i].batch == batch)
            return true;
    return false;
}

bool journal_has(const struct journal *j, uint64_t batch)
{
    return has_before(j, batch, j->n);
}

bool journal_skips(const struct journal *j, uint64_t batch)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->entry[i].kind == JOURNAL_RECOVERED && j->entry[i].batch == batch)
            return true;
    return false;
}

uint64_t journal_rejected(const struct journal *j)
{
    uint64_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += !has_before(j, j->entry[i].batch, i);
    return n;
}

uint32_t journal_recoveries(const struct journal *j, uint64_t cut)
{
    uint32_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += j->entry[i].kind == JOURNAL_RECOVERED && j->entry[i].cut == cut;
    return n;
}

uint32_t journal_all_recoveries(const struct journal *j)
{
    uint32_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += j->entry[i].kind == JOURNAL_RECOVERED;
    return n;
}

uint32_t journal_row(const struct journal *j, uint64_t batch)
{
    uint32_t n = 0;
    while (n < batch && journal_has(j, batch - 1 - n))
        n++;
    return n;
}
