/* The identity of this process, by TF_CONFIG or flags, and its job: file, model, data. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/cgroup.h"
#include "common/base/printable.h"
#include "common/checkpoint/checkpoint.h"
#include "common/cluster/cluster.h"
#include "common/wire/frame.h"
#include "common/formats/export.h"
#include "common/base/version.h"
#include "common/base/mem.h"
#include "common/process/paths.h"
#include "common/process/output.h"
#include "common/process/child.h"
#include "data/core/order.h"
#include "worker/doctor/estimate.h"
#include "worker/doctor/check.h"
#include "model/model.h"
#include "worker/warm_start/first_weights.h"

bool check_computes(const struct check *p)
{
    return p->has_cluster && p->cluster.role != ROLE_PS;
}

void check_version(struct check *p, struct finding *f)
{
    (void)p;
    finding_say(f, VERDICT_OK,
                "gradwire " GRADWIRE_VERSION ", wire %d, checkpoints of formats %d to %d",
                FRAME_VERSION, CHECKPOINT_FORMAT_FIRST, CHECKPOINT_FORMAT);
}

/* ---- identity ---- */

/* gradwire train and rank can start the job here all the same: they name their processes. */
static void say_alone(const struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    if (!signs_check(p->cluster.given, p->flags->alone, getenv, &e)) {
        finding_say(f, VERDICT_OK, "no cluster flags: the job runs on this host alone");
        return;
    }
    finding_say(f, VERDICT_WARN, "no cluster flags: a worker that is started so exits with 2: %s",
                e.text);
    finding_mend(f, VERDICT_WARN,
                 "nothing, if gradwire train or rank starts the job: they name their processes");
}

static void say_who(const struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    if (c->alone) {
        say_alone(p, f);
        return;
    }
    finding_say(f, VERDICT_OK, "%s %u%s of %u ps and %u %sworkers%s%s%s", role_str(c->role),
                c->index, c->is_chief && c->role != ROLE_CHIEF ? ", the chief," : "", c->n_ps,
                c->n_workers, c->sparse ? "known " : "",
                c->has_evaluator ? " with an evaluator" : "", c->self ? ", at " : "",
                c->self ? c->self : "");
}

void check_cluster(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    const char *config = getenv("TF_CONFIG");
    if (finding_error(f, cluster_init(&p->cluster, &p->flags->cluster, config, &e), &e))
        return;
    p->has_cluster = true;
    if (p->cluster.alone && p->cluster.role == ROLE_PS) {
        finding_say(f, VERDICT_FAIL, "this is a ps, but its cluster is not given");
        finding_mend(f, VERDICT_FAIL,
                     "give --job_name=ps --task_index=I --ps_hosts=H:P,..., or TF_CONFIG");
        return;
    }
    say_who(p, f);
}

/* ---- the job file, the model ---- */

static void check_roles(const struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    struct errmsg e = {""};
    if (!p->has_cluster)
        return;
    if (c->role == ROLE_EVALUATOR || (c->is_chief && c->has_evaluator))
        (void)finding_error(f, job_check_evaluator(&p->job, &e), &e);
    uint32_t workers = cluster_workers_most(c);
    if (c->is_chief && workers < UINT32_MAX)
        (void)finding_error(f, job_check_workers(&p->job, workers ? workers : 1, &e), &e);
}

static void say_job(const struct check *p, struct finding *f)
{
    char one_row[300], unread[500];
    const char *warnings[] = {job_one_row_warning(&p->job, one_row, sizeof one_row),
                              job_unread_warning(&p->job, unread, sizeof unread),
                              *p->job.no_value ? p->job.no_value : NULL};
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++)
        if (warnings[i])
            finding_say(f, VERDICT_WARN, "%s", warnings[i]);
}

