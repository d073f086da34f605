#include "data/text/text_encoding.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { LOOKED_BYTES = 4096, UNIT = 4 };

/* How many of the units of 4 bytes are NUL at each of their bytes. */
struct nuls {
    size_t at[UNIT], units;
};

static struct nuls count_nuls(const char *text, size_t bytes)
{
    struct nuls n = {.units = bytes / UNIT};
    for (size_t i = 0; i < n.units * UNIT; i++)
        n.at[i % UNIT] += text[i] == '\0';
    return n;
}

/* True if the byte is NUL in at least half of the units. */
static bool often(const struct nuls *n, int at)
{
    return n->units > 0 && 2 * n->at[at] >= n->units;
}

/* True if hardly any of the characters of 2 bytes has its NUL byte at `at`: those that are the character NUL. */
static bool seldom(const struct nuls *n, int at)
{
    enum { SELDOM = 8 };
    return SELDOM * (n->at[at] + n->at[at + 2]) <= n->units;
}

/* True if each newline byte of the text is a character of 2 bytes, and there is one: `nul` is the place of its NUL byte,
 * 1 or 0. */
static bool has_wide_newlines(const char *text, size_t bytes, size_t nul)
{
    bool found = false;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        const char low = text[i + 1 - nul], high = text[i + nul];
        if (high == '\0' ? low == '\0' : low == '\n' && high >= ' ')
            return false; /* in 8-bit text the byte next to a newline is another character */
        found |= low == '\n' && high == '\0';
    }
    return found;
}

