#include "worker/control/history.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "common/base/json.h"

struct history_point history_epoch(uint64_t epoch, uint32_t metrics, const struct evaluation *found,
                                   const struct evaluation *eval)
{
    struct history_point p = {.step = epoch};
    double *trained = p.value, *evaluated = p.value + 1 + metrics;
    trained[0] = found->loss;
    evaluated[0] = eval ? eval->loss : (double)NAN;
    for (uint32_t i = 0; i < metrics; i++) {
        trained[1 + i] = found->metric[i];
        evaluated[1 + i] = eval ? eval->metric[i] : (double)NAN;
    }
    return p;
}

static void thin(struct history *h)
{
    for (uint32_t i = 0; 2 * i < h->n; i++)
        h->point[i] = h->point[2 * i];
    h->n = (h->n + 1) / 2;
    h->every *= 2;
}

void history_drop(struct history *h, uint64_t step)
{
    uint32_t before = h->n;
    while (h->n && h->point[h->n - 1].step >= step)
        h->n--;
    if (h->n == 0)
        h->every = 1;
    if (h->n < before)
        h->seen = h->n ? (h->n - 1) * h->every + 1 : 0;
}

/* Point number `seen` is kept permanently if `every` divides it; the newest point is kept until the next one comes. */
void history_add(struct history *h, const struct history_point *p)
{
    if (h->every == 0)
        h->every = 1;
    history_drop(h, p->step);
    bool keep_last = h->n == 0 || (h->seen - 1) % h->every == 0;
    if (keep_last && h->n == HISTORY_MAX)
        thin(h);
    h->point[keep_last ? h->n++ : h->n - 1] = *p;
    h->seen++;
    assert(h->n <= HISTORY_MAX);
}

json_t *history_json(const struct history *h, uint32_t values)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < h->n; i++) {
        json_t *one = json_array();
        (void)json_array_append_new(one, json_integer((json_int_t)h->point[i].step));
        for (uint32_t k = 0; k < values && k < HISTORY_VALUES; k++)
            (void)json_array_append_new(one, json_number(h->point[i].value[k]));
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}
