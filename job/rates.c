/* Checks of learning rates and their schedules, for the job and for each table. */
#include <math.h>
#include <stdio.h>

#include "job/read.h"

const char *job_option_path(const struct job_updates *u, const char *option,
                            char path[JOB_PATH_MAX])
{
    const char *word = job_word_of(job_key_find(u->optimizer)->words, (int)u->o->kind);
    (void)snprintf(path, JOB_PATH_MAX, "%s.%s.%s", u->optimizer, word, option);
    return path;
}

/* Returns the path of a key next to the optimizer: "training.learning_rate". */
static const char *rate_path(const struct job_updates *u, const char *key, char path[JOB_PATH_MAX])
{
    (void)snprintf(path, JOB_PATH_MAX, "%s.%s", u->rates, key);
    return path;
}

/* The paths of the two names of a rate, and where each was given, or NULL. */
struct rate_given {
    char path[2][JOB_PATH_MAX];
    const struct job_node *at[2];
};

static void find_rate(struct job_reader *r, const struct job_updates *u, struct rate_given *g)
{
    g->at[0] = job_given(r, rate_path(u, "learning_rate", g->path[0]));
    g->at[1] = job_given(r, job_option_path(u, "learning_rate", g->path[1]));
}

enum err job_settle_rate(struct job_reader *r, const struct job_updates *u, bool *given)
{
    struct rate_given g;
    char shown[2 * JOB_PATH_MAX], where[200];
    find_rate(r, u, &g);
    *given = g.at[0] || g.at[1];
    if (g.at[0] && g.at[1]) {
        job_path_shown(r, g.path[1], shown, sizeof shown);
        job_tree_where(where, sizeof where, g.at[1], r->name);
        return job_refuse(
            r, g.at[0], g.path[0],
            "%s is another name of this key, and is also set, by %s; remove one of the two", shown,
            where);
    }
    if (!*given)
        return ERR_OK;
    /* read it now: an optimizer given later in the file has overwritten it with its own default */
    int i = g.at[0] ? 0 : 1;
    return job_read_value(r, job_key_find(g.path[i]), g.at[i]);
}

static enum err check_piecewise(struct job_reader *r, const struct job_updates *u)
{
    const struct schedule *s = &u->o->schedule;
    struct rate_given g;
    char path[JOB_PATH_MAX];
    (void)rate_path(u, "learning_rate_schedule.piecewise_constant_decay.boundaries", path);
    if (s->boundaries.n == 0)
        return job_refuse(r, NULL, path, "at least one is needed, like [1000]");
    for (uint32_t i = 1; i < s->boundaries.n; i++)
        if (s->boundaries.value[i] <= s->boundaries.value[i - 1])
            return job_refuse(r, NULL, path, "they must rise, and %u follows %u",
                              s->boundaries.value[i], s->boundaries.value[i - 1]);
    find_rate(r, u, &g);
    for (int i = 0; i < 2; i++)
        if (g.at[i])
            return job_refuse(r, g.at[i], g.path[i],
                              "piecewise_constant_decay has its own values; remove it");
    if (s->values.n != s->boundaries.n + 1)
        return job_refuse(
            r, NULL, rate_path(u, "learning_rate_schedule.piecewise_constant_decay.values", path),
            "%u rates for %u boundaries; there must be one rate more than boundaries", s->values.n,
            s->boundaries.n);
    return ERR_OK;
}

enum err job_check_schedule(struct job_reader *r, const struct job_updates *u)
{
    const struct schedule *s = &u->o->schedule;
    char path[JOB_PATH_MAX], beside[2 * JOB_PATH_MAX];
    if (s->kind == SCHEDULE_PIECEWISE_CONSTANT_DECAY)
        return check_piecewise(r, u);
    if (s->kind != SCHEDULE_COSINE_DECAY)
        return ERR_OK;
    job_path_shown(r, rate_path(u, "warmup_steps", path), beside, sizeof beside);
    if (s->warmup_target == 0 && s->warmup_target_steps)
        return job_refuse(r, NULL,
                          rate_path(u, "learning_rate_schedule.cosine_decay.warmup_steps", path),
                          "it has no effect without warmup_target; set that too, or use %s, which "
                          "climbs to the rate",
                          beside);
    if (s->warmup_target > 0 && s->warmup_steps)
        return job_refuse(r, NULL,
                          rate_path(u, "learning_rate_schedule.cosine_decay.warmup_target", path),
                          "%s is also a warm-up; remove one of the two", beside);
    return ERR_OK;
}

