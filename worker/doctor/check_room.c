/* Memory, disk, time and tables of rows: what the job needs, and what is available. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/process/cgroup.h"
#include "common/checkpoint/checkpoint.h"
#include "common/base/clock.h"
#include "common/process/dirlock.h"
#include "common/process/files.h"
#include "common/base/mem.h"
#include "data/core/order.h"
#include "model/metric.h"
#include "worker/doctor/estimate.h"
#include "worker/doctor/check.h"
#include "worker/warm_start/warm_start.h"

/* ---- memory ---- */

enum { SCORE_BYTES = 24 /* for each label of the eval part (evaluate/ranking.h) */ };

static uint64_t physical_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

uint64_t check_activations_bytes(const struct check *p)
{
    const struct job *job = &p->job;
    struct model_run *run;
    struct errmsg e;
    const struct order order = {.batch_size = job->training.batch_size,
                                .microbatches = job->training.microbatches};
    struct mallinfo2 before = mallinfo2();
    if (model_run_new(&run, p->model, order_leaf_rows_max(&order), &e))
        return 0;
    struct mallinfo2 after = mallinfo2();
    model_run_free(run);
    return (uint64_t)(after.uordblks + after.hblkhd) - (uint64_t)(before.uordblks + before.hblkhd);
}

/* Bytes for the scores of metrics that rank them. */
static uint64_t scores_bytes(const struct check *p)
{
    uint64_t labels = 0; /* of a row */
    for (uint32_t h = 0; h < p->job.model.heads; h++)
        if (metric_is_needed(&p->job, h, METRIC_SCORES))
            labels += p->job.model.head[h].labels;
    return p->looked_eval ? labels * p->eval.rows * SCORE_BYTES : 0;
}

static uint64_t most_bytes(const struct dataset_look *l)
{
    return l->bytes > l->loading_bytes ? l->bytes : l->loading_bytes;
}

/* Of a stream: the windows of all microbatches, and as much to read ahead. */
static uint64_t train_bytes(const struct check *p)
{
    const struct job *job = &p->job;
    const struct dataset_look *l = &p->train;
    struct lanes lanes;
    if (!p->looked || !job_streams(job) || !l->rows)
        return p->looked ? most_bytes(l) : 0;
    stream_lanes(&lanes, job, l->rows);
    const double rows = 2.0 * lanes.lanes * lanes.mix * (double)lanes.window;
    return (uint64_t)(fmin(rows / (double)l->rows, 1) * (double)l->bytes);
}

/* Rows of a csv without room in memory are in a file. */
static uint64_t data_bytes(const struct check *p)
{
    uint64_t bytes = train_bytes(p) + (p->looked_eval ? most_bytes(&p->eval) : 0) + scores_bytes(p);
    uint64_t mb = p->job.data.memory_mb;
    uint64_t room = mb ? mb << 20 : cgroup_memory_bytes() / 4;
    return job_reads_columns(&p->job) && bytes > room ? room : bytes;
}

static uint64_t worker_bytes(const struct check *p)
{
    uint32_t threads = p->job.worker.threads ? p->job.worker.threads : cores_usable();
    return estimate_worker_bytes(&p->job, model_layout(p->model)->elems, threads,
                                 check_activations_bytes(p), data_bytes(p));
}

static uint64_t share_of(const struct check *p)
{
    uint64_t share = 0;
    struct errmsg e;
    uint64_t elems = model_layout(p->model)->elems;
    return estimate_share(elems, p->cluster.n_ps ? p->cluster.n_ps : 1, &share, &e) ? elems : share;
}

/* True if a ps's share is on this host: a lone worker starts a ps itself. */
static bool has_share(const struct check *p)
{
    return p->cluster.role == ROLE_PS || p->cluster.n_ps == 0;
}

/* Bytes without tables. */
static uint64_t needed_bytes(const struct check *p)
{
    uint32_t workers = p->cluster.n_workers + p->cluster.separate_chief;
    uint64_t bytes = check_computes(p) ? worker_bytes(p) : 0;
    if (has_share(p))
        bytes += estimate_ps_bytes(&p->job, share_of(p), workers ? workers : 1);
    return bytes;
}

