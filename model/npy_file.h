/* The header of an npy file, in NPY_HEADER_BYTES, so that it can be written again when the number of rows is known. Format:
 * numpy's NEP 1, version 1.0. */
#ifndef GRADWIRE_MODEL_NPY_FILE_H
#define GRADWIRE_MODEL_NPY_FILE_H

#include <stdint.h>

#include "model/text.h"

enum { NPY_HEADER_BYTES = 128 };

/* descr: the type of the elements, such as "<f4". columns 0: the array has one dimension, (rows). */
void npy_file_header(struct text *t, const char *descr, uint64_t rows, uint64_t columns);

#endif
