/* The exports of a finished job: `gradwire-model export` writes the model in each format of the job's key `export`. */
#ifndef GRADWIRE_WORKER_CHIEF_EXPORTS_END_H
#define GRADWIRE_WORKER_CHIEF_EXPORTS_END_H

#include "job/job.h"

struct exports_end {
    uint32_t n;       /* formats that were tried; 0: the job asks for none, or has not ended */
    bool interrupted; /* a signal came before all were there: the next run exports again */
    struct {
        enum export_format format;
        char error[512]; /* ""; or why the file is not there */
    } of[EXPORT_FORMATS];
};

/* Check what a job with `export` needs before it trains: the program is installed. Errors: ERR_INPUT, with the key. */
enum err exports_end_check(const struct job *job, struct errmsg *e) MUST_CHECK;

/* Write DIR/export, when model/ is complete; earlier exports of the same formats are replaced. A failure is logged, and told
 * to people at `progress_fd`; the job is done all the same. A signal (signals_held) ends it, and is noted in *out. Waits for the
 * programs. */
void exports_end_run(const struct job *job, const char *output, int progress_fd,
                     struct exports_end *out);

#endif
