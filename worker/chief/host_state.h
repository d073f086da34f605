/* The inside of the chief's shell, for host.c, host_disk.c, host_page.c, ps_link.c and worker_link.c.
 * All of it belongs to the control thread. */
#pragma once

#include <jansson.h>

#include "common/net/conn.h"
#include "common/peers/dial.h"
#include "common/peers/greeting.h"
#include "common/net/listen.h"
#include "common/place/place.h"
#include "worker/chief/host.h"
#include "worker/chief/store_server.h"
#include "worker/control/progress.h"
#include "model/evaluation.h"
#include "common/serve/vitals.h"

/* The condition of each process of the job, for the job's page: the last VITALS that it sent, and its recent speed.
 * All of it comes from peers, and only the page depends on it. */

struct health {
    bool known;
    int64_t heard_ms;
    uint64_t resident_bytes, tasks;
    double examples, computed_s, waited_s;
    /* Moving means over some seconds; NAN: nothing to measure yet. */
    double task_s;     /* seconds of computing for each task */
    double examples_s; /* per second */
    double wait_share; /* share of a step's time, from 0 to 1 */
    char http[320];    /* "host:port"; "": it serves no HTTP */
    uint32_t warnings;
    struct log_kept warning[LOG_KEPT];
};

/* `peer`: the process's address as "host:port"; used if the process serves HTTP on all of its addresses. */
void health_hear(struct health *h, const Gradwire__Vitals *m, const char *peer, int64_t now_ms);
/* The limit above which a worker's task_s is slow: 1.5 times the median of the known task_s of h (n). INFINITY: fewer
 * than two are known, or no memory. */
double health_slow_s(const struct health *h, uint32_t n);
/* One warning as JSON, with the process's name. */
json_t *health_warning(const struct log_kept *w, const char *process);

/* Data for the job's page that the chief's core does not have. */
struct host_page {
    struct health *worker; /* WORKERS_MAX */
    struct health *ps;     /* of each ps */
    struct history steps, epochs;
    struct history judged; /* by the evaluator, or the chief within epochs: step, loss, metrics */
    struct evaluation judgement; /* the last one; of step 0: none */
    int64_t own_ms;              /* when this process was measured last */
    bool shows_loading;          /* the launcher knows of workers that read their data */
};

/* A control connection to a ps. */
struct ps_link {
    struct host *host;
    uint32_t ps;
    struct dialer *dialer;
    struct conn *conn;
    bool up, was_up; /* up: now; was_up: at any time */
    struct store_peer store;
    ProtobufCMessage *message;
    uint16_t type;
    uint8_t *body; /* body of a STORE_PUT */
    size_t bytes;
    char refusal[CONTROL_REFUSAL_BYTES];
    /* the last refusal of another process that this ps reported */
    char told[CONTROL_REFUSAL_BYTES];
    int64_t other_data_ms; /* as in control_other_data */
};

/* A connection from a worker. */
struct worker_link {
    struct host *host;
    struct conn *conn;
    struct worker_link *next;
    bool known;
    bool reads;              /* it is a reader of a cut (STORE_SERVER_READER); `known` is false */
    bool arrives;            /* it is an arrival; `known` is false */
    struct store_peer store; /* of a reader */
    uint32_t worker;
    struct greeting greeting;
    struct pending_conn pending;
    ProtobufCMessage *message;
    uint16_t type;
};

struct host {
    struct host_config config;
    struct control *control;
    struct chief *chief;
    struct place checkpoints;
    struct ps_link *ps;
    struct worker_link *worker_links;
    struct pending pending;
    struct listener listener;
    bool listening;
    struct host_page page;
    struct evaluation eval;
    bool has_eval;
    struct disk_thread checkpoints_disk; /* for manifests and for files that ps send and fetch */
    struct disk_thread journal_disk;
    /* Used on the thread of checkpoints_disk: the history has lines that are not synced; the warning that it cannot
     * be written was logged. */
    bool epochs_unsynced, epochs_complained;
    struct store_server store_server;
    char store_token[64];
    uint64_t connections;
    bool has_evaluator; /* its evaluations count for how often cuts are taken */
    /* awaiting: the core waits for the evaluator's result for the final cut `awaited`; looking: eval.json is being
     * read */
    bool awaiting, looking;
    uint64_t awaited;
    uint64_t judged; /* the last cut for which a result was found; UINT64_MAX: none */
    int64_t looked_ms;
    bool told_kernels; /* the evaluator has other kernels of OpenBLAS: that was logged */
    bool dir_checking; /* DIR is being checked */
    int64_t dir_checked_ms;
    uint64_t cut_told; /* the last cut that was reported to the launcher */
    int64_t started_ms;
    struct chief_facts facts;
    uint64_t published, not_published; /* number of cuts, in this process */
    int64_t published_ms;              /* time of the last one */
    uint64_t kept_cut;   /* the requested cut that is being written; UINT64_MAX: none */
    int kept_hold;       /* its hold, once it is published; -1: none */
    char waits_for[256]; /* the text that host_waits_for returns */
};

