/* Recognizes by its first bytes a file that is not text of UTF-8: text of UTF-16 or UTF-32, an archive, a table of another format.
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* iconv's name of the encoding of the text that begins with these bytes: with a byte order mark "UTF-16" or "UTF-32",
 * otherwise with the order of its bytes, "UTF-16LE". NULL: it is another text, such as UTF-8. */
const char *text_encoding(const char *text, size_t bytes);

/* Where text of UTF-16 begins behind lines of another encoding, as where a program has appended to the file of another one. *encoding
 * is its name; NULL: nowhere. */
size_t text_encoding_change(const char *text, size_t bytes, const char **encoding);

/* True if so many control characters are at its beginning, of several kinds, as no text has. */
bool text_is_binary(const char *text, size_t bytes);

/* The format of a file of another kind, with an article, and *advice for its owner. NULL: no known one. */
const char *text_of_other_format(const char *text, size_t bytes, const char **advice);

/* The bytes of the UTF-8 byte order mark with which the text begins; 0: none. */
size_t text_encoding_mark_bytes(const char *text, size_t bytes);

/* True if the line begins or ends with so many NUL bytes. A crash while a file grows can leave them in place of what was
 * written last. */
enum { TEXT_NULS_LEAST = 8 };
#define TEXT_NULS                                                                                  \
    "has NUL bytes in a row, as a crash leaves them at the end of a file; remove them: tr -d "     \
    "'\\0' < FILE > NEW"
bool text_has_nuls(const char *line, size_t bytes);
