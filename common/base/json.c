#include "common/base/json.h"

#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"

json_t *json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *json_text(const char *text)
{
    if (!text)
        return json_null();
    char *shown = mem_strdup(text);
    if (!shown)
        return NULL;
    json_t *made = json_string(printable_text(shown, strlen(shown) + 1, text));
    mem_free(shown);
    return made;
}
