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

void json_put(json_t *object, const char *key, json_t *take, bool *ok)
{
    *ok &= json_object_set_new(object, key, take) == 0;
}

void json_push(json_t *list, json_t *take, bool *ok)
{
    *ok &= json_array_append_new(list, take) == 0;
}

json_t *json_whole(json_t *take, bool ok)
{
    if (ok)
        return take;
    json_decref(take);
    return NULL;
}

double json_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

bool json_count_at(const json_t *object, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(object, key);
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}
