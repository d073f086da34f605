/* OpenBLAS chooses its kernels by the processor, and the bits of its products depend on them. A worker with other
 * kernels than the chief trains along, but then the result depends on which worker computes what. The journal
 * remembers such workers: neither a rollback nor the chief's end makes the weights exact again. */
#include <stdio.h>
#include <string.h>

#include "worker/chief/core/chief_state.h"

static void tell(struct chief *c, uint32_t worker, const char *name, const char *blas)
{
    if (c->worker[worker].other_blas)
        return;
    c->worker[worker].other_blas = true;
    chief_say(
        c, 1,
        "%s multiplies with OpenBLAS's kernels for %.64s, the chief with those for %s: "
        "results depend on which worker computes what, so this job is not exact; set the same "
        "OPENBLAS_CORETYPE in the environment of every process",
        name, blas, c->config.blas);
}

bool blas_is_noted(struct chief *c, uint32_t worker)
{
    const char *own = c->config.blas, *blas = c->worker[worker].hello->blas;
    char name[WORKER_NAME_BYTES];
    if (!own || !*own || !*blas || strcmp(own, blas) == 0)
        return true;
    (void)worker_name(name, worker, c->config.separate_chief);
    struct journal_entry entry = journal_blas_entry(name, blas);
    tell(c, worker, name, blas);
    if (!journal_has_blas(&c->journal, &entry))
        chief_note(c, &entry);
    return c->unwritten == 0;
}
