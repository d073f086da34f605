/* libFuzzer: any bytes as a job file, and what follows a NUL as one --set. A job that is read must
 * read back from its canonical text as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void reads_back(const struct job *job)
{
    struct job again;
    struct errmsg e;
    if (job_parse(&again, job->canonical, strlen(job->canonical), "j.yaml", "/", NULL, 0, &e))
        abort();
    if (memcmp(job->identity, again.identity, sizeof again.identity) != 0 ||
        strcmp(job->canonical, again.canonical) != 0)
        abort();
    job_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    size_t file_bytes = strlen(text);
    const char *set = file_bytes < bytes ? text + file_bytes + 1 : NULL;
    struct job job;
    struct errmsg e;
    if (job_parse(&job, text, file_bytes, "j.yaml", "/", &set, set ? 1 : 0, &e) == ERR_OK) {
        reads_back(&job);
        job_close(&job);
    }
    free(text);
    return 0;
}
