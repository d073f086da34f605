/* The work of a worker's process over its life, as the process reports it at the end (proto DoneAck). */
#ifndef GRADWIRE_WORKER_CORE_ACCOUNT_H
#define GRADWIRE_WORKER_CORE_ACCOUNT_H

#include <stdint.h>

#include "common/codec/codec.h"

struct worker_account {
    uint64_t tasks, bytes_out, bytes_in; /* bytes: on the connections to the shards */
    /* seconds since the first task: computed_s: of computing; waited_s: neither of computing nor of evaluating */
    double examples, computed_s, waited_s;
    struct codec_cost push, reply;
};

#endif
