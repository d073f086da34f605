#include "model_cli/npy_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint32_t rank,
                     const uint32_t *dim)
{
    enum { PREFIX_BYTES = 10, ROOM = NPY_HEADER_BYTES - PREFIX_BYTES };
    static const char prefix[PREFIX_BYTES] = {(char)0x93, 'N', 'U', 'M',        'P',
                                              'Y',        1,   0,   (char)ROOM, 0};
    char room[ROOM + 1], others[NPY_RANK_MAX * 12 + 1] = "";
    size_t at = 0;
    assert(rank <= NPY_RANK_MAX);
    for (uint32_t i = 0; i < rank; i++)
        at +=
            (size_t)snprintf(others + at, sizeof others - at, "%s%" PRIu32, i ? ", " : " ", dim[i]);
    int n = snprintf(room, sizeof room,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }", descr,
                     rows, others);
    assert(n > 0 && n < ROOM);
    memset(room + n, ' ', (size_t)(ROOM - n));
    room[ROOM - 1] = '\n';
    text_add(t, prefix, sizeof prefix);
    text_add(t, room, ROOM);
}
