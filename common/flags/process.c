#include <string.h>

#include "common/flags/flags.h"

struct tls_files flags_tls(void)
{
    return (struct tls_files){.cert = flags_text("tls_cert"),
                              .key = flags_text("tls_key"),
                              .ca = flags_text("tls_ca"),
                              .names = flags_text("tls_names")};
}

void flags_process(struct flags *f)
{
    *f = (struct flags){
        .cluster = {.job_name = flags_text("job_name"),
                    .ps_hosts = flags_text("ps_hosts"),
                    .worker_hosts = flags_text("worker_hosts"),
                    .chief_host = flags_text("chief_host"),
                    .task_index = flags_number("task_index"),
                    .evaluators = flags_number("evaluators")},
        .alone = flags_on("alone"),
        .job = flags_text("job"),
        .output = flags_text("output"),
        .logs = flags_text("logs"),
        .listen_fd = (int)flags_number("listen_fd"),
        .progress_fd = (int)flags_number("progress_fd"),
        .lock_fd = (int)flags_number("lock_fd"),
        .find_learning_rate = flags_on("find_learning_rate"),
        .doctor = flags_on("doctor"),
        .doctor_json = flags_on("json"),
        .doctor_crew = flags_text("crew"),
        .certificates = flags_text("certificates"),
        .token_fd = (int)flags_number("token_fd"),
        .token_file = flags_text("token_file"),
        .tls = flags_tls(),
        .auth = flags_text("auth"),
        .http = {.port = (int)flags_number("http_port"),
                 .address = flags_text("http_address"),
                 .fd = (int)flags_number("http_fd")},
        .log_level = flags_text("log_level"),
        .log_json = strcmp(flags_text("log_format"), "json") == 0,
        .termination_message = flags_text("termination_message"),
        .cgroup_root = flags_text("cgroup_root"),
        .grace_s = (int)flags_number("grace_s"),
        .waits = strcmp(flags_text("when_done"), "wait") == 0,
        .fault = flags_text("fault"),
    };
    f->sets = flags_list("set", &f->n_sets);
}
