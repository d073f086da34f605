#include "common/cluster/signs.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/digits.h"

enum { SIGNS_MAX = 6 };

#define BY_HAND                                                                                    \
    "give each process --job_name, --task_index, --ps_hosts and --worker_hosts, or TF_CONFIG"
#define BY_MPI                                                                                     \
    "let mpirun start `gradwire rank JOB --ps P` (in an image with MPI and gradwire), or run a "   \
    "TFJob without PS (k8s/tfjob/overlays/no-ps)"
#define BY_SRUN "let srun start `gradwire rank JOB --ps P`, or use `gradwire train`"
#define BY_POD                                                                                     \
    "run a TFJob without PS (k8s/tfjob/overlays/no-ps), or give each pod --role, --ps, "           \
    "--workers, "                                                                                  \
    "--ps_host and --worker_host"

/* The first of `sizes` that is set has the number of processes. If none is set, one of `marks` is enough. */
static const struct {
    const char *sizes[SIGNS_MAX], *marks[SIGNS_MAX];
    const char *of; /* the kind of job */
    const char *instead;
} starters[] = {
    /* mpirun tells its processes how many they are. Without that, this is the main program of a launcher's or a worker's
     * pod. */
    {{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"},
     {"K_MPI_JOB_ROLE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile",
      "PRTE_MCA_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE"},
     "an MPI job",
     BY_MPI},
    /* srun sets both for its step, salloc and sbatch set only the second, for the allocation. */
    {{"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, {NULL}, "a Slurm job", BY_SRUN},
    /* PET_NNODES is the number of pods (elastic: "least:most"). Operators before it set only WORLD_SIZE, which newer ones
     * multiply by the processes of a pod. */
    {{"PET_NNODES", "WORLD_SIZE"}, {NULL}, "a PyTorchJob, TrainJob or torchrun", BY_POD},
    {{"PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_NUM", "PADDLE_NNODES"},
     {NULL},
     "a Paddle job",
     BY_POD},
    {{NULL}, {"TRAINING_ROLE"}, "a Paddle job with servers", BY_POD},
    {{NULL},
     {"DMLC_ROLE"},
     "a ps-lite job",
     BY_HAND}, /* the least is a scheduler, a server, a worker */
    {{"JAX_NUM_PROCESSES", "JAX_PROCESS_COUNT"}, {NULL}, "a JAX job", BY_POD},
    {{"HOROVOD_SIZE"}, {NULL}, "a Horovod job", BY_HAND},
    {{NULL}, {"JOB_COMPLETION_INDEX"}, "an Indexed Job (JobSet, TrainJob)", BY_POD},
    {{NULL}, {"VC_TASK_INDEX"}, "a Volcano job", BY_POD},
};

/* The first of `names` that is set and not empty; NULL: none is. */
static const char *first_set(const char *const names[SIGNS_MAX], char *(*lookup)(const char *name))
{
    for (size_t i = 0; i < SIGNS_MAX && names[i]; i++) {
        const char *value = lookup(names[i]);
        if (value && *value)
            return names[i];
    }
    return NULL;
}

/* "1:1" is PET_NNODES of an elastic job with one pod. A text that is no number can mean any. */
static bool is_one(const char *size)
{
    uint32_t n;
    return digits_read(size, 0, 1, &n) || strcmp(size, "1:1") == 0;
}

static enum err find_sign(char *(*lookup)(const char *name), struct errmsg *e)
{
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
        const char *size = first_set(starters[i].sizes, lookup);
        const char *name = size ? size : first_set(starters[i].marks, lookup);
        if (!name || (size && is_one(lookup(size))))
            continue;
        return err_set(
            e, ERR_INPUT,
            "%s=%.60s: this is one of the processes of %s, and nothing says where its ps "
            "and workers are: %s; or give --alone if it is to train the whole job alone",
            name, lookup(name), starters[i].of, starters[i].instead);
    }
    return ERR_OK;
}

enum err signs_check(bool named, bool alone, char *(*lookup)(const char *name), struct errmsg *e)
{
    if (named && alone)
        return err_set(e, ERR_INPUT,
                       "--alone: TF_CONFIG or flags say which process of a cluster this is: leave "
                       "out --alone, or these");
    return named || alone ? ERR_OK : find_sign(lookup, e);
}
