/* manifest.json of a model's directory: what made the model, and what it is, for programs that read no YAML.
 * docs/reference/files.md defines its contents. The same model gives the same bytes. */
#ifndef GRADWIRE_EXPORT_MODEL_MANIFEST_H
#define GRADWIRE_EXPORT_MODEL_MANIFEST_H

#include "common/base/err.h"
#include "job/job.h"
#include "data/dataset.h"
#include "model/evaluation.h"
#include "model/model.h"

#define MODEL_MANIFEST "manifest.json"

/* The evaluation data of another process. */
struct model_manifest_evaluator {
    uint64_t rows;
    const char *fingerprint; /* hexadecimal */
};

struct model_manifest {
    const struct job *job; /* input shape and features are known (dataset_tell) */
    const struct model *model;
    const struct dataset *data, *eval;                /* eval NULL: this process has no eval data */
    const struct model_manifest_evaluator *evaluator; /* then: of its data; NULL: there is none */
    uint64_t step, epoch;                             /* of the weights; epoch 0: not known */
    const struct evaluation *trained, *evaluated;     /* of that epoch; NULL: not known */
    const char *digest;                               /* of the weights and tables */
};

/* Write FOLDER/manifest.json, with the size and the SHA-256 of each file that is in FOLDER and FOLDER/tables: so call it
 * when they are complete. Atomic. Errors: ERR_IO, ERR_NOMEM, ERR_INPUT (the job's text cannot be read back). */
enum err model_manifest_write(const struct model_manifest *m, const char *folder,
                              struct errmsg *e) MUST_CHECK;

/* Compare the files of FOLDER and FOLDER/tables with their SHA-256 in FOLDER/manifest.json, but not job.yaml, which a person may
 * change. *there: there is a manifest that has them. Reads all of their bytes. Errors: ERR_CORRUPT, naming the file whose content
 * is another one; ERR_IO, ERR_NOMEM. */
enum err model_manifest_check(const char *folder, bool *there, struct errmsg *e) MUST_CHECK;

/* The same for one file, if a manifest next to it has its SHA-256. Errors: as model_manifest_check. */
enum err model_manifest_check_file(const char *path, struct errmsg *e) MUST_CHECK;

/* Remove the file: the other files are about to change. A missing file is no error. Errors: ERR_IO. */
enum err model_manifest_remove(const char *folder, struct errmsg *e) MUST_CHECK;

#endif
