/* OpenBLAS's own threads and buffers. It makes a thread for each core when the library is loaded, and takes a buffer when a
 * thread multiplies for the first time; where there is no address space for that it tries for ever. So it gets one thread,
 * and its buffers before training begins. */
#ifndef GRADWIRE_WORKER_MODEL_BLAS_H
#define GRADWIRE_WORKER_MODEL_BLAS_H

#include <stdint.h>

#include "common/base/err.h"

/* Before libraries are initialized (.preinit_array): where OPENBLAS_NUM_THREADS is not set, the program begins anew with it.
 * Only system calls: libc is not ready. */
void blas_one_thread(int argc, char **argv, char **envp);

/* Buffers for so many threads that multiply at once. Errors: ERR_NOMEM there is no address space for them.
 * Thread: the main one, when no other multiplies. */
enum err blas_take(uint32_t threads, struct errmsg *e) MUST_CHECK;

#endif
