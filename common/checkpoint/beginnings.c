#include "common/checkpoint/beginnings.h"

#include <string.h>

#include "common/base/mem.h"

enum { DAY_S = 24 * 60 * 60 };

void beginnings_close(struct beginnings *b)
{
    mem_free(b->date);
    mem_free(b->clock);
    *b = (struct beginnings){.runs = 0};
}

static enum err make(struct beginnings *b, uint32_t room)
{
    *b = (struct beginnings){.date = mem_zalloc(room + 1, sizeof *b->date),
                             .clock = mem_zalloc(room + 1, sizeof *b->clock)};
    if (b->date && b->clock)
        return ERR_OK;
    beginnings_close(b);
    return ERR_NOMEM;
}

static void put(struct beginnings *b, uint64_t date, uint64_t clock)
{
    b->date[b->runs] = date;
    b->clock[b->runs++] = clock;
}

enum err beginnings_copy(struct beginnings *to, uint32_t runs, const uint64_t *date,
                         const uint64_t *clock)
{
    struct beginnings b;
    enum err err = make(&b, runs);
    for (uint32_t i = 0; i < runs && !err; i++)
        put(&b, date[i], clock[i]);
    if (!err)
        *to = b;
    return err;
}

enum err beginnings_after(struct beginnings *to, const struct beginnings *from, uint64_t date,
                          uint64_t clock)
{
    struct beginnings b;
    uint32_t step = from->runs < BEGINNINGS_MAX ? 1 : 2;
    enum err err = make(&b, from->runs / step + 2);
    for (uint32_t i = 0; i < from->runs && !err; i += step)
        put(&b, from->date[i], from->clock[i]);
    if (err)
        return err;
    put(&b, date, clock);
    *to = b;
    return ERR_OK;
}

uint32_t beginnings_find(const struct beginnings *b, uint64_t now, uint32_t days)
{
    uint64_t span = (uint64_t)days * DAY_S;
    for (uint32_t i = b->runs; i-- > 0;)
        if (now >= span && b->date[i] <= now - span)
            return i;
    return b->runs;
}
