/* Checks whether addresses can be connected to from this host. All are checked in parallel, within one time limit.
 * Names are looked up as other programs of this host do. The addresses of a name are tried one after the other
 * until one accepts; that connection is closed again. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/cluster/address.h"

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

/* Looks up a host name with getaddrinfo, as other programs of this host do, on a thread of its own. The owner and
 * the thread share the lookup, and the last one to release it frees it: so no owner waits for a slow resolver.
 * glibc's getaddrinfo_a is not used because its threads have stacks of 64 KiB, which are too small for some name
 * service modules, and because sanitizers do not see these threads start. */

enum { LOOKUP_ADDRESSES_MAX = 16 };

struct lookup;

/* Starts a lookup. Returns NULL if memory, descriptors or threads run out. */
struct lookup *lookup_start(const char *host, uint16_t port);
/* A descriptor that becomes readable when the lookup is done. The lookup owns it. */
int lookup_fd(const struct lookup *u);

/* Only after lookup_done. Returns the number of addresses. *address points to them in the resolver's order, valid
 * until lookup_drop. If the number is 0, lookup_why returns the reason ("Name or service not known"). */
size_t lookup_addresses(const struct lookup *u, const struct address **address);
const char *lookup_why(const struct lookup *u);
/* Releases the lookup, done or not. NULL is ignored. */
void lookup_drop(struct lookup *u);
