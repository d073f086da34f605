/* Finds the ends of the fields and rows of csv text, 64 bytes at a time, with the same result at every SIMD level
 * (common/math/kernels.h chooses the level). docs/reference/data.md has the rules for quotes: a quote counts only at
 * the start of a field. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* bytes after the text that may be read; entries after the results in `at` that may be written */
    CSV_SCAN_PAD = 64
};

/* How text is divided into fields and rows. */
struct csv_grammar {
    char delimiter;
    bool quotes;         /* false: a '"' is a byte like any other */
    bool trim;           /* blanks may precede the quote that opens a field */
    char escape;         /* the byte after it stands for itself; 0: none */
    const char *comment; /* a row that begins with it ends at the next '\n' */
    size_t comment_bytes;
};

/* The place of a byte in the text: what comes before it has made it so. */
enum csv_place {
    PLACE_ROW,   /* it begins a row, and so a field */
    PLACE_START, /* it begins a field; or only blanks came before it, which are trimmed */
    PLACE_FIELD,
    PLACE_ESCAPED,
    PLACE_QUOTED,
    PLACE_QUOTED_ESCAPED,
    PLACE_AFTER_QUOTE, /* a second quote would continue the field */
    PLACE_COMMENT
};
enum { CSV_PLACES = PLACE_COMMENT + 1 };

/* True if each delimiter and each '\n' ends a field. */
static inline bool csv_is_plain(const struct csv_grammar *g)
{
    return !g->quotes && !g->escape;
}

/* A space or a tab, which data.trim removes; the delimiter is none. */
static inline bool csv_is_blank(const struct csv_grammar *g, char c)
{
    return (c == ' ' || c == '\t') && c != g->delimiter;
}

/* Write the position of each delimiter and each '\n' that ends a field, in order, and return how many there are. The
 * text begins a row. `at` has room for `bytes` + CSV_SCAN_PAD entries. bytes < 2^32. In a comment only the '\n' is
 * certain to be found. Thread: any. */
size_t csv_scan(uint32_t *at, const char *text, size_t bytes, const struct csv_grammar *g);

/* The same. *neat: each quote opens a field, or closes one directly before its end, and nothing is escaped: a field that
 * begins with a quote ends with another one, and has none between them. A CR before LF is part of the row's end. */
size_t csv_scan_neat(uint32_t *at, const char *text, size_t bytes, const struct csv_grammar *g,
                     bool *neat);

/* The same for each '\n' that ends a row, in a text that begins anywhere: *place is that of its first byte, and becomes that of
 * the byte behind it. `more` bytes of the text follow, and tell whether a comment begins at its end. */
size_t csv_scan_rows(uint32_t *at, const char *text, size_t bytes, size_t more,
                     const struct csv_grammar *g, enum csv_place *place);

/* The bytes of the text's first row, with its '\n'; 0: the text ends before the row does. */
size_t csv_scan_row(const char *text, size_t bytes, const struct csv_grammar *g);

/* The number of times that `byte` occurs in the text. */
size_t csv_count(const char *text, size_t bytes, char byte);

/* Facts for messages about a text that begins a row, found a byte at a time. */
struct csv_findings {
    size_t marks;
    size_t quote; /* the text ends within a field whose quotes begin here; `bytes`: it does not */
    bool escape;  /* its last byte escapes one that is missing */
    size_t cr;    /* the first '\r' that is neither in quotes nor escaped; `bytes`: none */
};
struct csv_findings csv_scan_findings(const char *text, size_t bytes, const struct csv_grammar *g);

/* True if the byte before `at` escapes the one at `at`. */
bool csv_is_escaped(const char *begin, const char *at, char escape);
/* The bytes of a row without the '\r' of its line end. */
size_t csv_without_return(const struct csv_grammar *g, const char *text, size_t bytes);
