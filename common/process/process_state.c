#include "common/process/process_state.h"

static const char *const word[] = {
    [STATE_LOADING] = "loading",       [STATE_WAITING] = "waiting", [STATE_TRAINING] = "training",
    [STATE_EVALUATING] = "evaluating", [STATE_IDLE] = "idle",       [STATE_DONE] = "done",
};

const char *process_state_word(enum process_state s)
{
    return word[s];
}

void process_state_metrics(struct metrics *m, enum process_state s)
{
    metrics_family(m, "gradwire_state", METRICS_GAUGE,
                   "1 for the present state of the process, 0 for the others.");
    for (unsigned i = 0; i < sizeof word / sizeof *word; i++)
        metrics_put(m, i == (unsigned)s, "state", word[i], NULL);
}
