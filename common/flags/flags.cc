/* gflags keeps and checks the values; the words of the command line are taken apart here, because a
 * repeated flag keeps only its last value there (--set), and because its own errors exit with 1. */
extern "C" {
#include "common/flags/flags.h"
#include "common/job/job.h"
#include "common/process/termination.h"
#include "common/base/version.h"
#include "common/base/words.h"
}

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

DEFINE_string(job, "", "the job file");
DEFINE_string(output, "", "where everything goes");
DEFINE_string(logs, "", "where event files go");
DEFINE_string(job_name, "", "role");
DEFINE_int64(task_index, -1, "which process of this role");
DEFINE_string(ps_hosts, "", "all ps");
DEFINE_string(worker_hosts, "", "all workers");
DEFINE_string(chief_host, "", "a chief of its own");
DEFINE_int64(evaluators, 0, "how many evaluators");
DEFINE_string(log_level, "info", "debug, info, warn or error");
DEFINE_string(log_format, "text", "text or json");
DEFINE_string(termination_message, "", "where the last words go");
DEFINE_string(cgroup_root, "/sys/fs/cgroup", "where cgroups are mounted");
DEFINE_int32(listen_fd, -1, "a listening socket");
DEFINE_int32(progress_fd, -1, "progress for a launcher");
DEFINE_int32(token_fd, -1, "the job's token");
DEFINE_string(token_file, "", "the job's token");
DEFINE_string(tls_cert, "", "this process's certificate");
DEFINE_string(tls_key, "", "its key");
DEFINE_string(tls_ca, "", "whose certificates are taken");
DEFINE_string(tls_names, "", "more names that a role may have");
DEFINE_string(auth, "auto", "who has to prove himself");
DEFINE_string(certificates, "", "for the doctor");
DEFINE_int32(grace_s, 0, "between SIGTERM and SIGKILL");
DEFINE_string(when_done, "exit", "exit or wait");
DEFINE_string(fault, "", "for tests and benchmarks");
DEFINE_int32(http_port, 0, "where HTTP listens");
DEFINE_string(http_address, "", "of this host, for http_port");
DEFINE_int32(http_fd, -1, "a listening socket for HTTP");

