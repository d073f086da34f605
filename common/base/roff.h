/* Text for manual pages: mdoc(7), as man(1) and mandoc(1) format it. */
#ifndef GRADWIRE_COMMON_BASE_ROFF_H
#define GRADWIRE_COMMON_BASE_ROFF_H

#include <stddef.h>
#include <stdio.h>

/* Writes running text of `bytes` bytes as lines of mdoc. A line ends after each sentence, and before column 80.
 * Markdown's `code` and **strong** become bold, [text](address) becomes the text. */
void roff_text(FILE *out, const char *text, size_t bytes);

/* Writes text as one argument of a macro: without line breaks, and with the characters escaped that roff would
 * interpret. */
void roff_word(FILE *out, const char *text, size_t bytes);

/* Writes a Markdown page as mdoc, without its first heading, its comments and its table of contents. It knows headings
 * of level 2 and 3, paragraphs, code blocks, lists with `-`, and tables. Each row of a table becomes a tagged
 * paragraph. */
void roff_markdown(FILE *out, const char *page);

#endif
