/* The inside of gradwire-hdf5: two commands, each a file. Errors: one line, which names the file or the tensor. */
#ifndef GRADWIRE_FORMATS_HDF5_PROGRAM_H
#define GRADWIRE_FORMATS_HDF5_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <hdf5.h>

#include "common/base/err.h"

/* The library works on files in memory: it opens none by name, and cannot write to one. This is their name, which no file
 * can have. */
#define HDF5_IMAGE "/dev/null/image"

/* From now on this process takes at most `bytes` more, and a little for the library: what a file says that it has is known,
 * but a compressed part can grow beyond that. */
void hdf5_limit_memory(uint64_t bytes);

/* Write all arrays of floats in the HDF5 file `from` to the safetensors file `to`, as float32, by their paths in the file
 * ("layers/dense/vars/0"). Refused: links to other places than an object of the file, data in other files, filters other
 * than deflate (once), shuffle (before it) and fletcher32, chunks beyond the limit of arrays, more objects, bytes or levels than the
 * limits. Errors: ERR_INPUT, ERR_TOOBIG, ERR_CORRUPT, ERR_IO, ERR_NOMEM. */
enum err hdf5_read(const char *from, const char *to, struct errmsg *e) MUST_CHECK;

/* Write the tensors of the safetensors file `from` to the HDF5 file `to`: a tensor "a/b/0" becomes the array 0 in the group
 * b in the group a. The file has no times: the same tensors and the same library give the same bytes. Errors: ERR_CORRUPT,
 * ERR_IO, ERR_NOMEM. */
enum err hdf5_write(const char *from, const char *to, struct errmsg *e) MUST_CHECK;

/* chunks.c. Returns whether each chunk of the array unpacks to the size of a chunk, and nothing follows it. An array without filters
 * is whole. False also if memory runs out. */
bool hdf5_chunks_are_whole(hid_t array);

#endif
