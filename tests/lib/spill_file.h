/* The file of a spill (data/spill.h), which has no name: bits of it change, as on a disk that fails. */
#pragma once

/* A descriptor of this process's only spill that has a file; it belongs to the spill. */
int spill_file(void);
/* Changes one bit of it. */
void spill_file_flip(int bit);
