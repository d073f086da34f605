/* The file of a spill (data/spill.h), which has no name: bits of it change, as on a disk that fails. */
#ifndef GRADWIRE_TESTS_LIB_SPILL_FILE_H
#define GRADWIRE_TESTS_LIB_SPILL_FILE_H

/* A descriptor of this process's only spill that has a file; it belongs to the spill. */
int spill_file(void);
/* Changes one bit of it. */
void spill_file_flip(int bit);

#endif
