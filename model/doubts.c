/* Doubts about a job that trains: labels, classes and names that do not fit its model. */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"
#include "common/base/texts.h"
#include "model/layers.h"
#include "model/loss.h"

#define SMALL_LABEL 1e-3F
#define LARGE_LABEL 1e4F
enum { LARGE_WEIGHT = 100 };
static const double SMALL_WEIGHT = 0.01;

/* The least and the largest output that an activation gives. */
static void range_of(enum activation a, float *low, float *high)
{
    *low = a == ACT_TANH                                            ? -1
           : a == ACT_SIGMOID || a == ACT_RELU || a == ACT_SOFTPLUS ? 0
                                                                    : -INFINITY;
    *high = a == ACT_SIGMOID || a == ACT_TANH ? 1 : INFINITY;
}

/* ' ("high")', the name of a class; "": it has none. Returns out. */
static const char *name_of_class(char out[static PRINTABLE_NAME_BYTES + 8], const struct job *job,
                                 uint32_t class)
{
    char name[PRINTABLE_NAME_BYTES];
    *out = '\0';
    for (const char *p = job_class_names(&job->data.csv), *at; p; class --) {
        size_t n;
        at = p;
        p = texts_next(p, &n);
        if (class == 0) {
            (void)snprintf(out, PRINTABLE_NAME_BYTES + 8, " (\"%s\")", printable_name(name, at, n));
            break;
        }
    }
    return out;
}

/* Labels of a number that no first step comes near, or that are all next to 0 for the loss. */
static bool doubts_size(const struct model_labels *l, struct errmsg *text)
{
    const float low = fabsf(l->min), high = fabsf(l->max), most = fmaxf(low, high),
                least = l->min * l->max > 0 ? fminf(low, high) : 0;
    if (!l->there || most == 0 || (most >= SMALL_LABEL && least <= LARGE_LABEL))
        return false;
    (void)err_set(text, ERR_INPUT,
                  "data.train: labels are from %g to %g: a model learns numbers near 1 best; %s "
                  "them all by one number, and its predictions in reverse",
                  (double)l->min, (double)l->max, most < SMALL_LABEL ? "multiply" : "divide");
    return true;
}

/* The last activation cannot give a label, or a class has no row. */
static bool doubts_labels(const struct model *m, const struct job *job,
                          const struct model_labels *l, struct errmsg *text)
{
    const struct head *h = &m->head[0];
    uint32_t classes = head_classes(h), absent = 0, first = 0;
    if (m->heads != 1 || h->labels != 1)
        return false;
    if (!classes) {
        enum activation last = loss_last_activation(m, h);
        float low, high;
        range_of(last, &low, &high);
        if (l->min >= low && l->max <= high)
            return doubts_size(l, text);
        (void)err_set(
            text, ERR_INPUT,
            "data.train: labels are from %g to %g, and the last activation of %s, %s, gives none "
            "%s %g: leave it out",
            (double)l->min, (double)l->max, loss_layer(m, h), activation_name(last),
            l->min < low ? "below" : "above", (double)(l->min < low ? low : high));
        return true;
    }
    if (!l->there || classes > l->known || l->min == l->max)
        return false;
    for (uint32_t c = classes; c-- > 0;) {
        if (l->there[c / 64] >> c % 64 & 1)
            continue;
        absent++;
        first = c;
    }
    if (absent)
        (void)err_set(
            text, ERR_INPUT,
            "data.train: no row has the class %u%s, of the classes 0 to %u%s: it cannot be learned",
            first, name_of_class((char[PRINTABLE_NAME_BYTES + 8]){""}, job, first), classes - 1,
            absent > 1 ? ", and others have none" : "");
    return absent > 0;
}

/* The number of classes that the job names, of its label; 0: it names none. */
static uint32_t names_of(const struct job *job)
{
    uint32_t count = 0;
    for (const char *p = job_class_names(&job->data.csv); p; count++) {
        size_t n;
        p = texts_next(p, &n);
    }
    return count;
}

