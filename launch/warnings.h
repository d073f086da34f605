/* Which warnings of the processes reach the terminal: each once, whoever says it and however often. Pure: texts, names and
 * times come in, lines go out.
 *
 * Two texts are the same warning if they differ in how long or how often only: in durations ("waiting 10 s"), steps, ports,
 * and counts of what was left out. A warning that is not heard for WARNINGS_QUIET_MS is news when it comes again. Processes
 * that say the same between two calls of warnings_take share a line: "worker 0, worker 2: ..". */
#ifndef GRADWIRE_LAUNCH_WARNINGS_H
#define GRADWIRE_LAUNCH_WARNINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/log.h"

enum {
    WARNINGS_KEPT =
        256, /* different ones that are remembered; the one not heard for longest goes */
    WARNINGS_QUIET_MS = 60000, /* > the 10 s after which who waits says so again */
    WARNINGS_HELD = 16,        /* between two calls of warnings_take */
    WARNINGS_NAMED = 3,        /* processes by name in one line; of the others their number */
    WARNINGS_LINE_BYTES = 640
};

struct warning {
    uint64_t key;     /* of the text; 0: none */
    int64_t heard_ms; /* last */
};

struct warning_held {
    uint64_t key;
    uint32_t more; /* processes that said it, above those in `names` */
    uint32_t named;
    char names[128], last[32], text[448];
};

/* All zero at first. */
struct warnings {
    struct warning kept[WARNINGS_KEPT];
    struct warning_held held[WARNINGS_HELD];
    uint32_t n_held, left_out;
    struct log_budget budget;
};

/* Process `name` said this. */
void warnings_hear(struct warnings *w, const char *name, const char *text, int64_t now_ms);
/* The next line to be shown; false: there is none (any more). */
bool warnings_take(struct warnings *w, char out[WARNINGS_LINE_BYTES]);

/* The same for texts that are the same warning. */
uint64_t warnings_key(const char *text);

#endif
