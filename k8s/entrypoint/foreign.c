#include "k8s/entrypoint/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* `of`: the kind of job; `instead`: what to do. */
static enum err refuse(const char *name, const char *value, const char *of, const char *instead,
                       struct errmsg *e)
{
    return err_set(e, ERR_INPUT,
                   "%s=%.60s: this is one of the processes of %s, and nothing says where its ps "
                   "and workers are: %s",
                   name, value, of, instead);
}

static enum err refuse_mpi(const char *name, const char *value, struct errmsg *e)
{
    return refuse(name, value, "an MPI job",
                  "let mpirun start `gradwire rank JOB --ps P` (in an image with MPI and "
                  "gradwire), or run a TFJob without PS (k8s/tfjob/overlays/no-ps)",
                  e);
}

static enum err refuse_torch(const char *name, const char *value, struct errmsg *e)
{
    return refuse(name, value, "a PyTorchJob or TrainJob",
                  "run a TFJob without PS (k8s/tfjob/overlays/no-ps), or give each pod --role, "
                  "--ps, --workers, --ps_host and --worker_host",
                  e);
}

/* The first of `names` that is set and not empty; NULL: none is. */
static const char *first_set(const char *const *names, char *(*lookup)(const char *name))
{
    for (; *names; names++) {
        const char *value = lookup(*names);
        if (value && *value)
            return *names;
    }
    return NULL;
}

/* mpirun tells its processes how many they are. Without it, this is the main program of a launcher's or a worker's pod. */
static enum err check_mpi(char *(*lookup)(const char *name), struct errmsg *e)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    static const char *const pods[] = {"K_MPI_JOB_ROLE", "OMPI_MCA_orte_default_hostfile",
                                       "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE", NULL};
    const char *size = first_set(sizes, lookup), *pod = first_set(pods, lookup);
    if (size)
        return strcmp(lookup(size), "1") == 0 ? ERR_OK : refuse_mpi(size, lookup(size), e);
    return pod ? refuse_mpi(pod, lookup(pod), e) : ERR_OK;
}

/* PET_NNODES is the number of pods (elastic: "least:most"). Operators before it set only WORLD_SIZE, which newer ones multiply
 * by the processes of a pod. */
static enum err check_torch(char *(*lookup)(const char *name), struct errmsg *e)
{
    static const char *const nodes[] = {"PET_NNODES", NULL},
                             *const masters[] = {"MASTER_ADDR", NULL},
                             *const sizes[] = {"WORLD_SIZE", NULL};
    const char *size = first_set(nodes, lookup);
    if (!size && first_set(masters, lookup))
        size = first_set(sizes, lookup);
    if (!size || strcmp(lookup(size), "1") == 0 || strcmp(lookup(size), "1:1") == 0)
        return ERR_OK;
    return refuse_torch(size, lookup(size), e);
}

enum err foreign_check(char *(*lookup)(const char *name), struct errmsg *e)
{
    enum err err = check_mpi(lookup, e);
    return err ? err : check_torch(lookup, e);
}
