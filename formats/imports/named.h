/* Weights of a safetensors file by the names of a job's tensors, or by the names that PyTorch gives: the first weights of a
 * model whose layers a job file has. Nothing in the file is trusted.
 *
 * PyTorch's LAYER.weight, LAYER.bias, LAYER.running_mean and LAYER.running_var become kernel, bias, gamma and so on, as the
 * kind of layer needs. A matrix (out, in) becomes (in, out), a kernel (out, in, height, width) becomes (height, width, in,
 * out). The rows of a matrix after images that were flattened with channels first are brought into the job's order. */
#ifndef GRADWIRE_FORMATS_IMPORTS_NAMED_H
#define GRADWIRE_FORMATS_IMPORTS_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "job/job.h"
#include "model/model.h"

struct named {
    struct model *model;
    float *w;        /* (elems of model_layout(model)) */
    bool *found;     /* (tensors) the file has it */
    uint32_t n;      /* number of these */
    uint32_t others; /* number of the file's other tensors */
};

/* True if the file begins as a safetensors file. */
bool named_is_safetensors(const char *path);

/* renames: "OLD=NEW" each: a tensor whose name begins with OLD counts as one that begins with NEW. The job's input shape is
 * known. Owns: *m is the caller's (named_close), unchanged on error. Errors: ERR_INPUT, ERR_CORRUPT, naming the file and the
 * tensor; ERR_IO, ERR_NOMEM. */
enum err named_read(struct named *m, const char *path, const struct job *job,
                    const char *const *renames, size_t n_renames, struct errmsg *e) MUST_CHECK;
void named_close(struct named *m);

#endif
