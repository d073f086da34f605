/* A text of somebody else as JSON. */
#ifndef GRADWIRE_COMMON_BASE_JSON_TEXT_H
#define GRADWIRE_COMMON_BASE_JSON_TEXT_H

#include <jansson.h>

enum { JSON_TEXT_BYTES = 1024 };

/* JSON takes UTF-8 alone. If `text` is not UTF-8 (a peer's, or one that was cut within a character), each byte above 127
 * becomes "?", and at most JSON_TEXT_BYTES - 1 bytes stay. NULL becomes null. Returns NULL: no memory. */
json_t *json_text(const char *text);

#endif
