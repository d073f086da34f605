/* The evaluator's results. First what is decided by values alone: which result belongs to which cut, which ones a rollback undoes,
 * which cut is next. Then the file: written whole each time; a damaged one is an error, and its reader decides. */
#include "worker/evaluator/eval_log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/process/files.h"
#include "common/process/output.h"
#include "common/base/json.h"
#include "common/base/mem.h"

enum { FILE_MAX_BYTES = 256 << 20 };

void eval_log_close(struct eval_log *l)
{
    mem_free(l->result);
    *l = (struct eval_log){.n = 0};
}

/* ---- decisions ---- */

static bool later(uint64_t generation, uint64_t cut, uint64_t than_generation, uint64_t than_cut)
{
    return generation != than_generation ? generation > than_generation : cut > than_cut;
}

const struct eval_result *eval_log_last(const struct eval_log *l, const char *uuid)
{
    return l->n > 0 && strcmp(l->uuid, uuid) == 0 ? &l->result[l->n - 1] : NULL;
}

const struct eval_result *eval_log_at(const struct eval_log *l, const char *uuid, uint64_t step)
{
    for (size_t i = 0; i < l->n && strcmp(l->uuid, uuid) == 0; i++)
        if (l->result[i].eval.step == step)
            return &l->result[i];
    return NULL;
}

/* A result of an earlier release names its checkpoint only by numbers. */
static bool result_is_of(const struct eval_result *r, const struct manifest *m)
{
    return r->cut == m->cut && r->generation == m->generation && r->eval.step == m->step &&
           (!r->manifest || r->manifest == m->crc);
}

const struct eval_result *eval_log_of(const struct eval_log *l, const struct manifest *m)
{
    for (size_t i = l->n; i > 0 && strcmp(l->uuid, m->uuid) == 0; i--)
        if (result_is_of(&l->result[i - 1], m))
            return &l->result[i - 1];
    return NULL;
}

static bool is_later(const struct manifest *m, const struct manifest *than)
{
    return !than || later(m->generation, m->cut, than->generation, than->cut);
}

/* True unless this cut is older than all that the log has seen. */
static bool is_behind(const struct manifest *m, const struct eval_result *last,
                      const struct eval_passed *passed)
{
    return (!last || later(m->generation, m->cut, last->generation, last->cut)) &&
           (!passed || later(m->generation, m->cut, passed->generation, passed->cut));
}

bool eval_log_knows(const struct eval_log *l, const struct manifest *m,
                    const struct eval_passed *passed)
{
    return eval_log_of(l, m) || (passed && passed->manifest == m->crc &&
                                 passed->generation == m->generation && passed->cut == m->cut);
}

long eval_log_choose(const struct eval_log *l, const struct manifest *m, size_t n,
                     const struct eval_passed *passed)
{
    const struct manifest *known = NULL, *newest = NULL, *next = NULL;
    for (size_t i = 0; i < n; i++) {
        if (is_later(&m[i], newest))
            newest = &m[i];
        if (is_later(&m[i], known) && eval_log_knows(l, &m[i], passed))
            known = &m[i];
    }
    for (size_t i = 0; i < n; i++) {
        bool due = known ? is_later(&m[i], known)
                         : &m[i] == newest || is_behind(&m[i], eval_log_last(l, m[i].uuid), passed);
        if (due && (!next || is_later(next, &m[i])))
            next = &m[i];
    }
    return next ? next - m : -1;
}

/* A generation numbers its cuts on from the cut with which it began. So a cut with this number or a lower one, of a later
 * generation, replaces the result's cut, and so does another one with its number. */
static bool is_undone(const struct eval_result *r, const struct manifest *m, size_t n)
{
    bool undone = r->cut > m[0].cut;
    for (size_t i = 0; i < n && !undone; i++)
        undone = (m[i].cut == r->cut && !result_is_of(r, &m[i])) ||
                 (m[i].cut < r->cut && m[i].generation > r->generation);
    return undone;
}

uint64_t eval_log_undo(struct eval_log *l, const struct manifest *m, size_t n)
{
    uint64_t first = UINT64_MAX;
    size_t kept = 0;
    if (!n || strcmp(l->uuid, m[0].uuid) != 0)
        return first;
    for (size_t i = 0; i < l->n; i++) {
        if (!is_undone(&l->result[i], m, n))
            l->result[kept++] = l->result[i];
        else if (l->result[i].eval.step < first)
            first = l->result[i].eval.step;
    }
    l->n = kept;
    return first;
}

