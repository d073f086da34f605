/* A worker process before it trains: it reads its job, the encoding from the newest cut, and the rows, and makes the model
 * for them. */
#include "worker/process.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/formats/export.h"
#include "common/base/clock.h"
#include "common/checkpoint/ending.h"
#include "common/parameters/epochs.h"
#include "common/process/process_state.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/process/files.h"
#include "common/process/paths.h"
#include "common/process/signals.h"
#include "data/host_copy.h"
#include "worker/chief/host.h"
#include "worker/control/cut_reader.h"
#include "worker/control/progress.h"
#include "worker/doctor/estimate.h"

enum {
    ENCODING_TRIES = 3, /* to read a cut's encoding.json from the chief */
    ENCODING_PAUSE_MS = 1000
};

/* None: has_base is false. */
enum err process_newest_cut(struct process *p, struct errmsg *e)
{
    enum err err = host_find_cut(&p->checkpoints, UINT64_MAX, &p->base, e);
    p->has_base = err == ERR_OK;
    if (err == ERR_OK || err == ERR_NOTFOUND)
        return ERR_OK;
    if (err == ERR_NOMEM || err == ERR_FILES)
        return err;
    if (err == ERR_NEWER) {
        const struct errmsg what = *e;
        return err_set(e, ERR_INPUT,
                       "%.400s: start that release, or start from scratch with --fresh", what.text);
    }
    const struct errmsg each = *e;
    return err_set(e, err,
                   "none of the job's checkpoints can be used: repair them, or start from scratch "
                   "with --fresh: %.360s",
                   each.text);
}

/* True for a worker that sees no checkpoint: the chief may have one whose encoding has more than these rows teach. */
static bool may_ask(const struct process *p)
{
    return p->cluster.role == ROLE_WORKER && !p->cluster.is_chief && !p->cluster.alone &&
           !p->flags.find_learning_rate && job_reads_columns(&p->job) && !taught_given(&p->taught);
}

static void say_doubt(void *ctx, const char *text)
{
    (void)ctx;
    log_warn("%s", text);
}

static void say_doubts(const struct process *p)
{
    const struct dataset_seen *s = &p->data.seen;
    uint64_t rows = p->flags.find_learning_rate ? 0 : p->data.rows; /* it sets the rates itself */
    model_doubts(p->model, &p->job,
                 &(struct model_labels){rows, s->any, s->min, s->max, s->classes,
                                        DATASET_SEEN_CLASSES, s->weights / s->rows},
                 say_doubt, NULL);
}

/* A process that does not wait for jobs waits this long for a chief that continues one, as elsewhere. */
static int64_t over_ms(const struct process *p)
{
    int64_t start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    if (p->flags.waits)
        return 0;
    return start_ms < ENDING_ALONE_MS ? start_ms : ENDING_ALONE_MS;
}

/* Get the encoding of the chief's last cut. Failed tries count up to ENCODING_TRIES, within timeouts.start_s. */
static enum err ask_last_cut(struct process *p, struct errmsg *e)
{
    int64_t began_ms = clock_now_ms(), start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    for (;;) {
        enum err err = taught_ask(&p->taught, &p->job, &p->cluster, NULL, CUT_READER_ANY,
                                  p->data.contents.files ? &p->data.contents : NULL, over_ms(p), e);
        if (!err || err == ERR_STATE)
            return err;
        log_warn("%s", e->text);
        if (err == ERR_NOTFOUND || err == ERR_INPUT || ++p->encoding_tries >= ENCODING_TRIES ||
            clock_now_ms() - began_ms >= start_ms)
            return err;
        clock_sleep_ms(ENCODING_PAUSE_MS);
    }
}

/* A file of the chief's data. While the chief reads them, it answers nothing; when it has, it closes the connection, and is asked
 * again. */
