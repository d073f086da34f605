/* A worker's work other than computing: the session, its connections to the shards, the letters of the control
 * thread, and the account of its work. Parameters are one flat block here, and gradients are nodes; the driver knows
 * neither a model nor data.
 *
 * Happy path: driver_next: the parameters are in the flat block -> driver_begin -> driver_range: each range of the
 * gradient is sent as soon as it is final -> driver_push: the rest is sent -> driver_next: the replies are read ...
 * Failure modes: see worker/core/session.h; a letter TRAIN_STOP ends the run. Thread: the training thread. */
#pragma once

#include "worker/control/control.h"
#include "worker/driver/gradient_node.h"
#include "worker/control/meter.h"
#include "worker/core/session.h"
#include "worker/driver/row_frames.h"

struct contents;
struct driver_config {
    const struct job *job;
    const struct cluster *cluster;
    const struct layout *layout;
    const struct contents *contents; /* the training data, for the hello */
    const char *blas;                /* model_blas, for the hello */
    uint64_t batches_per_epoch;
    uint32_t threads; /* number of computing threads, for the log */
    bool delays;      /* no part of a task is sent before all of it is computed */
    float *w;         /* the flat block */
    float *averages;  /* the flat block of their moving averages; NULL: not needed */
};

/* The chief's additional work on this thread. Each call may end the run (driver_stop). */
struct driver_chief {
    /* the next generation begins with a cut of this step */
    void (*restored)(void *ctx, uint64_t step);
    void (*welcomed)(void *ctx); /* a new generation has begun */
    void (*parked)(void *ctx);   /* the other workers continue without this session for a while */
    /* step `id` was made */
    void (*step)(void *ctx, uint64_t id, const struct sums *sums, double now_s);
    /* between two tasks; false: the next task must not begin before another letter has come */
    bool (*between)(void *ctx);
    void (*evaluate)(void *ctx, uint64_t epoch); /* requested (TRAIN_EPOCH) */
    void (*finish)(void *ctx);                   /* requested (TRAIN_FINISH) */
    /* the final checkpoint is published (TRAIN_PUBLISHED) */
    void (*published)(void *ctx, uint64_t step);
    /* TRAIN_KEPT; if it takes kept->hold, it leaves -1 there */
    void (*kept)(void *ctx, struct train_kept *kept);
    void (*noted)(void *ctx); /* TRAIN_NOTED */
};

/* The result of a run. */
struct driver_result {
    int exit_code;
    char error[512];
    uint64_t steps;           /* sync: steps made in this run */
    double examples, train_s; /* in this run; the time of evaluations is not counted */
    struct worker_account account;
};

struct driver;

/* Errors: ERR_NOMEM, ERR_IO. */
enum err driver_new(struct driver **d, const struct driver_config *config,
                    struct errmsg *e) MUST_CHECK;
void driver_free(struct driver *d);

/* The mailbox for the control thread's letters. */
struct mailbox *driver_mailbox(struct driver *d);
struct meter *driver_meter(struct driver *d);
struct session *driver_session(struct driver *d);
struct control *driver_control(struct driver *d); /* valid while the run lasts */

/* The run begins; `control` is running. `chief` NULL: this is not the chief. */
void driver_start(struct driver *d, struct control *control, const struct driver_chief *chief,
                  void *ctx, struct driver_result *result);

/* Wait for the next task; its parameters are then in the flat block. TASK_ROWS: the caller must call driver_ask
 * first. Letters, replies, the chief's work between two tasks and pushes without a gradient are handled in here.
 * False: the run has ended. */
bool driver_next(struct driver *d, struct session_task *task);
/* The task begins: the gradient blocks of the task before can be rewritten. `rows`: number of rows of data in the whole
 * batch that the task is a part of. */
void driver_begin(struct driver *d, const struct session_task *task, uint64_t rows);
/* A gradient_range for the running task. */
void driver_range(struct driver *d, struct gradient_node *n, uint64_t from, uint64_t to);
/* Tables: ask for the rows of *v, which has the keys of the task's leaves; driver_next returns the task when the
 * rows are in it. The caller must not change *v until the task is computed, or another is asked for. */
void driver_ask(struct driver *d, const struct session_task *task, struct row_values *v);
/* Tables: the request for the rows of the likely next task. driver_push sends it with the running task's push. */
struct driver_ask {
    struct session_task task;
    struct row_values *rows;
};
/* Tables, the chief between two tasks: read rows as they are now; waits. Errors: ERR_STATE: the run ends, or a new
 * generation began, so the request is void. */
enum err driver_look(struct driver *d, struct row_values *v, struct errmsg *e) MUST_CHECK;
/* All of the task's nodes are final, and do not change until the next driver_begin; `sums` is over all of them.
 * Sends the rest of them. `next` NULL: no request for rows. */
void driver_push(struct driver *d, struct gradient_node *node, uint32_t nodes,
                 const struct sums *sums, const struct driver_ask *next);

/* End the run; only the first call counts. */
void driver_stop(struct driver *d, int exit_code, const char *text);
/* Seconds of training from the first task to now_s. */
double driver_trained_s(const struct driver *d, double now_s);
/* `seconds` seconds until now were not training; driver_trained_s leaves them out. */
void driver_paused(struct driver *d, double seconds);
/* All is learned: the time from now on does not count as training. */
void driver_finish(struct driver *d);
