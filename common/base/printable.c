#include "common/base/printable.h"

#include <stdio.h>
#include <string.h>

/* The bytes that a character has which begins with `c`; 0: none begins so. *code is what `c` says of it. */
static size_t begun(unsigned char c, uint32_t *code)
{
    static const struct {
        unsigned char mask, is, bits;
    } first[] = {{0x80, 0, 0x7F}, {0xE0, 0xC0, 0x1F}, {0xF0, 0xE0, 0x0F}, {0xF8, 0xF0, 0x07}};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if ((c & first[i].mask) == first[i].is) {
            *code = c & first[i].bits;
            return i + 1;
        }
    return 0;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

size_t printable_character(const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t read = 0;
    size_t n = begun((unsigned char)*text, &read);
    if (n == 0 || n > bytes)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (!continues(text[i]))
            return 0;
        read = read << 6 | ((unsigned char)text[i] & 0x3F);
    }
    bool surrogate = read >= 0xD800 && read < 0xE000;
    if (read < least[n] || read > 0x10FFFF || surrogate)
        return 0;
    *code = read;
    return n;
}

bool printable_is_utf8(const char *text)
{
    uint32_t code;
    size_t n = 1;
    for (size_t bytes = strlen(text); n && bytes; text += n, bytes -= n)
        n = printable_character(text, bytes, &code);
    return n != 0;
}

/* C0, DEL and C1. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

/* The bytes that one "?" stands for, where no character is: a character that lacks its end, or one byte. */
static size_t broken(const char *text, size_t bytes)
{
    uint32_t code;
    size_t wanted = begun((unsigned char)*text, &code), n = 1;
    while (n < wanted && n < bytes && continues(text[n]))
        n++;
    return n < wanted ? n : 1;
}

/* The next piece of a text as it is shown, of *shown bytes. Returns the bytes that it stands for. */
static size_t next(const char *text, size_t bytes, const char **out, size_t *shown)
{
    uint32_t code;
    size_t n = printable_character(text, bytes, &code);
    bool as_it_is = n && !is_control(code);
    *out = as_it_is ? text : "?";
    *shown = as_it_is ? n : 1;
    return n ? n : broken(text, bytes);
}

size_t printable_copy(char *out, size_t room, const char *text, size_t bytes)
{
    const char *from;
    size_t to = 0, put;
    for (size_t at = 0; at < bytes; to += put) {
        at += next(text + at, bytes - at, &from, &put);
        if (to + put >= room)
            break;
        memmove(out + to, from, put);
    }
    out[to] = '\0';
    return to;
}

size_t printable_quoted(char *out, size_t room, const char *text)
{
    const char *from;
    size_t to = 0, put, bytes = strlen(text);
    for (size_t at = 0; at < bytes; to += put) {
        at += next(text + at, bytes - at, &from, &put);
        bool escaped = *from == '"' || *from == '\\';
        if (to + put + escaped >= room)
            break;
        if (escaped)
            out[to++] = '\\';
        memcpy(out + to, from, put);
    }
    out[to] = '\0';
    return to;
}

const char *printable_text(char *out, size_t room, const char *text)
{
    (void)printable_copy(out, room, text, strlen(text));
    return out;
}

const char *printable_end(const char *text, size_t bytes)
{
    size_t n = strlen(text);
    text += n > bytes ? n - bytes : 0;
    for (int i = 0; i < 3 && n > bytes && continues(*text); i++)
        text++;
    return text;
}

/* Where a text ends that was cut after `bytes` bytes: before a character of which a part is missing. */
static size_t whole_characters(const char *text, size_t bytes)
{
    uint32_t code;
    for (size_t back = 1; back <= 3 && back <= bytes; back++)
        if (!continues(text[bytes - back]))
            return begun((unsigned char)text[bytes - back], &code) > back ? bytes - back : bytes;
    return bytes;
}

size_t printable_vformat(char *out, size_t room, const char *fmt, va_list args)
{
    int n = vsnprintf(out, room, fmt, args);
    size_t bytes = n < 0 ? 0 : (size_t)n;
    if (bytes >= room)
        bytes = whole_characters(out, room - 1);
    return printable_copy(out, room, out, bytes);
}

size_t printable_format(char *out, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t n = printable_vformat(out, room, fmt, args);
    va_end(args);
    return n;
}

bool printable_is_unseen(uint32_t code)
{
    return code == 0xA0 || code == 0xAD || (code >= 0x300 && code < 0x370) ||
           (code >= 0x2000 && code < 0x2010) || (code >= 0x2028 && code < 0x2030) ||
           (code >= 0x2060 && code < 0x2065) || code == 0xFEFF || (code >= 0xFE00 && code < 0xFE10);
}

size_t printable_visible(char *out, size_t room, const char *text, size_t bytes)
{
    static const char more[] = "...";
    const char *from;
    char named[sizeof "<U+10FFFF>"];
    uint32_t code;
    size_t to = 0, fits = 0, put;
    for (size_t at = 0; at < bytes; to += put) {
        bool is = printable_character(text + at, bytes - at, &code) > 0;
        at += next(text + at, bytes - at, &from, &put);
        if (is && (is_control(code) || printable_is_unseen(code))) {
            put = (size_t)snprintf(named, sizeof named, "<U+%04X>", code);
            from = named;
        }
        if (to + put >= room) {
            memcpy(out + fits, more, sizeof more);
            return fits + sizeof more - 1;
        }
        memcpy(out + to, from, put);
        fits = to + put + sizeof more <= room ? to + put : fits;
    }
    out[to] = '\0';
    return to;
}

const char *printable_name(char out[PRINTABLE_NAME_BYTES], const char *name, size_t bytes)
{
    (void)printable_visible(out, PRINTABLE_NAME_BYTES, name, bytes);
    return out;
}
