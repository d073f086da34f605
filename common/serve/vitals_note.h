/* The message by which a process reports its memory, its HTTP address and its last warnings to the chief, for the
 * job's page. */
#ifndef GRADWIRE_COMMON_SERVE_VITALS_NOTE_H
#define GRADWIRE_COMMON_SERVE_VITALS_NOTE_H

#include "common/base/log.h"
#include "common/wire/msg.h"

enum { VITALS_EVERY_MS = 1000, VITALS_HTTP_BYTES = 64 };

struct vitals_note {
    Gradwire__Vitals message; /* points into the other members */
    struct log_kept kept[LOG_KEPT];
    Gradwire__Warning warning[LOG_KEPT], *warnings[LOG_KEPT];
    char http[VITALS_HTTP_BYTES];
};

/* Fills *n, which must not move afterwards. `http_fd`: the listening socket of HTTP, or -1. Thread: any. */
void vitals_note_make(struct vitals_note *n, int http_fd);
/* Writes a listening socket's address, such as "127.0.0.1:8080", or ":8080" if it is every address of the host; ""
 * for -1. */
void vitals_http(int fd, char out[VITALS_HTTP_BYTES]);

#endif
