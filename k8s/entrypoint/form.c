#include "k8s/entrypoint/form.h"

#include <stdlib.h>
#include <string.h>

#include "common/cluster/signs.h"
#include "common/flags/flags.h"

bool form_hosts(void)
{
    return flags_given("worker_ips");
}

bool form_ordinals(void)
{
    return flags_given("role");
}

bool form_tf_config(void)
{
    const char *config = getenv("TF_CONFIG");
    return config && config[strspn(config, " \t\r\n")];
}

bool form_flags(void)
{
    static const char *const names[] = {"job_name", "task_index", "ps_hosts", "worker_hosts",
                                        "chief_host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (flags_given(names[i]))
            return true;
    return false;
}

bool form_alone(void)
{
    return !form_hosts() && !form_ordinals() && !form_tf_config() && !form_flags();
}

enum err form_check(struct errmsg *e)
{
    const char *form = form_hosts() ? "--worker_ips" : "--role";
    bool formed = form_ordinals() || form_hosts();
    if (form_ordinals() && form_hosts())
        return err_set(e, ERR_INPUT, "--role and --worker_ips both say which process this is");
    if (form_tf_config() && formed)
        return err_set(e, ERR_INPUT, "TF_CONFIG is set, and %s says which process this is, too",
                       form);
    if (flags_given("job_name") && formed)
        return err_set(e, ERR_INPUT, "--job_name and %s both say which process this is", form);
    return signs_check(!form_alone(), flags_on("alone"), getenv, e);
}
