/* The update settings of a table: optimizer, rate, schedule and warm-up. Those that the table does not give
 * come from the job. If the table gives an optimizer, all options of this optimizer come from the table. */
#include <string.h>

#include "job/read.h"
#include "common/parameters/layout.h"

static struct job_updates updates_of(struct job_reader *r)
{
    return (struct job_updates){&r->job->model.table[r->table].optimizer,
                                JOB_TABLE_PREFIX ".optimizer", JOB_TABLE_PREFIX};
}

/* Words that the job's optimizer has and a table's has not. */
static const struct {
    const char *word, *why;
} not_of_tables[] = {
    {"lamb", "lamb needs the norms of complete tensors, and a table of rows by key has none; "
             "choose another"},
    {"use_ema", "rows of tables have no average; remove it"},
    {"ema_momentum", "rows of tables have no average; remove it"},
    {"ema_overwrite_frequency", "rows of tables have no average; remove it"},
    {"exclude_from_weight_decay", "to exclude all rows of this table, set its weight_decay: 0"},
};

static enum err refuse_word(struct job_reader *r, const struct job_node *at, const char *path,
                            const char *word)
{
    for (size_t i = 0; i < sizeof not_of_tables / sizeof not_of_tables[0]; i++)
        if (word && strcmp(not_of_tables[i].word, word) == 0)
            return job_refuse(r, at, path, "%s", not_of_tables[i].why);
    return ERR_OK;
}

enum err job_refuse_table_options(struct job_reader *r, const struct job_node *node)
{
    const char *group = JOB_TABLE_PREFIX ".optimizer";
    char path[2 * JOB_PATH_MAX];
    const struct job_node *o = node ? job_tree_child(node, "optimizer") : NULL;
    const struct job_node *kind = o && o->kind == NODE_MAP ? o->child : NULL;
    enum err err = o ? refuse_word(r, o, group, kind ? kind->key : o->text) : ERR_OK;
    const struct job_node *c = kind && kind->kind == NODE_MAP ? kind->child : NULL;
    for (; c && !err; c = c->next) {
        (void)snprintf(path, sizeof path, "%s.%.*s.%.*s", group, JOB_NAME_MAX, kind->key,
                       JOB_NAME_MAX, c->key);
        err = refuse_word(r, c, path, c->key);
    }
    return err;
}

/* Copies from the job what the table does not have. */
static void take_jobs(struct job_table *t, const struct job *job)
{
    const struct schedule schedule = t->optimizer.schedule;
    const float rate = t->optimizer.learning_rate;
    if (!t->own_optimizer)
        t->optimizer = job->optimizer;
    t->optimizer.schedule = t->own_schedule ? schedule : job->optimizer.schedule;
    t->optimizer.schedule.warmup_steps =
        t->own_warmup ? schedule.warmup_steps : job->optimizer.schedule.warmup_steps;
    t->optimizer.learning_rate = t->own_rate ? rate : job->optimizer.learning_rate;
    if (!t->own_optimizer && layout_name_has_part(t->name, job->decay_exclude))
        t->optimizer.weight_decay = 0.0f;
}

enum err job_settle_table_training(struct job_reader *r)
{
    struct job_table *t = &r->job->model.table[r->table];
    const struct job_updates of = updates_of(r);
    char path[JOB_PATH_MAX];
    bool given;
    t->own_optimizer = job_given(r, JOB_TABLE_PREFIX ".optimizer");
    t->own_schedule = job_given(r, JOB_TABLE_PREFIX ".learning_rate_schedule");
    t->own_warmup = job_given(r, JOB_TABLE_PREFIX ".warmup_steps");
    enum err err = job_settle_rate(r, &of, &given);
    if (!err && t->own_optimizer && !given)
        err = job_read_default(r, job_key_find(job_option_path(&of, "learning_rate", path)));
    if (err)
        return err;
    t->own_rate = t->own_optimizer || given;
    take_jobs(t, r->job);
    if (job_given(r, JOB_TABLE_PREFIX ".optimizer.sgd.nesterov") && t->optimizer.nesterov &&
        !(t->optimizer.momentum > 0))
        return job_refuse(r, NULL, JOB_TABLE_PREFIX ".optimizer.sgd.nesterov",
                          "it has no effect while momentum is 0; set momentum, or remove it");
    return job_check_schedule(r, &of);
}
