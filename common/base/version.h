/* The release, and the rule for which releases can talk to each other: proto/README.md, "Versions". */
#ifndef GRADWIRE_COMMON_BASE_VERSION_H
#define GRADWIRE_COMMON_BASE_VERSION_H

#include <stdbool.h>
#include <stddef.h>

#define GRADWIRE_VERSION "0.1.0"

/* Returns whether a peer of version `theirs` runs this release: versions must be equal. `dialing` is the word for the
 * peer, `dialed` the word for this process. If the versions differ, `why` names both: "a worker of version 0.2
 * connected to a ps of version 0.1: ...". */
bool version_same(const char *theirs, const char *dialing, const char *dialed, char *why,
                  size_t bytes);

#endif
