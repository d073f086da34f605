#include "worker/warm_start/block_map.h"

#include <assert.h>

#include "common/base/mem.h"

static enum err add_run(struct block_map *map, uint64_t at, uint64_t n, uint64_t from)
{
    struct block_run *grown = mem_resize(map->run, (size_t)map->runs + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    map->run = grown;
    map->run[map->runs++] = (struct block_run){at, n, from};
    return ERR_OK;
}

/* Consecutive rows of one kind make one run. *from: position of the next old row. */
static enum err add_tensor(struct block_map *map, const struct tensor *t, const uint8_t *fresh,
                           uint64_t *from)
{
    uint64_t rows = fresh ? t->shape[0] : 1, width = t->elems / rows;
    enum err err = ERR_OK;
    for (uint64_t row = 0, end; row < rows && !err; row = end) {
        bool is_new = fresh && fresh[row];
        for (end = row + 1; end < rows && (fresh[end] != 0) == is_new;)
            end++;
        uint64_t n = (end - row) * width;
        err = add_run(map, t->offset_elems + row * width, n, is_new ? BLOCK_MAP_NEW : *from);
        *from += is_new ? 0 : n;
    }
    return err;
}

enum err block_map_init(struct block_map *map, const struct layout *l, uint8_t *const *fresh,
                        struct errmsg *e)
{
    *map = (struct block_map){.runs = 0};
    for (uint32_t i = 0; i < l->tensors; i++) {
        if (add_tensor(map, &l->tensor[i], fresh ? fresh[i] : NULL, &map->old_elems))
            return err_memory_for(e, "the positions of new words");
        map->old_elems =
            (map->old_elems + LAYOUT_ALIGN_ELEMS - 1) / LAYOUT_ALIGN_ELEMS * LAYOUT_ALIGN_ELEMS;
    }
    assert(map->old_elems <= l->elems);
    return ERR_OK;
}

void block_map_close(struct block_map *map)
{
    mem_free(map->run);
    *map = (struct block_map){.runs = 0};
}