static uint64_t rows_bytes(const struct check *p, const struct table_room_size *size)
{
    return has_share(p) ? table_room_ps_bytes(size->memory_bytes, p->cluster.n_ps, p->job.ps.memory)
                        : 0;
}

static void judge_memory(const struct check *p, struct finding *f, uint64_t limit,
                         const char *whose)
{
    char a[24], b[24];
    const char *least = p->looked && p->train.grows ? "at least" : "about";
    uint64_t needed = needed_bytes(p), sure = needed + rows_bytes(p, &p->tables.least);
    needed += rows_bytes(p, &p->tables.all);
    enum verdict v = sure > limit             ? VERDICT_FAIL
                     : needed > limit / 5 * 4 ? VERDICT_WARN
                                              : VERDICT_OK;
    finding_say(f, v, "it needs %s %s, %s %s", least, estimate_text(a, needed), whose,
                estimate_text(b, limit));
    finding_mend(f, VERDICT_WARN, "leave a fifth free");
    finding_mend(f, VERDICT_FAIL,
                 check_computes(p) ? "raise the limit, or lower worker.threads or batch_size"
                                   : "raise the limit, or take more ps");
}

void check_memory(struct check *p, struct finding *f)
{
    if (!p->has_cluster || !p->has_job)
        return;
    if (!p->model) {
        finding_say(
            f, VERDICT_WARN,
            "not estimated: the model's shape follows from the data, which could not be read");
        return;
    }
    if (p->cluster.role == ROLE_PS && p->cluster.sparse) {
        finding_say(
            f, VERDICT_WARN,
            "not estimated: with dynamic workers a ps does not know how many ps the job has");
        return;
    }
    uint64_t limit = cgroup_limits().memory_bytes, physical = physical_bytes();
    judge_memory(p, f, limit < physical ? limit : physical,
                 limit < physical ? "the cgroup allows" : "no cgroup limits it, and the host has");
}

/* ---- the directory of checkpoints ---- */

enum { PROBE_BYTES = 4 << 20 };

/* `path`, or the part of it that exists. */
static void nearest(const char *path, char out[static 4200])
{
    (void)snprintf(out, 4200, "%s", path);
    while (access(out, F_OK) != 0) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            (void)snprintf(out, 4200, ".");
            return;
        }
        slash[slash == out] = '\0'; /* "/" stays */
        if (slash == out)
            return;
    }
}

/* Write, sync and remove a file. */
static bool probe(struct check *p, struct finding *f, const char *folder)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/.gradwire-doctor-XXXXXX", folder);
    int fd = mkstemp(path);
    if (fd < 0) {
        finding_say(f, VERDICT_FAIL, "%s cannot be written: %s", folder, strerror(errno));
        finding_mend(f, VERDICT_FAIL,
                     "set --output to a directory that user %d can write (in a pod: fsGroup)",
                     (int)getuid());
        return false;
    }
    char *bytes = mem_zalloc(PROBE_BYTES, 1);
    double began_s = clock_now_s();
    bool written = bytes && files_put(fd, bytes, PROBE_BYTES) == PROBE_BYTES && fsync(fd) == 0;
    int error = bytes ? errno : ENOMEM;
    double took_s = clock_now_s() - began_s;
    (void)close(fd);
    (void)unlink(path);
    mem_free(bytes);
    if (!written) {
        finding_say(f, VERDICT_FAIL, "%s: %s", folder, strerror(error));
        finding_mend(f, VERDICT_FAIL, "make room, or use another --output");
        return false;
    }
    p->disk_bytes_per_s = took_s > 0 ? PROBE_BYTES / took_s : 0;
    return true;
}

