/* The release, and the rule for which releases can talk to each other: proto/README.md, "Versions". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GRADWIRE_VERSION "0.1.0"

/* The text of a hello. Builds between two releases have the same version, so the number is raised with each change after which
 * processes of the earlier builds and of the later ones must not work together: in a message that a peer must understand, or
 * in what it computes. 0.1.0 itself said its version alone, so it refuses other builds, too. */
#define GRADWIRE_PROTOCOL "2"
#define GRADWIRE_HELLO GRADWIRE_VERSION " (protocol " GRADWIRE_PROTOCOL ")"

/* Returns whether a peer whose hello says `theirs` is of this release and protocol. `dialing` is the word for the peer,
 * `dialed` the word for this process. Otherwise `why` names both: "a worker of version 0.1.0 connected to a ps of version
 * 0.1.0 (protocol 2): ...". */
bool version_same(const char *theirs, const char *dialing, const char *dialed, char *why,
                  size_t bytes);
