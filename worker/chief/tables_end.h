/* The tables of a finished job, as files of model/ and best/. */
#ifndef GRADWIRE_WORKER_CHIEF_TABLES_END_H
#define GRADWIRE_WORKER_CHIEF_TABLES_END_H

#include "export/table_export.h"
#include "worker/evaluator/best.h"

/* At a job's end: best/ gets the tables of the best epoch's cut, if that exists. model/ gets the same tables if the
 * job restores the best weights, otherwise those of the final cut. t->folder is ignored. Errors: as
 * cut_tables_export. */
enum err tables_end_export(const struct cut_tables *t, const struct manifest *final,
                           const struct best *best, char digest[65], struct errmsg *e) MUST_CHECK;

#endif
