#include "ps/server_http.h"

#include <stdio.h>

#include "common/base/mem.h"
#include "common/net/tls.h"
#include "common/codec/codec.h"
#include "common/parameters/staleness.h"
#include "common/serve/vitals.h"

/* ---- reports of the shards ---- */

void server_http_measure(struct server_http *w)
{
    for (uint32_t i = 0; w->http && i < w->config.threads; i++)
        if (!w->asked[i])
            w->asked[i] = shard_thread_ask(w->config.thread[i], SHARD_MEASURED) == ERR_OK;
}

void server_http_on_report(struct server_http *w, uint32_t thread, struct shard_report *take_report)
{
    if (!w->http) {
        shard_report_free(take_report);
        return;
    }
    w->asked[thread] = false;
    shard_report_free(w->shard[thread]);
    w->shard[thread] = take_report;
}

/* The next thread from *at on that has a shard; *at becomes the thread after it. */
static const struct shard_report *next_shard(const struct server_http *w, uint32_t *at)
{
    while (*at < w->config.threads) {
        const struct shard_report *r = w->shard[(*at)++];
        if (r && r->status)
            return r;
    }
    return NULL;
}

/* ---- /metrics ---- */

/* Write a metric family with one sample per shard: `value`, an expression that uses the report r. */
#define PUT_SHARDS(w, m, name, type, help, value)                                                  \
    do {                                                                                           \
        const struct shard_report *r;                                                              \
        metrics_family(m, name, type, help);                                                       \
        for (uint32_t at = 0; (r = next_shard(w, &at));)                                           \
            metrics_put(m, (double)(value), "shard", METRICS_NUMBER(r->status->shard), NULL);      \
    } while (0)

static void put_families(const struct server_http *w, struct metrics *m)
{
    PUT_SHARDS(w, m, "gradwire_shard_generation", METRICS_GAUGE, "Generation that the shard is in.",
               r->facts.generation.number);
    PUT_SHARDS(w, m, "gradwire_shard_step", METRICS_GAUGE,
               "Steps made (sync), or batches applied whole.", r->status->step);
    PUT_SHARDS(w, m, "gradwire_shard_updates_total", METRICS_COUNTER,
               "Updates applied to the parameters.", r->status->t);
    PUT_SHARDS(w, m, "gradwire_shard_duplicates_total", METRICS_COUNTER,
               "Pushes that were there already.", r->status->duplicates);
    PUT_SHARDS(w, m, "gradwire_shard_clipped_updates_total", METRICS_COUNTER,
               "Updates whose gradient was scaled down; counted by the first shard alone.",
               r->status->clipped);
    PUT_SHARDS(w, m, "gradwire_shard_elements", METRICS_GAUGE,
               "Elements of the parameter block that it holds.", r->facts.elems);
    PUT_SHARDS(w, m, "gradwire_shard_rows", METRICS_GAUGE, "Rows of tables that it holds.",
               r->status->rows);
    PUT_SHARDS(w, m, "gradwire_shard_row_bytes", METRICS_GAUGE,
               "Memory that its rows take, with their index.", r->status->row_bytes);
    PUT_SHARDS(w, m, "gradwire_shard_rows_asked_total", METRICS_COUNTER,
               "Rows that workers asked for.", r->facts.rows.asked);
    PUT_SHARDS(w, m, "gradwire_shard_pushes_total", METRICS_COUNTER,
               "Frames with gradients that came.", r->counts.pushes);
    PUT_SHARDS(w, m, "gradwire_shard_pulls_total", METRICS_COUNTER, "Pulls that came.",
               r->counts.pulls);
    PUT_SHARDS(w, m, "gradwire_shard_received_bytes_total", METRICS_COUNTER, "Bytes from workers.",
               r->counts.in_bytes);
    PUT_SHARDS(w, m, "gradwire_shard_sent_bytes_total", METRICS_COUNTER, "Bytes to workers.",
               r->counts.out_bytes);
}