static void check_space(const struct check *p, struct finding *f, const char *folder)
{
    struct statvfs s;
    char a[24], b[24];
    if (!p->model || statvfs(folder, &s) != 0)
        return;
    uint64_t there = (uint64_t)s.f_bavail * s.f_frsize;
    uint64_t one = estimate_cut_bytes(&p->job, model_layout(p->model)->elems) +
                   (uint64_t)p->tables.all.cut_bytes;
    bool best = job_has_tables(&p->job) && p->job.training.monitor != MONITOR_NONE;
    /* a new one is written before the oldest is removed */
    uint32_t cuts = p->job.checkpoint.keep + 1 + best;
    uint64_t wanted = one * cuts;
    if (there < wanted) {
        finding_say(f, there < one ? VERDICT_FAIL : VERDICT_WARN,
                    "%s has %s free, but %u checkpoints take up to %s", folder,
                    estimate_text(a, there), cuts, estimate_text(b, wanted));
        finding_mend(f, f->verdict, "make room, or lower checkpoint.keep");
    }
}

static void check_lock(const struct check *p, struct finding *f)
{
    bool ours = false;
    pid_t pid = dirlock_holder(p->output, &ours);
    if (!pid)
        return;
    finding_say(f, VERDICT_WARN, "%s is locked by pid %d%s", p->output, (int)pid,
                ours ? "" : ", of another host or container");
    finding_mend(f, VERDICT_WARN, "a job runs there; another job needs its own --output");
}

/* The chief reads it whole; a ps reads its part, and other processes the manifest. */
static enum err load_cut(const struct check *p, uint64_t cut, struct manifest *m, struct errmsg *e)
{
    return p->cluster.is_chief ? checkpoint_load_whole((struct cut){&p->checkpoints, cut}, m, e)
                               : checkpoint_load((struct cut){&p->checkpoints, cut}, m, e);
}

/* False: it cannot be used, and the job goes back to the one before it, if there is one. */
static bool judge_cut(const struct check *p, struct finding *f, uint64_t cut, bool last)
{
    struct manifest m;
    struct errmsg e = {""};
    enum err err = load_cut(p, cut, &m, &e);
    if (err == ERR_NEWER) {
        (void)finding_error(f, err, &e);
        finding_mend(f, VERDICT_FAIL, "start that release, or start from scratch with --fresh");
        return true;
    }
    if (err && !checkpoint_unusable(err)) {
        finding_say(f, VERDICT_FAIL, "checkpoint %" PRIu64 " is not read: %s", cut, e.text);
        return true; /* nothing is wrong with it, so the job does not go back */
    }
    if (err) {
        finding_say(f, last ? VERDICT_FAIL : VERDICT_WARN,
                    "checkpoint %" PRIu64 " cannot be used%s: %s", cut,
                    last ? "" : ", the one before it will be", e.text);
        if (last)
            finding_mend(f, VERDICT_FAIL,
                         "repair a checkpoint, or start from scratch with --fresh");
        return false;
    }
    bool warm = warm_start_is_due(&p->job, &m);
    if (warm && job_identity_compare_model(m.identity_text, p->job.identity_text, &e)) {
        finding_say(f, VERDICT_FAIL,
                    "run \"%s\" would begin with checkpoint %" PRIu64
                    ", which has another model: %s",
                    p->job.checkpoint.run, cut, e.text);
        finding_mend(f, VERDICT_FAIL,
                     "use the model of that checkpoint, another --output, or --fresh");
    } else if (warm) {
        finding_say(f, VERDICT_OK,
                    "run \"%s\" begins with the weights of checkpoint %" PRIu64 ", step %" PRIu64
                    " of run \"%s\", which is done",
                    p->job.checkpoint.run, cut, m.step, m.run);
        if (job_identity_compare_fields(m.identity_text, p->job.identity_text, &e))
            finding_say(f, VERDICT_WARN, WARM_START_FIELDS, p->job.checkpoint.run, e.text);
    } else if (job_identity_compare(m.identity_text, p->job.identity_text, &e)) {
        finding_say(f, VERDICT_FAIL, "%s has checkpoint %" PRIu64 " of another job: %s",
                    p->checkpoints.where, cut, e.text);
        finding_mend(f, VERDICT_FAIL, "restore what changed, or use another --output, or --fresh");
    } else {
        finding_say(f, VERDICT_OK,
                    "resumes from checkpoint %" PRIu64 ", step %" PRIu64 ", format %u", cut, m.step,
                    m.format);
    }
    manifest_close(&m);
    return true;
}

