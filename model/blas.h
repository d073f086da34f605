/* OpenBLAS's own threads and buffers. OpenBLAS makes a thread for each core when the library is loaded, and takes a
 * buffer when a thread multiplies for the first time; without enough address space it retries for ever. So it gets
 * one thread here, and its buffers before training begins. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"

/* Runs before libraries are initialized (.preinit_array). If OPENBLAS_NUM_THREADS is not set, it executes the
 * program again with that variable. It uses only system calls, because libc is not ready. */
void blas_one_thread(int argc, char **argv, char **envp);

/* Take buffers for so many threads that multiply at the same time. Errors: ERR_NOMEM: not enough address space.
 * Thread: the main one, while no other multiplies. */
enum err blas_take(uint32_t threads, struct errmsg *e) MUST_CHECK;
