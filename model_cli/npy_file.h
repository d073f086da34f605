/* The header of an npy file, in NPY_HEADER_BYTES, so that it can be written again when the number of rows is known. Format:
 * numpy's NEP 1, version 1.0. */
#ifndef GRADWIRE_MODEL_CLI_NPY_FILE_H
#define GRADWIRE_MODEL_CLI_NPY_FILE_H

#include <stdint.h>

#include "model_cli/text.h"

enum { NPY_HEADER_BYTES = 192 };

/* descr: the type of the elements, such as "<f4". The array has the shape (rows, dim[0], ..), of 1 + rank dimensions; rank is
 * at most NPY_RANK_MAX. */
enum { NPY_RANK_MAX = 4 };
void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint32_t rank,
                     const uint32_t *dim);

#endif