static void put_row_traffic(const struct server_http *w, struct metrics *m)
{
    const struct shard_report *r;
    metrics_family(m, "gradwire_shard_rows_total", METRICS_COUNTER,
                   "Rows that were read, those that were there, and that updates touched.");
    for (uint32_t at = 0; (r = next_shard(w, &at));) {
        struct metrics_number shard = metrics_number(r->status->shard);
        metrics_put_count(m, r->facts.rows.read, "shard", shard.text, "what", "read", NULL);
        metrics_put_count(m, r->facts.rows.touched, "shard", shard.text, "what", "touched", NULL);
    }
    metrics_family(m, "gradwire_shard_rows_bytes_total", METRICS_COUNTER,
                   "Their weights; of those touched also slots and gradients.");
    for (uint32_t at = 0; (r = next_shard(w, &at));) {
        struct metrics_number shard = metrics_number(r->status->shard);
        metrics_put_count(m, r->facts.rows.read_bytes, "shard", shard.text, "what", "read", NULL);
        metrics_put_count(m, r->facts.rows.touched_bytes, "shard", shard.text, "what", "touched",
                          NULL);
    }
}

static void put_table(const struct server_http *w, struct metrics *m, const char *name,
                      enum metrics_type type, const char *help, size_t at_offset)
{
    const struct shard_report *r;
    metrics_family(m, name, type, help);
    for (uint32_t at = 0; (r = next_shard(w, &at));)
        for (size_t i = 0; i < r->status->n_table; i++) {
            const Gradwire__TableCounts *t = r->status->table[i];
            uint64_t value = *(const uint64_t *)(const void *)((const char *)t + at_offset);
            metrics_put_count(m, value, "table", t->name, "shard",
                              metrics_number(r->status->shard).text, NULL);
        }
}

#define PUT_TABLE(w, m, name, type, help, field)                                                   \
    put_table(w, m, name, type, help, offsetof(Gradwire__TableCounts, field))

#define SINCE ", since the job or its last new run began."

static void put_tables(const struct server_http *w, struct metrics *m)
{
    PUT_TABLE(w, m, "gradwire_table_rows", METRICS_GAUGE, "Rows of the table that exist now.",
              rows);
    PUT_TABLE(w, m, "gradwire_table_admitted_rows_total", METRICS_COUNTER,
              "Rows that were made" SINCE, admitted);
    PUT_TABLE(w, m, "gradwire_table_refused_gradients_total", METRICS_COUNTER,
              "Gradients of rows that were not made, as ps.memory has no room" SINCE, refused);
    PUT_TABLE(w, m, "gradwire_table_dropped_gradients_total", METRICS_COUNTER,
              "Gradients of rows that admission had not made yet" SINCE, dropped);
    PUT_TABLE(w, m, "gradwire_table_evicted_rows_total", METRICS_COUNTER,
              "Rows that were removed" SINCE, evicted);
}

static void put_workers(const struct server_http *w, struct metrics *m)
{
    const struct shard_report *r;
    metrics_family(m, "gradwire_shard_worker_connected", METRICS_GAUGE,
                   "1 for each worker that is connected to the shard.");
    for (uint32_t at = 0; (r = next_shard(w, &at));)
        for (size_t i = 0; i < r->workers; i++)
            metrics_put(m, 1, "shard", METRICS_NUMBER(r->status->shard), "worker",
                        METRICS_NUMBER(r->worker[i].worker), NULL);
}

static void put_snapshots(const struct server_http *w, struct metrics *m)
{
    const struct shard_report *r;
    metrics_family(m, "gradwire_shard_snapshots_total", METRICS_COUNTER,
                   "Parts of cuts that this process wrote.");
    for (uint32_t at = 0; (r = next_shard(w, &at));) {
        struct metrics_number shard = metrics_number(r->status->shard);
        metrics_put_count(m, r->counts.saved, "shard", shard.text, "result", "written", NULL);
        metrics_put_count(m, r->counts.not_saved, "shard", shard.text, "result", "failed", NULL);
    }
}

