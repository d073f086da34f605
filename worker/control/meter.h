/* The training thread's counts of its own work, for the control thread to serve. Only the training thread writes
 * them; any thread may read each at any time. Two of them may not be from the same moment. */
#pragma once

#include "common/codec/codec.h"
#include "common/process/metrics.h"
#include "common/parameters/plan.h"
#include "common/wire/msg.h"

/* The parts of a step, in their order. */
enum meter_phase {
    /* forward and backward, and waiting for data; finished ranges are sent meanwhile */
    METER_COMPUTE,
    METER_PUSH, /* until the whole gradient is handed to the connections */
    METER_WAIT, /* until the next parameters have arrived */
    METER_PHASES
};

enum { METER_CODEC_PUSH, METER_CODEC_REPLY, METER_CODECS };

struct meter_codec {
    _Atomic uint64_t raw_bytes, bytes;
    _Atomic double encode_s, decode_s, error, norm;
};

struct meter {
    struct metrics_seconds phase[METER_PHASES], push_pull, evaluation;
    _Atomic uint64_t tasks; /* sync: steps in which it computed leaves; other modes: batches */
    /* steps seen as made: in sync all workers' steps; otherwise its own batches */
    _Atomic uint64_t steps;
    _Atomic uint64_t step; /* the number of the last of these steps or batches */
    /* generations: how many it has entered */
    _Atomic uint64_t generation, incarnation, generations;
    _Atomic uint64_t bytes_out, bytes_in;
    _Atomic double examples; /* computed here */
    _Atomic double loss;     /* of the last step, or batch; NAN: none yet (set by the owner) */
    struct meter_codec codec[METER_CODECS];
    _Atomic uint32_t shards;
    _Atomic uint8_t push_codec[PLAN_SHARDS_MAX]; /* enum codec, for each shard */
};

/* Thread: the training thread. */
void meter_welcome(struct meter *m, uint64_t generation, uint64_t incarnation);
void meter_task(struct meter *m, double examples);
void meter_step(struct meter *m, uint64_t number, double loss);
void meter_bytes(struct meter *m, uint64_t out, uint64_t in);
void meter_codecs(struct meter *m, const struct codec_cost *push, const struct codec_cost *reply);
/* For a shard of the present generation. */
void meter_push_codec(struct meter *m, uint32_t shard, enum codec codec);

/* Thread: any. */
void meter_metrics(const struct meter *m, struct metrics *to);
/* Fill in tasks, examples, computed_s and waited_s of *to. */
void meter_vitals(const struct meter *m, Gradwire__Vitals *to);