static enum err ask_for_file(struct process *p, const char *file, uint8_t **data, size_t *bytes,
                             struct errmsg *e)
{
    enum { WAIT_MS = 24 * 3600 * 1000, PAUSE_MS = 300, CONNECTED_MS = 1000 };
    const int64_t start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    const struct cut_reader reader = {.job = &p->job,
                                      .cluster = &p->cluster,
                                      .cut = CUT_READER_ANY,
                                      .silent_ms = WAIT_MS,
                                      .start_ms = start_ms,
                                      .over_ms = over_ms(p)};
    int64_t heard_ms = clock_now_ms();
    for (;;) {
        const int64_t began_ms = clock_now_ms();
        enum err err = cut_reader_file(&reader, file, data, bytes, e);
        p->told_over = err == ERR_STATE;
        p->nobody_came = err == ERR_TIMEOUT && p->flags.waits;
        if (err != ERR_CLOSED && err != ERR_CORRUPT && err != ERR_REFUSED) /* of an earlier job */
            return err;
        const int64_t now_ms = clock_now_ms();
        if (now_ms - began_ms > CONNECTED_MS)
            heard_ms = now_ms;
        if (now_ms - heard_ms > start_ms)
            return err;
        clock_sleep_ms(PAUSE_MS);
    }
}

/* The evaluator sees the files of a chief that has ended. */
static enum err fetch_of_chief(struct process *p, const char *file, uint8_t **data, size_t *bytes,
                               struct errmsg *e)
{
    struct errmsg why;
    log_info("asking the chief for %s (data.order: stream)", file);
    enum err err = ask_for_file(p, file, data, bytes, e);
    if (!err || err == ERR_INPUT || p->cluster.role != ROLE_EVALUATOR ||
        place_get(&p->checkpoints, file, SIZE_MAX / 2, data, bytes, &why))
        return err;
    p->told_over = p->nobody_came = false;
    log_info("the one in %s is taken: %s", p->checkpoints.where, e->text);
    return ERR_OK;
}

/* An evaluator's wait for the first checkpoint begins when the chief has read its data. Of a stream it has waited for the index. */
static void await_chief(const struct process *p)
{
    enum { NAME_MS = 10000 };
    const int64_t start_ms = (int64_t)p->job.timeouts.start_s * 1000;
    const struct cut_reader reader = {.job = &p->job,
                                      .cluster = &p->cluster,
                                      .cut = CUT_READER_ANY,
                                      .silent_ms = NAME_MS,
                                      .start_ms = start_ms < NAME_MS ? start_ms : NAME_MS};
    struct manifest cut;
    struct errmsg e;
    uint8_t *none = NULL;
    size_t bytes;
    if (p->cluster.role != ROLE_EVALUATOR || job_streams(&p->job))
        return;
    if (host_find_cut(&p->checkpoints, UINT64_MAX, &cut, &e)) {
        if (cut_reader_file(&reader, "", &none, &bytes, &e))
            log_debug("%s", e.text);
        mem_free(none);
    } else {
        manifest_close(&cut);
    }
}

static enum err fetch_encoding(struct process *p, struct errmsg *e)
{
    uint8_t *data = NULL;
    size_t bytes = 0;
    enum err err = fetch_of_chief(p, CHECKPOINT_DATA_ENCODING, &data, &bytes, e);
    char *text = err ? NULL : mem_resize(data, bytes + 1, 1);
    if (err)
        return err;
    if (!text) {
        mem_free(data);
        return err_memory(e);
    }
    text[bytes] = '\0';
    taught_learn_from_chief(&p->taught, text, bytes);
    return ERR_OK;
}

/* The chief makes the index, or has kept it, and the other processes fetch it. */
static enum err index_stream(struct process *p, struct errmsg *e)
{
    char kept[FILES_PATH_MAX];
    uint8_t *index = NULL;
    size_t bytes = 0;
    if (p->cluster.is_chief) {
        enum err err = place_path(&p->checkpoints, CHECKPOINT_INDEX, kept, e);
        if (!err)
            err = files_mkdirs(p->checkpoints.where, e);
        if (!err)
            err = dataset_index(&p->data, kept, e);
        return err ? err : taught_keep(&p->job, p->data.table.schema, &p->checkpoints, e);
    }
    enum err err = fetch_of_chief(p, CHECKPOINT_INDEX, &index, &bytes, e);
    if (err)
        return err;
    err = dataset_index_of_chief(&p->data, index, bytes, e);
    mem_free(index);
    return err;
}

