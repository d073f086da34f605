/* The process that would be started: facts that the checks have found so far, for the checks that follow. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/base/err.h"
#include "common/flags/flags.h"
#include "common/net/reach.h"
#include "common/place/place.h"
#include "data/dataset.h"
#include "worker/doctor/estimate.h"
#include "model/model.h"
#include "worker/taught/taught.h"

/* The result of one check as one line: "warn names: ps 1 (host): not yet; wait for its pod". Pure (finding.c). */
enum verdict {
    VERDICT_NONE /* nothing was checked: no line */,
    VERDICT_OK,
    VERDICT_WARN,
    VERDICT_FAIL
};

/* the most sentences of one verdict; the number of further ones is printed */
enum { FINDING_SAID_MAX = 6 };

struct finding {
    const char *name;
    enum verdict verdict;  /* the worst one so far */
    char text[1200];       /* the findings of that verdict */
    char mend[400];        /* how to fix it; "": nothing to fix */
    unsigned said, unsaid; /* number of sentences in `text`, and of those left out */
};

/* Add a finding. A worse verdict replaces the earlier findings. A better one is ignored, and so is a text that was
 * added before. */
void finding_say(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* If `err` is an error, add `e` as a failure. Returns whether it is. */
bool finding_error(struct finding *f, enum err err, const struct errmsg *e);
/* Set how to fix the findings so far; ignored unless `v` is their verdict. */
void finding_mend(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "FAIL names: ...; ...", without a newline. */
void finding_line(const struct finding *f, char *out, size_t bytes);
/* {"check", "verdict": "ok|warn|fail", "found", "mend"}; NULL: no memory. */
json_t *finding_json(const struct finding *f);

/* Numbers of processes that will start on this host, and of the whole job. No process here: only the model is
 * checked. */
struct check_crew {
    uint32_t ps, workers, evaluators;
    uint32_t all_ps, all_workers;
};

struct check {
    const struct flags *flags;
    struct cluster cluster;
    bool has_cluster;
    struct check_crew crew; /* for a check of all processes of this host; else all zero */
    struct job job;
    bool has_job;
    char output[4096];
    struct place checkpoints;    /* where "": there is no DIR */
    struct model *model;         /* NULL: not known */
    struct taught taught;        /* the encoding that a checkpoint defines */
    struct table_schema *schema; /* the data's columns, from the last look; NULL: none */
    struct dataset_look train, eval;
    bool looked, looked_eval;
    struct table_room tables; /* tables 0: the job has none, or they are not known */
    struct visit *visit;      /* (visits) the peers that this process will connect to */
    /* (visits) whether they can be reached: first by name, then by a connection */
    struct reach *reach;
    size_t visits;
    double disk_bytes_per_s; /* of the directory of checkpoints; 0: not measured */
};

/* True if the process reads data and computes. */
bool check_computes(const struct check *p);

/* check_job.c: the process's identity and job */
void check_version(struct check *p, struct finding *f);
void check_cluster(struct check *p, struct finding *f);
void check_job(struct check *p, struct finding *f);
void check_data(struct check *p, struct finding *f);
void check_weights(struct check *p, struct finding *f);
void check_exports(struct check *p, struct finding *f);
/* check_network.c */
void check_names(struct check *p, struct finding *f);
void check_port(struct check *p, struct finding *f);
void check_peers(struct check *p, struct finding *f);
void check_versions(struct check *p, struct finding *f);
void check_clocks(struct check *p, struct finding *f);
/* The process that listens on `port`, and its program's name; 0: none, or a process of another user. Reads /proc. */
pid_t holder_of_port(uint16_t port, char *name, size_t bytes);
/* check_secrets.c */
void check_token(struct check *p, struct finding *f);
void check_certificates(struct check *p, struct finding *f);
/* a certificate that expires within this time gets a warning */
enum { CERTIFICATE_SOON_DAYS = 7 };
struct certificate_files { /* PEM; NULL: not given */
    const char *cert, *key, *ca;
};
/* Check that the files can be read, that the certificate is valid at `now`, that it fits the key, and that the
 * authorities in `ca` vouch for it as a server and as a client. *f also gets its names and the date of its end. It
 * reads only files; a connection can still fail for other reasons. */
void certificate_check(struct finding *f, const struct certificate_files *files, time_t now);
/* check_room.c: memory, disk, time, tables of rows */
void check_memory(struct check *p, struct finding *f);
void check_checkpoint(struct check *p, struct finding *f);
void check_grace(struct check *p, struct finding *f);
void check_tables(struct check *p, struct finding *f);
/* Bytes of one thread's activations, measured by building them. p->model must be set. */
uint64_t check_activations_bytes(const struct check *p);
/* check_crew.c: all processes of the job together */
bool check_crew_read(struct check_crew *crew,
                     const char *text); /* "PS,WORKERS,EVALUATORS,ALL_PS,ALL_WORKERS" */
void check_crew_model(struct check *p, struct finding *f);
void check_crew_memory(struct check *p, struct finding *f);