/* ---- ps_link.c ---- */

/* Connect to every ps. Errors: ERR_NOMEM, or an invalid address, in *e. */
enum err ps_links_start(struct host *h, struct errmsg *e) MUST_CHECK;
/* Why the first missing ps is missing: its refusal, or the failure of the connection. */
const char *ps_links_why_away(const struct host *h);
bool ps_links_have_other_data(
    const struct host *h); /* a ps that is away has refused this process for its data */
/* True if a ps that was never connected cannot come up (dial_hopeless). `why` names it. */
bool ps_links_hopeless(const struct host *h, char *why, size_t bytes);
void ps_links_tell_kept(struct host *h, uint32_t ps, const struct store_server_answer *a);
/* stop connecting; each connection closes when its last messages are sent */
void ps_links_finish(struct host *h);
bool ps_links_wait(const struct host *h);
void ps_links_close(struct host *h);

/* ---- host_page.c: control_ops ---- */

/* `role` is the host. host_waits_for: valid until its next call; NULL: training waits for none. */
const char *host_waits_for(void *role);
void host_metrics(void *role, struct metrics *m);
enum err host_status(void *role, json_t *to) MUST_CHECK;

/* ---- host_page.c ---- */

/* Close with host_page_close, on error too. Errors: ERR_NOMEM. */
enum err host_page_start(struct host *h, struct errmsg *e) MUST_CHECK;
void host_page_close(struct host *h);
void host_page_tick(struct host *h, int64_t now_ms);
void host_page_restored(struct host *h, const struct manifest *m);    /* as in chief_io */
void host_page_judged(struct host *h, const struct evaluation *eval); /* for `judged` */
/* false: the letter is not for the page */
bool host_page_on_letter(struct host *h, const struct mail *m);

/* ---- worker_link.c ---- */

/* For listen_start; `owner` is the host. */
void worker_link_accept(void *owner, int fd, const char *peer);
bool worker_links_shed(void *owner);                                 /* listener.shed */
struct worker_link *worker_link_of(struct host *h, uint32_t worker); /* NULL: not connected */
/* answers a reader */
void worker_links_tell_kept(struct host *h, const struct store_server_answer *a);
void worker_links_finish(struct host *h);
void worker_links_close(struct host *h);

/* ---- host_disk.c: work that waits for a disk, on threads of its own ---- */

void host_publish(void *ctx, const struct manifest *m); /* as in chief_io */
/* takes the letter's data; false: the letter is not for the history */
bool host_epochs_on_letter(struct host *h, struct mail *m);
void host_journal(void *ctx, const struct journal_entry *entry); /* as in chief_io */
/* The evaluator's results, of the final cut and of each published cut, are read from DIR/eval.json. */
void host_await_evaluator(void *ctx, uint64_t cut); /* as in chief_io */
void host_look(struct host *h, int64_t now_ms);
void host_on_looked(struct host *h, uint64_t cut, const void *letter); /* HOST_LOOKED */
/* The job went back to the cut `base`: results of later cuts are removed. */
void host_undo_results(struct host *h, uint64_t base);
/* Check about once a second that DIR is still this job's (dirlock.h); HOST_DIR reports it. */
void host_check_dir(struct host *h, int64_t now_ms);
/* Write the file by which a ps finds out whether its DIR/checkpoints is ours (not with checkpoint.store: chief).
 * `random` gives its name. */
enum err host_make_token(struct host *h, uint64_t random, struct errmsg *e) MUST_CHECK;
/* Give it another name, which no earlier copy of DIR/checkpoints has. If that fails, it keeps its name, and a warning is
 * logged. */
void host_rename_token(struct host *h, uint64_t random);
void host_remove_token(struct host *h);
