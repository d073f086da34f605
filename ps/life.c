#include "ps/life.h"

#include <assert.h>

enum life life_begin(bool done)
{
    return done ? LIFE_DONE : LIFE_NEW;
}

enum life life_next(enum life now, enum life_event what)
{
    assert(!life_stopping(now) || what == LIFE_TOLD);
    switch (what) {
    case LIFE_CHIEF:
        return now == LIFE_NEW ? LIFE_MET : now == LIFE_DONE ? LIFE_DONE_MET : now;
    case LIFE_ENTER:
        assert(!life_before_chief(now));
        return life_told(now) ? LIFE_GOING : LIFE_TRAINING;
    case LIFE_ALONE:
        assert(now == LIFE_NEW || now == LIFE_MET);
        return LIFE_IDLE;
    case LIFE_OVER:
        assert(!life_before_chief(now) && !life_entered(now));
        return life_told(now) ? now : LIFE_DONE_MET;
    case LIFE_TOLD:
        return life_stopping(now) ? LIFE_LAST : life_entered(now) ? LIFE_GOING : LIFE_LEAVING;
    case LIFE_STOP:
        return life_told(now) ? LIFE_LAST : LIFE_STOPPING;
    }
    return now;
}

bool life_before_chief(enum life l)
{
    return l == LIFE_NEW || l == LIFE_DONE;
}

bool life_entered(enum life l)
{
    return l == LIFE_TRAINING || l == LIFE_GOING;
}

bool life_is_done(enum life l)
{
    return l == LIFE_DONE || l == LIFE_DONE_MET;
}

bool life_rests(enum life l)
{
    return l == LIFE_IDLE || life_is_done(l);
}

bool life_told(enum life l)
{
    return l == LIFE_GOING || l == LIFE_LEAVING || l == LIFE_LAST;
}

bool life_stopping(enum life l)
{
    return l == LIFE_STOPPING || l == LIFE_LAST;
}

enum process_state life_process_state(enum life l, bool chief)
{
    if (life_entered(l))
        return chief ? STATE_TRAINING : STATE_WAITING;
    return life_is_done(l) ? STATE_DONE : l == LIFE_IDLE ? STATE_IDLE : STATE_WAITING;
}
