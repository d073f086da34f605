/* One digest for what was learned: the same for any sharding, and any number of workers. */
#include <string.h>

#include "common/rows/row_layout.h"
#include "export/export.h"

_Static_assert(ROW_TABLES_MAX <= 64, "a bit for each table");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats are hashed as they stand");

/* The table with the least name that is not included yet. */
static uint32_t next_table(const struct row_layout *l, uint64_t done)
{
    uint32_t least = ROW_TABLES_MAX;
    for (uint32_t i = 0; i < l->tables; i++)
        if (!(done >> i & 1) &&
            (least == ROW_TABLES_MAX || strcmp(l->table[i].name, l->table[least].name) < 0))
            least = i;
    return least;
}

static void digest_add_tables(struct sha256 *h, const struct row_layout *l,
                              const uint8_t (*table)[SHA256_BYTES])
{
    uint64_t done = 0;
    for (uint32_t n = 0; n < l->tables; n++) {
        uint32_t i = next_table(l, done);
        sha256_add(h, l->table[i].name, strlen(l->table[i].name));
        sha256_add(h, &l->table[i].dim, sizeof l->table[i].dim);
        sha256_add(h, table[i], SHA256_BYTES);
        done |= UINT64_C(1) << i;
    }
}

void export_digest(const struct layout *l, const float *w, const uint8_t (*table)[SHA256_BYTES],
                   char hex[65])
{
    struct sha256 *h = sha256_new();
    for (uint32_t i = 0; h && i < l->tensors; i++) {
        const struct tensor *t = &l->tensor[i];
        sha256_add(h, t->name, strlen(t->name));
        sha256_add(h, &t->rank, sizeof t->rank);
        sha256_add(h, t->shape, t->rank * sizeof *t->shape);
        sha256_add(h, w + t->offset_elems, t->elems * sizeof *w);
    }
    if (h && l->rows && table)
        digest_add_tables(h, l->rows, table);
    (void)sha256_hex(h, hex);
}
