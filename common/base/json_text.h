/* JSON strings from text that may not be UTF-8. */
#ifndef GRADWIRE_COMMON_BASE_JSON_TEXT_H
#define GRADWIRE_COMMON_BASE_JSON_TEXT_H

#include <jansson.h>

enum { JSON_TEXT_BYTES = 1024 };

/* Returns `text` as a JSON string, a new reference; null for NULL. Text from a peer, or text cut inside a
 * character, may not be UTF-8: then each byte above 127 becomes "?", and at most JSON_TEXT_BYTES - 1 bytes are
 * kept. Returns NULL if memory runs out. */
json_t *json_text(const char *text);

#endif
