/* The state of a ps process, from start to exit (table: docs/reference/ps-lifecycle.md). Pure: the server reports events and
 * reads the state. The state does not say if the chief's connection is open at the moment. */
#ifndef GRADWIRE_PS_LIFE_H
#define GRADWIRE_PS_LIFE_H

#include <stdbool.h>

#include "common/process/process_state.h"

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
enum life life_begin(bool done);
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

#endif
