/* The message in which a process tells the chief its memory, its HTTP address and its last warnings, for the job's page. */
#ifndef GRADWIRE_COMMON_SERVE_VITALS_NOTE_H
#define GRADWIRE_COMMON_SERVE_VITALS_NOTE_H

#include "common/base/log.h"
#include "common/wire/msg.h"

enum { VITALS_EVERY_MS = 1000, VITALS_HTTP_BYTES = 64 };

struct vitals_note {
    Gradwire__Vitals message; /* points into the rest */
    struct log_kept kept[LOG_KEPT];
    Gradwire__Warning warning[LOG_KEPT], *warnings[LOG_KEPT];
    char http[VITALS_HTTP_BYTES];
};

/* Fill *n, which stays where it is. `http_fd`: where it answers, -1: nowhere. Thread: any. */
void vitals_note_make(struct vitals_note *n, int http_fd);
/* "127.0.0.1:8080" of a listening socket, ":8080" where that is every address of the host; "" for -1. */
void vitals_http(int fd, char out[VITALS_HTTP_BYTES]);

#endif