static const char *encoding_of_mark(const char *text, size_t bytes)
{
    static const struct {
        const char *mark;
        size_t bytes;
        const char *encoding;
    } marks[] = {{"\xFF\xFE\0\0", 4, "UTF-32"},
                 {"\0\0\xFE\xFF", 4, "UTF-32"},
                 {"\xFF\xFE", 2, "UTF-16"},
                 {"\xFE\xFF", 2, "UTF-16"}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (bytes >= marks[i].bytes && memcmp(text, marks[i].mark, marks[i].bytes) == 0)
            return marks[i].encoding;
    return NULL;
}

const char *text_encoding(const char *text, size_t bytes)
{
    const char *marked = encoding_of_mark(text, bytes);
    if (marked)
        return marked;
    bytes = bytes < LOOKED_BYTES ? bytes : LOOKED_BYTES;
    if (!memchr(text, '\0', bytes))
        return NULL;
    const struct nuls n = count_nuls(text, bytes);
    if (n.at[3] == n.units && often(&n, 2) && n.at[0] < n.units)
        return "UTF-32LE";
    if (n.at[0] == n.units && often(&n, 1) && n.at[3] < n.units)
        return "UTF-32BE";
    if ((often(&n, 1) && often(&n, 3) && seldom(&n, 0)) || has_wide_newlines(text, bytes, 1))
        return "UTF-16LE";
    if ((often(&n, 0) && often(&n, 2) && seldom(&n, 1)) || has_wide_newlines(text, bytes, 0))
        return "UTF-16BE";
    return NULL;
}

size_t text_encoding_change(const char *text, size_t bytes, const char **encoding)
{
    const char *end = text + bytes, *nul = memchr(text, '\0', bytes);
    const bool more = nul && memchr(nul + 1, '\0', (size_t)(end - nul - 1));
    const char *newline = more ? memrchr(text, '\n', (size_t)(nul - text)) : NULL;
    const char *line = newline ? newline + 1 : text;
    *encoding = more ? text_encoding(line, (size_t)(end - line)) : NULL;
    return (size_t)(line - text);
}

bool text_is_binary(const char *text, size_t bytes)
{
    enum { KINDS = 4, SHARE = 20 };
    /* neither those of lines, nor those that separate values in Hive and ASCII, nor that of a terminal's colors */
    const uint32_t controls = 0x07FFC1F1;
    uint32_t kinds = 0;
    size_t n = 0;
    bytes = bytes < LOOKED_BYTES ? bytes : LOOKED_BYTES;
    for (size_t i = 0; i < bytes; i++) {
        const uint32_t bit = (unsigned char)text[i] < 32 ? UINT32_C(1) << text[i] & controls : 0;
        kinds |= bit;
        n += bit != 0;
    }
    return __builtin_popcount(kinds) >= KINDS && n * SHARE >= bytes;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A page, or an error of a server in place of the file. A tag alone can be a word of a field. */
static const char *page_format(const char *text, size_t bytes)
{
    static const char *const begins[] = {"<!doctype html", "<?xml ", "<html", "<head"};
    const size_t mark = text_encoding_mark_bytes(text, bytes);
    for (text += mark, bytes -= mark; bytes && is_blank(*text); bytes--)
        text++;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const size_t n = strlen(begins[i]);
        if (bytes < n + 2 || strncasecmp(text, begins[i], n) != 0)
            continue;
        const char next = text[n] == '>' ? text[n + 1] : text[n];
        if (i < 2 || is_blank(next) || (text[n] == '>' && next == '<'))
            return i == 1 ? "an XML page" : "an HTML page";
    }
    while (bytes && is_blank(text[bytes - 1]))
        bytes--;
    const bool object = bytes > 2 && memcmp(text, "{\"", 2) == 0 && text[bytes - 1] == '}' &&
                        memchr(text, ':', bytes) && !memchr(text, '\n', bytes);
    return object ? "one line of JSON" : NULL;
}

const char *text_of_other_format(const char *text, size_t bytes, const char **advice)
{
    static const struct {
        size_t at, bytes;
        const char *magic, *format, *advice;
    } formats[] = {
        {30, 19, "[Content_Types].xml", "an Excel workbook (.xlsx)", "save it as csv"},
        {30, 9, "docProps/", "an Excel workbook (.xlsx)", "save it as csv"}, /* of other programs */
        {0, 4, "PK\3\4", "a zip archive", "unpack it"},
        {257, 6, "ustar\0", "a tar archive", "unpack it"},   /* of POSIX */
        {257, 8, "ustar  \0", "a tar archive", "unpack it"}, /* of GNU */
        {0, 3, "\x1F\x8B\b", "compressed by gzip twice", "decompress it once"},
        {0, 4, "\x28\xB5\x2F\xFD", "compressed by zstd, and that again", "decompress it once"},
        {0, 4, "\x04\x22\x4D\x18", "compressed by lz4", "decompress it, or use gzip or zstd"},
        {0, 5, "PAR1\x15", "a Parquet file", "use data.format: parquet"},
        {0, 8, "ARROW1\0\0", "an Arrow (Feather) file", "convert it to csv"},
        {0, 8, "\x89HDF\r\n\x1A\n", "an HDF5 file", "convert it to csv or npy"},
        {0, 4, "Obj\1", "an Avro file", "convert it to csv"},
        {0, 16, "SQLite format 3\0", "a database of SQLite", "export a table as csv"},
        {0, 8, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "an Excel workbook (.xls)", "save it as csv"},
        {0, 4, "\x80\2}q", "a pickle of Python", "save the data as csv or npy"},
        {0, 3, "\x80\4\x95", "a pickle of Python", "save the data as csv or npy"},
        {0, 3, "\x80\5\x95", "a pickle of Python", "save the data as csv or npy"},
        {0, 5, "%PDF-", "a PDF document", "convert it to csv"},
        {0, 8, "\x89PNG\r\n\x1A\n", "a PNG image", "convert images to npy"},
        {0, 3, "\xFF\xD8\xFF", "a JPEG image", "convert images to npy"},
        {0, 6, "\x93NUMPY", "an npy file", "use data.format: npy"},
        {0, 24, "version https://git-lfs.", "a pointer of Git LFS, not the data", "git lfs pull"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        *advice = formats[i].advice;
        if (bytes >= formats[i].at + formats[i].bytes &&
            memcmp(text + formats[i].at, formats[i].magic, formats[i].bytes) == 0)
            return formats[i].format;
    }
    *advice = "check what was downloaded";
    return page_format(text, bytes);
}

size_t text_encoding_mark_bytes(const char *text, size_t bytes)
{
    enum { MARK_BYTES = 3 };
    return bytes >= MARK_BYTES && memcmp(text, "\xEF\xBB\xBF", MARK_BYTES) == 0 ? MARK_BYTES : 0;
}

bool text_has_nuls(const char *line, size_t bytes)
{
    static const char nuls[TEXT_NULS_LEAST];
    const size_t n = sizeof nuls;
    return bytes >= n && (memcmp(line, nuls, n) == 0 || memcmp(line + bytes - n, nuls, n) == 0);
}
