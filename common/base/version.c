#include "common/base/version.h"

#include <stdio.h>
#include <string.h>

bool version_same(const char *theirs, const char *dialing, const char *dialed, char *why,
                  size_t bytes)
{
    if (strcmp(theirs, GRADWIRE_HELLO) == 0)
        return true;
    (void)snprintf(why, bytes,
                   "a %s of version %.32s connected to a %s of version %s: all processes of a job "
                   "must run the same release",
                   dialing, theirs, dialed, GRADWIRE_HELLO);
    return false;
}