void check_job(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    if (!p->flags->job[0]) {
        finding_say(f, VERDICT_WARN, "no job file is given");
        finding_mend(f, VERDICT_WARN,
                     "with --job=FILE model, data, memory and checkpoints are checked, too");
        return;
    }
    enum err err = job_load(&p->job, p->flags->job, p->flags->sets, p->flags->n_sets, &e);
    if (finding_error(f, err, &e))
        return;
    p->has_job = true;
    say_job(p, f);
    err = job_output(&p->job, p->flags->output, p->output, sizeof p->output, &e);
    if (!finding_error(f, err, &e))
        place_of_job(&p->checkpoints, p->output, OUTPUT_CHECKPOINTS);
    check_roles(p, f);
    if (job_needs_data(&p->job)) {
        finding_say(f, VERDICT_OK, "%s; its model's shape is that of the data", p->job.name);
        return;
    }
    if (finding_error(f, model_new(&p->model, &p->job, &e), &e))
        return;
    finding_say(f, VERDICT_OK, "%s, %" PRIu64 " parameters, %u slots, update %s", p->job.name,
                model_layout(p->model)->elems, optimizer_slots(&p->job.optimizer),
                job_update_word(p->job.training.update));
}

/* ---- data ---- */

/* The look has set the shape in the job. */
static void shape_by_data(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    (void)finding_error(f, model_new(&p->model, &p->job, &e), &e);
}

/* False: the files may be on a volume that is not mounted here. */
static bool files_are_there(const char *patterns)
{
    struct paths paths;
    struct errmsg e;
    if (!patterns)
        return true;
    if (paths_expand(&paths, patterns, &e))
        return false;
    bool there = true;
    for (size_t i = 0; i < paths.count; i++) {
        char file[PATHS_FILE_MAX];
        (void)paths_member(paths.path[i], file, sizeof file);
        there = there && access(file, R_OK) == 0;
    }
    paths_close(&paths);
    return there;
}

static bool look(struct check *p, struct finding *f, int eval, struct dataset_look *out)
{
    struct errmsg e = {""};
    uint32_t classes = p->model ? model_classes(p->model) : 0;
    struct table_schema *schema = NULL;
    enum err err =
        dataset_look_given(out, &p->job, taught_given(&p->taught), eval, classes, &schema, &e);
    if (!finding_error(f, err, &e)) {
        schema_unref(p->schema);
        p->schema = schema;
        return true;
    }
    if (!files_are_there(eval ? job_eval_files(&p->job) : p->job.data.train))
        finding_mend(f, VERDICT_FAIL,
                     "no such file on this host: is the path right, is the volume mounted?");
    return false;
}

static void say_look(struct finding *f, const char *part, const struct dataset_look *l,
                     const char *where)
{
    char bytes[24];
    char files[32] = "generated";
    if (l->files)
        (void)snprintf(files, sizeof files, "%zu file%s", l->files, l->files == 1 ? "" : "s");
    finding_say(f, VERDICT_OK, "%s: %s, %s%" PRIu64 " rows, %s %s", part, files,
                l->estimated && !l->counted ? "about " : "", l->rows,
                estimate_text(bytes, l->bytes), where);
    if (l->warning.text[0])
        finding_say(f, VERDICT_WARN, "%s", l->warning.text);
}

/* ---- the encoding of a checkpoint ---- */

static bool find_taught(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    enum err err = p->checkpoints.where[0]
                       ? taught_find(&p->taught, &p->job, p->output, &p->checkpoints, NULL, &e)
                       : ERR_OK;
    return !finding_error(f, err, &e);
}

/* Check whether training would refuse the new words. */
static bool refuses_words(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    uint8_t *fresh = NULL;
    struct model_growth growth = {.tensors = 0};
    enum err err = taught_check(&p->taught, &p->job, p->schema, &e);
    if (!err)
        err = taught_fresh(&p->taught, p->schema, &fresh, &e);
    if (!err && fresh && p->model)
        err = model_growth_init(&growth, p->model, fresh, &e);
    model_growth_close(&growth);
    mem_free(fresh);
    return finding_error(f, err, &e);
}