namespace
{

enum { FLAGFILE_DEPTH_MAX = 8, LINES_MAX = 10000 };

enum class Kind {
    TEXT,
    NUMBER, /* from 0 */
    SET,
    FILE,
    ASK, /* takes no value */
};

struct Known {
    const char *name;
    Kind kind;
    const char *topic;        /* of the help; nullptr: not shown */
    const char *shown, *text; /* in the help */
};

const Known known[] = {
    {"job", Kind::TEXT, "Job", "--job=FILE", "the job file (its keys: docs/job-file.md)"},
    {"output", Kind::TEXT, "Job", "--output=DIR", "where everything goes (default runs/NAME)"},
    {"logs", Kind::TEXT, "Job", "--logs=DIR", "TensorBoard's files (default OUTPUT/logs)"},
    {"set", Kind::SET, "Job", "--set key=value",
     "override a key of the job file; as often as wanted"},
    {"job_name", Kind::TEXT, "Cluster (wins over TF_CONFIG)", "--job_name=ROLE",
     "chief, worker, ps or evaluator"},
    {"task_index", Kind::NUMBER, "Cluster (wins over TF_CONFIG)", "--task_index=I",
     "which of them, from 0"},
    {"ps_hosts", Kind::TEXT, "Cluster (wins over TF_CONFIG)", "--ps_hosts=H:P,..",
     "all ps, in their order"},
    {"worker_hosts", Kind::TEXT, "Cluster (wins over TF_CONFIG)", "--worker_hosts=H:P,..",
     "all workers, in their order"},
    {"chief_host", Kind::TEXT, "Cluster (wins over TF_CONFIG)", "--chief_host=H:P",
     "a chief of its own; without one worker 0 is it"},
    {"evaluators", Kind::NUMBER, "Cluster (wins over TF_CONFIG)", "--evaluators=N",
     "1: one evaluates checkpoints, not the chief epochs"},
    {"token_file", Kind::TEXT, "Cluster (wins over TF_CONFIG)", "--token_file=FILE",
     "secret of all; --auth=auto|required|none; --tls_cert"},
    {"token_fd", Kind::NUMBER, nullptr, nullptr, nullptr},
    {"tls_cert", Kind::TEXT, nullptr, nullptr, nullptr},
    {"tls_key", Kind::TEXT, nullptr, nullptr, nullptr},
    {"tls_ca", Kind::TEXT, nullptr, nullptr, nullptr},
    {"tls_names", Kind::TEXT, nullptr, nullptr, nullptr},
    {"auth", Kind::TEXT, nullptr, nullptr, nullptr},
    {"log_level", Kind::TEXT, "Process", "--log_level=LEVEL",
     "debug, info (default), warn, error; --log_format=json"},
    {"log_format", Kind::TEXT, nullptr, nullptr, nullptr},
    {"cgroup_root", Kind::TEXT, nullptr, nullptr, nullptr},
    {"termination_message", Kind::TEXT, "Process", "--termination_message=FILE",
     "where its last words go, at every end"},
    {"listen_fd", Kind::NUMBER, "Process", "--listen_fd=N",
     "a launcher's socket; --progress_fd=N: its pipe"},
    {"progress_fd", Kind::NUMBER, nullptr, nullptr, nullptr},
    {"http_port", Kind::NUMBER, "Process", "--http_port=PORT",
     "HTTP on --http_address=HOST (default: every); 0: none"},
    {"http_address", Kind::TEXT, nullptr, nullptr, nullptr},
    {"http_fd", Kind::NUMBER, nullptr, nullptr, nullptr},
    {"grace_s", Kind::NUMBER, nullptr, nullptr, nullptr},
    {"when_done", Kind::TEXT, "Process", "--when_done=wait",
     "it stays, idle, when the job is done; --flagfile=FILE"},
    {"flagfile", Kind::FILE, nullptr, nullptr, nullptr},
    {"help", Kind::ASK, "Process", "--help, --version", "say this, or which version it is"},
    {"version", Kind::ASK, nullptr, nullptr, nullptr},
    {"fault", Kind::TEXT, nullptr, nullptr, nullptr}, /* common/process/fault.h */
    {"print_job_reference", Kind::ASK, nullptr, nullptr, nullptr},
    {"find_learning_rate", Kind::ASK, nullptr, nullptr, nullptr},
    {"doctor", Kind::ASK, nullptr, nullptr, nullptr}, /* worker/doctor/doctor.h */
    {"json", Kind::ASK, nullptr, nullptr, nullptr},
    {"certificates", Kind::TEXT, nullptr, nullptr, nullptr},
};

struct Reader {
    std::vector<std::string> sets;
    flags_ask ask = FLAGS_RUN;
    bool json = false;
    unsigned lines = 0;
    errmsg *e = nullptr;
};

std::vector<std::string> kept_sets; /* what struct flags points to */
std::vector<const char *> kept_set_pointers;

const Known *find(const std::string &name)
{
    for (const Known &k : known)
        if (name == k.name)
            return &k;
    return nullptr;
}

err refuse_unknown(Reader *r, const std::string &where, const std::string &name)
{
    words near;
    words_init(&near, name.c_str());
    for (const Known &k : known)
        words_try(&near, k.name);
    if (near.best)
        return err_set(r->e, ERR_INPUT, "%sunknown flag --%.80s, did you mean --%s?", where.c_str(),
                       name.c_str(), near.best);
    return err_set(r->e, ERR_INPUT, "%sunknown flag --%.80s; --help lists them", where.c_str(),
                   name.c_str());
}

bool is_number(const std::string &value)
{
    return !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
}

err set_value(Reader *r, const std::string &where, const Known &flag, const std::string &value)
{
    if (flag.kind == Kind::NUMBER &&
        (!is_number(value) || gflags::SetCommandLineOption(flag.name, value.c_str()).empty()))
        return err_set(r->e, ERR_INPUT, "%s--%s: '%.80s' is not allowed; allowed: a number from 0",
                       where.c_str(), flag.name, value.c_str());
    if (flag.kind == Kind::TEXT)
        gflags::SetCommandLineOption(flag.name, value.c_str());
    if (flag.kind == Kind::SET)
        r->sets.push_back(value);
    return ERR_OK;
}

err ask_for(Reader *r, const std::string &where, const Known &flag, bool has_value)
{
    if (has_value)
        return err_set(r->e, ERR_INPUT, "%s--%s takes no value", where.c_str(), flag.name);
    if (strcmp(flag.name, "json") == 0)
        r->json = true;
    else if (r->ask == FLAGS_RUN)
        r->ask = strcmp(flag.name, "help") == 0                 ? FLAGS_HELP
                 : strcmp(flag.name, "version") == 0            ? FLAGS_VERSION
                 : strcmp(flag.name, "find_learning_rate") == 0 ? FLAGS_FIND_RATE
                 : strcmp(flag.name, "doctor") == 0             ? FLAGS_DOCTOR
                                                                : FLAGS_REFERENCE;
    return ERR_OK;
}

err read_words(Reader *r, const std::string &where, const std::vector<std::string> &all,
               unsigned depth);

void trim(std::string *line)
{
    const char *blanks = " \t\r";
    line->erase(0, line->find_first_not_of(blanks));
    line->erase(line->find_last_not_of(blanks) + 1);
}

/* "--set key=value" in a flagfile is two words, as it is on the command line. */
std::vector<std::string> split_line(const std::string &line)
{
    size_t blank = line.find_first_of(" \t");
    if (blank == std::string::npos || line.find('=') < blank)
        return {line};
    size_t value = line.find_first_not_of(" \t", blank);
    return {line.substr(0, blank), line.substr(value)};
}

err read_flagfile(Reader *r, const std::string &where, const std::string &path, unsigned depth)
{
    if (depth == FLAGFILE_DEPTH_MAX)
        return err_set(r->e, ERR_INPUT, "%s--flagfile=%.80s: flagfiles nested more than %d deep",
                       where.c_str(), path.c_str(), FLAGFILE_DEPTH_MAX);
    std::ifstream in(path);
    std::string line;
    for (unsigned number = 1; std::getline(in, line); number++) {
        trim(&line);
        if (line.empty() || line[0] == '#')
            continue;
        std::string here = path.substr(0, 160) + ":" + std::to_string(number) + ": ";
        if (++r->lines > LINES_MAX)
            return err_set(r->e, ERR_INPUT, "%smore than %d flags", here.c_str(), LINES_MAX);
        err err = read_words(r, here, split_line(line), depth);
        if (err)
            return err;
    }
    if (!in.eof() || in.bad())
        return err_set(r->e, ERR_INPUT, "%s--flagfile=%.160s: %s", where.c_str(), path.c_str(),
                       strerror(errno));
    return ERR_OK;
}

err read_flag(Reader *r, const std::string &where, const Known &flag, const std::string &value,
              unsigned depth)
{
    return flag.kind == Kind::FILE ? read_flagfile(r, where, value, depth + 1)
                                   : set_value(r, where, flag, value);
}

/* One word that is a flag, with the next as its value where it has none; *at moves over them. */
err read_word(Reader *r, const std::string &where, const std::vector<std::string> &all, size_t *at,
              unsigned depth)
{
    const std::string &word = all[*at];
    size_t dashes = word[1] == '-' ? 2 : 1, equals = word.find('=');
    bool has_value = equals != std::string::npos;
    std::string name = word.substr(dashes, has_value ? equals - dashes : std::string::npos);
    for (char &c : name)
        c = c == '-' ? '_' : c;
    const Known *flag = find(name);
    *at += 1;
    if (!flag)
        return refuse_unknown(r, where, name);
    if (flag->kind == Kind::ASK)
        return ask_for(r, where, *flag, has_value);
    if (has_value)
        return read_flag(r, where, *flag, word.substr(equals + 1), depth);
    if (*at == all.size())
        return err_set(r->e, ERR_INPUT, "%s--%s needs a value: %s", where.c_str(), flag->name,
                       flag->shown ? flag->shown : "a number");
    return read_flag(r, where, *flag, all[(*at)++], depth);
}

err read_words(Reader *r, const std::string &where, const std::vector<std::string> &all,
               unsigned depth)
{
    for (size_t at = 0; at < all.size();) {
        if (all[at].size() < 2 || all[at][0] != '-' || all[at] == "--")
            return err_set(r->e, ERR_INPUT, "%s'%.80s' is no flag; flags are --name=value",
                           where.c_str(), all[at].c_str());
        err err = read_word(r, where, all, &at, depth);
        if (err)
            return err;
    }
    return ERR_OK;
}

void reset_to_defaults()
{
    for (const Known &k : known) {
        gflags::CommandLineFlagInfo info;
        if ((k.kind == Kind::TEXT || k.kind == Kind::NUMBER) &&
            gflags::GetCommandLineFlagInfo(k.name, &info))
            gflags::SetCommandLineOption(k.name, info.default_value.c_str());
    }
}

err check(const Reader &r)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    bool level = false;
    for (const char *l : levels)
        level = level || FLAGS_log_level == l;
    if (!level)
        return err_set(r.e, ERR_INPUT,
                       "--log_level: '%.80s' is not allowed; allowed: debug, info, warn, error",
                       FLAGS_log_level.c_str());
    if (FLAGS_log_format != "text" && FLAGS_log_format != "json")
        return err_set(r.e, ERR_INPUT, "--log_format: '%.80s' is not allowed; allowed: text, json",
                       FLAGS_log_format.c_str());
    if (FLAGS_when_done != "exit" && FLAGS_when_done != "wait")
        return err_set(r.e, ERR_INPUT, "--when_done: '%.80s' is not allowed; allowed: exit, wait",
                       FLAGS_when_done.c_str());
    if (FLAGS_http_port > 65535)
        return err_set(r.e, ERR_INPUT, "--http_port: '%d' is no port; allowed: 1 to 65535, 0: none",
                       FLAGS_http_port);
    if (!FLAGS_http_address.empty() && FLAGS_http_port == 0)
        return err_set(r.e, ERR_INPUT, "--http_address=%.80s wants --http_port=PORT as well",
                       FLAGS_http_address.c_str());
    if (r.ask != FLAGS_DOCTOR && (r.json || !FLAGS_certificates.empty()))
        return err_set(r.e, ERR_INPUT, "--%s is for --doctor", r.json ? "json" : "certificates");
    if (FLAGS_job.empty() && r.ask != FLAGS_DOCTOR)
        return err_set(r.e, ERR_INPUT, "--job=FILE is missing; --help lists the flags");
    return ERR_OK;
}

