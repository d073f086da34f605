/* Recognizes by its first bytes a file that is not text of UTF-8: text of UTF-16 or UTF-32, an archive, a table of another format.
 * Pure. */
#ifndef GRADWIRE_DATA_TEXT_TEXT_ENCODING_H
#define GRADWIRE_DATA_TEXT_TEXT_ENCODING_H

#include <stddef.h>

/* iconv's name of the encoding of the text that begins with these bytes: with a byte order mark "UTF-16" or "UTF-32",
 * otherwise with the order of its bytes, "UTF-16LE". NULL: it is another text, such as UTF-8. */
const char *text_encoding(const char *text, size_t bytes);

/* The format of a file of another kind, with an article, and *advice for its owner. NULL: no known one. */
const char *text_of_other_format(const char *text, size_t bytes, const char **advice);

/* The bytes of the UTF-8 byte order mark with which the text begins; 0: none. */
size_t text_encoding_mark_bytes(const char *text, size_t bytes);

#endif
