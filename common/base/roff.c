#include "common/base/roff.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { COLUMNS = 72, CELLS_MAX = 8, WORD_BYTES = 512 };

static void escaped(FILE *out, char c, bool code)
{
    if (c == '\\')
        fputs("\\e", out);
    else if (c == '-' && code)
        fputs("\\-", out);
    else
        fputc(c, out);
}

void roff_word(FILE *out, const char *text, size_t bytes)
{
    fputs("\\&", out); /* so that a word is never a macro */
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == ' ')
            fputs("\\ ", out);
        else if (text[i] != '`')
            escaped(out, text[i], true);
}

/* Where the text of a link ends: at "](address)", whose length goes to *skip; NULL: it is no link. */
static const char *link_end(const char *at, const char *end, size_t *skip)
{
    const char *close = at;
    while (close < end && *close != ']' && *close != '`')
        close++;
    if (close + 1 >= end || close[0] != ']' || close[1] != '(')
        return NULL;
    const char *paren = memchr(close, ')', (size_t)(end - close));
    if (!paren)
        return NULL;
    *skip = (size_t)(paren + 1 - close);
    return close;
}

/* A line that is being filled. */
struct line {
    FILE *out;
    size_t column;
    bool code, strong;
    const char *link; /* where the text of a link ends; NULL: in none */
    size_t skip;
};

static void end_line(struct line *l)
{
    if (l->column)
        fputc('\n', l->out);
    l->column = 0;
}

/* Write one word of running text. */
static void put_word(struct line *l, const char *word, size_t bytes, const char *end)
{
    if (l->column && l->column + bytes + 1 > COLUMNS)
        end_line(l);
    if (l->column)
        fputc(' ', l->out);
    else if (*word == '.' || *word == '\'')
        fputs("\\&", l->out);
    l->column += bytes + 1;
    char last = ' ';
    for (size_t i = 0; i < bytes; i++) {
        const char *at = word + i;
        if (l->link == at) {
            i += l->skip - 1;
            l->link = NULL;
        } else if (*at == '`') {
            l->code = !l->code;
            fputs(l->code ? "\\fB" : "\\fP", l->out);
        } else if (!l->code && i + 1 < bytes && at[0] == '*' && at[1] == '*') {
            l->strong = !l->strong;
            fputs(l->strong ? "\\fB" : "\\fP", l->out);
            i++;
        } else if (!l->code && !l->link && *at == '[' &&
                   (l->link = link_end(at + 1, end, &l->skip)) != NULL) {
            continue;
        } else {
            escaped(l->out, *at, l->code);
            last = *at;
        }
    }
    if (!l->code && bytes > 1 && strchr(".?!", last))
        end_line(l);
}

void roff_text(FILE *out, const char *text, size_t bytes)
{
    struct line l = {.out = out};
    const char *end = text + bytes;
    while (text < end) {
        text += strspn(text, " \n");
        size_t n = strcspn(text, " \n");
        if (text >= end || !n)
            break;
        n = n < (size_t)(end - text) ? n : (size_t)(end - text);
        put_word(&l, text, n, end);
        text += n;
    }
    end_line(&l);
}

/* ---- pages ---- */

static size_t line_bytes(const char *at)
{
    return strcspn(at, "\n");
}

static const char *next_line(const char *at)
{
    at += line_bytes(at);
    return *at ? at + 1 : at;
}

static bool starts(const char *at, const char *with)
{
    return strncmp(at, with, strlen(with)) == 0;
}

/* The cells of a table's row, without the blanks around them. Returns how many. */
struct cells {
    size_t n;
    struct {
        const char *text;
        size_t bytes;
    } cell[CELLS_MAX];
};

static void split_row(const char *line, struct cells *cells)
{
    const char *end = line + line_bytes(line);
    cells->n = 0;
    for (line++; line < end && cells->n < CELLS_MAX; line++) {
        const char *from = line;
        while (line < end && (*line != '|' || line[-1] == '\\'))
            line++;
        const char *to = line;
        while (from < to && *from == ' ')
            from++;
        while (to > from && to[-1] == ' ')
            to--;
        cells->cell[cells->n].text = from;
        cells->cell[cells->n++].bytes = (size_t)(to - from);
    }
}

