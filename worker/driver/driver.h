/* What a worker does around the computing: the session, its links to the shards, the letters of the control thread, and
 * the account of it. Parameters are a flat block to it and gradients are nodes; it knows neither a model nor data.
 *
 * Happy path: driver_next: the parameters are in the flat block -> driver_begin -> driver_range: each range of the
 * gradient leaves as soon as it is final -> driver_push: the rest leaves -> driver_next: the replies are read ...
 * Failure modes: see worker/core/session.h; a letter TRAIN_STOP ends the run. Thread: the training thread. */
#ifndef GRADWIRE_WORKER_DRIVER_DRIVER_H
#define GRADWIRE_WORKER_DRIVER_DRIVER_H

#include "worker/core/account.h"
#include "worker/control/control.h"
#include "worker/driver/gradient_node.h"
#include "worker/control/meter.h"
#include "worker/core/session.h"
#include "worker/driver/row_frames.h"

struct driver_config {
    const struct job *job;
    const struct cluster *cluster;
    const struct layout *layout;
    uint64_t batches_per_epoch;
    uint32_t threads; /* that compute: for the log */
    bool delays;      /* nothing of a task leaves before all of it is computed */
    float *w;         /* the flat block */
    float *averages;  /* the same of moving averages; NULL: none are asked for */
};

/* What the chief does on this thread beside its share of the work. Each may end the run (driver_stop). */
struct driver_chief {
    void (*restored)(void *ctx, uint64_t step); /* the next generation begins with a cut of it */
    void (*welcomed)(void *ctx);                /* a new generation has begun */
    void (*parked)(void *ctx); /* the others go on without this session, for a while */
    void (*step)(void *ctx, uint64_t id, const struct sums *sums, double now_s); /* was made */
    bool (*between)(
        void *ctx); /* two tasks; false: the next one is not begun before a letter has come */
    void (*evaluate)(void *ctx, uint64_t epoch); /* asked for (TRAIN_EPOCH) */
    void (*finish)(void *ctx);                   /* asked for (TRAIN_FINISH) */
    void (*published)(void *ctx, uint64_t step); /* the final checkpoint (TRAIN_PUBLISHED) */
    void (*kept)(void *ctx,
                 struct train_kept *kept); /* TRAIN_KEPT; it may take the hold: -1 is left then */
};

/* What a run came to. */
struct driver_result {
    int exit_code;
    char error[400];
    uint64_t steps;           /* sync: steps of this run */
    double examples, train_s; /* of this run; evaluation is not counted */
    struct worker_account account;
};

struct driver;

/* Errors: ERR_NOMEM, ERR_IO. */
enum err driver_new(struct driver **d, const struct driver_config *config,
                    struct errmsg *e) MUST_CHECK;
void driver_free(struct driver *d);

/* Where the control thread posts its letters. */
struct mailbox *driver_mailbox(struct driver *d);
struct meter *driver_meter(struct driver *d);
struct session *driver_session(struct driver *d);
struct control *driver_control(struct driver *d); /* while it runs */

/* The run begins, and `control` is up. `chief` NULL: this is not the chief. */
void driver_start(struct driver *d, struct control *control, const struct driver_chief *chief,
                  void *ctx, struct driver_result *result);

/* Wait for the next task, whose parameters are then in the flat block. TASK_ROWS: driver_ask is wanted first. Everything else happens in here: letters,
 * replies, the chief's work between two tasks, pushes without a gradient. False: the run has ended. */
bool driver_next(struct driver *d, struct session_task *task);
/* The task begins: gradient blocks of the one before may be rewritten. `rows`: of its batch. */
void driver_begin(struct driver *d, const struct session_task *task, uint64_t rows);
/* A gradient_range of the running task. */
void driver_range(struct driver *d, struct gradient_node *n, uint64_t from, uint64_t to);
/* Tables: the rows of *v, which has the keys of the task's leaves, are asked for; driver_next hands the task out when they
 * are in it. *v stays as it is until the task is computed, or another is asked for. */
void driver_ask(struct driver *d, const struct session_task *task, struct row_values *v);
/* Tables: the same of the task that is likely to be next, with the push of the running one. */
struct driver_ask {
    struct session_task task;
    struct row_values *rows;
};
/* Tables, the chief between two tasks: read rows as they are; waits. Errors: ERR_STATE the run ends, or a new generation
 * began: what was asked for is void. */
enum err driver_look(struct driver *d, struct row_values *v, struct errmsg *e) MUST_CHECK;
/* All of the task's nodes are final, and stay as they are until the next driver_begin; `sums` are those of all of
 * them. What is left of them leaves. `next` NULL: nothing is asked for. */
void driver_push(struct driver *d, struct gradient_node *node, uint32_t nodes,
                 const struct sums *sums, const struct driver_ask *next);

/* End the run; the first call counts. */
void driver_stop(struct driver *d, int exit_code, const char *text);
/* Seconds of training from the first task to now_s. */
double driver_trained_s(const struct driver *d, double now_s);
/* So many of the last seconds were no training. */
void driver_paused(struct driver *d, double seconds);
/* All is learned: what follows is no training, and is not counted. */
void driver_finish(struct driver *d);

#endif
