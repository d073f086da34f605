/* A worker process, whatever its role: its flags, job, data and model, and how it ended. main.c has its life, process_rows.c
 * what it reads, process_chief.c what the chief alone does.
 * Thread: the main one. */
#ifndef GRADWIRE_WORKER_PROCESS_H
#define GRADWIRE_WORKER_PROCESS_H

#include "common/cluster/cluster.h"
#include "common/checkpoint/checkpoint.h"
#include "common/flags/flags.h"
#include "common/job/job.h"
#include "common/net/disk_thread.h"
#include "common/process/process_state.h"
#include "worker/chief/core/journal.h"
#include "worker/chief/epoch_end.h"
#include "worker/chief/epoch_log.h"
#include "worker/control/control.h"
#include "worker/control/idle.h"
#include "worker/control/interim.h"
#include "worker/data/dataset.h"
#include "worker/data/planted.h"
#include "worker/driver/driver.h"
#include "worker/evaluate/best.h"
#include "worker/model/model.h"
#include "worker/taught/taught.h"

#define PROCESS_BEFORE_TRAINING "told to go before training began"

struct process {
    struct flags flags;
    struct cluster cluster;
    struct job job;
    char output[4096], checkpoints[4200], logs[4200];
    struct model *model;
    struct dataset data, eval;
    bool has_eval;
    struct planted planted;
    struct order order;
    int listen_fd, http_fd;
    bool listens;
    struct interim interim; /* answers by HTTP while no loop of ours does */
    /* DONE, IDLE: before it trains (again), it waits to be called; else LOADING. */
    enum process_state rests;
    struct idle_run over; /* what it trained last, or has found to be over */
    bool known_over;      /* the job, as its file was read last, was done when we looked */
    bool told_over;       /* ps 0 said so, while the rows did not fit the model as they are */
    struct manifest base; /* the chief: the newest usable cut */
    bool has_base, finished;
    struct taught taught;            /* by the newest cut: what rows mean */
    struct control_encoding read_by; /* a worker: there: taught is what the chief has said */
    uint32_t encoding_tries;         /* that failed */
    char *encoding;         /* what they mean, for the cuts that follow; NULL: the format says it */
    struct journal journal; /* the chief: of the runs before */
    struct disk_thread logs_disk; /* DIR/logs, and eval.json */
    struct driver_result result;
    struct epoch_end_result learned;
    struct epoch_log log; /* the chief's, and best */
    struct best best;
};

/* ---- main.c ---- */
/* A chief that no launcher started holds DIR by itself, to its end; a launcher's lock is its own. */
enum err process_lock_output(const struct process *p, struct errmsg *e) MUST_CHECK;
/* The job file with what --set says. */
enum err process_load_job(struct process *p, struct errmsg *e) MUST_CHECK;
/* Answer by HTTP while no loop does, in this state. */
enum err process_begin_interim(struct process *p, enum process_state state,
                               struct errmsg *e) MUST_CHECK;
/* Of what the launcher started, by itself or by exec. */
bool process_is_first_start(const struct process *p);

/* ---- process_rows.c ---- */
/* The newest cut that can be used: p->base. None: has_base is false. */
enum err process_newest_cut(struct process *p, struct errmsg *e) MUST_CHECK;
/* The job, what the newest cut teaches of its rows, the rows, and the model that they make. */
enum err process_load(struct process *p, struct errmsg *e) MUST_CHECK;
void process_forget_rows(struct process *p);
/* By the chief's cut, in taught; NULL: by the newest one that is seen. */
enum err process_load_again(struct process *p, const struct control_encoding *read_by,
                            struct errmsg *e) MUST_CHECK;
enum err process_read_anew(struct process *p, const struct control_encoding *asked,
                           struct errmsg *e) MUST_CHECK;

/* ---- process_chief.c ---- */
/* The chief: is there something to go on from, and is it of this job? */
enum err process_look_back(struct process *p, struct errmsg *e) MUST_CHECK;
/* What was learned has failed before this run. */
enum err process_summarize_failed(struct process *p, struct errmsg *e) MUST_CHECK;
enum err process_run_chief(struct process *p, struct train *train, struct errmsg *e) MUST_CHECK;

#endif
