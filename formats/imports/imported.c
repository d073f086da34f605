/* The result of an import: freeing it, the model of its text, and the metrics that fit the model. */
#include "formats/imports/imports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "job/job.h"
#include "model/metric.h"

void imported_close(struct imported *m)
{
    mem_free(m->yaml);
    model_free(m->model);
    mem_free(m->w);
    mem_free(m->optimizer);
    mem_free(m->training);
    mem_free(m->notes);
    *m = (struct imported){.scale = 1};
}

/* Errors of a loss that the user did not write. */
static enum err refuse_chosen(enum err err, const char *chose, struct errmsg *e)
{
    struct errmsg why = *e;
    const char *loss = strstr(why.text, "model.loss: ");
    if (!chose || !loss)
        return err;
    return err_set(e, err,
                   "%.*sthe file has no loss, and the one that import chose does not fit its last "
                   "layer: %s; %s",
                   (int)(loss - why.text), why.text, loss, chose);
}

enum err imported_model(struct model **m, const char *name, const char *yaml, const char *chose,
                        struct errmsg *e)
{
    static const char rest[] = "optimizer: sgd\ndata: {format: synthetic}\n";
    struct job job;
    size_t bytes = strlen(yaml) + sizeof rest;
    char *text = mem_zalloc(bytes, 1);
    if (!text)
        return err_memory_of(e, name);
    (void)snprintf(text, bytes, "%s%s", yaml, rest);
    enum err err = job_parse(&job, text, strlen(text), name, "/", NULL, 0, e);
    mem_free(text);
    if (!err) {
        err = model_new(m, &job, e);
        job_close(&job);
    }
    return err ? refuse_chosen(err, chose, e) : err;
}

/* Replaces a text by what was printed. False: out of memory. */
static bool replace(char **text, FILE *from, char **printed)
{
    bool made = from && !ferror(from);
    if (from)
        made &= fclose(from) == 0;
    char *own = made ? mem_strdup(*printed) : NULL;
    free(*printed);
    if (!own)
        return false;
    mem_free(*text);
    *text = own;
    return true;
}

enum err imported_add_metrics(struct imported *m, const enum metric_kind *kind, uint32_t n)
{
    char *text = NULL, *notes = NULL;
    size_t bytes, noted;
    FILE *yaml = open_memstream(&text, &bytes), *note = open_memstream(&notes, &noted);
    uint32_t written = 0;
    if (yaml && note) {
        (void)fputs(m->yaml, yaml);
        (void)fputs(m->notes, note);
    }
    for (uint32_t i = 0; i < n && yaml && note; i++) {
        struct errmsg why = {""};
        const struct job_metric metric = job_metric_of(kind[i]);
        if (metric_check(m->model, &metric, &why))
            (void)fprintf(note, "not taken over: the metric %s: %s\n", metric.name, why.text);
        else
            (void)fprintf(yaml, "%s%s", written++ ? ", " : "  metrics: [", metric.name);
    }
    if (written)
        (void)fputs("]\n", yaml);
    bool made = replace(&m->yaml, yaml, &text);
    made &= replace(&m->notes, note, &notes);
    return made ? ERR_OK : ERR_NOMEM;
}
