/* Finds the process that listens on a port of this host. */
#ifndef GRADWIRE_WORKER_DOCTOR_HOLDER_H
#define GRADWIRE_WORKER_DOCTOR_HOLDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The process that listens on `port`, and its program's name; 0: none, or a process of another user. Reads /proc. */
pid_t holder_of_port(uint16_t port, char *name, size_t bytes);

#endif
