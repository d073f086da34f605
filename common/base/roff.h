/* Text for manual pages: mdoc(7), as man(1) and mandoc(1) format it. */
#ifndef GRADWIRE_COMMON_BASE_ROFF_H
#define GRADWIRE_COMMON_BASE_ROFF_H

#include <stddef.h>
#include <stdio.h>

/* Running text of `bytes` bytes as lines of mdoc: a line ends after each sentence, and before column 80. Markdown's
 * `code` and **strong** become bold, [text](address) becomes the text. */
void roff_text(FILE *out, const char *text, size_t bytes);

/* A word or more for a macro's arguments: without line breaks, with what roff would interpret escaped. */
void roff_word(FILE *out, const char *text, size_t bytes);

/* A page in Markdown as mdoc, without its first heading, its comments and its contents: headings of level 2 and 3, paragraphs,
 * code blocks, lists with `-`, and tables, of which each row becomes a tagged paragraph. */
void roff_markdown(FILE *out, const char *page);

#endif
