/* The manual pages: from the tables of flags and of the job file's keys. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writes a page in mdoc(7): "gradwire", "gradwire-ps" or "gradwire-worker" of section 1, "gradwire-job" of section 5. */
void manual_write(FILE *out, const char *page);

/* Text for manual pages: mdoc(7), as man(1) and mandoc(1) format it. */

/* Writes running text of `bytes` bytes as lines of mdoc. A line ends after each sentence, and before column 80.
 * Markdown's `code` and **strong** become bold, [text](address) becomes the text. */
void roff_text(FILE *out, const char *text, size_t bytes);

/* Writes a Markdown page as mdoc, without its first heading, its comments and its table of contents. It knows headings
 * of level 2 and 3, paragraphs, code blocks, lists with `-`, and tables. Each row of a table becomes a tagged
 * paragraph. */
void roff_markdown(FILE *out, const char *page);
