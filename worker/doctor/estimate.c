/* Estimates of memory, disk and time: of the parameters, and of tables of rows. */
#include "worker/doctor/estimate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/codec/codec.h"
#include "common/math/optimizer.h"
#include "common/parameters/plan.h"
#include "common/process/cgroup.h"

enum {
    HEAD_BYTES = 12,  /* stamp and count (ps/rows/row_table.h) */
    INDEX_BYTES = 22, /* 12 for each slot, of which 48 to 60 % are used (ps/rows/row_table.h) */
    CUT_BYTES = 20,   /* key, stamp and count */
};

/* Some shards' buckets may have a few more keys than others. */
static const double UNEVEN = 1.05;

/* Memory of a checkpoint that is being written, in addition to the tables (docs/explanation/tables.md). */
static const double CUT_SHARE = 0.15, CUT_LEAST_BYTES = 64 * 0x1p20;

static uint64_t value_bytes(const struct job *job, uint32_t table)
{
    const struct job_table *t = &job->model.table[table];
    return (t->dim + optimizer_row_slots(&t->optimizer, t->dim)) * sizeof(float);
}

uint64_t table_room_row_bytes(const struct job *job, uint32_t table)
{
    return value_bytes(job, table) + HEAD_BYTES + INDEX_BYTES;
}

static void add(struct table_room_size *s, const struct job *job, uint32_t table, double rows)
{
    s->rows += rows;
    s->memory_bytes += rows * (double)table_room_row_bytes(job, table);
    s->cut_bytes += rows * (double)(value_bytes(job, table) + CUT_BYTES);
}

struct table_room table_room_of(const struct job *job, const struct key_growth *g)
{
    struct table_room r = {.tables = job->model.tables,
                           .sampled = g->counted < g->rows,
                           .counted_rows = g->counted,
                           .data_rows = g->rows};
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        bool admits = job_table_admits(t);
        add(&r.least, job, i, admits ? 0 : g->seen[t->list]);
        add(&r.all, job, i, g->all[t->list]);
        /* The sketch of min_count is part of checkpoints, like rows. */
        double bytes = t->min_count > 1 ? t->sketch_mb * 0x1p20 : 0;
        r.all.memory_bytes += bytes;
        r.all.cut_bytes += bytes;
        r.admits |= admits;
    }
    return r;
}

static double share_of(double bytes, uint32_t ps)
{
    return ps > 1 ? bytes / ps * UNEVEN : bytes;
}

bool table_room_fits(const struct table_room *r, const struct job *job, uint32_t ps, char *out,
                     size_t bytes)
{
    static const char *const then[] = {
        [ROW_FULL_STOP] = "the job will end when they are full (ps.when_full: stop)",
        [ROW_FULL_EVICT] = "the least recently used rows will be removed (ps.when_full: evict)",
        [ROW_FULL_REFUSE] = "the other rows will not be made (ps.when_full: refuse)",
    };
    char needed[24];
    double share = share_of(r->all.memory_bytes, ps);
    if (job->ps.memory == 0 || share <= job->ps.memory * 0x1p20)
        return true;
    (void)snprintf(out, bytes, "ps.memory is %u MiB on each ps, but the rows may need %s: %s",
                   job->ps.memory, estimate_text(needed, (uint64_t)share), then[job->ps.when_full]);
    return false;
}

uint64_t table_room_ps_bytes(double bytes, uint32_t ps, uint32_t memory_mb)
{
    double share = share_of(bytes, ps);
    if (memory_mb)
        share = fmin(share, memory_mb * 0x1p20);
    double aside = fmax(CUT_SHARE * share, CUT_LEAST_BYTES);
    return (uint64_t)(share + fmin(aside, share));
}

void table_room_text(const struct table_room *r, uint32_t ps, char *out, size_t bytes)
{
    char memory[24], where[48] = "of a ps";
    (void)estimate_text(memory, table_room_ps_bytes(r->all.memory_bytes, ps, 0));
    if (ps > 1)
        (void)snprintf(where, sizeof where, "of each of %u ps", ps);
    const char *about = r->admits ? "at most" : "about";
    int n = snprintf(out, bytes, "%s %.0f rows in %u table%s: %s %s of the memory %s", about,
                     r->all.rows, r->tables, r->tables == 1 ? "" : "s", about, memory, where);
    if (r->sampled && !r->admits && n > 0 && (size_t)n < bytes)
        (void)snprintf(out + n, bytes - (size_t)n,
                       "; at least %.0f rows, which %" PRIu64 " of about %" PRIu64
                       " rows of data look up",
                       r->least.rows, r->counted_rows, r->data_rows);
}

