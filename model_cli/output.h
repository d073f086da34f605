/* The output of a command: stdout, or a file that is there when it is complete. A signal that ends the process removes what
 * was written. */
#ifndef GRADWIRE_MODEL_CLI_OUTPUT_H
#define GRADWIRE_MODEL_CLI_OUTPUT_H

#include "common/process/files.h"
#include "model_cli/text.h"

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

#endif
