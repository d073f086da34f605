#include "data/text/csv_hint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/base/printable.h"
#include "job/keys.h"
#include "data/text/csv_scan.h"

const char *csv_hint_shown(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes)
{
    (void)printable_visible(out, CSV_SHOWN_BYTES - 4, text, bytes);
    return out;
}

bool csv_hint_shown_bytes(char out[static CSV_SHOWN_BYTES], const char *text, size_t bytes)
{
    char named[4 * CSV_SHOWN_BYTES];
    size_t n = 0, used;
    uint32_t code;
    bool raw = false;
    for (size_t i = 0; i < bytes && n < CSV_SHOWN_BYTES; i += used) {
        used = printable_character(text + i, bytes - i, &code);
        memcpy(named + n, text + i, used);
        n += used;
        if (used)
            continue;
        raw = true;
        used = 1;
        n += (size_t)snprintf(named + n, sizeof named - n, "<%02X>", (unsigned char)text[i]);
    }
    (void)csv_hint_shown(out, named, n);
    return raw;
}

const char *const csv_hint_markers[CSV_HINT_MARKERS] = {"NULL",
                                                        "\\N",
                                                        "NA",
                                                        "N/A",
                                                        "#N/A",
                                                        "NaN",
                                                        "nan",
                                                        "None",
                                                        "null",
                                                        "-NaN",
                                                        "-nan",
                                                        "Null",
                                                        "(null)",
                                                        "[NULL]",
                                                        "<NA>",
                                                        "NaT",
                                                        "#DIV/0!",
                                                        "#NUM!",
                                                        "#REF!",
                                                        "#VALUE!",
                                                        "#NAME?",
                                                        "n/a",
                                                        "#NA",
                                                        "#N/A N/A",
                                                        "#NULL!",
                                                        "1.#QNAN",
                                                        "-1.#QNAN",
                                                        "1.#IND",
                                                        "-1.#IND",
                                                        "\\0",
                                                        "undefined",
                                                        "[object Object]",
                                                        "System.String[]",
                                                        "#ERROR!",
                                                        "Loading...",
                                                        "0000-00-00",
                                                        "0000-00-00 00:00:00"};

bool csv_hint_is_marker(const char *text, size_t bytes)
{
    for (size_t i = 0; i < CSV_HINT_MARKERS; i++)
        if (strlen(csv_hint_markers[i]) == bytes && memcmp(csv_hint_markers[i], text, bytes) == 0)
            return true;
    return false;
}

/* About a sign before a number or in its exponent, or a digit, that is not that of ASCII. */
static const char *foreign_hint(const char *text, size_t bytes)
{
    static const struct {
        const char character[4], *hint;
    } signs[] = {
#define MINUS(text, name) {text, "; it has the character " name " in place of a minus: write -"}
        MINUS("\u2212", "U+2212"),
        MINUS("\u2013", "U+2013"),
        MINUS("\u2010", "U+2010"),
        MINUS("\u2011", "U+2011"),
#undef MINUS
    };
    const char *end = text + bytes;
    for (const char *at = text; at + 3 < end; at++)
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (memcmp(at, signs[i].character, 3) == 0 && (at == text || (at[-1] | 0x20) == 'e') &&
                ((at[3] >= '0' && at[3] <= '9') || at[3] == '.'))
                return signs[i].hint;
    for (const char *at = text; at + 3 <= end; at++)
        if (memcmp(at, "\xEF\xBC", 2) == 0 && (unsigned char)at[2] >= 0x90 &&
            (unsigned char)at[2] <= 0x99)
            return "; it has digits of full width, U+FF10 to U+FF19: write 0 to 9";
    return NULL;
}

