/* The loop of steps, to the end of the run: parameters -> a batch -> forward and backward -> push -> parameters.
 *
 * Happy path: the driver waits for a task and its parameters -> the batch's rows -> gradients are sent as they are
 * made -> the replies are read into the flat block -> the next task. Failure modes: see worker/driver/driver.h. */
#pragma once

#include "common/process/fault.h"
#include "data/source.h"
#include "worker/driver/driver.h"
#include "worker/step/gradient.h"
#include "model/model.h"

struct train_config {
    const struct job *job;
    const struct cluster *cluster;
    const struct model *model;
    struct source *source;
    struct fault fault; /* for tests and benchmarks */
};

/* The parts of training. The chief can read them between two tasks, for as long as the struct train lives. */
struct train_parts {
    struct driver *driver;
    struct pool *pool;
    struct gradient *gradient;
    float *w; /* the flat block */
    /* their moving averages, as pulled last; only for the chief with use_ema, else NULL */
    float *averages;
};

struct train;

/* Make all parts. The objects that `config` points to must outlive *t. Errors: ERR_NOMEM; those of driver_new. */
enum err train_new(struct train **t, const struct train_config *config,
                   struct errmsg *e) MUST_CHECK;
void train_free(struct train *t);
const struct train_parts *train_parts(const struct train *t);

/* Run to the end. `control` is running; `chief` as in driver_start. Thread: main. */
void train_run(struct train *t, struct control *control, const struct driver_chief *chief,
               void *ctx, struct driver_result *result);
