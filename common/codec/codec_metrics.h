/* Metrics of compression. */
#ifndef GRADWIRE_COMMON_CODEC_CODEC_METRICS_H
#define GRADWIRE_COMMON_CODEC_CODEC_METRICS_H

#include "common/codec/codec.h"
#include "common/process/metrics.h"

/* Writes the metrics gradwire_compression_*: the costs of pushes and of replies. */
void codec_metrics(struct metrics *m, const struct codec_cost *push,
                   const struct codec_cost *reply);
/* Write the metric gradwire_compression_codec_info, and one of its samples: the codec with which this process
 * encodes for a shard, or as a shard. */
void codec_metrics_family(struct metrics *m);
void codec_metrics_put(struct metrics *m, const char *direction, uint32_t shard, enum codec codec);

#endif
