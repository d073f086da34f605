/* Whether the files of a trained model have the content that was written: damage that leaves a valid file, such as a flipped bit,
 * or a file of another model, would only give other scores. */
#ifndef GRADWIRE_MODEL_CLI_WRITTEN_H
#define GRADWIRE_MODEL_CLI_WRITTEN_H

#include "predict/folder.h"

/* f: open, with weights of its directory. Compares the directory's files with manifest.json; without it (a job that runs, an
 * earlier release) the weights of a model without tables with the digest in their file. Errors: ERR_CORRUPT, naming the file;
 * ERR_IO, ERR_NOMEM. */
enum err written_check(const struct folder *f, struct errmsg *e) MUST_CHECK;

#endif