/* ---- doubts ---- */

/* Less than this changes no weight. */
static bool is_still(const struct optimizer *o, uint64_t update)
{
    return schedule_rate(&o->schedule, o->learning_rate, update) < 1e-12;
}

/* The first update of those up to the end at which the rate is 0, if these are most of the updates; 0: they are not. */
static uint64_t still_from(const struct optimizer *o, uint64_t updates)
{
    uint64_t low = 0, high = updates / 2 + 1;
    if (!is_still(o, high) || !is_still(o, updates))
        return 0;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(is_still(o, middle) ? &high : &low) = middle;
    }
    return high;
}

static bool doubts(const struct optimizer *o, const char *key, uint64_t updates,
                   struct errmsg *text)
{
    const struct schedule *s = &o->schedule;
    const bool target = s->warmup_steps == 0;
    const uint32_t warmup = target ? s->warmup_target_steps : s->warmup_steps;
    uint64_t from = s->kind == SCHEDULE_CONSTANT ? 0 : still_from(o, updates);
    if (warmup > updates)
        (void)err_set(
            text, ERR_INPUT,
            "%s%s: %u, but the job has %llu updates of the weights: the last one has a "
            "learning rate of %.3g",
            key, target ? "learning_rate_schedule.cosine_decay.warmup_steps" : "warmup_steps",
            warmup, (unsigned long long)updates, schedule_rate(s, o->learning_rate, updates));
    else if (from)
        (void)err_set(text, ERR_INPUT,
                      "%slearning_rate_schedule: the learning rate is 0 from update %llu of %llu "
                      "on, so nothing more is learned; its steps are updates of the weights, not "
                      "epochs",
                      key, (unsigned long long)from, (unsigned long long)updates);
    return warmup > updates || from;
}

/* The average of the weights begins with the first ones. */
static bool doubts_average(const struct optimizer *o, uint64_t updates, struct errmsg *text)
{
    const double first = o->use_ema ? pow((double)o->ema_momentum, (double)updates) : 0;
    if (first <= 0.2)
        return false;
    (void)err_set(text, ERR_INPUT,
                  "the optimizer's use_ema: with ema_momentum %g and %llu updates, %.0f %% of the "
                  "averages that are evaluated and exported are the first weights; take an "
                  "ema_momentum of %.2g, or "
                  "more epochs",
                  (double)o->ema_momentum, (unsigned long long)updates, 100 * first,
                  pow(0.01, 1 / (double)updates));
    return true;
}

bool job_doubts_rate(const struct job *job, uint64_t rows, struct errmsg *text)
{
    const uint64_t batch = job->training.batch_size;
    const uint64_t steps = (rows / batch + (rows % batch > 0)) * job->training.epochs;
    const uint32_t each = job->optimizer.accumulation_steps;
    const uint64_t updates = each > 1 ? steps / each : steps;
    char key[JOB_NAME_MAX + 16];
    if (updates == 0 && steps) {
        (void)err_set(text, ERR_INPUT,
                      "training.gradient_accumulation_steps: %u, but the job has %llu steps: no "
                      "weight is updated",
                      each, (unsigned long long)steps);
        return true;
    }
    if (updates == 0)
        return false;
    if (doubts_average(&job->optimizer, updates, text) ||
        doubts(&job->optimizer, "training.", updates, text))
        return true;
    for (uint32_t i = 0; i < job->model.tables; i++) {
        const struct job_table *t = &job->model.table[i];
        (void)snprintf(key, sizeof key, "tables.%s.", t->name);
        if ((t->own_schedule || t->own_warmup) && doubts(&t->optimizer, key, updates, text))
            return true;
    }
    return false;
}