enum err eval_log_add(struct eval_log *l, const char *uuid, const struct eval_result *r,
                      bool *again)
{
    if (strcmp(l->uuid, uuid) != 0)
        l->n = l->kernels = 0;
    size_t before = l->n, n = before;
    while (n > 0 && l->result[n - 1].eval.step >= r->eval.step)
        n--;
    struct eval_result *grown = mem_resize(l->result, n + 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    l->result = grown;
    if (n == EVAL_LOG_MAX)
        memmove(grown, grown + 1, --n * sizeof *grown);
    grown[n] = *r;
    l->n = n + 1;
    *again = n < before;
    (void)snprintf(l->uuid, sizeof l->uuid, "%s", uuid);
    return ERR_OK;
}

void eval_log_add_blas(struct eval_log *l, const char *blas)
{
    for (uint32_t i = 0; i < l->kernels; i++)
        if (strcmp(l->blas[i], blas) == 0)
            return;
    if (*blas && l->kernels < EVAL_BLAS_MAX)
        (void)snprintf(l->blas[l->kernels++], sizeof *l->blas, "%s", blas);
}

/* ---- the file ---- */

static json_t *result_json(const struct eval_result *r, const struct job *job)
{
    json_t *one =
        json_pack("{s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "cut", (json_int_t)r->cut, "generation",
                  (json_int_t)r->generation, "manifest", (json_int_t)r->manifest, "step",
                  (json_int_t)r->eval.step, "final", (int)r->final, "examples",
                  json_number(r->examples), "seconds", json_number(r->seconds));
    return evaluation_add_json(one, job, &r->eval);
}

/* NULL: no memory. */
static json_t *log_json(const struct eval_log *l, const struct job *job)
{
    bool ok = true;
    json_t *results = json_array(), *blas = json_array();
    for (size_t i = 0; i < l->n; i++)
        json_push(results, result_json(&l->result[i], job), &ok);
    for (uint32_t i = 0; i < l->kernels; i++)
        json_push(blas, json_string(l->blas[i]), &ok);
    return json_whole(json_pack("{s:s, s:s, s:s, s:o, s:o}", "job", job->name, "uuid", l->uuid,
                                "eval_fingerprint", l->data, "blas", blas, "results", results),
                      ok);
}

enum err eval_log_write(const struct eval_log *l, const struct job *job, const char *output,
                        struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_EVAL, output);
    return files_write_json(path, log_json(l, job), JSON_INDENT(1), e);
}

static bool result_of(const json_t *one, const struct job *job, struct eval_result *r)
{
    *r = (struct eval_result){.final = json_is_true(json_object_get(one, "final")),
                              .examples = json_number_at(one, "examples"),
                              .seconds = json_number_at(one, "seconds"),
                              .eval = evaluation_read(job, one, json_number_at)};
    uint64_t manifest;
    r->manifest = json_count_at(one, "manifest", &manifest) ? (uint32_t)manifest : 0;
    return json_count_at(one, "cut", &r->cut) && json_count_at(one, "generation", &r->generation) &&
           json_count_at(one, "step", &r->eval.step);
}

static enum err read_results(struct eval_log *l, const json_t *all, const struct job *job,
                             const char *path, struct errmsg *e)
{
    const json_t *results = json_object_get(all, "results");
    const char *uuid = json_string_value(json_object_get(all, "uuid"));
    const char *data = json_string_value(json_object_get(all, "eval_fingerprint"));
    if (!json_is_array(results) || !uuid || strlen(uuid) >= sizeof l->uuid)
        return err_set(e, ERR_CORRUPT, "%s: no list of results, or no uuid", path);
    for (size_t i = 0; i < json_array_size(results); i++) {
        struct eval_result r;
        bool again;
        if (!result_of(json_array_get(results, i), job, &r))
            return err_set(e, ERR_CORRUPT, "%s: result %zu lacks cut, generation or step", path, i);
        if (eval_log_add(l, uuid, &r, &again))
            return err_memory_of(e, path);
    }
    (void)snprintf(l->data, sizeof l->data, "%s", data ? data : "");
    const json_t *blas = json_object_get(all, "blas");
    for (size_t i = 0; i < json_array_size(blas); i++) {
        const char *name = json_string_value(json_array_get(blas, i));
        eval_log_add_blas(l, name ? name : "");
    }
    return ERR_OK;
}

enum err eval_log_read(struct eval_log *l, const struct job *job, const char *output,
                       struct errmsg *e)
{
    char path[FILES_PATH_MAX];
    uint8_t *data;
    size_t bytes;
    json_error_t why;
    *l = (struct eval_log){.n = 0};
    (void)snprintf(path, sizeof path, "%s/" OUTPUT_EVAL, output);
    enum err err = files_read(path, FILE_MAX_BYTES, &data, &bytes, e);
    if (err == ERR_NOTFOUND)
        return ERR_OK;
    if (err)
        return err;
    json_t *all = json_loadb((const char *)data, bytes, 0, &why);
    mem_free(data);
    if (!all)
        return err_set(e, ERR_CORRUPT, "%s: line %d: %s", path, why.line, why.text);
    const char *name = json_string_value(json_object_get(all, "job"));
    if (name && strcmp(name, job->name) == 0)
        err = read_results(l, all, job, path, e);
    json_decref(all);
    if (err)
        eval_log_close(l);
    return err;
}

bool eval_log_judged(const struct job *job, const char *output, const struct manifest *m,
                     struct eval_result *r, struct errmsg *e)
{
    struct eval_log log;
    *e = (struct errmsg){""};
    if (eval_log_read(&log, job, output, e))
        return false;
    const struct eval_result *found = eval_log_of(&log, m);
    if (found)
        *r = *found;
    eval_log_close(&log);
    return found != NULL;
}
