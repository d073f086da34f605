#include "ps/life.h"

#include <assert.h>

const struct life_is life_is[] = {
    [LIFE_NEW] = {.before_chief = true},
    [LIFE_IDLE] = {.rests = true},
    [LIFE_DONE] = {.before_chief = true, .done = true, .rests = true},
    [LIFE_DONE_MET] = {.done = true, .rests = true},
    [LIFE_TRAINING] = {.entered = true},
    [LIFE_GOING] = {.entered = true, .told = true},
    [LIFE_LEAVING] = {.told = true},
    [LIFE_STOPPING] = {.stopping = true},
    [LIFE_LAST] = {.told = true, .stopping = true},
};

enum life life_begin(bool done)
{
    return done ? LIFE_DONE : LIFE_NEW;
}

enum life life_next(enum life now, enum life_event what)
{
    assert(!life_is[now].stopping || what == LIFE_TOLD);
    switch (what) {
    case LIFE_CHIEF:
        return now == LIFE_NEW ? LIFE_MET : now == LIFE_DONE ? LIFE_DONE_MET : now;
    case LIFE_ENTER:
        assert(!life_is[now].before_chief);
        return life_is[now].told ? LIFE_GOING : LIFE_TRAINING;
    case LIFE_ALONE:
        assert(now == LIFE_NEW || now == LIFE_MET);
        return LIFE_IDLE;
    case LIFE_OVER:
        assert(!life_is[now].before_chief && !life_is[now].entered);
        return life_is[now].told ? now : LIFE_DONE_MET;
    case LIFE_TOLD:
        return life_is[now].stopping ? LIFE_LAST : life_is[now].entered ? LIFE_GOING : LIFE_LEAVING;
    case LIFE_STOP:
        return life_is[now].told ? LIFE_LAST : LIFE_STOPPING;
    }
    return now;
}

enum process_state life_process_state(enum life l, bool chief)
{
    if (life_is[l].entered)
        return chief ? STATE_TRAINING : STATE_WAITING;
    return life_is[l].done ? STATE_DONE : l == LIFE_IDLE ? STATE_IDLE : STATE_WAITING;
}
