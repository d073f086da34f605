/* Where a process answers HTTP, as its flags have it. */
#ifndef GRADWIRE_COMMON_SERVE_HTTP_PLACE_H
#define GRADWIRE_COMMON_SERVE_HTTP_PLACE_H

#include "common/base/err.h"

struct http_place {
    int port;            /* 0: nowhere */
    const char *address; /* of this host; "": all of them */
    int fd;              /* a listening socket that a launcher hands down; -1: none */
};

/* `bind`: "host:port" where this process serves its job, NULL: nowhere. Errors: ERR_INPUT: HTTP would listen there, too. */
enum err http_place_check(const struct http_place *place, const char *bind,
                          struct errmsg *e) MUST_CHECK;

#endif
