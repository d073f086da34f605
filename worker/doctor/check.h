/* The process that is to be: what the checks have found out of it so far, each for those behind it. */
#ifndef GRADWIRE_WORKER_DOCTOR_CHECK_H
#define GRADWIRE_WORKER_DOCTOR_CHECK_H

#include "common/flags/flags.h"
#include "worker/data/dataset.h"
#include "worker/doctor/certificate.h"
#include "worker/doctor/finding.h"
#include "worker/doctor/table_room.h"
#include "worker/doctor/visit.h"
#include "worker/model/model.h"
#include "worker/taught/taught.h"

/* How many of each will be started on this host, and of all of them. None here: the model alone is looked at. */
struct check_crew {
    uint32_t ps, workers, evaluators;
    uint32_t all_ps, all_workers;
};

struct check {
    const struct flags *flags;
    struct cluster cluster;
    bool has_cluster;
    struct check_crew crew; /* of a look at all of them; else none */
    struct job job;
    bool has_job;
    char output[4096], checkpoints[4200];
    struct model *model;         /* NULL: not known */
    struct taught taught;        /* what a checkpoint says of the rows */
    struct table_schema *schema; /* of their columns, by the last look; NULL: none */
    struct dataset_look train, eval;
    bool looked, looked_eval;
    struct table_room tables; /* tables 0: none, or not known */
    struct visit *visit;      /* (visits) those whom this process will dial */
    struct reach *reach;      /* (visits) whether they can be: a name's, then a connection's */
    size_t visits;
    double disk_bytes_per_s; /* of the folder of checkpoints; 0: not measured */
};

/* It reads data and computes. */
bool check_computes(const struct check *p);

/* check_job.c: who it is, and of what */
void check_version(struct check *p, struct finding *f);
void check_cluster(struct check *p, struct finding *f);
void check_job(struct check *p, struct finding *f);
void check_data(struct check *p, struct finding *f);
/* check_network.c */
void check_names(struct check *p, struct finding *f);
void check_port(struct check *p, struct finding *f);
void check_peers(struct check *p, struct finding *f);
void check_versions(struct check *p, struct finding *f);
void check_clocks(struct check *p, struct finding *f);
/* check_secrets.c */
void check_token(struct check *p, struct finding *f);
void check_certificates(struct check *p, struct finding *f);
/* check_tables.c */
void check_tables(struct check *p, struct finding *f);
/* check_room.c: memory, disk, time */
void check_memory(struct check *p, struct finding *f);
void check_checkpoint(struct check *p, struct finding *f);
void check_grace(struct check *p, struct finding *f);
/* Bytes of one thread's activations, measured by building them. p->model must be there. */
uint64_t check_activations_bytes(const struct check *p);
/* check_crew.c: all processes of the job together */
bool check_crew_read(struct check_crew *crew,
                     const char *text); /* "PS,WORKERS,EVALUATORS,ALL_PS,ALL_WORKERS" */
void check_crew_model(struct check *p, struct finding *f);
void check_crew_memory(struct check *p, struct finding *f);

#endif
