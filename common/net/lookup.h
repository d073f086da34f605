/* A name looked up as any program of this host does it (getaddrinfo), on a helper thread of its own.
 *
 * Two hold a lookup, its owner and the thread: who lets go last frees it, so nobody waits for a resolver that is slow.
 * glibc's getaddrinfo_a would do, but for its threads' 64 KiB stacks, which not every name service module is content
 * with, and which sanitizers do not see begin. */
#ifndef GRADWIRE_COMMON_NET_LOOKUP_H
#define GRADWIRE_COMMON_NET_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster/address.h"

enum { LOOKUP_ADDRESSES_MAX = 16 };

struct lookup;

/* NULL: no memory, descriptor or thread. */
struct lookup *lookup_start(const char *host, uint16_t port);
/* Readable once it is done; the lookup's. */
int lookup_fd(const struct lookup *u);
bool lookup_done(const struct lookup *u);
/* Of one that is done: how many addresses there are, and them, in the resolver's order, until it is dropped. 0: none, and
 * lookup_why says why ("Name or service not known"). */
size_t lookup_addresses(const struct lookup *u, const struct address **address);
const char *lookup_why(const struct lookup *u);
/* Done or not. NULL: nothing happens. */
void lookup_drop(struct lookup *u);

#endif
