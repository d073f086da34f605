/* gradwire-hdf5 read FILE OUT.safetensors
 * gradwire-hdf5 write IN.safetensors FILE
 *
 * The only program that links libhdf5. The library parses files that may come from anywhere, so it runs here, in a process
 * with limits, and not in the programs that train: formats/keras/hdf5.h starts it, and takes its crash for an error of the
 * file. It writes one line to stderr if it fails; the exit codes are those of docs/reference/exit-codes.md. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/hdf5/program.h"

enum { CPU_S = 60, OPEN_FILES = 32, EXIT_INPUT = 2 };
#define LIBRARY_BYTES ((uint64_t)128 << 20)
#define MEMORY_BYTES ((uint64_t)1 << 30) /* besides four times the input's size */

static void limit(__rlimit_resource_t what, uint64_t most)
{
    struct rlimit now;
    if (getrlimit(what, &now) != 0)
        return;
    if (now.rlim_max == RLIM_INFINITY || most < now.rlim_max)
        now.rlim_max = most;
    now.rlim_cur = now.rlim_max;
    (void)setrlimit(what, &now);
}

/* A file can make the library use time and memory: both end. */
static void limit_process(const char *input)
{
    struct stat st;
    uint64_t bytes = stat(input, &st) == 0 ? (uint64_t)st.st_size : 0;
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, CPU_S + (bytes >> 24));
    limit(RLIMIT_NOFILE, OPEN_FILES);
#ifndef GRADWIRE_SANITIZED /* a sanitizer maps terabytes */
    limit(RLIMIT_AS, MEMORY_BYTES + 4 * bytes);
#endif
}

void hdf5_limit_memory(uint64_t bytes)
{
#ifndef GRADWIRE_SANITIZED
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu", &pages) == 1)
        limit(RLIMIT_AS, pages * (uint64_t)sysconf(_SC_PAGESIZE) + LIBRARY_BYTES + bytes);
    if (f)
        (void)fclose(f);
#else
    (void)bytes;
#endif
}

/* No messages of the library itself, and no code from plugins. */
static int quiet_library(void)
{
    return H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0 &&
           H5PLset_loading_state(0) >= 0;
}

int main(int argc, char **argv)
{
    struct errmsg e = {""};
    enum err err;
    if (argc != 4 || (strcmp(argv[1], "read") != 0 && strcmp(argv[1], "write") != 0)) {
        (void)fputs("usage: gradwire-hdf5 read FILE OUT.safetensors\n"
                    "       gradwire-hdf5 write IN.safetensors FILE\n",
                    stderr);
        return EXIT_INPUT;
    }
    limit_process(argv[2]);
    if (!quiet_library())
        err = err_set(&e, ERR_NOMEM, "the library HDF5 does not start");
    else
        err = strcmp(argv[1], "read") == 0 ? hdf5_read(argv[2], argv[3], &e)
                                           : hdf5_write(argv[2], argv[3], &e);
    if (err)
        (void)fprintf(stderr, "%s\n", e.text);
    return err_exit_code(err);
}
