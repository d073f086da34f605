/* Selects the warnings of the processes that appear on the terminal: each warning once, however many processes log it and
 * however often. Pure: texts, names and times come in, lines go out.
 *
 * Two texts are the same warning if they differ only in durations ("waiting 10 s"), steps, ports, and counts of omitted
 * lines. A warning that was not logged for WARNINGS_QUIET_MS is shown again. Processes that log the same warning between two
 * calls of warnings_take share a line: "worker 0, worker 2: ..". */
#ifndef GRADWIRE_LAUNCH_WARNINGS_H
#define GRADWIRE_LAUNCH_WARNINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/log.h"

enum {
    WARNINGS_KEPT = 256,       /* remembered warnings; the least recent one is replaced */
    WARNINGS_QUIET_MS = 60000, /* longer than the 10 s after which a wait is logged again */
    WARNINGS_HELD = 16,        /* new warnings between two calls of warnings_take */
    WARNINGS_NAMED = 3,        /* processes named in one line; the others are counted */
    WARNINGS_LINE_BYTES = 640
};

struct warning {
    uint64_t key;     /* warnings_key of the text; 0: none */
    int64_t heard_ms; /* last */
};

struct warning_held {
    uint64_t key;
    uint32_t more; /* processes that logged it, without those in `names` */
    uint32_t named;
    char names[128], last[32], text[448];
};

/* Begins as zeros. */
struct warnings {
    struct warning kept[WARNINGS_KEPT];
    struct warning_held held[WARNINGS_HELD];
    uint32_t n_held, left_out;
    struct log_budget budget;
};

/* Process `name` has logged this text. */
void warnings_hear(struct warnings *w, const char *name, const char *text, int64_t now_ms);
/* Get the next line to show. False: there is none. */
bool warnings_take(struct warnings *w, char out[WARNINGS_LINE_BYTES]);

/* A key of the text; texts of the same warning have the same key. */
uint64_t warnings_key(const char *text);

#endif
