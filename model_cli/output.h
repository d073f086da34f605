/* The output of a command: stdout, or a file that is there when it is complete. A signal that ends the process removes what
 * was written. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/process/files.h"

/* Text or bytes that grow: what a thread has made of its rows, until its turn comes to write. Memory is kept for reuse. */

/* All zeros are an empty one. `failed`: memory ran out, and the text is incomplete. */
struct text {
    char *at;
    size_t bytes, capacity;
    bool failed;
};

void text_clear(struct text *t);
void text_close(struct text *t);
/* Allocate so many more bytes at t->at + t->bytes. False: memory ran out. */
bool text_reserve(struct text *t, size_t more);
void text_add(struct text *t, const void *data, size_t bytes);
/* A field of csv (RFC 4180): in quotes if it contains a quote, a comma or the end of a line, or begins or ends with a blank. */
void text_add_field(struct text *t, const char *field, size_t bytes);
/* In decimal, so that it reads back to the same bits; "nan", "inf". */
void text_add_float(struct text *t, float number);
void text_add_count(struct text *t, unsigned long long number);

struct output {
    struct files_writer file;
    bool named; /* false: stdout */
};

/* `path` can become a file: nothing is there, or a regular file. A rename would replace even a device. Errors: ERR_INPUT. */
enum err output_check(const char *path, struct errmsg *e) MUST_CHECK;

/* path NULL: stdout. One output at a time can have a path. Errors: ERR_INPUT: the file cannot be made there. */
enum err output_begin(struct output *o, const char *path, struct errmsg *e) MUST_CHECK;
/* Errors: ERR_IO: such as a full disk; ERR_NOMEM: the text has failed. */
enum err output_put(struct output *o, const struct text *t, struct errmsg *e) MUST_CHECK;
/* Overwrite the first bytes of the file. Errors: ERR_IO. */
enum err output_put_first(struct output *o, const void *data, size_t bytes,
                          struct errmsg *e) MUST_CHECK;
/* All is written: the file appears under its name. Errors: ERR_IO; the output has ended nevertheless. */
enum err output_end(struct output *o, struct errmsg *e) MUST_CHECK;
/* Leave no file. After output_end there is nothing to do. */
void output_abort(struct output *o);

/* From now on a signal only makes output_interrupted true, so that a library can remove its own files. */
void output_hold(void);
bool output_interrupted(void);
/* Signals end the process again, and a signal that has come does so now. */
void output_release(void);
