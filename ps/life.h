/* The life of a ps process as one state; docs/operations.md draws it. Pure: the server reports events, and asks the state.
 * Whether the chief's connection is open at the moment is not part of it. */
#ifndef GRADWIRE_PS_LIFE_H
#define GRADWIRE_PS_LIFE_H

#include <stdbool.h>

#include "common/process/process_state.h"

enum life {
    LIFE_NEW,      /* no chief has come */
    LIFE_MET,      /* a chief has come; no generation is entered */
    LIFE_IDLE,     /* no chief came in time; it waits on (--when_done=wait) */
    LIFE_DONE,     /* the job is done, and this process holds nothing of it */
    LIFE_DONE_MET, /* the same, and a chief has come since */
    LIFE_TRAINING, /* ENTER has come: parameters are here, or shards load them */
    LIFE_GOING,    /* told to go after ENTER: it waits until a cut has its parameters */
    LIFE_LEAVING,  /* told to go with nothing here: it ends at once */
    LIFE_STOPPING, /* the loop has ended; the process may begin another life */
    LIFE_LAST,     /* the same, and it was told to go: no other life follows */
};

enum life_event {
    LIFE_CHIEF, /* a chief says hello */
    LIFE_ENTER, /* the chief begins a generation */
    LIFE_ALONE, /* timeouts.start_s has passed without a chief, with --when_done=wait */
    LIFE_OVER,  /* the job is done, nothing of it is here, and the next chief is awaited */
    LIFE_TOLD,  /* SIGTERM or SIGINT */
    LIFE_STOP,  /* the loop has ended */
};

/* The first state; done: the job was found to be over. */
enum life life_begin(bool done);
/* Which state follows. That the event can happen in `now` is asserted: no peer decides it. */
enum life life_next(enum life now, enum life_event what);

/* What holds in each state. */
extern const struct life_is {
    bool before_chief; /* none has come, and one is awaited */
    bool entered;      /* ENTER has come: training, or going */
    bool done;         /* the job is, and nothing of it is here */
    bool rests;        /* idle or done: nothing is lost by waiting */
    bool told;         /* to go */
    bool stopping;
} life_is[];
/* As /status and the metrics tell it; chief: its connection is open. */
enum process_state life_process_state(enum life l, bool chief);

#endif