static void say_words(struct check *p, struct finding *f)
{
    char words[600];
    if (!p->taught.there || !p->schema || refuses_words(p, f))
        return;
    finding_say(f, VERDICT_OK, "uses the encoding of %s",
                taught_words(&p->taught, p->schema, p->train.estimated, words, sizeof words));
}

/* Each word of a category is a feature, so a row has as many; a key's row is looked up instead. */
static void say_categories(const struct check *p, struct finding *f)
{
    enum { MANY_WORDS = 1000 };
    for (uint32_t i = 0; p->schema && i < p->schema->inputs; i++) {
        const struct schema_input *in = &p->schema->input[i];
        if (in->kind == COLUMN_CATEGORY && in->encode == ENCODE_ONE_HOT &&
            in->words.count >= MANY_WORDS)
            finding_say(
                f, VERDICT_WARN,
                "column %s has %s%u words, and a row has a feature for each of them: as - key: "
                "%s, which embedding and linear look up in a table, it is faster by far",
                SHOWN(in->name), p->train.estimated ? "at least " : "", in->words.count,
                SHOWN(in->name));
    }
}

static void say_doubt(void *finding, const char *text)
{
    finding_say(finding, VERDICT_WARN, "%s", text);
}

static void say_doubts(const struct check *p, struct finding *f)
{
    const struct dataset_seen *s = &p->train.seen;
    if (p->model)
        model_doubts(p->model, &p->job,
                     &(struct model_labels){p->train.rows, s->any, s->min, s->max,
                                            p->train.estimated ? NULL : s->classes,
                                            DATASET_SEEN_CLASSES, s->weights / s->rows},
                     say_doubt, f);
}

/* A row group is decoded from its beginning, by each process that has a window in it: in sync once for each of data.mix windows of a
 * microbatch, which are read together. */
static void say_groups(const struct check *p, struct finding *f)
{
    struct lanes lanes;
    if (!p->looked || p->train.group_rows == 0)
        return;
    stream_lanes(&lanes, &p->job, p->train.rows);
    const uint64_t windows = (p->train.group_rows + lanes.window - 1) / lanes.window,
                   workers = p->cluster.n_workers ? p->cluster.n_workers : 1,
                   processes = windows < workers ? windows : workers,
                   turns = (windows + lanes.lanes - 1) / lanes.lanes,
                   times = processes * (turns < lanes.mix ? turns : lanes.mix);
    if (times > 1)
        finding_say(
            f, VERDICT_OK,
            "its row groups have up to %" PRIu64 " rows, and a window %" PRIu64
            ": they are decoded about %" PRIu64
            " times an epoch, by all workers; ./gradwire convert writes row groups that are "
            "decoded once",
            p->train.group_rows, lanes.window, times);
}

/* Whether a stream can be read; or would help. */
static void say_order(struct check *p, struct finding *f)
{
    struct errmsg e = {""};
    const uint64_t mb = p->job.data.memory_mb, budget = mb ? mb << 20 : cgroup_memory_bytes() / 4;
    if (job_streams(&p->job)) {
        const enum err err = dataset_check_stream(&p->job, &e);
        if (err)
            (void)finding_error(f, err, &e);
        else if (!p->taught.there && p->schema && dataset_cannot_learn(p->schema, &e))
            (void)finding_error(f, ERR_INPUT, &e);
        say_groups(p, f);
    } else if (job_can_stream(&p->job) && p->train.bytes > budget) {
        finding_say(f, VERDICT_OK,
                    "rows beyond data.memory_mb are in a file of each process (data.spill); with "
                    "data.order: stream they stay in data.train");
    }
}