/* data.order: stream: the columns determine the model, and no row is read, unless words are learned. */
static enum err load_model_and_index(struct process *p, struct errmsg *e)
{
    struct job *job = &p->job;
    enum err err = ERR_OK;
    if (p->flags.find_learning_rate)
        return err_set(e, ERR_INPUT,
                       "%s: --find_learning_rate does not read data.order: stream: add --set "
                       "data.order=shuffled, and --set data.train=.. with a part of the files",
                       job->file);
    if (!p->cluster.is_chief && !taught_given(&p->taught) && taught_learns(&job->data.csv))
        err = fetch_encoding(p, e);
    else if (p->cluster.is_chief)
        err = dataset_sample(&p->data, job, taught_given(&p->taught), &p->keys, e);
    if (!err)
        err = dataset_begin_stream(&p->data, job, taught_given(&p->taught), e);
    const bool first = !err && !p->data.rank;
    if (first)
        err = index_stream(p, e);
    if (err)
        return err;
    dataset_tell(&p->data, job);
    err = model_new(&p->model, job, e);
    if (!err)
        err = export_check_job(job, e);
    return err || first ? err : index_stream(p, e);
}

/* Load the model first, because it determines the allowed labels; or the data first, if they determine the model. */
static enum err load_model_and_data(struct process *p, struct errmsg *e)
{
    struct job *job = &p->job;
    bool data_first = job_needs_data(job);
    enum err err = ERR_OK;
    if (job_streams(job))
        return load_model_and_index(p, e);
    if (data_first) {
        err = dataset_load_given(&p->data, job, taught_given(&p->taught), 0, e);
        if (err)
            return err;
        dataset_tell(&p->data, job);
    }
    err = model_new(&p->model, job, e);
    if (!err)
        err = export_check_job(job, e);
    if (err)
        return err;
    if (!data_first && may_ask(p))
        return dataset_load_unfitted(&p->data, job, model_classes(p->model), e);
    if (!data_first)
        return dataset_load_given(&p->data, job, taught_given(&p->taught), model_classes(p->model),
                                  e);
    err = dataset_check_classes(&p->data, model_classes(p->model), e);
    if (err == ERR_INPUT)
        return dataset_name_label(job, taught_given(&p->taught), model_classes(p->model), e);
    return err ? err_wrap(e, err, "data.train: ") : ERR_OK;
}

/* The chief needs it for summary.json, even if an evaluator reads the rows. */
static enum err measure_planted(struct process *p, struct errmsg *e)
{
    if (!job_draws_clicks(&p->job) || !(p->cluster.is_chief || p->cluster.role == ROLE_EVALUATOR))
        return ERR_OK;
    p->planted.known = true;
    return planted_measure(&p->job, &p->planted.auc, &p->planted.logloss, e);
}

/* The chief uses its newest cut, which stays its base. */
static enum err find_taught(struct process *p, struct errmsg *e)
{
    const struct manifest *base = NULL;
    if (p->flags.find_learning_rate || p->read_by.there)
        return ERR_OK;
    enum err err = ERR_OK;
    if (p->cluster.is_chief) {
        err = process_lock_output(p, e);
        p->owns_output = err == ERR_OK;
        if (!err)
            err = process_newest_cut(p, e);
        base = p->has_base ? &p->base : NULL;
        if (err || !base)
            return err;
    }
    return taught_find(&p->taught, &p->job, p->output, &p->checkpoints, base, e);
}

/* helper: takes it; NULL: none. */
static void begin_arrival(struct process *p, struct index_helper *helper)
{
    const struct cluster *c = &p->cluster;
    bool leads =
        c->is_chief && !c->alone && c->n_ps && p->listen_fd >= 0 && !p->flags.find_learning_rate;
    if (leads || process_may_rest(p))
        p->arrival = arrival_begin(&p->job, c, p->http_fd, leads ? p->listen_fd : -1, helper);
    else
        index_helper_free(helper);
}

/* If the rows have fewer words than the model has features, use the encoding of the chief's last cut. Errors:
 * ERR_STATE: the job is done. */
static enum err fit_rows(struct process *p, struct errmsg *e)
{
    struct errmsg why = {""};
    enum err err = may_ask(p) ? dataset_check_shape(&p->data, &p->job, e) : ERR_OK;
    if (!err)
        return ERR_OK;
    log_info("asking the chief for the encoding of the rows: %s", e->text);
    arrival_end(p->arrival); /* this thread connects to the chief itself */
    p->arrival = NULL;
    enum err got = ask_last_cut(p, &why);
    p->told_over = got == ERR_STATE;
    if (p->told_over)
        return err_set(e, got, "%s", why.text);
    if (got == ERR_INPUT)
        return err_set(e, got, "%s", why.text);
    if (got)
        return err;
    begin_arrival(p, NULL);
    dataset_close(&p->data);
    return dataset_load_given(&p->data, &p->job, taught_given(&p->taught), model_classes(p->model),
                              e);
}

