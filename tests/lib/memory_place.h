/* A place in memory that fails as storage does: it refuses a call, loses a commit in a crash, or shows it late. Nothing above the
 * interface knows of it. Thread: one. */
#pragma once

#include "common/place/place.h"

enum memory_fault {
    MEMORY_REFUSES,     /* the call fails, and has no effect */
    MEMORY_ENDS_BEFORE, /* so do all later calls: the process has ended */
    MEMORY_ENDS_AFTER,  /* the same, but the call has its effect */
    MEMORY_LOSES,       /* a commit succeeds, but is not there after memory_place_restart */
    MEMORY_DELAYS,      /* the effect of a commit or removal is seen MEMORY_LATE calls later */
    MEMORY_FAULTS
};
enum { MEMORY_LATE = 7 };

struct memory_place {
    struct place place;
    struct memory_object *objects;
    long calls, fault_at; /* counted from 0; fault_at -1: no fault */
    enum memory_fault fault;
};

void memory_place_open(struct memory_place *m);
void memory_place_close(struct memory_place *m);
/* From now on the n-th call (0: the next) has this fault. */
void memory_place_fail(struct memory_place *m, enum memory_fault fault, long n);
/* Returns whether the fault has come; there is none any more, and what was lost is gone. */
bool memory_place_restart(struct memory_place *m);
/* The objects that are there, also those that nobody sees yet. */
size_t memory_place_objects(const struct memory_place *m);
