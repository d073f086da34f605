/* Reports what encoding costs. Not in codec.c: what reads a job needs the codecs' names, and not libevent, in which metrics are
 * written. */
#include <math.h>

#include "common/codec/codec.h"
#include "common/process/metrics.h"

static void put_codec_error(struct metrics *m, const char *direction, const struct codec_cost *c)
{
    if (c->norm > 0)
        metrics_put(m, sqrt(c->error / c->norm), "direction", direction, NULL);
}

void codec_metrics(struct metrics *m, const struct codec_cost *push, const struct codec_cost *reply)
{
    metrics_family(m, "gradwire_compression_raw_bytes_total", METRICS_COUNTER,
                   "Tensor bytes before encoding.");
    metrics_put_count(m, push->raw_bytes, "direction", "push", NULL);
    metrics_put_count(m, reply->raw_bytes, "direction", "reply", NULL);
    metrics_family(m, "gradwire_compression_encoded_bytes_total", METRICS_COUNTER,
                   "The same bytes as sent.");
    metrics_put_count(m, push->bytes, "direction", "push", NULL);
    metrics_put_count(m, reply->bytes, "direction", "reply", NULL);
    metrics_family(m, "gradwire_compression_seconds_total", METRICS_COUNTER,
                   "Time spent encoding and decoding here.");
    metrics_put(m, push->encode_s, "direction", "push", "work", "encode", NULL);
    metrics_put(m, push->decode_s, "direction", "push", "work", "decode", NULL);
    metrics_put(m, reply->encode_s, "direction", "reply", "work", "encode", NULL);
    metrics_put(m, reply->decode_s, "direction", "reply", "work", "decode", NULL);
    metrics_family(m, "gradwire_compression_error_ratio", METRICS_GAUGE,
                   "Relative error of encoding here: norm of the error / norm of the tensors.");
    put_codec_error(m, "push", push);
    put_codec_error(m, "reply", reply);
}

void codec_metrics_family(struct metrics *m)
{
    metrics_family(m, "gradwire_compression_codec_info", METRICS_GAUGE,
                   "Always 1; the label is the codec in use here, with auto the one chosen.");
}

void codec_metrics_put(struct metrics *m, const char *direction, uint32_t shard, enum codec codec)
{
    metrics_put(m, 1, "direction", direction, "shard", METRICS_NUMBER(shard), "codec",
                codec_str(codec), NULL);
}
