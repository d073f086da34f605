#include "launch/base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/process/fault.h"
#include "common/flags/flags.h"

static enum err options_no_process(const struct options *o, const char *fault, struct errmsg *e)
{
    char workers[48] = "";
    if (o->workers > 0)
        (void)snprintf(workers, sizeof workers,
                       o->workers > 1 ? "worker-0 to worker-%u" : "worker-%u", o->workers - 1);
    return err_set(e, ERR_INPUT, "--fault: '%s': no such process; this job has %s%s%s", fault,
                   o->chief ? "chief-0" : "", o->chief && o->workers > 0 ? ", " : "", workers);
}

static enum err options_fault(const struct options *o, const char *value, struct errmsg *e)
{
    char role[8] = "";
    uint32_t index = 0;
    int what = 0;
    bool known = sscanf(value, "%7[a-z]-%u=%n", role, &index, &what) == 2 && what > 0;
    bool worker = strcmp(role, "worker") == 0, chief = strcmp(role, "chief") == 0;
    if (!known || !(worker || chief) || !value[what])
        return err_set(e, ERR_INPUT,
                       "--fault: '%s' is not allowed; allowed: worker-N=FAULT, chief-0=FAULT",
                       value);
    if (worker ? index >= o->workers : !o->chief || index != 0)
        return options_no_process(o, value, e);
    struct fault fault;
    return fault_parse(&fault, value + what, e);
}

enum err options_check(const struct options *o, struct errmsg *e)
{
    if (options_trainers(o) == 0)
        return err_set(e, ERR_INPUT, "--workers 0 leaves no process that trains; add --chief");
    enum err err = ERR_OK;
    for (size_t i = 0; i < o->n_faults && !err; i++)
        err = options_fault(o, o->faults[i], e);
    return err;
}

void options_init(struct options *o)
{
    *o = (struct options){.job = flags_list(FLAGS_WORDS, NULL)[0],
                          .output = flags_given("output"),
                          .bin_dir = flags_given("bin_dir"),
                          .hosts = flags_given("hosts"),
                          .rsh = flags_given("rsh"),
                          .tls = flags_tls(),
                          .ps = (uint32_t)flags_number("ps"),
                          .workers = (uint32_t)flags_number("workers"),
                          .chief = flags_on("chief"),
                          .evaluator = flags_on("evaluator"),
                          .restarts = (uint32_t)flags_number("restarts"),
                          .fresh = flags_on("fresh"),
                          .detach = flags_on("detach")};
    o->sets = flags_list("set", &o->n_sets);
    o->faults = flags_list("fault", &o->n_faults);
    if (!o->bin_dir)
        o->bin_dir = getenv("GRADWIRE_BIN_DIR");
}

int options_exit_code(enum err err)
{
    return err == ERR_INPUT ? EXIT_INPUT : EXIT_FAILED;
}

uint32_t options_trainers(const struct options *o)
{
    return o->workers + (o->chief ? 1 : 0);
}

uint32_t options_processes(const struct options *o)
{
    return o->ps + options_trainers(o) + (o->evaluator ? 1 : 0);
}
