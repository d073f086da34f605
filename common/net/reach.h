/* Can others be connected to from here? All of them at once, within one bound: names are looked up as any program of this
 * host does it, then the addresses of each are dialed, one after the other, until one is there; that connection is
 * closed again. */
#ifndef GRADWIRE_COMMON_NET_REACH_H
#define GRADWIRE_COMMON_NET_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum {
    REACH_NAMES_MS = 10000, /* a resolver leaves a name server that is dead after 5 s */
    REACH_MS = 5000,
};

enum reach_is {
    REACH_OPEN,
    REACH_NAMELESS, /* its name does not resolve, or nobody answered who would know it */
    REACH_REFUSED,  /* the host is there, and nothing listens */
    REACH_SILENT,   /* no answer within the bound */
    REACH_FAILED,   /* no way to it, or no address at all */
};

struct reach {
    const char *address; /* "host:port"; the caller's */
    enum reach_is is;
    char why[160]; /* "Connection refused"; "" where it is open */
};

/* Errors: ERR_NOMEM. Blocks, for each 64 of them up to REACH_NAMES_MS for the names, and then `ms` for the connections,
 * which the addresses of one name share. */
enum err reach_all(struct reach *r, size_t n, int ms) MUST_CHECK;
/* Names alone: REACH_OPEN where it resolves. */
enum err reach_names(struct reach *r, size_t n) MUST_CHECK;

#endif
