#include "model_cli/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"

enum { NUMBER_BYTES = 32, TEXT_FIRST = 4096 };

void text_clear(struct text *t)
{
    t->bytes = 0;
    t->failed = false;
}

void text_close(struct text *t)
{
    mem_free(t->at);
    *t = (struct text){0};
}

bool text_room(struct text *t, size_t more)
{
    if (t->capacity - t->bytes >= more)
        return true;
    size_t need = t->bytes + more;
    char *grown = mem_grow(t->at, &t->capacity, need > TEXT_FIRST ? need : TEXT_FIRST, 1);
    t->failed = t->failed || !grown;
    if (grown)
        t->at = grown;
    return grown != NULL;
}

void text_add(struct text *t, const void *data, size_t bytes)
{
    if (bytes == 0 || !text_room(t, bytes))
        return;
    memcpy(t->at + t->bytes, data, bytes);
    t->bytes += bytes;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool needs_quotes(const char *field, size_t bytes)
{
    bool quotes = bytes > 0 && (is_blank(field[0]) || is_blank(field[bytes - 1]));
    for (size_t i = 0; i < bytes && !quotes; i++)
        quotes = field[i] == '"' || field[i] == ',' || field[i] == '\n' || field[i] == '\r';
    return quotes;
}

void text_add_field(struct text *t, const char *field, size_t bytes)
{
    if (!needs_quotes(field, bytes)) {
        text_add(t, field, bytes);
        return;
    }
    text_add(t, "\"", 1);
    for (size_t i = 0; i < bytes; i++)
        text_add(t, field[i] == '"' ? "\"\"" : field + i, field[i] == '"' ? 2 : 1);
    text_add(t, "\"", 1);
}

void text_add_float(struct text *t, float number)
{
    char out[NUMBER_BYTES];
    int n = isnan(number) ? snprintf(out, sizeof out, "nan")
                          : snprintf(out, sizeof out, "%.9g", (double)number);
    text_add(t, out, (size_t)n);
}

void text_add_count(struct text *t, unsigned long long number)
{
    char out[NUMBER_BYTES];
    int n = snprintf(out, sizeof out, "%llu", number);
    text_add(t, out, (size_t)n);
}
