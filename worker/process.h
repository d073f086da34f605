/* A worker process in any role: its flags, job, data and model, and its result. main.c walks through the phases of its
 * life, and each phase is a file: process_start.c, process_rest.c, process_rows.c, process_run.c; the chief's
 * additional work is in process_past.c and process_chief.c. Thread: the main one. */
#pragma once

#include <sys/types.h>

#include "common/cluster/cluster.h"
#include "common/checkpoint/checkpoint.h"
#include "common/flags/flags.h"
#include "common/net/disk_thread.h"
#include "job/job.h"
#include "common/net/loop.h"
#include "common/process/process_state.h"
#include "common/place/place.h"
#include "worker/chief/core/journal.h"
#include "worker/chief/epoch_end.h"
#include "worker/chief/epoch_log.h"
#include "worker/chief/model_end.h"
#include "worker/control/control.h"
#include "worker/control/idle.h"
#include "worker/control/control_http.h"
#include "data/dataset.h"
#include "data/drawn/drawn.h"
#include "worker/driver/driver.h"
#include "worker/evaluator/best.h"
#include "worker/evaluator/evaluator_role.h"
#include "model/model.h"
#include "worker/summarize.h"
#include "worker/taught/taught.h"

#define PROCESS_BEFORE_TRAINING "asked to stop before training began"

struct process {
    struct flags flags;
    struct cluster cluster;
    struct job job;
    char output[4096], logs[4200];
    struct place checkpoints;
    struct model *model;
    struct dataset data, eval;
    bool has_eval;
    struct planted planted;
    struct dataset_source loaded, eval_rows; /* of data and eval */
    struct source *rows;                     /* of data: `loaded`, or a stream */
    struct key_growth keys;                  /* of a stream: by the chief's look */
    int listen_fd, http_fd;
    bool listens;
    bool owns_output;        /* the chief's: it holds DIR */
    bool introduced;         /* the chief's: it connects to the ps, or has done so */
    struct interim interim;  /* serves HTTP while no loop of ours does */
    struct arrival *arrival; /* while it reads its data; NULL: none */
    /* DONE, IDLE: it waits to be called before it trains (again); else LOADING. */
    enum process_state rests;
    struct idle_run over; /* the run that it trained last, or found to be over */
    bool known_over;      /* the job was already done when it was last checked */
    bool told_over;       /* ps 0 reported that, while the rows did not fit the model */
    bool nobody_came;     /* no chief came, of which the index was wanted, and it waits for jobs */
    struct manifest base; /* the chief's: the newest usable cut */
    bool has_base, finished;
    struct taught taught;            /* by the newest cut: the encoding of the rows */
    struct control_encoding read_by; /* a worker's; if `there`, `taught` is from the chief */
    uint32_t encoding_tries;         /* number of failed tries */
    /* the encoding of the rows, for the cuts that follow; NULL: the format needs none */
    char *encoding;
    struct journal journal;       /* the chief's: of the earlier runs */
    char past[JOURNAL_WHAT_MAX];  /* the reason why it is not as it was; "": it is */
    struct disk_thread logs_disk; /* writes DIR/logs, and eval.json */
    struct chief_end chief_end;   /* the evaluator's */
    struct driver_result result;
    struct epoch_end_result learned;
    struct epoch_log log; /* log, best, exports: the chief's */
    struct best best;
    struct exports_end exports;
    char done_words[SUMMARY_WORDS_BYTES]; /* the chief's: the result of a job that is done */
};

/* ---- process_start.c ---- */
/* Load the secrets that the flags name, and find the process's place in the cluster. Errors: ERR_INPUT: flags that
 * contradict each other, or do not fit the role. */
enum err process_begin(struct process *p, struct errmsg *e) MUST_CHECK;
/* The chief: lock DIR until the process ends, unless whoever started it has the lock, and guard it (dirlock.h). */
enum err process_lock_output(const struct process *p, struct errmsg *e) MUST_CHECK;
/* Read the job file, and apply --set. */
enum err process_load_job(struct process *p, struct errmsg *e) MUST_CHECK;
/* Serve HTTP while no loop does, in this state. */
enum err process_begin_interim(struct process *p, enum process_state state,
                               struct errmsg *e) MUST_CHECK;
