/* Shared code of the yardsticks: blocking sockets on loopback, the clock, an exit. They print
 * one JSON line on stdout and exit 0; anything that goes wrong is one line on stderr and exit 1. */
#pragma once

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/err.h"

enum { BENCH_BUFFER_BYTES = 1 << 20 }; /* fixed socket buffers: autotuning makes loopback bimodal */

/* Print one line and exit 1. */
void bench_die(const char *fmt, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));

/* Zeroed memory of whole pages, touched; never NULL. Free with free(). */
void *bench_pages(size_t bytes);

/* Seconds of processor time that this thread has had. */
double bench_cpu_s(void);

/* A line of a file of /proc that counts in kB, in bytes; 0: there is none. */
uint64_t bench_proc_bytes(const char *path, const char *name);

/* The number behind a flag, or exit 1. */
uint64_t bench_number(const char *text);

/* A listening socket on a free port of `host`, whose accepted sockets have the buffers of
 * `buffer_bytes` (0: the kernel's own tuning). */
int bench_listen(in_addr_t host, int buffer_bytes, uint16_t *port);
int bench_accept(int listener);
int bench_dial(uint16_t port, int buffer_bytes);

/* Blocking; exit 1 when the peer is gone. bench_read returns false at a clean end before the first
 * byte. */
void bench_write(int fd, struct iovec *parts, int n_parts);
int bench_read(int fd, void *p, size_t bytes);
/* Reads the bytes that are available: at least one, at most `bytes`. */
size_t bench_read_some(int fd, void *p, size_t bytes);

/* Fork a child that dies with this process; returns 0 in the child. */
pid_t bench_fork(void);
/* Reap it, exit 1 if it failed. */
void bench_reap(pid_t child);

/* The q-quantile (0..1) of n numbers, which get sorted; 0 for none. */
double bench_quantile(double *values, size_t n, double q);
