/* The inside of a note, for events.c and events_note.c: an Event that is being made. */
#ifndef GRADWIRE_WORKER_TENSORBOARD_EVENTS_NOTE_H
#define GRADWIRE_WORKER_TENSORBOARD_EVENTS_NOTE_H

#include <stddef.h>

#include "worker/tensorboard/events.h"
#include "worker/tensorboard/events_file.h"

/* Prefix of the session's tags. */
#define EVENTS_SESSION_TAG "_hparams_/"

struct events_note {
    struct events *of; /* set when it is posted */
    enum events_run run;
    uint64_t step;
    double wall_time;
    bool restart, failed; /* failed: there was no memory for a value; the note is not posted */
    uint8_t *summary;     /* a packed Summary */
    size_t bytes;
};

void events_note_free(void *note);
enum err events_note_write(const struct events_note *n, struct events_file *to,
                           struct errmsg *e) MUST_CHECK;

#endif
