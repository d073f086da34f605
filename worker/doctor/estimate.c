#include "worker/doctor/estimate.h"

#include <stdio.h>

#include "common/codec/codec.h"
#include "common/base/mem.h"
#include "common/math/optimizer.h"
#include "common/parameters/plan.h"

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

uint64_t estimate_worker_least_bytes(uint64_t elems)
{
    return 2 * elems * sizeof(float);
}

uint64_t estimate_cut_bytes(const struct job *job, uint64_t elems)
{
    return (1 + (uint64_t)optimizer_slots(&job->optimizer)) * elems * sizeof(float);
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
