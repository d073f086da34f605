/* All processes of a job on one host, before the launcher starts them: checks whether the model is valid, and
 * whether there is memory for it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/process/cgroup.h"
#include "worker/doctor/estimate.h"
#include "worker/doctor/check.h"

/* ---- the processes ---- */

static uint32_t readers(const struct check_crew *crew)
{
    return crew->workers + crew->evaluators;
}

static uint32_t at_least_1(uint32_t n)
{
    return n ? n : 1;
}

bool check_crew_read(struct check_crew *crew, const char *text)
{
    int end = 0;
    return sscanf(text, "%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 "%n", &crew->ps,
                  &crew->workers, &crew->evaluators, &crew->all_ps, &crew->all_workers,
                  &end) == 5 &&
           text[end] == '\0' && crew->ps <= crew->all_ps && crew->workers <= crew->all_workers;
}

/* ---- the model's shapes ---- */

/* True if the number of its one-hot features comes from the data or a checkpoint, not from the job. */
static bool learns_width(const struct job_column *c)
{
    bool words = c->kind == COLUMN_CATEGORY && !c->words;
    bool buckets =
        c->kind == COLUMN_NUMBER && c->buckets != BUCKETS_NONE && c->buckets != BUCKETS_BORDERS;
    return c->encode == ENCODE_ONE_HOT && (words || buckets);
}

/* Change the job as if each of these columns had some more features. */
static void widen(struct job *job)
{
    uint32_t shift = 0;
    for (uint32_t i = 0; i < job->data.csv.columns; i++) {
        struct job_column *c = &job->data.csv.column[i];
        if (c->kind != COLUMN_NUMBER && c->kind != COLUMN_CATEGORY)
            continue;
        c->feature += shift;
        if (learns_width(c)) {
            c->width += i + 1;
            shift += i + 1;
        }
    }
    if (job->model.rank == 1)
        job->model.shape[0] += shift;
}

/* True if the error is the same with other widths, and so does not depend on them: the data that were read have only
 * a part of the words, and a checkpoint may have others. */
static bool stays(struct job *job, const struct errmsg *was)
{
    struct model *model = NULL;
    struct errmsg e = {""};
    widen(job);
    enum err err = model_new(&model, job, &e);
    model_free(model);
    return err && strcmp(e.text, was->text) == 0;
}

/* Reports nothing about invalid data: the processes name file and line when they read them. */
static void shape_by_data(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    p->looked = dataset_look(&p->train, &p->job, 0, 0, &e) == ERR_OK;
    if (!p->looked)
        return;
    enum err err = model_new(&p->model, &p->job, &e);
    if (err && (!job_reads_columns(&p->job) || stays(&p->job, &e)))
        (void)finding_error(f, err, &e);
}

static void look_at_data(struct check *p)
{
    struct errmsg e;
    if (!p->looked)
        p->looked = dataset_look(&p->train, &p->job, 0, model_classes(p->model), &e) == ERR_OK;
}

void check_crew_model(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    enum err err = job_load(&p->job, p->flags->job, p->flags->sets, p->flags->n_sets, &e);
    if (finding_error(f, err, &e))
        return;
    p->has_job = true;
    if (job_needs_data(&p->job))
        shape_by_data(p, f);
    else
        (void)finding_error(f, model_new(&p->model, &p->job, &e), &e);
    if (p->model && readers(&p->crew))
        look_at_data(p);
}

/* ---- memory ---- */

static uint32_t threads_of(const struct check *p)
{
    uint32_t share = cores_usable() / at_least_1(readers(&p->crew));
    return p->job.worker.threads ? p->job.worker.threads : share ? share : 1;
}

/* Bytes of data in each process that reads them; rows of text without room in memory are in a file. */
static uint64_t data_bytes(const struct check *p)
{
    uint64_t mb = p->job.data.memory_mb, bytes = p->looked ? p->train.bytes : 0;
    uint64_t room = mb ? mb << 20 : cgroup_memory_bytes() / 4 / at_least_1(readers(&p->crew));
    return job_reads_columns(&p->job) && bytes > room ? room : bytes;
}

static uint64_t likely_bytes(const struct check *p, uint64_t elems, uint64_t share)
{
    uint64_t worker = estimate_worker_bytes(&p->job, elems, threads_of(p),
                                            check_activations_bytes(p), data_bytes(p));
    return p->crew.ps * estimate_ps_bytes(&p->job, share, p->crew.all_workers) +
           readers(&p->crew) * worker;
}

/* The least that the processes need. */
static uint64_t least_bytes(const struct check *p, uint64_t elems)
{
    uint64_t here = elems / at_least_1(p->crew.all_ps) * p->crew.ps;
    return estimate_ps_least_bytes(&p->job, here) +
           readers(&p->crew) * estimate_worker_least_bytes(elems);
}

/* "2 ps and 30 workers", without those that do not exist. */
static const char *crew_words(const struct check_crew *crew, char out[48])
{
    if (!readers(crew))
        (void)snprintf(out, 48, "%u ps", crew->ps);
    else if (!crew->ps)
        (void)snprintf(out, 48, "%u workers", readers(crew));
    else
        (void)snprintf(out, 48, "%u ps and %u workers", crew->ps, readers(crew));
    return out;
}

/* Report if the least that they need exceeds memory and swap together, so the job cannot work. */
static bool refuse(const struct check *p, struct finding *f, uint64_t elems)
{
    char a[24], b[24], words[48];
    uint64_t limit = cgroup_memory_and_swap_bytes(), least = least_bytes(p, elems);
    if (least > limit)
        finding_say(
            f, VERDICT_FAIL,
            "the model has %" PRIu64
            " parameters, for which %s need at least %s of memory, but this host allows %s%s",
            elems, crew_words(&p->crew, words), estimate_text(a, least), estimate_text(b, limit),
            limit > cgroup_memory_bytes() ? ", swap included" : "");
    return least > limit;
}

static void warn(const struct check *p, struct finding *f, uint64_t elems, uint64_t share)
{
    char a[24], b[24], words[48];
    uint64_t likely = likely_bytes(p, elems, share), limit = cgroup_memory_bytes();
    uint64_t there = table_room_free_bytes();
    there = there < limit ? there : limit;
    if (likely > there)
        finding_say(f, VERDICT_WARN,
                    "%s will take about %s for %" PRIu64
                    " parameters and the data, but this host has %s free",
                    crew_words(&p->crew, words), estimate_text(a, likely), elems,
                    estimate_text(b, there));
}

void check_crew_memory(struct check *p, struct finding *f)
{
    uint64_t share = 0;
    struct errmsg e;
    if (!p->model || p->crew.ps + readers(&p->crew) == 0)
        return;
    uint64_t elems = model_layout(p->model)->elems;
    if (estimate_share(elems, at_least_1(p->crew.all_ps), &share, &e))
        return;
    if (!refuse(p, f, elems))
        warn(p, f, elems, share);
    finding_mend(f, f->verdict,
                 "use smaller layers, fewer workers on a host, or more hosts (--hosts)");
}