/* The cost of copying rows for snapshots while training continues. */
static void put_copies(const struct server_http *w, struct metrics *m)
{
    PUT_SHARDS(w, m, "gradwire_shard_copy_seconds_total", METRICS_COUNTER,
               "Time of the shard's thread in which it copied rows for snapshots.",
               r->counts.copy_s);
    PUT_SHARDS(w, m, "gradwire_shard_copy_longest_seconds", METRICS_GAUGE,
               "The longest of it in one go, between two frames.", r->counts.longest_copy_s);
    PUT_SHARDS(w, m, "gradwire_shard_kept_rows_total", METRICS_COUNTER,
               "Rows that changed before they were copied, and were kept for the snapshot.",
               r->facts.kept_rows);
    PUT_SHARDS(w, m, "gradwire_shard_kept_bytes_max", METRICS_GAUGE,
               "The most memory that such rows have taken at a time.", r->facts.kept_most_bytes);
    PUT_SHARDS(w, m, "gradwire_shard_copy_waits_total", METRICS_COUNTER,
               "Times that this memory had reached its bound, and training waited for the copy.",
               r->facts.holds);
    PUT_SHARDS(w, m, "gradwire_shard_copy_waited_seconds_total", METRICS_COUNTER,
               "Time that training waited for it.", r->counts.held_s);
}

/* Sum one worker's staleness over all shards of this process. False: there is none. */
static bool staleness_of(const struct server_http *w, uint32_t worker, struct staleness *out)
{
    const struct shard_report *r;
    bool found = false;
    *out = (struct staleness){0};
    for (uint32_t at = 0; (r = next_shard(w, &at));)
        for (size_t i = 0; i < r->status->n_staleness; i++)
            if (r->status->staleness[i]->worker == worker) {
                const struct staleness more = msg_staleness_get(r->status->staleness[i]);
                staleness_join(out, &more);
                found = true;
            }
    return found;
}

static void put_staleness(const struct server_http *w, struct metrics *m)
{
    struct staleness s;
    double bound[STALENESS_BUCKETS];
    if (w->config.job->training.update == UPDATE_SYNC)
        return;
    staleness_bounds(bound);
    metrics_family(m, "gradwire_staleness_updates", METRICS_HISTOGRAM,
                   "Updates that the shards here applied between a worker's pull and its push.");
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++)
        if (staleness_of(w, worker, &s))
            metrics_put_counts(m, STALENESS_BUCKETS, bound, s.bucket, s.sum, "worker",
                               METRICS_NUMBER(worker), NULL);
}

static void put_codecs(const struct server_http *w, struct metrics *m)
{
    const struct shard_report *r;
    struct codec_cost push = {0}, reply = {0};
    for (uint32_t at = 0; (r = next_shard(w, &at));) {
        struct codec_cost one = msg_codec_cost_get(r->status->push);
        codec_cost_add(&push, &one);
        one = msg_codec_cost_get(r->status->reply);
        codec_cost_add(&reply, &one);
    }
    codec_metrics(m, &push, &reply);
    codec_metrics_family(m);
    for (uint32_t at = 0; (r = next_shard(w, &at));)
        codec_metrics_put(m, "reply", r->status->shard, r->facts.reply_codec);
}

static void on_metrics(void *ctx, struct metrics *m)
{
    const struct server_http *w = ctx;
    const struct job *job = w->config.job;
    struct server_http_facts f;
    w->config.facts(w->config.ctx, &f);
    metrics_family(m, "gradwire_job_info", METRICS_GAUGE, "Always 1; whose process this is.");
    metrics_put(m, 1, "job", job->name, "role", "ps", "index", METRICS_NUMBER(w->config.index),
                "update", job_update_word(job->training.update), "run", f.run, NULL);
    process_state_metrics(m, f.state);
    metrics_gauge(m, "gradwire_draining",
                  "1 after SIGTERM, until the last checkpoint is published.", f.going);
    metrics_gauge(m, "gradwire_chief_connected", "Whether the chief is connected.", f.chief);
    metrics_gauge(m, "gradwire_connections", "Connections without those of the shards.",
                  f.connections);
    pending_metrics(f.pending, m);
    put_families(w, m);
    put_row_traffic(w, m);
    put_tables(w, m);
    put_workers(w, m);
    put_snapshots(w, m);
    put_copies(w, m);
    put_staleness(w, m);
    put_codecs(w, m);
    tls_metrics(m);
}

