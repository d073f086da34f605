/* Text of files, names and peers as people may see it: in messages, logs, JSON, the page and a terminal. Such text can have
 * any bytes. A terminal would obey control characters, a line feed would begin a false line, and JSON has no bytes that are
 * not UTF-8.
 *
 * Each control character becomes "?", and so does each run of bytes that could begin a character of UTF-8 and do not
 * complete it, and each byte that could not. All else is as it was. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

/* Reads the character of UTF-8 (RFC 3629) at `text`, which has `bytes` > 0 bytes. Returns its bytes; 0: no character is
 * there. */
size_t printable_character(const char *text, size_t bytes, uint32_t *code);

/* Returns whether a string is UTF-8, control characters or not: JSON can then have it as it is. */
bool printable_is_utf8(const char *text);

/* Copies `bytes` bytes, made printable, and ends them with a NUL: as many characters as fit into `room` > 0, whole. `out`
 * can be `text`: the copy is never longer. Returns the bytes of the copy, without the NUL. */
size_t printable_copy(char *out, size_t room, const char *text, size_t bytes);

/* The same for a string. Returns `out`. */
const char *printable_text(char *out, size_t room, const char *text);

/* Formats like snprintf into `room` > 0 bytes, made printable. A text that is too long ends after its last whole
 * character. Returns the bytes, without the NUL. */
size_t printable_format(char *out, size_t room, const char *fmt, ...) PRINTF_LIKE(3, 4);
size_t printable_vformat(char *out, size_t room, const char *fmt, va_list args);

/* The end of a string: at most `bytes` bytes of it, from the beginning of a character on. */
const char *printable_end(const char *text, size_t bytes);

/* printable_copy for a string between quotes, as JSON (RFC 8259) and Prometheus write it: a quote and a backslash get a backslash
 * before them. Returns the bytes. */
size_t printable_quoted(char *out, size_t room, const char *text);

/* `text`, a string, made printable, for a line on a terminal; it is valid to the end of the enclosing block. */
enum { PRINTABLE_BYTES = 4096 };
#define PRINTABLE(text) printable_text((char[PRINTABLE_BYTES]){""}, PRINTABLE_BYTES, text)

/* True for a character that cannot be seen, or is seen as part of the letter before it: a soft hyphen, marks of the direction of
 * text, spaces that are no blank, variation selectors, and the marks of decomposed letters (NFD). */
bool printable_is_unseen(uint32_t code);

/* Copies a text for a message, made printable, into `room` > 3 bytes: of one that does not fit its beginning, and "...". A character
 * that cannot be seen is named: "a<U+200B>b" is not "ab". `out` cannot be `text`. Returns the bytes of the copy, without the NUL. */
size_t printable_visible(char *out, size_t room, const char *text, size_t bytes);

/* printable_visible of a name: of one longer than 63 bytes the beginning, and "...". The rest of the message must
 * have room, too. Returns `out`. */
enum { PRINTABLE_NAME_BYTES = 64 };
const char *printable_name(char out[PRINTABLE_NAME_BYTES], const char *name, size_t bytes);
#define SHOWN(name) printable_name((char[PRINTABLE_NAME_BYTES]){""}, name, strlen(name))