/* Load the rows, and agree on their encoding. */
static enum err load_rows(struct process *p, struct errmsg *e)
{
    enum err err = find_taught(p, e); /* a chief holds DIR from here on */
    if (err)
        return err;
    struct index_helper *helper = NULL;
    const bool waits = job_streams(&p->job) && !p->cluster.is_chief; /* for the chief's index */
    const bool helps = waits && p->job.data.format == DATA_CSV && process_may_rest(p);
    if (helps)
        err = index_helper_new(&helper, &p->job, e);
    if (err)
        return err;
    if (helps || !waits)
        begin_arrival(p, helper);
    err = load_model_and_data(p, e);
    if (!err)
        err = fit_rows(p, e);
    if (!err)
        err = taught_agree(&p->taught, &p->job, &p->data, p->flags.progress_fd, &p->encoding, e);
    if (!err)
        host_copy_encoded(p->encoding);
    return err;
}

static void say_job(const struct process *p)
{
    char one_row[300], unread[500];
    const char *warnings[] = {job_one_row_warning(&p->job, one_row, sizeof one_row),
                              job_unread_warning(&p->job, unread, sizeof unread),
                              *p->job.no_value ? p->job.no_value : NULL};
    for (size_t i = 0; p->cluster.is_chief && i < sizeof warnings / sizeof *warnings; i++)
        if (warnings[i])
            log_warn("%s", warnings[i]);
}

