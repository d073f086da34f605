/* Checks whether addresses can be connected to from this host. All are checked in parallel, within one time limit.
 * Names are looked up as other programs of this host do. The addresses of a name are tried one after the other
 * until one accepts; that connection is closed again. */
#ifndef GRADWIRE_COMMON_NET_REACH_H
#define GRADWIRE_COMMON_NET_REACH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum {
    REACH_NAMES_MS = 10000, /* a resolver gives up on a dead name server after 5 s */
    REACH_MS = 5000,
};

enum reach_is {
    REACH_OPEN,
    REACH_NAMELESS, /* its name does not resolve, or no name server replied */
    REACH_REFUSED,  /* the host answers, but nothing listens on the port */
    REACH_SILENT,   /* no reply within the time limit */
    REACH_FAILED,   /* no route to it, or not a valid address */
};

struct reach {
    const char *address; /* "host:port"; owned by the caller */
    enum reach_is is;
    char why[160]; /* such as "Connection refused"; "" for REACH_OPEN */
};

/* Checks all. Blocks: for each 64 addresses up to REACH_NAMES_MS for the names, then up to `ms` for the
 * connections; all addresses of one name share `ms`. Errors: ERR_NOMEM. */
enum err reach_all(struct reach *r, size_t n, int ms) MUST_CHECK;
/* Looks up names only: REACH_OPEN means that the name resolves. Errors: ERR_NOMEM. */
enum err reach_names(struct reach *r, size_t n) MUST_CHECK;

#endif
