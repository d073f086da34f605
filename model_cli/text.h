/* Text or bytes that grow: what a thread has made of its rows, until its turn comes to write. Memory is kept for reuse. */
#ifndef GRADWIRE_MODEL_CLI_TEXT_H
#define GRADWIRE_MODEL_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* All zeros are an empty one. `failed`: memory ran out, and the text is incomplete. */
struct text {
    char *at;
    size_t bytes, capacity;
    bool failed;
};

void text_clear(struct text *t);
void text_close(struct text *t);
/* Make room for so many more bytes at t->at + t->bytes. False: memory ran out. */
bool text_room(struct text *t, size_t more);
void text_add(struct text *t, const void *data, size_t bytes);
/* A field of csv (RFC 4180): in quotes if it contains a quote, a comma or the end of a line, or begins or ends with a blank. */
void text_add_field(struct text *t, const char *field, size_t bytes);
/* In decimal, so that it reads back to the same bits; "nan", "inf". */
void text_add_float(struct text *t, float number);
void text_add_count(struct text *t, unsigned long long number);

#endif