/* A cell's text; in a table | is written \|. */
static void cell_text(FILE *out, const char *text, size_t bytes)
{
    char plain[4 * WORD_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < bytes && n < sizeof plain - 1; i++)
        if (text[i] != '\\' || i + 1 == bytes || text[i + 1] != '|')
            plain[n++] = text[i];
    plain[n] = 0;
    roff_text(out, plain, n);
}

/* The row's first cell as the tag; its last one; then all between with their headings, as one sentence. */
static void write_row(FILE *out, const struct cells *head, const struct cells *row)
{
    fputs(".It Sy ", out);
    roff_word(out, row->cell[0].text, row->cell[0].bytes);
    fputs("\n", out);
    cell_text(out, row->cell[row->n - 1].text, row->cell[row->n - 1].bytes);
    char rest[4 * WORD_BYTES] = "";
    size_t n = 0;
    for (size_t i = 1; i + 1 < row->n && i < head->n && n < sizeof rest; i++)
        if (row->cell[i].bytes)
            n += (size_t)snprintf(rest + n, sizeof rest - n, "%s%c%.*s: %.*s", n ? "; " : "",
                                  n ? tolower((unsigned char)*head->cell[i].text)
                                    : *head->cell[i].text,
                                  (int)head->cell[i].bytes - 1, head->cell[i].text + 1,
                                  (int)row->cell[i].bytes, row->cell[i].text);
    if (!n)
        return;
    fputs(".br\n", out);
    cell_text(out, rest, strlen(rest));
}

static const char *write_table(FILE *out, const char *at)
{
    struct cells head, row;
    split_row(at, &head);
    fputs(".Bl -tag -width Ds\n", out);
    for (at = next_line(next_line(at)); *at == '|'; at = next_line(at)) {
        split_row(at, &row);
        write_row(out, &head, &row);
    }
    fputs(".El\n", out);
    return at;
}

static const char *write_code(FILE *out, const char *at)
{
    fputs(".Bd -literal -offset indent\n", out);
    for (at = next_line(at); *at && !starts(at, "```"); at = next_line(at)) {
        if (*at == '.' || *at == '\'')
            fputs("\\&", out);
        for (size_t i = 0; i < line_bytes(at); i++)
            escaped(out, at[i], true);
        fputc('\n', out);
    }
    fputs(".Ed\n", out);
    return next_line(at);
}

/* A paragraph or an item of a list goes up to an empty line, or to where another block begins. */
static const char *text_end(const char *at)
{
    do
        at = next_line(at);
    while (*at && *at != '\n' && *at != '#' && *at != '|' && !starts(at, "- ") &&
           !starts(at, "```"));
    return at;
}

static const char *write_list(FILE *out, const char *at)
{
    fputs(".Bl -bullet\n", out);
    while (starts(at, "- ")) {
        const char *end = text_end(at);
        fputs(".It\n", out);
        roff_text(out, at + 2, (size_t)(end - at - 2));
        at = end;
    }
    fputs(".El\n", out);
    return at;
}

static const char *write_heading(FILE *out, const char *at)
{
    size_t level = strspn(at, "#");
    const char *title = at + level + 1;
    if (starts(at, "## Contents\n")) {
        for (at = next_line(at); *at && !starts(at, "## ");)
            at = next_line(at);
        return at;
    }
    if (level > 1)
        fprintf(out, ".%s %.*s\n", level == 2 ? "Sh" : "Ss", (int)line_bytes(title), title);
    return next_line(at);
}

void roff_markdown(FILE *out, const char *page)
{
    bool first = true; /* of its section: no space before it */
    for (const char *at = page; *at;) {
        if (*at == '\n' || starts(at, "<!--")) {
            at = next_line(at);
            continue;
        }
        if (*at == '#') {
            at = write_heading(out, at);
            first = true;
            continue;
        }
        if (starts(at, "```")) {
            at = write_code(out, at);
        } else if (*at == '|') {
            at = write_table(out, at);
        } else if (starts(at, "- ")) {
            at = write_list(out, at);
        } else {
            const char *end = text_end(at);
            if (!first)
                fputs(".Pp\n", out);
            roff_text(out, at, (size_t)(end - at));
            at = end;
        }
        first = false;
    }
}
