#include "formats/graph/table_rows.h"

bool table_rows_read(struct build *b, const struct row_table_spec *t, struct table_rows *out)
{
    (void)b, (void)t, (void)out;
    return false;
}