static void check_cuts(const struct check *p, struct finding *f)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    struct errmsg e = {""};
    if (finding_error(f, checkpoint_list(&p->checkpoints, &cuts, &n, &e), &e))
        n = 0;
    for (size_t i = 0; i < n && !judge_cut(p, f, cuts[i], i + 1 == n); i++)
        ;
    mem_free(cuts);
}

void check_checkpoint(struct check *p, struct finding *f)
{
    char folder[4200];
    if (!p->has_job || !p->has_cluster || !p->checkpoints.where[0])
        return;
    if (!p->cluster.is_chief && p->cluster.role == ROLE_WORKER) {
        finding_say(f, VERDICT_OK, "this worker writes none");
        return;
    }
    nearest(p->checkpoints.where, folder);
    if (!probe(p, f, folder))
        return;
    check_space(p, f, folder);
    check_lock(p, f);
    check_cuts(p, f);
    finding_say(f, VERDICT_OK, "%s can be written",
                strcmp(folder, ".") == 0 ? "the current directory" : folder);
}

/* ---- the grace period ---- */

void check_grace(struct check *p, struct finding *f)
{
    if (!p->has_job || !p->has_cluster || !p->model)
        return;
    if (!p->cluster.is_chief && p->cluster.role == ROLE_WORKER) {
        finding_say(f, VERDICT_OK, "this worker hands its work back and leaves");
        return;
    }
    uint32_t grace_s = p->job.timeouts.grace_s, given_s = (uint32_t)p->flags->grace_s;
    const char *whose = given_s && given_s < grace_s ? "--grace_s" : "timeouts.grace_s";
    grace_s = given_s && given_s < grace_s ? given_s : grace_s;
    uint32_t ps = p->cluster.n_ps ? p->cluster.n_ps : 1;
    uint64_t bytes =
        estimate_cut_bytes(&p->job, share_of(p)) + (uint64_t)(p->tables.all.cut_bytes / ps);
    double takes_s = estimate_cut_s(bytes, p->disk_bytes_per_s);
    char text[24];
    if (takes_s <= grace_s) {
        finding_say(f, VERDICT_OK, "%s is %u, a checkpoint will take about %.0f s", whose, grace_s,
                    takes_s);
        return;
    }
    finding_say(f, VERDICT_WARN,
                "%s is %u, but a ps's part of a checkpoint, %s, will take about %.0f s: after "
                "SIGTERM no new checkpoint would be complete in time",
                whose, grace_s, estimate_text(text, bytes), takes_s);
    finding_mend(
        f, VERDICT_WARN,
        "raise timeouts.grace_s and terminationGracePeriodSeconds above %.0f, or take more ps",
        takes_s);
}

/* ---- tables of rows by key: the memory that their rows will need on a ps ---- */

void check_tables(struct check *p, struct finding *f)
{
    char text[400], full[200];
    if (!p->has_job || !p->has_cluster || !job_has_tables(&p->job))
        return;
    if (!p->looked || p->train.keys.lists == 0) {
        finding_say(f, VERDICT_WARN,
                    "not estimated: the data whose keys are looked up could not be read");
        return;
    }
    p->tables = table_room_of(&p->job, &p->train.keys);
    table_room_text(&p->tables, p->cluster.n_ps, text, sizeof text);
    bool fits = table_room_fits(&p->tables, &p->job, p->cluster.n_ps, full, sizeof full);
    finding_say(f, fits ? VERDICT_OK : VERDICT_WARN, "%s%s%s", text, fits ? "" : "; ",
                fits ? "" : full);
    finding_mend(f, VERDICT_WARN, "raise ps.memory, or take more ps");
}
