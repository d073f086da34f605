#include "common/base/json_text.h"

#include <stdio.h>

json_t *json_text(const char *text)
{
    char plain[JSON_TEXT_BYTES];
    json_t *whole = text ? json_string(text) : json_null();
    if (whole)
        return whole;
    (void)snprintf(plain, sizeof plain, "%s", text);
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c > 127)
            *c = '?';
    return json_string(plain);
}
