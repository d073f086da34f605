#include "formats/imports/imported.h"

#include <stdio.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/job/job.h"

void imported_close(struct imported *m)
{
    mem_free(m->yaml);
    model_free(m->model);
    mem_free(m->w);
    mem_free(m->notes);
    *m = (struct imported){.scale = 1};
}

enum err imported_model(struct model **m, const char *name, const char *yaml, struct errmsg *e)
{
    static const char rest[] = "optimizer: sgd\ndata: {format: synthetic}\n";
    struct job job;
    size_t bytes = strlen(yaml) + sizeof rest;
    char *text = mem_zalloc(bytes, 1);
    if (!text)
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    (void)snprintf(text, bytes, "%s%s", yaml, rest);
    enum err err = job_parse(&job, text, strlen(text), name, "/", NULL, 0, e);
    mem_free(text);
    if (err)
        return err;
    err = model_new(m, &job, e);
    job_close(&job);
    return err;
}
