#include "common/cluster/descriptors.h"

/* An event loop has three descriptors, and its mailbox one. A listening socket is duplicated once. HTTP has a loop of its
 * own, except in a ps. The guard (dirguard.h) holds DIR/lock. The files are open for a moment only. limits_test compares the
 * sums with running processes. */
enum { LOOP = 4, LISTENER = 2, HTTP = LOOP + LISTENER, FILES = 3, GUARD = 1 };

uint32_t descriptors_of_ps(uint32_t threads, uint32_t trainers)
{
    enum { WEB = LISTENER, CHIEF = 1, CHIEFS_WORKER = 1, SAVED = 1 };
    uint32_t thread = LOOP + CHIEFS_WORKER + SAVED;
    return LOOP + LISTENER + WEB + CHIEF + GUARD + FILES + threads * thread + trainers;
}

uint32_t descriptors_of_worker(uint32_t ps, uint32_t shards)
{
    enum { CONTROL = LOOP, TRAINING = LOOP, TO_CHIEF = 1 };
    return CONTROL + TRAINING + TO_CHIEF + HTTP + FILES + ps + shards;
}

uint32_t descriptors_of_chief(uint32_t ps, uint32_t shards, uint32_t trainers)
{
    enum { LOCK = 1, LOGS = 3 };
    return descriptors_of_worker(ps, shards) + LOCK + GUARD + LISTENER + LOGS + trainers;
}