/* Take over what was read; the strings stay with gflags and in kept_sets. */
void fill(struct flags *f, std::vector<std::string> sets)
{
    kept_sets = std::move(sets);
    kept_set_pointers.clear();
    for (const std::string &s : kept_sets)
        kept_set_pointers.push_back(s.c_str());
    f->cluster.job_name = FLAGS_job_name.c_str();
    f->cluster.ps_hosts = FLAGS_ps_hosts.c_str();
    f->cluster.worker_hosts = FLAGS_worker_hosts.c_str();
    f->cluster.chief_host = FLAGS_chief_host.c_str();
    f->cluster.evaluators = FLAGS_evaluators;
    f->logs = FLAGS_logs.c_str();
    f->cluster.task_index = FLAGS_task_index;
    f->job = FLAGS_job.c_str();
    f->output = FLAGS_output.c_str();
    f->sets = kept_set_pointers.data();
    f->n_sets = kept_set_pointers.size();
    f->listen_fd = FLAGS_listen_fd;
    f->progress_fd = FLAGS_progress_fd;
    f->token_fd = FLAGS_token_fd;
    f->token_file = FLAGS_token_file.c_str();
    f->tls = {FLAGS_tls_cert.c_str(), FLAGS_tls_key.c_str(), FLAGS_tls_ca.c_str(),
              FLAGS_tls_names.c_str()};
    f->auth = FLAGS_auth.c_str();
    f->http = {FLAGS_http_port, FLAGS_http_address.c_str(), FLAGS_http_fd};
    f->log_level = FLAGS_log_level.c_str();
    f->cgroup_root = FLAGS_cgroup_root.c_str();
    f->log_json = FLAGS_log_format == "json";
    f->termination_message = FLAGS_termination_message.c_str();
    f->certificates = FLAGS_certificates.c_str();
    f->grace_s = FLAGS_grace_s;
    f->waits = FLAGS_when_done == "wait";
    f->fault = FLAGS_fault.c_str();
}

} // namespace