/* The names of the label's classes do not fit the model. */
static bool doubts_names(const struct model *m, const struct job *job, struct errmsg *text)
{
    const struct head *h = &m->head[0];
    uint32_t classes = head_classes(h), names = names_of(job);
    if (m->heads != 1 || h->labels != 1 || names < 2 || classes == names ||
        (!classes && names == 2))
        return false;
    if (classes)
        (void)err_set(text, ERR_INPUT,
                      "data.columns: the label column names %u classes, the model has %u: use "
                      "units: %u for %s, "
                      "or name all classes",
                      names, classes, names, loss_layer(m, h));
    else
        (void)err_set(text, ERR_INPUT,
                      "data.columns: the label column names %u classes, and %s takes their "
                      "numbers, 0 to %u, as "
                      "amounts: use units: %u with softmax, and "
                      "sparse_categorical_crossentropy",
                      names, job_loss_word(h->loss), names - 1, names);
    return true;
}

/* Append to the list of names. */
static void list_name(char *list, size_t bytes, const char *name)
{
    size_t at = strlen(list);
    (void)snprintf(list + at, bytes - at, "%s%s", at ? ", " : "", name);
}

/* Whether a tensor or a table has this part in its name. The names that decay go to the list. */
static bool has_part(const struct model *m, const struct job *job, const char *part, char *list,
                     size_t bytes)
{
    bool found = false;
    *list = '\0';
    for (uint32_t i = 0; i < m->layout.tensors; i++) {
        const struct tensor *t = &m->layout.tensor[i];
        if (t->role == TENSOR_WEIGHT)
            list_name(list, bytes, t->name);
        found = found || strstr(t->name, part);
    }
    for (uint32_t i = 0; i < job->model.tables; i++) {
        list_name(list, bytes, job->model.table[i].name);
        found = found || strstr(job->model.table[i].name, part);
    }
    return found;
}

/* One of exclude_from_weight_decay is a part of no name. */
static bool doubts_exclusions(const struct model *m, const struct job *job, struct errmsg *text)
{
    char part[JOB_NAMES_BYTES], list[300];
    for (const char *p = job->decay_exclude; *p;) {
        size_t n = strcspn(p, ",");
        (void)snprintf(part, sizeof part, "%.*s", (int)n, p);
        if (!has_part(m, job, part, list, sizeof list)) {
            (void)err_set(text, ERR_INPUT,
                          "optimizer: exclude_from_weight_decay: no tensor or table has \"%s\" in "
                          "its name; there are: %s",
                          part, list);
            return true;
        }
        p += n + (p[n] == ',');
    }
    return false;
}

/* Small ones make every loss look good. sgd alone takes steps as large as the gradients. */
static bool doubts_weights(const struct job *job, const struct model_labels *l, struct errmsg *text)
{
    const double rate = (double)job->optimizer.learning_rate;
    const bool sgd = job->optimizer.kind == OPT_SGD && job->training.clip_norm <= 0;
    if (l->weight > 0 && l->weight <= SMALL_WEIGHT) {
        (void)err_set(text, ERR_INPUT,
                      "data.train: the mean weight of its rows is %.3g, so losses are near 0, "
                      "whatever is learned%s; divide the weights by it",
                      l->weight, sgd ? ", and sgd takes too small steps" : "");
        return true;
    }
    if (!sgd || l->weight < LARGE_WEIGHT || l->weight * rate < 1)
        return false;
    (void)err_set(text, ERR_INPUT,
                  "data.train: the mean weight of its rows is %.3g, so gradients are as many times "
                  "as large as without weights, and sgd with the learning_rate %g takes too "
                  "large steps; divide the weights, or the rate, by %.3g",
                  l->weight, rate, l->weight);
    return true;
}

void model_doubts(const struct model *m, const struct job *job, const struct model_labels *l,
                  void (*say)(void *ctx, const char *text), void *ctx)
{
    struct errmsg text;
    if (doubts_exclusions(m, job, &text))
        say(ctx, text.text);
    if (doubts_names(m, job, &text) || (l->any && doubts_labels(m, job, l, &text)))
        say(ctx, text.text);
    if (l->any && doubts_weights(job, l, &text))
        say(ctx, text.text);
    if (job_doubts_separators(job, &text))
        say(ctx, text.text);
    if (job_doubts_rate(job, l->rows, &text))
        say(ctx, text.text);
}
