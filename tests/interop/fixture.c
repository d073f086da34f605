/* A model whose weights come from a seed, and its scores: `interop_fixture DIR` reads DIR/job.yaml and the data that it
 * names, and writes DIR/model, DIR/scores.f32 (rows of the eval part, outputs), and for each layer that looks up a table
 * DIR/LAYER.f32 (rows, width), its output. It exits with an error's text. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/process/files.h"
#include "predict/folder.h"
#include "tests/lib/trained.h"
#include "tests/lib/gathered.h"

struct rows {
    uint32_t n;
    float *x;
    const struct leaf_keys *keys;
    struct leaf_buffer *room; /* has the keys */
};

static void must(enum err err, const struct errmsg *e)
{
    if (!err)
        return;
    (void)fprintf(stderr, "interop_fixture: %s\n", e->text);
    exit(1);
}

static void *must_have(void *p)
{
    must(p ? ERR_OK : ERR_NOMEM, &(struct errmsg){"out of memory"});
    return p;
}

static struct rows read_rows(const struct dataset *d)
{
    struct errmsg e;
    struct rows r = {.n = (uint32_t)d->rows};
    uint32_t there;
    uint64_t *all = must_have(mem_zalloc(r.n, sizeof *all));
    float *y = must_have(mem_floats(r.n));
    for (uint32_t i = 0; i < r.n; i++)
        all[i] = i;
    r.x = must_have(mem_floats((size_t)r.n * (d->features + 1)));
    must(gathered_rows(d, all, r.n, r.x, y, &there, &e), &e);
    must(there == r.n ? ERR_OK : err_set(&e, ERR_INPUT, "a row of eval is bad"), &e);
    if (d->table.schema && d->table.schema->lookups) {
        must(gathered_buffer(&r.room, d->table.schema, r.n, &e), &e);
        must(gathered_keys(d, all, r.n, r.room, &r.keys, &e), &e);
    }
    mem_free(all);
    mem_free(y);
    return r;
}

static void write_floats(const char *name, const float *x, size_t n)
{
    char path[128];
    struct errmsg e;
    (void)snprintf(path, sizeof path, "%s.f32", name);
    must(files_write(path, x, n * sizeof *x, &e), &e);
}

static void write_scores(const struct folder *f, const struct rows *r)
{
    struct errmsg e;
    struct scorer *s;
    size_t outputs = (size_t)r->n * model_outputs(f->model);
    float *out = must_have(mem_floats(outputs));
    must(scorer_new(&s, f, r->n, &e), &e);
    must(scorer_run(s, r->n, r->x, r->keys, out, &e), &e);
    write_floats("scores", out, outputs);
    for (uint32_t i = 0; i < model_lookups(f->model); i++) {
        struct model_lookup of = model_lookup(f->model, i);
        float *vectors = must_have(mem_floats((size_t)r->n * of.width));
        scorer_lookup(s, r->n, r->keys, i, vectors);
        write_floats(of.layer, vectors, (size_t)r->n * of.width);
        mem_free(vectors);
    }
    mem_free(out);
    scorer_free(s);
}

int main(int argc, char **argv)
{
    struct errmsg e;
    struct trained t;
    struct folder f;
    uint8_t *job;
    size_t bytes;
    if (argc != 2 || chdir(argv[1]) != 0) {
        (void)fprintf(stderr, "interop_fixture DIR: DIR has the file job.yaml\n");
        return 2;
    }
    must(files_read_regular("job.yaml", 1 << 20, &job, &bytes, &e), &e);
    trained_here(&t, (const char *)job);
    must(folder_open(&f, "model", &e), &e);
    struct rows r = read_rows(&t.eval);
    write_scores(&f, &r);
    if (r.room)
        leaf_buffer_free(r.room);
    mem_free(r.x);
    mem_free(job);
    folder_close(&f);
    trained_close(&t);
    return 0;
}
