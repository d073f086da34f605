#include "tests/lib/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/lib/models.h"

static bool is_variance(const struct tensor *t)
{
    return strstr(t->name, "/moving_variance") != NULL;
}

/* One column of labels. classes: of the first head; 0: its labels are values. */
static void fill_labels(struct trial *t, uint32_t head, uint32_t column, uint32_t classes)
{
    const struct job_head *h = &t->job.model.head[head];
    uint32_t columns = model_labels(t->m), of = job_loss_labels(h->loss) == LABELS_VALUES ? 3 : 2;
    for (uint32_t i = 0; i < t->rows; i++) {
        uint32_t at = i * columns + column;
        t->present[at] = !h->masked || (i + column) % 3 != 1;
        t->y[at] =
            t->present[at] ? (float)((i + head) % (head == 0 && classes ? classes : of)) : NAN;
    }
}

static void fill(struct trial *t, uint64_t seed)
{
    uint32_t features = model_features(t->m), classes = model_classes(t->m);
    bool ids = t->job.model.layer[0].kind == LAYER_EMBEDDING && !t->job.model.layer[0].lookups;
    const struct layout *l = model_layout(t->m);
    layout_init_values(l, seed, 0, t->elems, t->w);
    for (uint32_t i = 0; i < l->tensors; i++)
        for (uint64_t k = 0; l->tensor[i].rank == 1 && k < l->tensor[i].elems; k++)
            t->w[l->tensor[i].offset_elems + k] =
                rng_unit(seed + 1, k) - (is_variance(&l->tensor[i]) ? 0 : 0.5f);
    for (uint32_t i = 0; i < t->rows * features; i++)
        t->x[i] = ids ? floorf(5.0f * rng_unit(seed, i)) : 4.0f * rng_unit(seed, i) - 2.0f;
    for (uint32_t h = 0, column = 0; h < t->job.model.heads; h++)
        for (uint32_t k = 0; k < t->job.model.head[h].labels; k++)
            fill_labels(t, h, column++, classes);
}

void trial_init(struct trial *t, void (*make)(struct job *), uint32_t rows, uint64_t seed)
{
    struct errmsg e = {""};
    t->made = make != NULL;
    if (make)
        make(&t->job);
    t->rows = rows;
    if (model_new(&t->m, &t->job, &e) || model_run_new(&t->run, t->m, rows, &e))
        fail_msg("%s", e.text);
    t->elems = model_layout(t->m)->elems;
    t->w = mem_floats(t->elems);
    t->dw = mem_floats(t->elems);
    t->x = mem_floats((size_t)rows * model_features(t->m));
    t->y = mem_floats((size_t)rows * model_labels(t->m));
    t->present = mem_zalloc(rows, model_labels(t->m));
    fill(t, seed);
    if (job_has_tables(&t->job))
        leaf_draw(&t->leaf, &t->job, rows, seed);
}

void trial_close(struct trial *t)
{
    model_run_free(t->run);
    model_free(t->m);
    mem_free(t->w);
    mem_free(t->dw);
    mem_free(t->x);
    mem_free(t->y);
    mem_free(t->present);
    if (t->made)
        models_close(&t->job);
}

struct sums trial_train_rows(struct trial *t, uint32_t first, uint32_t n, uint64_t key)
{
    struct sums sums = {0};
    bool tables = job_has_tables(&t->job);
    leaf_forget_gradient(&t->leaf);
    model_train(t->run, t->w,
                &(struct leaf){.n = n,
                               .x = t->x + (size_t)first * model_features(t->m),
                               .y = t->y + (size_t)first * model_labels(t->m),
                               .present = t->present + (size_t)first * model_labels(t->m),
                               .keys = tables ? leaf_from(&t->leaf, first) : NULL,
                               .rows = tables ? &t->leaf.rows : NULL},
                key, t->dw, &sums, NULL, NULL);
    assert_true(sums.examples == (double)n);
    return sums;
}

double trial_loss(struct trial *t)
{
    return trial_train_rows(t, 0, t->rows, 0).loss;
}

void trial_assert_refused(const struct job *job, const char *because, const char *mend)
{
    struct errmsg e;
    struct model *m = NULL;
    assert_int_equal(model_new(&m, job, &e), ERR_INPUT);
    assert_null(m);
    if (!strstr(e.text, because) || !strstr(e.text, mend) || strchr(e.text, '\n'))
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", e.text, because, mend);
}
