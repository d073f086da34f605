/* The work of a worker process once its job and its data are loaded: training, evaluating, or the search for a
 * learning rate. */
#include "worker/process.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/process/signals.h"
#include "worker/control/chief_link.h"
#include "worker/evaluator/evaluator_role.h"
#include "worker/lr_finder.h"

void process_say_end(const struct process *p)
{
    if (p->result.exit_code && p->result.exit_code != 143)
        log_error("%s", p->result.error);
    else if (p->result.error[0])
        log_info("%s", p->result.error);
    else if (p->done_words[0])
        log_info("%s", p->done_words);
}

/* Also with --when_done=wait: whatever started this process starts it again. */
static void leave_at_once(const struct process *p)
{
    log_warn("storage does not answer for %s: exiting without waiting for it",
             p->checkpoints.where);
    process_say_end(p);
    termination_end(p->flags.termination_message, p->result.exit_code);
    (void)fflush(NULL);
    _exit(p->result.exit_code);
}

/* Remember how the run ended, for a worker that waits for the next one, or that came when all was over. */
static void remember(struct process *p, const struct train *train, const struct control *control)
{
    const struct session_terms *terms = session_terms(driver_session(train_parts(train)->driver));
    if (terms->generation.number) {
        (void)snprintf(p->over.uuid, sizeof p->over.uuid, "%s", terms->uuid);
        p->over.generation = terms->generation.number;
    }
    if (control->nobody_came)
        p->over = (struct idle_run){.generation = 0}; /* any chief is new again */
    const struct idle_end end = {.exit_code = p->result.exit_code,
                                 .nobody_came = control->nobody_came,
                                 .known_over = p->known_over,
                                 .waits = p->flags.waits,
                                 .going = control->going};
    p->rests = idle_state(&end, &p->result.exit_code);
}

/* asked->there: the rows must be read again, for the chief. */
static enum err run_worker(struct process *p, struct train *train, struct control_encoding *asked,
                           struct errmsg *e)
{
    struct chief_link *link = NULL;
    struct driver *driver = train_parts(train)->driver;
    struct control control;
    struct control_config control_config = {.job = &p->job,
                                            .cluster = &p->cluster,
                                            .train = driver_mailbox(driver),
                                            .http_fd = p->http_fd,
                                            .waits = p->flags.waits,
                                            .checkpoints = &p->checkpoints,
                                            .handed = process_is_first_start(p),
                                            .read_by = p->read_by.there ? &p->read_by : NULL,
                                            .meter = driver_meter(driver),
                                            .contents = &p->data.contents};
    enum err err = chief_link_new(&link, e);
    if (err)
        return err;
    interim_end(&p->interim);
    err = control_init(&control, &control_config, &chief_link_ops, link, e);
    if (!err) {
        train_run(train, &control, NULL, NULL, &p->result);
        control_close(&control);
        *asked = control.encoding;
        if (!asked->there)
            remember(p, train, &control);
        if (asked->there && chief_link_hangs(link))
            p->result.exit_code = 138; /* another process must read the rows again */
        if (chief_link_hangs(link))
            leave_at_once(p);
    }
    chief_link_free(link);
    return err;
}

static enum err run(struct process *p, struct control_encoding *asked, struct errmsg *e)
{
    struct train *train = NULL;
    struct train_config config = {
        .job = &p->job, .cluster = &p->cluster, .model = p->model, .source = p->rows};
    enum err err = fault_parse(&config.fault, p->flags.fault, e);
    if (!err && fault_is_of_ps(&config.fault))
        err = err_set(e, ERR_INPUT, "--fault=%s: only a ps accepts it", p->flags.fault);
    if (err)
        return err;
    p->learned.first_step_s = NAN;
    err = train_new(&train, &config, e);
    if (err)
        return err;
    err = p->cluster.is_chief ? process_run_chief(p, train, e) : run_worker(p, train, asked, e);
    train_free(train);
    return err;
}

/* Run with the rows as they were read, and again if the chief's rows have another encoding. */
static enum err run_all(struct process *p, struct errmsg *e)
{
    struct control_encoding asked = {.there = false};
    enum err err = run(p, &asked, e);
    while (!err && asked.there) {
        const struct control_encoding by = asked;
        asked.there = false;
        err = process_read_anew(p, &by, e);
        if (!err)
            err = run(p, &asked, e);
    }
    return err;
}

/* Report the end in the same way as a worker. */
static enum err run_evaluator(struct process *p, struct evaluator_end *end, struct errmsg *e)
{
    const struct evaluator_role role = {.job = &p->job,
                                        .cluster = &p->cluster,
                                        .model = p->model,
                                        .data = &p->data.contents,
                                        .eval = &p->eval_rows.source,
                                        .encoding = p->encoding,
                                        .planted = p->planted,
                                        .batches_per_epoch = order_batches(&p->rows->order),
                                        .output = p->output,
                                        .checkpoints = &p->checkpoints,
                                        .logs = p->logs,
                                        .progress_fd = p->flags.progress_fd,
                                        .http_fd = p->http_fd,
                                        .chief = &p->chief_end};
    interim_end(&p->interim);
    enum err err = process_look_back(p, e);
    if (!err)
        err = evaluator_role_run(&role, end, e);
    if (err == ERR_CLOSED && end->exit_code) {
        p->result.exit_code = end->exit_code;
        (void)snprintf(p->result.error, sizeof p->result.error, "%s", e->text);
        return ERR_OK;
    }
    if (!err && end->signaled)
        p->result.exit_code = 143;
    else if (!err)
        log_info("the final checkpoint is evaluated: done");
    return err;
}

/* Run the evaluator. If the newest cut has another encoding, read the rows again with it, once. */
static enum err evaluate_all(struct process *p, struct errmsg *e)
{
    struct evaluator_end end = {.signaled = false};
    enum err err = run_evaluator(p, &end, e);
    if (!err || !end.encoding || end.signaled)
        return err;
    log_info("reading the data again, with the encoding of the newest checkpoint: %s", e->text);
    err = process_begin_interim(p, STATE_LOADING, e);
    if (!err)
        err = process_load_again(p, NULL, e);
    return err ? err : run_evaluator(p, &end, e);
}

enum err process_run(struct process *p, struct alone *alone, struct errmsg *e)
{
    if (p->flags.find_learning_rate)
        return lr_finder_run(&p->job, p->model, p->rows, p->output, e);
    if (p->cluster.role == ROLE_EVALUATOR)
        return evaluate_all(p, e);
    enum err err = process_look_back(p, e);
    if (!err && p->result.exit_code)
        return process_summarize_failed(p, e);
    if (!err && p->cluster.n_ps == 0)
        err = alone_start(alone, &p->cluster, &p->flags, p->output, e);
    return err ? err : run_all(p, e);
}
