/* The address on which a process serves HTTP, from its flags. */
#ifndef GRADWIRE_COMMON_SERVE_HTTP_PLACE_H
#define GRADWIRE_COMMON_SERVE_HTTP_PLACE_H

#include "common/base/err.h"

struct http_place {
    int port;            /* 0: off */
    const char *address; /* an address of this host; "": all */
    int fd;              /* a listening socket from the launcher; -1: none */
};

/* Checks that HTTP does not use the address on which this process serves its job: `bind`, "host:port", or NULL if
 * it serves none. Errors: ERR_INPUT if it does. */
enum err http_place_check(const struct http_place *place, const char *bind,
                          struct errmsg *e) MUST_CHECK;

#endif
