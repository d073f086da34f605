#include "worker/control/meter.h"

#include <stdatomic.h>

#define SET(to, value) atomic_store_explicit(&(to), (value), memory_order_relaxed)
#define GET(from) atomic_load_explicit(&(from), memory_order_relaxed)

void meter_welcome(struct meter *m, uint64_t generation, uint64_t incarnation)
{
    SET(m->generation, generation);
    SET(m->incarnation, incarnation);
    SET(m->generations, GET(m->generations) + 1);
    SET(m->shards, 0); /* the new generation may have fewer */
}

void meter_task(struct meter *m, double examples)
{
    SET(m->tasks, GET(m->tasks) + 1);
    SET(m->examples, GET(m->examples) + examples);
}

void meter_step(struct meter *m, uint64_t number, double loss)
{
    SET(m->steps, GET(m->steps) + 1);
    SET(m->step, number);
    SET(m->loss, loss);
}

void meter_bytes(struct meter *m, uint64_t out, uint64_t in)
{
    SET(m->bytes_out, out);
    SET(m->bytes_in, in);
}

static void set_codec(struct meter_codec *to, const struct codec_cost *c)
{
    SET(to->raw_bytes, c->raw_bytes);
    SET(to->bytes, c->bytes);
    SET(to->encode_s, c->encode_s);
    SET(to->decode_s, c->decode_s);
    SET(to->error, c->error);
    SET(to->norm, c->norm);
}

void meter_codecs(struct meter *m, const struct codec_cost *push, const struct codec_cost *reply)
{
    set_codec(&m->codec[METER_CODEC_PUSH], push);
    set_codec(&m->codec[METER_CODEC_REPLY], reply);
}

void meter_push_codec(struct meter *m, uint32_t shard, enum codec codec)
{
    SET(m->push_codec[shard], (uint8_t)codec);
    if (GET(m->shards) <= shard)
        SET(m->shards, shard + 1);
}

static struct codec_cost codec_of(const struct meter *m, int which)
{
    const struct meter_codec *c = &m->codec[which];
    return (struct codec_cost){.raw_bytes = GET(c->raw_bytes),
                               .bytes = GET(c->bytes),
                               .encode_s = GET(c->encode_s),
                               .decode_s = GET(c->decode_s),
                               .error = GET(c->error),
                               .norm = GET(c->norm)};
}

void meter_metrics(const struct meter *m, struct metrics *to)
{
    static const char *const phase[METER_PHASES] = {"compute", "push", "wait"};
    metrics_family(to, "gradwire_step_phase_seconds", METRICS_HISTOGRAM,
                   "Parts of a step of this worker.");
    for (int i = 0; i < METER_PHASES; i++)
        metrics_put_seconds(to, &m->phase[i], "phase", phase[i], NULL);
    metrics_family(
        to, "gradwire_push_pull_seconds", METRICS_HISTOGRAM,
        "From the end of a gradient's computation until the next parameters have arrived.");
    metrics_put_seconds(to, &m->push_pull, NULL);
    metrics_family(to, "gradwire_evaluation_seconds", METRICS_HISTOGRAM, "Evaluations.");
    metrics_put_seconds(to, &m->evaluation, NULL);
    metrics_counter(to, "gradwire_tasks_total",
                    "Steps that this worker had a part in, or batches that it computed.",
                    GET(m->tasks));
    metrics_family(to, "gradwire_examples_total", METRICS_COUNTER,
                   "Examples whose gradients this worker computed.");
    metrics_put(to, GET(m->examples), NULL);
    metrics_counter(to, "gradwire_seen_steps_total",
                    "Steps whose parameters arrived here (sync), or batches pushed and answered.",
                    GET(m->steps));
    metrics_gauge(to, "gradwire_seen_step", "Number of the last of these steps or batches.",
                  (double)GET(m->step));
    metrics_gauge(to, "gradwire_loss", "Loss of the last of these steps or batches.", GET(m->loss));
    metrics_gauge(to, "gradwire_generation", "Generation that this worker is in.",
                  (double)GET(m->generation));
    metrics_counter(to, "gradwire_generations_total", "Generations that this worker has entered.",
                    GET(m->generations));
    metrics_gauge(to, "gradwire_incarnation", "Number that the chief gave to this process.",
                  (double)GET(m->incarnation));
    metrics_counter(to, "gradwire_sent_bytes_total", "Bytes to all shards.", GET(m->bytes_out));
    metrics_counter(to, "gradwire_received_bytes_total", "Bytes from all shards.",
                    GET(m->bytes_in));
    const struct codec_cost push = codec_of(m, METER_CODEC_PUSH),
                            reply = codec_of(m, METER_CODEC_REPLY);
    codec_metrics(to, &push, &reply);
    codec_metrics_family(to);
    for (uint32_t i = 0; i < GET(m->shards); i++)
        codec_metrics_put(to, "push", i, (enum codec)GET(m->push_codec[i]));
}

void meter_vitals(const struct meter *m, Gradwire__Vitals *to)
{
    to->tasks = GET(m->tasks);
    to->examples = GET(m->examples);
    to->computed_s = GET(m->phase[METER_COMPUTE].sum_s);
    to->waited_s = GET(m->phase[METER_WAIT].sum_s);
}
