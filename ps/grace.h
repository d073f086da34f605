/* Has a ps time for a snapshot between SIGTERM and its end? A snapshot that cannot end keeps nobody's work, and whoever
 * waits for it is killed in the middle of it. Pure. */
#ifndef GRADWIRE_PS_GRACE_H
#define GRADWIRE_PS_GRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/parameters/plan.h"

enum {
    GRACE_FIRST_BYTES_PER_S = 50 << 20, /* before the first snapshot: slow network storage */
    GRACE_LEAVE_MS = 1000,              /* before SIGKILL */
    GRACE_FIXED_MS = 1000, /* beside the writing: shards come to a boundary, the chief publishes */
};

/* What one shard thread writes. */
struct grace_part {
    uint64_t bytes;
    double seconds; /* that its last snapshot took; 0: none yet */
};

struct grace {
    uint32_t allowed_s; /* from SIGTERM to SIGKILL, or timeouts.grace_s, whatever is less */
    bool is_killed;     /* behind it */
    uint32_t parts;
    struct grace_part part[PLAN_SHARDS_MAX];
};

/* timeouts.grace_s, and what who started the process gives; 0: not told. */
void grace_init(struct grace *g, uint32_t job_s, uint32_t given_s);
/* So long a ps waits for a cut; less than what is given by who kills it then, or its last word would be lost. */
int64_t grace_bound_ms(const struct grace *g);

/* A thread's state is so large; `seconds` 0: that is all that is known, and its last snapshot still counts. A size that
 * has changed makes what was measured void. */
void grace_note(struct grace *g, uint32_t thread, uint64_t bytes, double seconds);
uint64_t grace_bytes(const struct grace *g);
/* All parts are written at once; those that were never written at the rate of the others, or at the first one. */
double grace_needs_s(const struct grace *g);
bool grace_suffices(const struct grace *g);

/* The line for people, as it stands: how long a snapshot takes, and by what that was found. */
void grace_say(const struct grace *g, char *out, size_t bytes);

#endif
