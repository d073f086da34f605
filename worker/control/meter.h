/* What the training thread counts of its work while it works, for the control thread to show. Each number is written by
 * the training thread alone and may be read at any time; together they may be a moment apart. */
#ifndef GRADWIRE_WORKER_CONTROL_METER_H
#define GRADWIRE_WORKER_CONTROL_METER_H

#include "common/codec/codec.h"
#include "common/codec/codec_metrics.h"
#include "common/process/metrics.h"
#include "common/parameters/plan.h"
#include "common/wire/msg.h"

/* A step's parts, one behind the other. */
enum meter_phase {
    METER_COMPUTE, /* forward and backward, and waiting for data; what can, leaves meanwhile */
    METER_PUSH,    /* until all of the gradient is handed to the connections */
    METER_WAIT,    /* until the next parameters are here */
    METER_PHASES
};

enum { METER_CODEC_PUSH, METER_CODEC_REPLY, METER_CODECS };

struct meter_codec {
    _Atomic uint64_t raw_bytes, bytes;
    _Atomic double encode_s, decode_s, error, norm;
};

struct meter {
    struct metrics_seconds phase[METER_PHASES], push_pull, evaluation;
    _Atomic uint64_t tasks; /* steps that it had a part of, or batches */
    _Atomic uint64_t steps; /* seen made: sync: everybody's; otherwise its own batches */
    _Atomic uint64_t step;  /* the last of them: its number, or the batch's */
    _Atomic uint64_t generation, incarnation, generations; /* the latter: how many it entered */
    _Atomic uint64_t bytes_out, bytes_in;
    _Atomic double examples; /* computed here */
    _Atomic double loss;     /* of the last step, or batch; NAN: none yet, as the owner begins */
    struct meter_codec codec[METER_CODECS];
    _Atomic uint32_t shards;
    _Atomic uint8_t push_codec[PLAN_SHARDS_MAX]; /* enum codec, for each of them */
};

/* Thread: the training thread. */
void meter_welcome(struct meter *m, uint64_t generation, uint64_t incarnation);
void meter_task(struct meter *m, double examples);
void meter_step(struct meter *m, uint64_t number, double loss);
void meter_bytes(struct meter *m, uint64_t out, uint64_t in);
void meter_codecs(struct meter *m, const struct codec_cost *push, const struct codec_cost *reply);
/* Of this generation's shards. */
void meter_push_codec(struct meter *m, uint32_t shard, enum codec codec);

/* Thread: any. */
void meter_metrics(const struct meter *m, struct metrics *to);
/* tasks, examples, computed_s and waited_s of *to. */
void meter_vitals(const struct meter *m, Gradwire__Vitals *to);

#endif
