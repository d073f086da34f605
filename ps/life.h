/* The state of a ps process, from start to exit (table: docs/reference/ps-lifecycle.md). Pure: the server reports events and
 * reads the state. The state does not say if the chief's connection is open at the moment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/process/process_state.h"
#include "common/parameters/plan.h"

enum life {
    LIFE_NEW,      /* no chief has connected yet */
    LIFE_MET,      /* a chief has connected; no generation was entered */
    LIFE_IDLE,     /* no chief for start_s, no parameters: keeps waiting (--when_done=wait) */
    LIFE_DONE,     /* the job is done, and this process holds nothing of it */
    LIFE_DONE_MET, /* the same, and a chief has connected since then */
    LIFE_TRAINING, /* ENTER was received: the shards hold parameters, or load them */
    LIFE_GOING,    /* SIGTERM after ENTER: waits until a cut contains its parameters */
    LIFE_LEAVING,  /* SIGTERM with no parameters here: ends immediately */
    LIFE_STOPPING, /* the loop has ended; the process may start again as LIFE_NEW or LIFE_DONE */
    LIFE_LAST,     /* the loop has ended after SIGTERM: the process exits */
};

enum life_event {
    LIFE_CHIEF, /* a chief says hello */
    LIFE_ENTER, /* the chief begins a generation */
    LIFE_ALONE, /* timeouts.start_s has passed without a chief, and --when_done=wait */
    LIFE_OVER,  /* the chief reports that the job is done, and this process has no parameters */
    LIFE_TOLD,  /* SIGTERM or SIGINT */
    LIFE_STOP,  /* the loop has ended */
};

/* The first state. done: the job had already finished when the process started. */
static inline enum life life_begin(bool done)
{
    return done ? LIFE_DONE : LIFE_NEW;
}
/* The state after the event. Asserts that the event can happen in `now`: no peer's message can cause an impossible one. */
enum life life_next(enum life now, enum life_event what);

/* Properties of each state. */
extern const struct life_is {
    bool before_chief; /* LIFE_NEW, LIFE_DONE: LIFE_CHIEF must precede the chief's other events */
    bool entered;      /* ENTER was received: LIFE_TRAINING or LIFE_GOING */
    bool done;         /* the job is done, and this process holds no parameters */
    bool rests;        /* idle or done: waiting loses no work */
    bool told;         /* SIGTERM or SIGINT was received */
    bool stopping;
} life_is[];
/* The state that /status and the metrics report. chief: the chief's connection is open. */
enum process_state life_process_state(enum life l, bool chief);

/* Decides if a ps has time to write a snapshot between SIGTERM and SIGKILL. A snapshot that cannot be finished in that
 * time saves no work, and the ps would be killed while it writes. Pure. */
enum {
    GRACE_FIRST_BYTES_PER_S = 50 << 20, /* before the first snapshot: slow network storage */
    GRACE_LEAVE_MS = 1000,              /* the wait for a cut ends this long before SIGKILL */
    GRACE_FIXED_MS = 1000,              /* in addition: reaching a boundary, publishing */
};

/* One shard thread's part of a snapshot. */
struct grace_part {
    uint64_t bytes;
    double seconds; /* its last snapshot took this long; 0: there was none */
};

struct grace {
    uint32_t allowed_s; /* the smaller one of: SIGTERM to SIGKILL, timeouts.grace_s */
    bool is_killed;     /* SIGKILL follows after allowed_s */
    uint32_t parts;
    struct grace_part part[PLAN_SHARDS_MAX];
};

/* job_s: timeouts.grace_s. given_s: the time that the process's starter (--grace_s) gives; 0: unknown. */
void grace_init(struct grace *g, uint32_t job_s, uint32_t given_s);
/* How long a ps waits for a cut. It is less than the time until SIGKILL, so that the ps can still log its last line. */
int64_t grace_bound_ms(const struct grace *g);

/* Report the size of a thread's state and how long its last snapshot took. `seconds` 0: only the size is known, and the
 * time of the previous snapshot stays valid if the size is the same. */
void grace_note(struct grace *g, uint32_t thread, uint64_t bytes, double seconds);
uint64_t grace_bytes(const struct grace *g);
/* Seconds that a snapshot takes now, with GRACE_FIXED_MS. All parts are written at the same time. For a part that was
 * never written the rate of the other parts is assumed, or GRACE_FIRST_BYTES_PER_S if no part was written. */
double grace_needs_s(const struct grace *g);
/* True: a snapshot that begins now can be finished within grace_bound_ms. */
static inline bool grace_suffices(const struct grace *g)
{
    return grace_needs_s(g) * 1000 <= (double)grace_bound_ms(g);
}

/* Write one line for people: how long a snapshot takes, and how that was estimated. */
void grace_say(const struct grace *g, char *out, size_t bytes);
