/* `gradwire compare DIR DIR...`: jobs side by side: the keys in which they differ, results, data and curves. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/flags/flags.h"
#include "model_cli/command.h"
#include "model_cli/compare_job.h"
#include "model_cli/compare_text.h"

enum { PATH_BYTES = 512 }; /* of a key; a longer one is cut off */

/* ---- keys that differ ---- */

struct differ {
    size_t jobs;
    json_t *list; /* [{"key": .., "values": [..]}, ..] */
    bool failed;  /* no memory */
};

/* The only entry of an object; NULL: it has none, or several. */
static const char *only_key(const json_t *object)
{
    json_t *o = json_incref((json_t *)(uintptr_t)object);
    const char *key = json_object_size(o) == 1 ? json_object_iter_key(json_object_iter(o)) : NULL;
    json_decref(o);
    return key;
}

/* A value in few words: of a choice, such as {adam: {..}}, its name; true for a map of several keys. */
static json_t *shown(const json_t *value)
{
    if (!value)
        return json_null();
    if (!json_is_object(value))
        return json_deep_copy(value);
    return only_key(value) ? json_string(only_key(value)) : json_true();
}

static void report(struct differ *d, const char *path, const json_t *const *value)
{
    json_t *values = json_array();
    for (size_t i = 0; i < d->jobs; i++)
        d->failed |= json_array_append_new(values, shown(value[i])) != 0;
    d->failed |=
        json_array_append_new(d->list, json_pack("{s:s, s:o}", "key", path, "values", values)) != 0;
}

static bool all_equal(const struct differ *d, const json_t *const *value)
{
    bool equal = true;
    for (size_t i = 1; i < d->jobs && equal; i++)
        equal = value[0] && value[i] ? json_equal(value[0], value[i]) : !value[0] && !value[i];
    return equal;
}

static bool all_objects(const struct differ *d, const json_t *const *value)
{
    bool objects = true;
    for (size_t i = 0; i < d->jobs && objects; i++)
        objects = json_is_object(value[i]);
    return objects;
}

/* True if each job has chosen one of several words, and not all the same. */
static bool choices_differ(const struct differ *d, const json_t *const *value)
{
    bool choices = true, differ = false;
    for (size_t i = 0; i < d->jobs && choices; i++) {
        const char *only = only_key(value[i]), *first = only_key(value[0]);
        choices = only && first;
        differ |= choices && strcmp(only, first) != 0;
    }
    return choices && differ;
}

static void compare_values(struct differ *d, const char *path, const json_t *const *value);

static void compare_entry(struct differ *d, const char *path, const json_t *const *value,
                          const char *key)
{
    char below[PATH_BYTES];
    const json_t *of[COMPARE_JOBS_MAX];
    for (size_t i = 0; i < d->jobs; i++)
        of[i] = json_object_get(value[i], key);
    (void)snprintf(below, sizeof below, "%s%s%s", path, *path && *key != '[' ? "." : "", key);
    compare_values(d, below, of);
}

/* Of jobs that all have maps here: each key, in the order of the first job that has it. */
static void compare_entries(struct differ *d, const char *path, const json_t *const *value)
{
    for (size_t i = 0; i < d->jobs; i++) {
        json_t *of = (json_t *)(uintptr_t)value[i], *ignored;
        const char *key;
        json_object_foreach(of, key, ignored)
        {
            bool told = false;
            for (size_t k = 0; k < i; k++)
                told |= json_object_get(value[k], key) != NULL;
            if (!told)
                compare_entry(d, path, value, key);
        }
    }
}

/* The depth is bounded: JOB_TREE_DEPTH_MAX. */
static void compare_values(struct differ *d, const char *path, const json_t *const *value)
{
    if (all_equal(d, value))
        return;
    if (all_objects(d, value) && !choices_differ(d, value))
        compare_entries(d, path, value);
    else
        report(d, path, value);
}

/* NULL: no memory. */
static json_t *differences(json_t *const *keys, size_t jobs)
{
    struct differ d = {.jobs = jobs, .list = json_array()};
    const json_t *value[COMPARE_JOBS_MAX];
    for (size_t i = 0; i < jobs; i++)
        value[i] = keys[i];
    compare_values(&d, "", value);
    if (!d.failed)
        return d.list;
    json_decref(d.list);
    return NULL;
}

/* ---- the command ---- */

static enum err read_jobs(const char *const *dirs, size_t jobs, json_t *facts, json_t **keys,
                          struct errmsg *e)
{
    for (size_t i = 0; i < jobs; i++) {
        json_t *of;
        enum err err = compare_job_read(dirs[i], &of, &keys[i], e);
        if (err)
            return err;
        if (json_array_append_new(facts, of) != 0)
            return err_set(e, ERR_NOMEM, "out of memory");
    }
    return ERR_OK;
}

static enum err compare(const char *const *dirs, size_t jobs, json_t **all, struct errmsg *e)
{
    json_t *facts = json_array(), *keys[COMPARE_JOBS_MAX] = {NULL};
    enum err err = read_jobs(dirs, jobs, facts, keys, e);
    if (!err && !(*all = json_pack("{s:O, s:o}", "jobs", facts, "differ", differences(keys, jobs))))
        err = err_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < jobs; i++)
        json_decref(keys[i]);
    json_decref(facts);
    return err;
}

static enum err print(const json_t *all, struct errmsg *e)
{
    if (!flags_on("json"))
        compare_text(all);
    else if (json_dumpf(all, stdout, JSON_INDENT(2)) != 0 || fputc('\n', stdout) == EOF)
        return err_set(e, ERR_IO, "the output cannot be written");
    return ERR_OK;
}

int compare_main(int argc, char **argv)
{
    struct errmsg e;
    json_t *all = NULL;
    size_t jobs;
    flags_parse("compare", argc, argv);
    const char *const *dirs = flags_list(FLAGS_WORDS, &jobs);
    enum err err = ERR_OK;
    if (jobs < 2 || jobs > COMPARE_JOBS_MAX)
        err = err_set(&e, ERR_INPUT, "compare: name 2 to %d output directories of jobs",
                      COMPARE_JOBS_MAX);
    if (!err)
        err = compare(dirs, jobs, &all, &e);
    if (!err)
        err = print(all, &e);
    if (!err)
        err = command_flush(&e);
    json_decref(all);
    return err ? command_failed(err, &e) : 0;
}
