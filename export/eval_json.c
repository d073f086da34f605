#include "export/eval_json.h"

#include <math.h>

#include "common/base/json.h"
#include "model/metric.h"

json_t *eval_json(const struct job *job, const struct evaluation *found)
{
    json_t *all = json_object();
    int failed = json_object_set_new(all, "loss", json_number(found ? found->loss : NAN));
    for (uint32_t i = 0; i < job->model.metrics && !failed; i++)
        failed = json_object_set_new(all, metric_name(job->model.metric[i]),
                                     json_number(found ? found->metric[i] : NAN));
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}
