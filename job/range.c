/* Names in one text: ranges of names, and the names of a class. */
#include "job/range.h"

#include <stdio.h>
#include <string.h>

/* Parses a number without leading zeros; returns NULL if there is none. */
static const char *range_number(const char *p, uint32_t *out)
{
    uint32_t value = 0;
    const char *begin = p;
    for (; *p >= '0' && *p <= '9' && value <= JOB_RANGE_MAX; p++)
        value = value * 10 + (uint32_t)(*p - '0');
    if (p == begin || value > JOB_RANGE_MAX || (*begin == '0' && p - begin > 1))
        return NULL;
    *out = value;
    return p;
}

static bool looks_like_range(const char *text)
{
    const char *open = strchr(text, '{');
    return open && strstr(open, "..");
}

/* The first '{' without a '\' before it. */
static const char *find_brace(const char *text)
{
    for (const char *at = text; (at = strchr(at, '{')); at++)
        if (at == text || at[-1] != '\\')
            return at;
    return NULL;
}

enum err job_range_parse(struct job_range *r, const char *text)
{
    *r = (struct job_range){.text = text, .tail = "", .head_bytes = strlen(text)};
    r->has_braces = looks_like_range(text);
    const char *open = r->has_braces ? find_brace(text) : NULL;
    if (!open)
        return ERR_OK;
    const char *p = range_number(open + 1, &r->first);
    p = p && strncmp(p, "..", 2) == 0 ? range_number(p + 2, &r->last) : NULL;
    if (!p || *p != '}' || r->first > r->last || find_brace(p))
        return ERR_INPUT;
    r->head_bytes = (size_t)(open - text);
    r->tail = p + 1;
    r->many = true;
    return ERR_OK;
}

/* Make each "\{" a '{'. */
static void take_backslashes(char *name)
{
    char *to = name;
    for (const char *from = name; *from; from++)
        if (from[0] != '\\' || from[1] != '{')
            *to++ = *from;
    *to = '\0';
}

enum err job_range_name(const struct job_range *r, uint32_t i, char *out, size_t bytes)
{
    int n = r->many ? snprintf(out, bytes, "%.*s%u%s", (int)r->head_bytes, r->text, i, r->tail)
                    : snprintf(out, bytes, "%s", r->text);
    if (n < 0 || (size_t)n >= bytes)
        return ERR_TOOBIG;
    if (r->has_braces)
        take_backslashes(out);
    return ERR_OK;
}

void job_range_write(char *out, const char *name)
{
    bool escapes = looks_like_range(name);
    for (; *name; *out++ = *name++)
        if (escapes && *name == '{')
            *out++ = '\\';
    *out = '\0';
}

/* ---- names of a class ---- */

static bool is_pipe(const char *text, size_t bytes, size_t at)
{
    return text[at] == '\\' && at + 1 < bytes && text[at + 1] == '|';
}

size_t job_class_name_bytes(const char *text, size_t bytes)
{
    size_t n = 0;
    while (n < bytes && text[n] != '|')
        n += is_pipe(text, bytes, n) ? 2 : 1;
    return n;
}

size_t job_class_name_plain(char *out, const char *name, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        i += is_pipe(name, bytes, i);
        out[n++] = name[i];
    }
    return n;
}
