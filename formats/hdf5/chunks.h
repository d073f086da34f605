/* The compressed parts of an array in an HDF5 file. */
#ifndef GRADWIRE_FORMATS_HDF5_CHUNKS_H
#define GRADWIRE_FORMATS_HDF5_CHUNKS_H

#include <stdbool.h>

#include <hdf5.h>

/* Returns whether each chunk of the array unpacks to the size of a chunk, and nothing follows it. An array without filters
 * is whole. False also if memory runs out. */
bool hdf5_chunks_are_whole(hid_t array);

#endif
