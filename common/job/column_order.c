#include "common/job/column_order.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/base/printable.h"
#include "common/job/job.h"

struct name {
    const char *text; /* not terminated */
    size_t bytes;
};

/* Parses "data.columns[3].number.name = age", or the same for a category. */
static bool takes_name(const char *line, size_t bytes, struct name *out)
{
    static const char begin[] = "data.columns[";
    static const char *const kinds[] = {"].number.name = ", "].category.name = "};
    if (bytes < sizeof begin || memcmp(line, begin, sizeof begin - 1) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *at = memmem(line, bytes, kinds[i], strlen(kinds[i]));
        if (!at)
            continue;
        out->text = at + strlen(kinds[i]);
        out->bytes = (size_t)(line + bytes - out->text);
        return true;
    }
    return false;
}

/* Finds the next input column from *at on; returns false if none is left. */
static bool next(const char **at, struct name *out)
{
    bool found = false;
    while (!found && **at) {
        size_t n = job_identity_line_bytes(*at);
        found = takes_name(*at, n, out);
        *at += n + ((*at)[n] == '\n');
    }
    return found;
}

/* Returns the position, from 1; 0 if no column has this name. */
static unsigned place_of(const char *text, const struct name *name)
{
    struct name one;
    for (unsigned place = 1; next(&text, &one); place++)
        if (one.bytes == name->bytes && memcmp(one.text, name->text, one.bytes) == 0)
            return place;
    return 0;
}

enum err column_order_compare(const char *was, const char *is, struct errmsg *e)
{
    struct name name;
    char shown[PRINTABLE_NAME_BYTES];
    for (unsigned place = 1; next(&was, &name); place++) {
        /* a column without a name can only be identified by its position */
        unsigned now = name.bytes ? place_of(is, &name) : 0;
        if (now && now != place)
            return err_set(e, ERR_INPUT,
                           "column %s was input column %u, is now input column %u, and would get "
                           "another column's weights; restore the order of the columns",
                           printable_name(shown, name.text, name.bytes), place, now);
    }
    return ERR_OK;
}
