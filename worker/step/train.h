/* The training thread: THE step (data -> forward and backward -> push -> replies), evaluation, and the end.
 *
 * Happy path: letters from the control thread -> session -> a task -> gradients leave while they are made -> replies are
 * read into the flat block -> the next task. Failure modes: see worker/core/session.h; a letter TRAIN_STOP ends it. */
#ifndef GRADWIRE_WORKER_STEP_TRAIN_H
#define GRADWIRE_WORKER_STEP_TRAIN_H

#include "worker/evaluate/best.h"
#include "worker/chief/core/chief.h"
#include "worker/control/control.h"
#include "worker/tensorboard/curves.h"
#include "worker/data/dataset.h"
#include "common/process/fault.h"
#include "worker/model/evaluation.h"
#include "worker/model/model.h"

struct train_config {
    const struct job *job;
    const struct cluster *cluster;
    const struct model *model;
    const struct dataset *data, *eval; /* eval NULL: none */
    const struct order *order;
    struct best *best;     /* the chief's; NULL: not the chief */
    struct curves *curves; /* the same */
    const char *output;    /* DIR */
    int progress_fd;       /* -1: none */
    struct fault fault;    /* for tests and benchmarks */
};

/* The end of an epoch of this run. */
struct train_epoch {
    uint64_t epoch; /* from 1, over all runs */
    double seconds; /* since this run's first step, without evaluation */
    uint64_t step;  /* batches behind it; in sync steps */
    bool has_eval;
    struct evaluation eval;
};

/* What it came to. */
struct train_result {
    int exit_code;
    char error[400];
    uint64_t steps;           /* sync: steps of this run */
    double examples, train_s; /* of this run; evaluation is not counted */
    double first_step_s;      /* since the process began; NAN: none */
    bool has_eval;
    struct evaluation eval;
    struct chief_account account;
    size_t epochs;
    struct train_epoch *history; /* (epochs); the chief's; freed by the caller: mem_free */
    char digest[65];             /* "" where model/ was not written */
};

struct train;

enum err train_new(struct train **t, const struct train_config *config,
                   struct errmsg *e) MUST_CHECK;
void train_free(struct train *t);
/* Where the control thread posts its letters. */
struct mailbox *train_mailbox(struct train *t);
/* What it counts while it runs; as long as *t lives. */
const struct meter *train_meter(const struct train *t);

/* The run and the generation that it was welcomed to last; "" and 0: none. Behind train_run. */
const char *train_welcomed(const struct train *t, uint64_t *generation);

/* Run to the end. `control` is up. Thread: main. */
void train_run(struct train *t, struct control *control, struct train_result *result);

/* model/ gets the best epoch's weights, and there are such. */
bool train_restores_best(const struct train_config *config);

/* model/: weights.safetensors, job.yaml and, of a csv, encoding.json; fills the digest. Errors: ERR_IO. */
enum err train_export(const struct train_config *config, const float *w, char digest[65],
                      struct errmsg *e) MUST_CHECK;

#endif
