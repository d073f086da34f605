/* Looks up a host name with getaddrinfo, as other programs of this host do, on a thread of its own. The owner and
 * the thread share the lookup, and the last one to release it frees it: so no owner waits for a slow resolver.
 * glibc's getaddrinfo_a is not used because its threads have stacks of 64 KiB, which are too small for some name
 * service modules, and because sanitizers do not see these threads start. */
#ifndef GRADWIRE_COMMON_NET_LOOKUP_H
#define GRADWIRE_COMMON_NET_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster/address.h"

enum { LOOKUP_ADDRESSES_MAX = 16 };

struct lookup;

/* Starts a lookup. Returns NULL if memory, descriptors or threads run out. */
struct lookup *lookup_start(const char *host, uint16_t port);
/* A descriptor that becomes readable when the lookup is done. The lookup owns it. */
int lookup_fd(const struct lookup *u);
bool lookup_done(const struct lookup *u); /* never blocks */
/* Only after lookup_done. Returns the number of addresses. *address points to them in the resolver's order, valid
 * until lookup_drop. If the number is 0, lookup_why returns the reason ("Name or service not known"). */
size_t lookup_addresses(const struct lookup *u, const struct address **address);
const char *lookup_why(const struct lookup *u);
/* Releases the lookup, done or not. NULL is ignored. */
void lookup_drop(struct lookup *u);

#endif
