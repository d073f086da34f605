#include "predict/scorer.h"

#include <assert.h>

#include "common/base/mem.h"
#include "common/math/kernels.h"

struct scorer {
    const struct folder *folder;
    uint32_t rows_max;
    struct model_run *run;
};

static enum err make(struct scorer *s, struct errmsg *e)
{
    return model_run_new(&s->run, s->folder->model, s->rows_max, e);
}

enum err scorer_new(struct scorer **out, const struct folder *f, uint32_t rows_max,
                    struct errmsg *e)
{
    struct scorer *s = mem_zalloc(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for scores");
    s->folder = f;
    s->rows_max = rows_max;
    enum err err = make(s, e);
    if (err) {
        scorer_free(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

void scorer_free(struct scorer *s)
{
    if (!s)
        return;
    model_run_free(s->run);
    mem_free(s);
}

enum err scorer_run(struct scorer *s, uint32_t n, const float *x, const struct leaf_keys *keys,
                    float *out, struct errmsg *e)
{
    assert(n <= s->rows_max);
    const struct examples of = {.n = n, .x = x, .keys = keys};
    unsigned was = kernels_flush_begin();
    enum err err = model_predict(s->run, s->folder->w, &of, out, e);
    kernels_flush_end(was);
    return err;
}
