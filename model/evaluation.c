/* The list of a model's results: from an evaluation or from sums, and as JSON. */
#include "model/evaluation.h"

#include <math.h>

#include "common/base/json.h"
#include "model/metric.h"

struct results results_of(const struct job *job, const struct evaluation *found)
{
    struct results r = {1 + job->model.metrics, {{"loss", found ? found->loss : NAN}}};
    for (uint32_t i = 0; i < job->model.metrics; i++)
        r.of[1 + i] = (struct result){job->model.metric[i].name, found ? found->metric[i] : NAN};
    return r;
}

static const char auc_error[] = "auc_error";

static double known(double error)
{
    return error > 0 ? error : 0;
}

struct evaluation evaluation_of_sums(const struct job *job, double examples, double loss,
                                     const double *metric)
{
    struct evaluation found = {.loss = examples > 0 ? loss / examples : NAN};
    for (uint32_t i = 0; i < job->model.metrics; i++)
        found.metric[i] = metric_value(job, i, metric, examples);
    if (examples > 0 && metric_progressive(job))
        found.auc_error = known(metric[metric_sums(job) - 1]);
    return found;
}

struct evaluation evaluation_read(const struct job *job, const json_t *from,
                                  double (*number)(const json_t *from, const char *name))
{
    const struct results names = results_of(job, NULL);
    struct evaluation found = {.loss = number(from, names.of[0].name)};
    for (uint32_t i = 1; i < names.n; i++)
        found.metric[i - 1] = number(from, names.of[i].name);
    found.auc_error = known(number(from, auc_error));
    return found;
}

json_t *evaluation_add_json(json_t *take_object, const struct job *job,
                            const struct evaluation *found)
{
    const struct results r = results_of(job, found);
    bool ok = true;
    for (uint32_t i = 0; i < r.n; i++)
        json_put(take_object, r.of[i].name, json_number(r.of[i].value), &ok);
    if (found && found->auc_error > 0)
        json_put(take_object, auc_error, json_number(found->auc_error), &ok);
    return json_whole(take_object, ok);
}

json_t *evaluation_json(const struct job *job, const struct evaluation *found)
{
    return evaluation_add_json(json_object(), job, found);
}
