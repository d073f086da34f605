/* JSON of values that it has no words for: numbers that are not finite, and text of any bytes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Both return a new reference, or NULL if memory runs out. */

/* The number, or null if x is not finite. */
json_t *json_number(double x);

/* `text` of a file, a name or a peer as a string, made printable (printable.h); null for NULL. It is for people: text that a
 * program must find again byte by byte is written otherwise (export/encoding.c). */
json_t *json_text(const char *text);

/* Add to an object, or to a list. On failure, also of what made `take`, *ok becomes false. */
void json_put(json_t *object, const char *key, json_t *take, bool *ok);
void json_push(json_t *list, json_t *take, bool *ok);
/* Returns `take`, or NULL if not `ok`. */
json_t *json_whole(json_t *take, bool ok);
/* object[key], which a file or a program may lack: NAN if it is no number; false if it is no count. */
double json_number_at(const json_t *object, const char *key);
bool json_count_at(const json_t *object, const char *key, uint64_t *out);