/* True if a launcher started this process, directly or by exec, and this is not a restart. */
bool process_is_first_start(const struct process *p);
/* Open the ports, once in the life of the process. From here on peers and probes can connect, however long reading the data
 * takes. */
enum err process_listen(struct process *p, struct errmsg *e) MUST_CHECK;
/* True for a worker that a chief calls to a job. */
static inline bool process_may_rest(const struct process *p)
{
    return p->cluster.role != ROLE_EVALUATOR && !p->cluster.is_chief && !p->cluster.alone &&
           !p->flags.find_learning_rate;
}

/* ---- process_rest.c ---- */
/* Decide whether there is something to train; a worker that waits stays here until a chief calls. */
enum err process_rest(struct process *p, bool *trains, struct errmsg *e) MUST_CHECK;

/* ---- process_rows.c ---- */
/* Set p->base to the newest usable cut. None: has_base is false. */
enum err process_newest_cut(struct process *p, struct errmsg *e) MUST_CHECK;
/* Load the job, the encoding from the newest cut, the rows, and the model for them. */
enum err process_load(struct process *p, struct errmsg *e) MUST_CHECK;
/* Free the rows, the model and the text of the encoding. */
void process_forget_rows(struct process *p);
/* Load again: with the chief's cut, in p->taught; NULL: with the newest cut that this process can see. */
enum err process_load_again(struct process *p, const struct control_encoding *read_by,
                            struct errmsg *e) MUST_CHECK;
/* The chief refused this worker, whose rows have another meaning: fetch the encoding that the refusal names, and load
 * again by it. A fetch that fails is logged and returns ERR_OK: the caller runs, and is refused, again. After some
 * failures the error is returned. */
enum err process_read_anew(struct process *p, const struct control_encoding *asked,
                           struct errmsg *e) MUST_CHECK;

/* ---- process_past.c ---- */
/* The chief: find the checkpoint to resume from, and check that it belongs to this job. An evaluator: make the fingerprint of the text
 * as an earlier release has made it, if the newest checkpoint is one of these. */
enum err process_look_back(struct process *p, struct errmsg *e) MUST_CHECK;
/* The history's last line, if its evaluation was the best and best/ lacks it: the last chief was killed in between. NULL: there
 * is none. Borrowed from p->log. */
const struct epoch_line *process_unkept_line(const struct process *p);
/* Write in DIR which job begins there. */
enum err process_mark_begin(const struct process *p, struct errmsg *e) MUST_CHECK;

/* ---- process_chief.c ---- */
/* The job's training failed before this run: write that to summary.json. */
enum err process_summarize_failed(struct process *p, struct errmsg *e) MUST_CHECK;
/* The process ends with this code. If it is a chief that fails before it has connected, the processes that wait for it
 * end with it, too; those of a launcher are ended by the launcher. */
void process_tell_failed(const struct process *p, int exit_code, const char *why);
/* A chief that fails before it has connected writes code and reason to summary.json, where its evaluator reads them. */
void process_note_failed(const struct process *p, int exit_code, const char *why);
enum err process_run_chief(struct process *p, struct train *train, struct errmsg *e) MUST_CHECK;

/* ---- alone.c: a worker without any ps starts one on loopback for itself ---- */
struct alone {
    pid_t pid; /* of the ps; 0: none */
};

/* Start the ps program from the directory of this one (../ps/ps, or gradwire-ps if this is gradwire-worker) on a
 * free port of 127.0.0.1, and add it to the cluster. It ends when this process ends, for whatever reason. Errors:
 * ERR_IO with a text. Thread: main, before other threads start. */
enum err alone_start(struct alone *a, struct cluster *c, const struct flags *f, const char *output,
                     struct errmsg *e) MUST_CHECK;
/* Wait until the ps has ended. It gets SIGTERM after 5 s, and SIGKILL after 10 s. */
void alone_stop(struct alone *a);

/* ---- process_run.c ---- */
/* The role's work, once the job and its data are loaded. *alone: processes that it starts, which the caller stops. */
enum err process_run(struct process *p, struct alone *alone, struct errmsg *e) MUST_CHECK;
/* Log how the job ended, from p->result. */
void process_say_end(const struct process *p);
