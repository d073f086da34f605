#include "model/npy_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint64_t columns)
{
    enum { PREFIX_BYTES = 10, ROOM = NPY_HEADER_BYTES - PREFIX_BYTES };
    static const char prefix[PREFIX_BYTES] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, ROOM, 0};
    char room[ROOM + 1], second[32] = "";
    if (columns)
        (void)snprintf(second, sizeof second, " %" PRIu64, columns);
    int n = snprintf(room, sizeof room,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",%s), }", descr,
                     rows, second);
    assert(n > 0 && n < ROOM);
    memset(room + n, ' ', (size_t)(ROOM - n));
    room[ROOM - 1] = '\n';
    text_add(t, prefix, sizeof prefix);
    text_add(t, room, ROOM);
}
