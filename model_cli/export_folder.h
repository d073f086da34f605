/* A copy of a trained model as files of its own: weights, job.yaml, encoding.json, manifest.json, and the rows of its
 * tables. Any program that reads model/ reads it. */
#ifndef GRADWIRE_MODEL_CLI_EXPORT_FOLDER_H
#define GRADWIRE_MODEL_CLI_EXPORT_FOLDER_H

#include "predict/folder.h"

/* Write the directory `path`, which must not exist. It appears with all its files, or not at all. Errors: ERR_INPUT: it
 * exists; ERR_IO. */
enum err export_folder_write(const char *path, const struct folder *f, struct errmsg *e) MUST_CHECK;

#endif
