/* Compression's families on a page of metrics. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_METRICS_H
#define GRADWIRE_COMMON_CODEC_CODEC_METRICS_H

#include "common/codec/codec.h"
#include "common/process/metrics.h"

/* What compression cost: families gradwire_compression_*, of pushes and replies. */
void codec_metrics(struct metrics *m, const struct codec_cost *push,
                   const struct codec_cost *reply);
/* Family gradwire_compression_codec_info, and a sample of it: with what this process encodes for a shard, or the shard. */
void codec_metrics_family(struct metrics *m);
void codec_metrics_put(struct metrics *m, const char *direction, uint32_t shard, enum codec codec);

#endif