/* ---- the ps of this host ---- */

static size_t host_bytes(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon ? (size_t)(colon - address) : strlen(address);
}

static bool is_here(const char *address, const char *self)
{
    size_t n = host_bytes(address);
    return strncmp(address, "127.", 4) == 0 || (n == 9 && memcmp(address, "localhost", 9) == 0) ||
           (self && host_bytes(self) == n && memcmp(self, address, n) == 0);
}

uint32_t table_room_ps_here(const struct cluster *c)
{
    uint32_t here = c->n_ps == 0;
    for (uint32_t i = 0; i < c->n_ps; i++)
        here += is_here(c->ps[i], c->self);
    return here;
}

uint64_t table_room_free_bytes(void)
{
    uint64_t kilobytes = 0, bytes = UINT64_MAX, allowed = cgroup_limits().memory_bytes;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1)
            bytes = kilobytes * 1024;
    if (f)
        (void)fclose(f);
    return bytes < allowed ? bytes : allowed;
}

static const double USUAL_DISK = 50e6, ZSTD = 200e6; /* bytes a second */

enum err estimate_share(uint64_t elems, uint32_t ps, uint64_t *share, struct errmsg *e)
{
    struct plan plan;
    uint32_t *threads = mem_zalloc(ps, sizeof *threads);
    if (!threads)
        return err_memory(e);
    for (uint32_t i = 0; i < ps; i++)
        threads[i] = 1;
    enum err err = plan_init(&plan, elems, threads, ps, e);
    mem_free(threads);
    if (err)
        return err;
    *share = 0;
    for (uint32_t i = 0; i < plan.shards; i++)
        *share = plan.shard[i].elems > *share ? plan.shard[i].elems : *share;
    plan_close(&plan);
    return ERR_OK;
}

uint64_t estimate_ps_bytes(const struct job *job, uint64_t share, uint32_t workers)
{
    bool sync = job->training.update == UPDATE_SYNC;
    uint64_t slots = optimizer_slots(&job->optimizer);
    uint64_t blocks = sync ? 2 : 1;
    blocks += slots;
    blocks += 1 + slots; /* while a cut is written */
    if (sync && job->compression.reply != CODEC_RAW)
        blocks += 3;
    if (sync)
        blocks += workers;
    return ESTIMATE_BASE_BYTES + blocks * share * sizeof(float);
}

static uint32_t levels(uint32_t leaves)
{
    uint32_t n = 1;
    while (leaves > 1) {
        leaves = (leaves + 1) / 2;
        n++;
    }
    return n;
}

uint64_t estimate_worker_bytes(const struct job *job, uint64_t elems, uint32_t threads,
                               uint64_t activations_bytes, uint64_t data_bytes)
{
    uint64_t blocks = 1 + (uint64_t)threads + levels(job->training.microbatches);
    blocks += job->optimizer.use_ema;
    return ESTIMATE_BASE_BYTES + blocks * elems * sizeof(float) + threads * activations_bytes +
           data_bytes;
}

uint64_t estimate_ps_least_bytes(const struct job *job, uint64_t elems)
{
    uint64_t weights = job->training.update == UPDATE_SYNC ? 2 : 1;
    return (weights + optimizer_slots(&job->optimizer)) * elems * sizeof(float);
}

double estimate_cut_s(uint64_t bytes, double disk_bytes_per_s)
{
    double disk = disk_bytes_per_s > 0 ? disk_bytes_per_s : USUAL_DISK;
    return 1 + (double)bytes / disk + (double)bytes / ZSTD;
}

const char *estimate_text(char out[static 24], uint64_t bytes)
{
    double mib = (double)bytes / (1 << 20);
    if (mib < 1)
        (void)snprintf(out, 24, "%.0f KiB", (double)bytes / 1024);
    else if (mib < 10240)
        (void)snprintf(out, 24, "%.0f MiB", mib);
    else
        (void)snprintf(out, 24, "%.1f GiB", mib / 1024);
    return out;
}