/* ---- /status ---- */

/* The row counters of each table. */
static json_t *tables_json(const struct shard_report *r)
{
    json_t *all = json_object();
    for (size_t i = 0; i < r->status->n_table; i++) {
        const Gradwire__TableCounts *t = r->status->table[i];
        json_t *one = json_object();
#define X(name) (void)json_object_set_new(one, #name, json_integer((json_int_t)t->name));
        ROW_COUNTS(X)
#undef X
        (void)json_object_set_new(all, t->name, one);
    }
    return all;
}

static json_t *shard_json(const struct shard_report *r)
{
    json_t *workers = json_array();
    for (size_t i = 0; i < r->workers; i++)
        (void)json_array_append_new(workers, json_integer(r->worker[i].worker));
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "shard",
                     (int)r->status->shard, "generation", (json_int_t)r->facts.generation.number,
                     "step", (json_int_t)r->status->step, "updates", (json_int_t)r->status->t,
                     "elements", (json_int_t)r->facts.elems, "rows", (json_int_t)r->status->rows,
                     "row_bytes", (json_int_t)r->status->row_bytes, "duplicates",
                     (json_int_t)r->status->duplicates, "received_bytes",
                     (json_int_t)r->counts.in_bytes, "sent_bytes", (json_int_t)r->counts.out_bytes,
                     "tables", tables_json(r), "workers", workers, "waits_for", r->waits_for);
}

static json_t *on_status(void *ctx)
{
    const struct server_http *w = ctx;
    const struct job *job = w->config.job;
    const struct shard_report *r;
    struct server_http_facts f;
    char name[32];
    json_t *shards = json_array();
    for (uint32_t at = 0; (r = next_shard(w, &at));)
        (void)json_array_append_new(shards, shard_json(r));
    w->config.facts(w->config.ctx, &f);
    (void)snprintf(name, sizeof name, "ps %u", w->config.index);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:b, s:s, s:b, s:{s:b, s:s, s:f}, s:o, s:o, s:o}",
        "process", name, "version", GRADWIRE_VERSION, "role", "ps", "index", (int)w->config.index,
        "job", job->name, "update", job_update_word(job->training.update), "run", f.run, "ready", 1,
        "state", process_state_word(f.state), "draining", f.going, "chief", "connected", f.chief,
        "address", f.chief_address, "away_s", f.chief_away_s, "shards", shards, "tls", tls_json(),
        "system", vitals_json());
}

/* ---- life ---- */

/* No `ready` function: the process listens before HTTP answers, so it is always ready. */
static const struct http_ops server_http_ops = {.metrics = on_metrics, .status = on_status};

enum err server_http_open(struct server_http *w, struct loop *loop, int fd,
                          const struct server_http_config *config)
{
    *w = (struct server_http){.config = *config};
    if (fd < 0)
        return ERR_OK;
    w->shard = mem_zalloc(config->threads, sizeof *w->shard);
    w->asked = mem_zalloc(config->threads, sizeof *w->asked);
    if (!w->shard || !w->asked)
        return ERR_NOMEM;
    return http_open_again(&w->http, loop, fd, &server_http_ops, w);
}

void server_http_close(struct server_http *w)
{
    http_close(w->http);
    w->http = NULL;
    for (uint32_t i = 0; w->shard && i < w->config.threads; i++)
        shard_report_free(w->shard[i]);
    mem_free(w->shard);
    mem_free(w->asked);
    w->shard = NULL;
    w->asked = NULL;
}