extern "C" enum err flags_read(struct flags *f, enum flags_ask *ask, int argc, char **argv,
                               struct errmsg *e)
{
    Reader r;
    r.e = e;
    reset_to_defaults();
    std::vector<std::string> all(argv + (argc > 0 ? 1 : 0), argv + argc);
    err err = read_words(&r, "", all, 0);
    if (!err && (r.ask == FLAGS_RUN || r.ask == FLAGS_FIND_RATE || r.ask == FLAGS_DOCTOR))
        err = check(r);
    if (err)
        return err;
    fill(f, std::move(r.sets));
    f->find_learning_rate = r.ask == FLAGS_FIND_RATE;
    f->doctor = r.ask == FLAGS_DOCTOR;
    f->doctor_json = r.json;
    *ask = r.ask;
    return ERR_OK;
}

extern "C" void flags_help(const char *program, char *out, size_t bytes)
{
    bool ps = strcmp(program, "ps") == 0;
    std::string text = std::string("Usage: ") + program +
                       " --job=FILE [FLAG]...    (in names - and _ are the same)\n" +
                       (ps ? "Holds parameters and applies gradients to them."
                           : "Computes gradients; also the chief, or the evaluator, by its role.") +
                       "\n";
    const char *topic = "";
    for (const Known &k : known) {
        if (!k.topic)
            continue;
        if (strcmp(topic, k.topic) != 0)
            text += std::string(k.topic) + ":\n";
        topic = k.topic;
        std::string shown = std::string("  ") + k.shown;
        shown.resize(shown.size() < 25 ? 25 : shown.size() + 1, ' ');
        text += shown + k.text + "\n";
    }
    text += "Exit codes: 0 done, 1 failed, 2 wrong input, 138 start again, 143 SIGTERM.\n";
    (void)snprintf(out, bytes, "%s", text.c_str());
}

extern "C" void flags_parse(struct flags *f, const char *program, int argc, char **argv)
{
    char help[4096];
    errmsg e;
    flags_ask ask = FLAGS_RUN;
    if (flags_read(f, &ask, argc, argv, &e)) {
        fprintf(stderr, "%s: %s\n", program, e.text);
        termination_write(FLAGS_termination_message.c_str(), e.text);
        exit(2);
    }
    switch (ask) {
    case FLAGS_FIND_RATE:
    case FLAGS_DOCTOR:
        if (strcmp(program, "worker") == 0)
            return;
        fprintf(stderr, "%s: --%s is a worker's\n", program,
                ask == FLAGS_DOCTOR ? "doctor" : "find_learning_rate");
        exit(2);
    case FLAGS_RUN:
        return;
    case FLAGS_HELP:
        flags_help(program, help, sizeof help);
        fputs(help, stdout);
        break;
    case FLAGS_VERSION:
        printf("gradwire %s " GRADWIRE_VERSION "\n", program);
        break;
    case FLAGS_REFERENCE:
        job_print_reference();
        break;
    }
    exit(fflush(stdout) == 0 ? 0 : 1);
}