bool csv_hint_is_name(const char *text, size_t bytes)
{
    enum { BEGIN = 4 }; /* of a sign and a digit */
    static const char *const values[] = {"na", "n/a", "nan", "inf", "infinity", "null", "none"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (bytes == strlen(values[i]) && strncasecmp(text, values[i], bytes) == 0)
            return false;
    if (bytes > 1 && *text == '"') {
        text++;
        bytes--;
    }
    unsigned char first = bytes ? (unsigned char)text[0] : 0;
    return ((first | 0x20) >= 'a' && (first | 0x20) <= 'z') || first == '_' ||
           (first >= 0x80 && !foreign_hint(text, bytes < BEGIN ? bytes : BEGIN));
}

/* Characters that copies from a page or a spreadsheet have, and that a message would not show. */
static const struct {
    const char *character, *hint;
} invisible_characters[] = {
#define INVISIBLE(text, name)                                                                      \
    {                                                                                              \
        text, "; it has the invisible character " name ": remove it"                               \
    }
    INVISIBLE("\xC2\xA0", "U+00A0, a no-break space"),
    INVISIBLE("\xE2\x80\x8B", "U+200B, a space without width"),
    INVISIBLE("\xE2\x80\x8C", "U+200C, a non-joiner without width"),
    INVISIBLE("\xE2\x80\x8D", "U+200D, a joiner without width"),
    INVISIBLE("\xE2\x80\x8E", "U+200E, a mark of the direction of text"),
    INVISIBLE("\xE2\x80\x8F", "U+200F, a mark of the direction of text"),
    INVISIBLE("\xE2\x80\xAF", "U+202F, a narrow no-break space"),
    INVISIBLE("\xE2\x81\xA0", "U+2060, a word joiner"),
#undef INVISIBLE
};
enum { INVISIBLE_CHARACTERS = sizeof invisible_characters / sizeof invisible_characters[0] };

static const char *invisible_hint(const char *text, size_t bytes)
{
    for (size_t i = 0; i < INVISIBLE_CHARACTERS; i++) {
        const char *character = invisible_characters[i].character;
        if (memmem(text, bytes, character, strlen(character)))
            return invisible_characters[i].hint;
    }
    return NULL;
}

static bool are_all_in(const char *text, size_t bytes, const char *set)
{
    for (size_t i = 0; i < bytes; i++)
        if (!memchr(set, text[i], strlen(set)))
            return false;
    return bytes > 0;
}

/* About a number with a unit, or in another base; NULL: it is another text. */
static const char *unit_hint(const char *text, size_t bytes)
{
    static const char *const signs[] = {"$", "\u20AC", "\u00A3", "\u00A5", "%"};
    static const char number[] = "0123456789.,+- ";
    if (bytes > 2 && *text == '0' && (text[1] | 0x20) == 'x' &&
        are_all_in(text + 2, bytes - 2, "0123456789abcdefABCDEF"))
        return "; write hexadecimal numbers in decimal";
    if (bytes > 1 && text[bytes - 1] == '-' && are_all_in(text, bytes - 1, "0123456789.,"))
        return "; write its minus before the digits";
    if (bytes > 1 && *text == '\'' && are_all_in(text + 1, bytes - 1, number))
        return "; remove the apostrophe before it";
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *at = memmem(text, bytes, signs[i], strlen(signs[i]));
        const size_t sign = strlen(signs[i]), before = at ? (size_t)(at - text) : 0;
        if (at && bytes > sign && (before == 0 || are_all_in(text, before, number)) &&
            (before + sign == bytes || are_all_in(at + sign, bytes - before - sign, number)))
            return "; write the number alone, without its unit";
    }
    return NULL;
}

const char *csv_hint_number(const char *text, size_t bytes, const char *usual)
{
    bool digit = false, separator = false;
    const char *character = invisible_hint(text, bytes);
    if (!character)
        character = foreign_hint(text, bytes);
    if (!character)
        character = unit_hint(text, bytes);
    if (character)
        return character;
    for (size_t i = 0; i < bytes; i++) {
        bool is_digit = text[i] >= '0' && text[i] <= '9';
        bool separates = digit && memchr(",_'", text[i], 3);
        if (!is_digit && !separates && text[i] != '.' && (i > 0 || !memchr("+-", text[i], 2)))
            return usual;
        digit |= is_digit;
        separator |= separates;
    }
    return separator ? "; write numbers with a decimal point, and without other separators: 1234.5"
                     : usual;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool csv_hint_trim(const char **text, size_t *bytes)
{
    size_t before = *bytes;
    while (*bytes && is_blank((*text)[*bytes - 1]))
        --*bytes;
    while (*bytes && is_blank(**text)) {
        ++*text;
        --*bytes;
    }
    return *bytes < before;
}

void csv_hint_strip(const char **text, size_t *bytes, bool quotes)
{
    (void)csv_hint_trim(text, bytes);
    if (quotes && *bytes > 1 && **text == '"' && (*text)[*bytes - 1] == '"') {
        ++*text;
        *bytes -= 2;
    }
}

const char *csv_hint_excel(const char *line, size_t bytes)
{
    enum { NAME = 4, LINE = 5 };
    const bool quoted = bytes > 1 && *line == '"' && line[bytes - 1] == '"';
    line += quoted;
    bytes -= quoted ? 2 : 0;
    return bytes == LINE && strncasecmp(line, "sep=", NAME) == 0
               ? "this line tells Excel the delimiter: remove it"
               : NULL;
}

static uint32_t fields_by(const char *line, size_t bytes, const struct job_csv *job)
{
    const struct csv_grammar g = {.delimiter = job_delimiter_char(job),
                                  .quotes = job->quotes,
                                  .trim = job->trim,
                                  .escape = job_escape_char(job)};
    return (uint32_t)csv_scan_findings(line, bytes, &g).marks + 1;
}

static const char *say(char out[static CSV_HINT_BYTES], const char *delimiter, uint32_t fields)
{
    (void)snprintf(out, CSV_HINT_BYTES, "with data.delimiter: %s it has %u", delimiter, fields);
    return out;
}

const char *csv_hint_delimiter(char out[static CSV_HINT_BYTES], const struct job_csv *job,
                               const char *line, size_t bytes, uint32_t wanted)
{
    bool lone = fields_by(line, bytes, job) == 1;
    const struct job_word *best = NULL;
    uint32_t most = 1;
    for (const struct job_word *w = job_key_find("data.delimiter")->words; w->word; w++) {
        const struct job_csv other = {.delimiter = (enum csv_delimiter)w->value,
                                      .quotes = job->quotes,
                                      .trim = job->trim,
                                      .escape = job->escape};
        if (other.delimiter == job->delimiter)
            continue;
        uint32_t n = fields_by(line, bytes, &other);
        if (n > 1 && n == wanted)
            return say(out, w->word, n);
        /* spaces occur in any text */
        if (lone && n > most && other.delimiter != DELIMITER_SPACE) {
            best = w;
            most = n;
        }
    }
    return best ? say(out, best->word, most) : NULL;
}
