/* OpenBLAS: one thread, and its buffers in advance. */
#include "model/blas.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/mem.h"

enum { PATH_BYTES = 4096 };

/* ---- one thread ---- */

#define ONE_THREAD "OPENBLAS_NUM_THREADS="

static bool __attribute__((no_sanitize("address", "thread"))) is_set(const char *entry)
{
    const char *name = ONE_THREAD;
    while (*name && *entry == *name)
        entry++, name++;
    return *name == '\0';
}

/* Execute the program again with a copy of the environment that has the variable. Returns only if the kernel
 * refuses; then main tells OpenBLAS. */
static void __attribute__((no_sanitize("address", "thread")))
begin_anew(char **argv, char **envp, size_t n)
{
    static char entry[] = ONE_THREAD "1", path[PATH_BYTES];
    char *env[n + 2];
    env[0] = entry;
    for (size_t i = 0; i <= n; i++)
        env[i + 1] = envp[i];
    long bytes = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
    if (bytes > 0)
        (void)syscall(SYS_execve, path, argv, env);
}

void __attribute__((no_sanitize("address", "thread")))
blas_one_thread(int argc, char **argv, char **envp)
{
    size_t n = 0;
    (void)argc;
    for (; envp[n]; n++)
        if (is_set(envp[n]))
            return;
    if (getauxval(AT_BASE) == 0)
        return; /* a dynamic loader was started by hand: /proc/self/exe names the loader */
    begin_anew(argv, envp, n);
}

/* ---- buffers ---- */

/* From OpenBLAS (driver/others/memory.c). Weak, because another BLAS lacks them. */
extern void *blas_memory_alloc(int position) __attribute__((weak));
extern void blas_memory_free(void *buffer) __attribute__((weak));

enum { BUFFER_MIB = 128 }; /* the largest size in its kernels for x86-64 and arm64 */

/* Check for the address space first, because OpenBLAS does not return if it cannot get a buffer. Each buffer is
 * mapped here in the same way, so the same limits apply (ulimit -v and -d, vm.overcommit_memory). */
static enum err probe(uint32_t buffers, struct errmsg *e)
{
    size_t bytes = (size_t)BUFFER_MIB << 20;
    void **there = mem_zalloc(buffers, sizeof *there);
    uint32_t n = 0;
    for (; there && n < buffers; n++) {
        there[n] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (there[n] == MAP_FAILED)
            break;
    }
    for (uint32_t i = 0; i < n; i++)
        (void)munmap(there[i], bytes);
    mem_free(there);
    if (n < buffers)
        return err_set(e, ERR_NOMEM,
                       "no address space for the matrix products of %u threads, %d MiB each: raise "
                       "ulimit -v, or lower worker.threads",
                       buffers, BUFFER_MIB);
    return ERR_OK;
}

enum err blas_take(uint32_t threads, struct errmsg *e)
{
    static uint32_t taken; /* OpenBLAS keeps them for later calls */
    if (!blas_memory_alloc || !blas_memory_free || threads <= taken)
        return ERR_OK;
    enum err err = probe(threads - taken, e);
    if (err)
        return err;
    void **buffer = mem_zalloc(threads, sizeof *buffer);
    if (!buffer)
        return err_memory(e);
    for (uint32_t i = 0; i < threads; i++)
        buffer[i] = blas_memory_alloc(0);
    for (uint32_t i = 0; i < threads; i++)
        blas_memory_free(buffer[i]);
    mem_free(buffer);
    taken = threads;
    return ERR_OK;
}