/* The bytes of all files of these patterns that can be seen. */
static uint64_t bytes_of(const char *patterns)
{
    struct paths paths = {.count = 0};
    struct errmsg e;
    uint64_t bytes = 0;
    enum err err = patterns ? paths_expand(&paths, patterns, &e) : ERR_OK;
    for (size_t i = 0; !err && i < paths.count; i++) {
        char file[FILES_PATH_MAX];
        struct stat s;
        (void)paths_member(paths.path[i], file, sizeof file);
        bytes += stat(file, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
    }
    paths_close(&paths);
    return bytes;
}

static bool evaluates(const struct process *p)
{
    return p->cluster.role == ROLE_EVALUATOR ||
           (job_evaluates(&p->job) && p->cluster.is_chief && !p->cluster.has_evaluator);
}

static void tell_loading(void *ctx, const struct loading *now)
{
    const struct process *p = ctx;
    progress_loading(p->flags.progress_fd, now, p->cluster.separate_chief);
}

static void warn_of_room(const struct table_room *room, const struct job *job,
                         const struct cluster *cluster)
{
    char needed[24], there[24], text[200];
    uint32_t here = table_room_ps_here(cluster);
    uint64_t bytes =
        here * table_room_ps_bytes(room->all.memory_bytes, cluster->n_ps, job->ps.memory);
    uint64_t free_bytes = table_room_free_bytes();
    if (bytes <= free_bytes)
        return;
    (void)snprintf(text, sizeof text,
                   "tables: they will not fit: %s for %u ps on this host, but %s are free",
                   estimate_text(needed, bytes), here, estimate_text(there, free_bytes));
    log_warn("%s", text);
}

/* Report the expected size of the tables to the log and the launcher; a warning if the ps on this host have less
 * free memory. */
static void say_tables(const struct job *job, const struct cluster *cluster,
                       const struct key_growth *keys, int progress_fd)
{
    char text[400];
    const struct table_room room = table_room_of(job, keys);
    table_room_text(&room, cluster->n_ps, text, sizeof text);
    log_info("tables: %s", text);
    progress_say(progress_fd, "tables: %s", text);
    if (!table_room_fits(&room, job, cluster->n_ps, text, sizeof text))
        log_warn("tables: %s", text);
    warn_of_room(&room, job, cluster);
}

static void count_keys(const struct process *p)
{
    const struct dataset *d = &p->data;
    struct key_growth keys = p->keys;
    struct errmsg e = {""};
    if (!dataset_has_keys(d))
        return;
    if (!d->stream && dataset_count_keys(d, d->rows, DATASET_COUNTED_LOOKUPS, &keys, &e))
        log_warn("tables: not estimated: %s", e.text);
    else
        say_tables(&p->job, &p->cluster, &keys, p->flags.progress_fd);
}

static enum err load(struct process *p, struct errmsg *e)
{
    enum err err = load_rows(p, e);
    if (!err) {
        say_job(p);
        say_doubts(p);
    }
    if (!err && p->cluster.is_chief && !p->flags.find_learning_rate)
        count_keys(p);
    if (!err)
        err = measure_planted(p, e);
    if (err)
        return err;
    const struct order order = {.rows = p->data.rows,
                                .batch_size = p->job.training.batch_size,
                                .seed = p->job.training.seed,
                                .microbatches = p->job.training.microbatches};
    dataset_source_init(&p->loaded, &p->data, &order);
    p->rows = &p->loaded.source;
    if (p->job.sync.dropped == DROPPED_REDO &&
        order_batches(&order) > EPOCHS_LEAVES_MAX / order.microbatches)
        return job_blame(
            &p->job, PLACE_DROPPED,
            err_set(e, ERR_INPUT,
                    "sync.dropped: redo keeps a list of an epoch's microbatches, and %" PRIu64
                    " batches of %u are too many: the most is %" PRIu64 "; use sync.dropped: lost",
                    order_batches(&order), order.microbatches, EPOCHS_LEAVES_MAX),
            e);
    if (evaluates(p)) {
        err = dataset_holds_stream(&p->job)
                  ? dataset_hold_stream(&p->eval, &p->data, model_classes(p->model), e)
                  : dataset_load_eval(&p->eval, &p->job, &p->data, model_classes(p->model), e);
        p->has_eval = err == ERR_OK;
        if (!err)
            dataset_source_init(&p->eval_rows, &p->eval, NULL);
    }
    if (!err && p->data.stream) /* it uses the memory that is left */
        err = dataset_open_stream(&p->data, model_classes(p->model), &p->rows, e);
    return err;
}

enum err process_load(struct process *p, struct errmsg *e)
{
    uint64_t bytes = bytes_of(p->job.data.train);
    if (evaluates(p))
        bytes += bytes_of(p->job.data.eval); /* data.validation.files are in data.train */
    loading_begin(bytes, p->cluster.is_chief ? tell_loading : NULL, p);
    enum err err = load(p, e);
    if (!err)
        await_chief(p);
    loading_end();
    arrival_end(p->arrival);
    p->arrival = NULL;
    if (p->cluster.is_chief)
        progress_loading(p->flags.progress_fd, NULL, p->cluster.separate_chief);
    return err;
}

void process_forget_rows(struct process *p)
{
    free(p->encoding);
    p->encoding = NULL;
    dataset_close(&p->data);
    p->rows = NULL;
    dataset_close(&p->eval);
    model_free(p->model);
    p->model = NULL;
    p->has_eval = false;
    mem_give_back();
}

/* Get the encoding of the chief's cut, which this process cannot see. A failed request is repeated, because the
 * chief may have been restarted. */
static enum err ask_chief(struct process *p, const struct control_encoding *asked, bool *had,
                          struct errmsg *e)
{
    enum err err = taught_ask(&p->taught, &p->job, &p->cluster, asked->chief, asked->cut,
                              &p->data.contents, 0, e);
    *had = err == ERR_OK;
    if (err == ERR_OK || err == ERR_INPUT || err == ERR_NOMEM || err == ERR_FILES)
        return err;
    if (++p->encoding_tries >= ENCODING_TRIES)
        return err_wrap(e, err, "the encoding of the chief's rows cannot be fetched: ");
    log_warn("the encoding of the chief's rows cannot be fetched, asking again: %s", e->text);
    return ERR_OK;
}

/* Load again with the chief's cut, in p->taught; NULL: with the newest cut that this process can see. */
enum err process_load_again(struct process *p, const struct control_encoding *read_by,
                            struct errmsg *e)
{
    process_forget_rows(p);
    job_close(&p->job); /* the data have changed it */
    if (read_by)
        p->read_by = *read_by;
    else
        taught_close(&p->taught);
    enum err err = process_load_job(p, e);
    return err ? err : process_load(p, e);
}

enum err process_read_anew(struct process *p, const struct control_encoding *asked,
                           struct errmsg *e)
{
    bool had = false;
    p->result = (struct driver_result){0};
    signals_last_words(p->flags.termination_message, PROCESS_BEFORE_TRAINING);
    enum err err = process_begin_interim(p, STATE_LOADING, e);
    if (!err)
        err = ask_chief(p, asked, &had, e);
    if (err || !had)
        return err;
    log_info("reading the data again, with the encoding of the chief's checkpoint %" PRIu64,
             asked->cut);
    return process_load_again(p, asked, e);
}
