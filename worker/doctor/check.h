/* The process that would be started: facts that the checks have found so far, for the checks that follow. */
#ifndef GRADWIRE_WORKER_DOCTOR_CHECK_H
#define GRADWIRE_WORKER_DOCTOR_CHECK_H

#include "common/flags/flags.h"
#include "common/net/reach.h"
#include "common/place/place.h"
#include "data/dataset.h"
#include "worker/doctor/certificate.h"
#include "worker/doctor/finding.h"
#include "worker/doctor/estimate.h"
#include "model/model.h"
#include "worker/taught/taught.h"

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
/* check_secrets.c */
void check_token(struct check *p, struct finding *f);
void check_certificates(struct check *p, struct finding *f);
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

#endif