/* If the data determine the model, the model then determines the allowed labels. */
static void look_at_train(struct check *p, struct finding *f)
{
    bool automatic = job_needs_data(&p->job);
    p->looked = find_taught(p, f) && look(p, f, 0, &p->train);
    if (!p->looked)
        return;
    if (automatic)
        shape_by_data(p, f);
    if (!automatic || !p->model || look(p, f, 0, &p->train))
        say_look(f, "data.train", &p->train,
                 job_streams(&p->job) ? "as rows, of which each process reads its part"
                                      : "in memory");
    say_order(p, f);
    say_doubts(p, f);
    say_categories(p, f);
    say_words(p, f);
}

/* Rows of data.train, which has them in memory. */
static void say_held(struct check *p, struct finding *f)
{
    const struct job_validation *v = &p->job.data.validation;
    p->looked_eval = p->looked;
    if (!p->looked)
        return;
    const double part = p->train.held_part > 0 ? p->train.held_part
                        : v->last > 0          ? v->last
                                               : v->share;
    p->eval = (struct dataset_look){.rows = (uint64_t)((double)p->train.rows * part)};
    finding_say(f, VERDICT_OK, "data.validation: about %" PRIu64 " rows of data.train are held out",
                p->eval.rows);
}

void check_data(struct check *p, struct finding *f)
{
    const struct cluster *c = &p->cluster;
    struct finding unheard = {0};
    if (!p->has_job || !p->has_cluster)
        return;
    bool reads = check_computes(p);
    if (reads || job_needs_data(&p->job))
        look_at_train(p, reads ? f : &unheard);
    bool evaluates = reads && (c->role == ROLE_EVALUATOR || (c->is_chief && !c->has_evaluator)) &&
                     job_evaluates(&p->job);
    /* its columns are read like those of the training part */
    bool can = p->looked || !job_reads_columns(&p->job);
    if (evaluates && job_holds_rows_out(&p->job)) {
        say_held(p, f);
    } else if (evaluates && can && look(p, f, 1, &p->eval)) {
        p->looked_eval = true;
        say_look(f, dataset_eval_name(&p->job), &p->eval, "in memory");
    }
    if (!reads)
        finding_say(f, VERDICT_OK, "a ps reads none");
}

/* ---- first weights ---- */

static bool has_checkpoint(const struct check *p)
{
    uint64_t *cuts = NULL;
    size_t n = 0;
    struct errmsg e;
    bool listed =
        p->checkpoints.where[0] && checkpoint_list(&p->checkpoints, &cuts, &n, &e) == ERR_OK;
    mem_free(cuts);
    return listed && n > 0;
}

/* The chief reads the file when the job begins. */
void check_weights(struct check *p, struct finding *f)
{
    char words[FIRST_WEIGHTS_WORDS_BYTES];
    struct errmsg e = {""};
    if (!p->has_job || !p->job.model.weights || !p->model || !p->has_cluster ||
        !p->cluster.is_chief)
        return;
    if (has_checkpoint(p) && access(p->job.model.weights, F_OK)) {
        finding_say(f, VERDICT_OK, "%s is not there; the job resumes without it",
                    p->job.model.weights);
        return;
    }
    float *w = mem_floats(model_layout(p->model)->elems);
    enum err err = w ? first_weights_read(&p->job, model_layout(p->model), w, words, NULL, &e)
                     : err_memory_for(&e, "the parameters");
    mem_free(w);
    if (!finding_error(f, err, &e))
        finding_say(f, VERDICT_OK, "the job %s", words);
}

/* ---- exports ---- */

void check_exports(struct check *p, struct finding *f)
{
    char program[PATH_MAX];
    struct errmsg e = {""};
    if (!p->has_job || !p->job.exports)
        return;
    enum err err = export_check_job(&p->job, &e);
    if (!err && p->has_cluster && p->cluster.is_chief)
        err = program_beside(program, "model", &e);
    if (!finding_error(f, err, &e))
        finding_say(f, VERDICT_OK, "the model can be expressed in each format of the job");
}
