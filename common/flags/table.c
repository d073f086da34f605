#include "common/flags/table.h"

#include <stddef.h>
#include <string.h>

#include "common/parameters/limits.h"
#include "common/flags/flags.h"

enum {
    PS_MAX = 256,
    RESTARTS_MAX = 1000000,
    WORDS_MAX = 100000,
    THREADS_MAX = 1024,
    CONVERT_WINDOW_MAX = 1 << 20
};

#define PROCESS_EXITS                                                                              \
    "Exit codes: 0 done, 1 failed, 2 wrong input, 138 needs a restart, 143 SIGTERM.\n"

const struct flags_program flags_programs[] = {
    {"ps", FLAGS_PS, FLAGS_PS, "ps --job=FILE",
     "Keeps a part of the model's parameters and applies gradients to them.", PROCESS_EXITS, NULL,
     0},
    {"worker", FLAGS_WORKER, FLAGS_WORKER, "worker --job=FILE",
     "Computes gradients. --job_name can also make it the chief or the evaluator.", PROCESS_EXITS,
     NULL, 0},
    {"doctor", FLAGS_WORKER | FLAGS_DOCTOR, FLAGS_WORKER | FLAGS_DOCTOR, "gradwire doctor [JOB]",
     "Checks what a process with these flags needs: job file, data and environment.",
     "Exit codes: 0 no check failed, 2 a check failed.\n", NULL, 0},
    {"lr-finder", FLAGS_FINDER, FLAGS_WORKER | FLAGS_FINDER, "gradwire lr-finder JOB",
     "Trains briefly with growing learning rates and prints one to start with.",
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n", NULL, 0},
    {"entrypoint", FLAGS_ENTRYPOINT, FLAGS_ENTRYPOINT | FLAGS_PROCESS,
     "gradwire-entrypoint [doctor]",
     "Becomes the ps or worker that TF_CONFIG or the flags name, or a single worker.",
     "Files: /etc/gradwire/job.yaml (or --job=FILE), /run/secrets/gradwire/token,\n"
     "/run/secrets/gradwire-tls/{tls.crt,tls.key,ca.crt},\n"
     "/output (or --output=DIR). All other flags are passed on to the program:\n\n",
     NULL, 0},
    {"launch", FLAGS_LAUNCH, FLAGS_LAUNCH, "gradwire COMMAND",
     "COMMAND is train, rank, status, stop, logs or old. Each of them has --help.", "", "COMMAND",
     WORDS_MAX},
    {"train", FLAGS_TRAIN, FLAGS_TRAIN, "gradwire train JOB",
     "Trains JOB: starts ps and worker processes, and restarts those that die.",
     "Ctrl-C ends the job after a checkpoint. Run the same command again to resume.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM.\n",
     "JOB", 1},
    {"rank", FLAGS_RANK, FLAGS_RANK, "gradwire rank JOB",
     "Runs one rank of a job that srun or mpirun starts: a ps or a worker.", "", "JOB", 1},
    {"status", FLAGS_STATUS, FLAGS_STATUS, "gradwire status DIR",
     "Shows the state, the last step and the processes of the job in DIR.",
     "Exit codes: 0 the job runs, 1 it failed, 2 DIR is not a job's directory,\n"
     "3 it is done, 4 it was interrupted or killed: run train again to resume.\n",
     "DIR", 1},
    {"stop", FLAGS_STOP, FLAGS_STOP, "gradwire stop DIR",
     "Ends the job in DIR after a checkpoint. To resume it, run train again.", "", "DIR", 1},
    {"logs", FLAGS_LOGS, FLAGS_LOGS, "gradwire logs DIR [PROCESS]...",
     "Prints the logs of all processes of the job in DIR, or of worker-0, ps-1, ...", "", "DIR",
     WORDS_MAX},
    {"old", FLAGS_OLD, FLAGS_OLD, "gradwire old DIR",
     "Lists or removes DIR.1, DIR.2, ...: earlier runs that train --fresh moved.",
     "It does not remove a directory that a running job uses, or that is not a job's.\n"
     "train --fresh marks each directory that it moves (not in version 0.1.0).\n"
     "Only --remove N removes a directory without this mark: --remove all does not.\n"
     "Exit codes: 0 done, 1 a directory was not removed, 2 DIR or DIR.N is missing.\n",
     "DIR", 1},
    {"evaluate", FLAGS_EVALUATE, FLAGS_EVALUATE, "gradwire evaluate DIR [DATA]...",
     "Prints loss and metrics of the model in DIR on DATA, by default on data.eval.",
     "DIR is an output directory, its model/ or best/, or checkpoints/cut-N.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "DIR", WORDS_MAX},
    {"predict", FLAGS_PREDICT, FLAGS_PREDICT, "gradwire predict DIR [DATA]...",
     "Scores the rows of DATA, by default of data.eval, by the model in DIR.",
     "DIR is an output directory, its model/ or best/, or checkpoints/cut-N.\n"
     "Labels are not needed. DATA - is stdin: csv or libsvm, plain or gzip.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "DIR", WORDS_MAX},
    {"encode", FLAGS_ENCODE, FLAGS_ENCODE, "gradwire encode DIR [DATA]...",
     "Writes the rows of DATA as the arrays that an exported model takes.",
     "DIR is an output directory, its model/ or best/, or checkpoints/cut-N.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "DIR", WORDS_MAX},
    {"export", FLAGS_EXPORT, FLAGS_EXPORT, "gradwire export DIR",
     "Writes the model in DIR for other programs: onnxruntime, TensorFlow, Keras.",
     "DIR is an output directory, or its model/ or best/.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "DIR", 1},
    {"import", FLAGS_IMPORT, FLAGS_IMPORT, "gradwire import FILE --output DIR",
     "Writes a job file and its first weights from a model of another program.",
     "FILE is a .keras archive, the text of Keras's to_json(), or an ONNX file; with\n"
     "--job also a safetensors file with the weights of that job's layers.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "FILE", 1},
    {"compare", FLAGS_COMPARE, FLAGS_COMPARE, "gradwire compare DIR DIR...",
     "Shows jobs side by side: keys that differ, data, results and curves.",
     "DIR is an output directory; the job can be done, interrupted or running.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "DIR", WORDS_MAX},
    {"convert", FLAGS_CONVERT, FLAGS_CONVERT, "gradwire convert IN...",
     "Writes csv files, plain, gzip or zstd, as Parquet, which trains faster.",
     "If it is killed, run the same command again: it goes on.\n"
     "Exit codes: 0 done, 1 failed, 2 wrong input.\n",
     "IN", WORDS_MAX},
    {NULL, 0, 0, NULL, NULL, NULL, NULL, 0},
};

#define ROW(name_, ...)                                                                            \
    {                                                                                              \
        .name = (name_), __VA_ARGS__                                                               \
    }
#define HEADING(of, text)                                                                          \
    {                                                                                              \
        .kind = FLAG_HEADING, .programs = (of), .help = (text)                                     \
    }

const struct flag flags_table[] = {
    HEADING(FLAGS_PROCESS | FLAGS_CLUSTER | FLAGS_FINDER, "Job:"),
    ROW("job", FLAG_TEXT, FLAGS_PROCESS, "FILE",
        "the job file: docs/reference/job-file.md lists its keys"),
    ROW("output", FLAG_TEXT, FLAGS_PROCESS | FLAGS_CLUSTER | FLAGS_FINDER, "DIR",
        "the output directory (default runs/NAME)"),
    ROW("logs", FLAG_TEXT, FLAGS_PROCESS, "DIR",
        "the directory of TensorBoard's files\n(default: logs in the output directory)"),
    ROW("set", FLAG_LIST, FLAGS_PROCESS | FLAGS_CLUSTER | FLAGS_FINDER, "key=value",
        "override a key of the job file; can be repeated"),
    ROW("epochs", FLAG_KEY, FLAGS_ENTRYPOINT, "N", "--set training.epochs=N",
        .preset = "training.epochs"),
    ROW("batch_size", FLAG_KEY, FLAGS_ENTRYPOINT, "N", "--set training.batch_size=N",
        .preset = "training.batch_size"),
    ROW("learning_rate", FLAG_KEY, FLAGS_ENTRYPOINT, "X", "--set training.learning_rate=X",
        .preset = "training.learning_rate"),
    ROW("print", FLAG_ON, FLAGS_ENTRYPOINT, NULL,
        "print the program and its flags, and do not run it"),
    ROW("doctor", FLAG_ON, FLAGS_ENTRYPOINT, NULL,
        "check what the program needs, as gradwire doctor does\n(--json: print JSON; exit code 2: "
        "a check failed)"),

    HEADING(FLAGS_PROCESS, "Cluster (these flags take precedence over TF_CONFIG):"),
    ROW("job_name", FLAG_TEXT, FLAGS_PROCESS, "ROLE",
        "this process's role: chief, worker, ps or evaluator"),
    ROW("task_index", FLAG_NUMBER, FLAGS_PROCESS, "I", "this process's index in its role, from 0"),
    ROW("ps_hosts", FLAG_TEXT, FLAGS_PROCESS, "H:P,...", "the host and port of each ps, in order"),
    ROW("worker_hosts", FLAG_TEXT, FLAGS_PROCESS, "H:P,...",
        "the host and port of each worker, in order"),
    ROW("chief_host", FLAG_TEXT, FLAGS_PROCESS, "H:P",
        "the host and port of a chief that is not a worker\n(default: worker 0 is the chief)"),
    ROW("evaluators", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "1: an evaluator evaluates each checkpoint, and the\nchief evaluates nothing (default 0)",
        .preset = "0"),
    ROW("alone", FLAG_ON, FLAGS_WORKER, NULL,
        "train the whole job alone, although the environment\n"
        "says that this is one of several processes"),

    HEADING(FLAGS_PROCESS, "Security:"),
    ROW("token_file", FLAG_TEXT, FLAGS_PROCESS, "FILE",
        "the token: a secret that all processes of the job share"),
    ROW("token_fd", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "read the token from this open file descriptor"),
    ROW("auth", FLAG_TEXT, FLAGS_PROCESS, "auto|required|none",
        "whether peers must prove that they belong to the job\n"
        "(default auto: yes if this process has a token or TLS)",
        .preset = "auto"),
    ROW("tls_cert", FLAG_TEXT, FLAGS_PROCESS, "FILE", "this process's certificate, for TLS"),
    ROW("tls_key", FLAG_TEXT, FLAGS_PROCESS, "FILE",
        "the private key of the certificate in --tls_cert"),
    ROW("tls_ca", FLAG_TEXT, FLAGS_PROCESS, "FILE",
        "the certificate of the authority that has signed the\n"
        "job's certificates"),
    ROW("tls_names", FLAG_TEXT, FLAGS_PROCESS, "ROLE=NAME,...",
        "the names in the certificates of these roles"),
    ROW("tls_key", FLAG_TEXT, FLAGS_CLUSTER, "FILE", NULL),
    ROW("tls_ca", FLAG_TEXT, FLAGS_CLUSTER, "FILE", NULL),
    ROW("tls_names", FLAG_TEXT, FLAGS_CLUSTER, "ROLE=NAME,...", NULL),

    HEADING(FLAGS_CLUSTER, "Cluster:"),
    ROW("ps", FLAG_NUMBER, FLAGS_TRAIN, "N", "number of parameter servers (default 2)",
        .preset = "2", .least = 1, .most = PS_MAX),
    ROW("ps", FLAG_NUMBER, FLAGS_RANK, "P", "ranks 0 to P-1 are ps (default 1), the others workers",
        .preset = "1", .least = 1, .most = PS_MAX),
    ROW("workers", FLAG_NUMBER, FLAGS_TRAIN, "N", "number of workers (default 2)", .preset = "2",
        .most = WORKERS_MAX),
    ROW("chief", FLAG_ON, FLAGS_TRAIN, NULL, "add a process that is the chief (default: worker 0)"),
    ROW("evaluator", FLAG_ON, FLAGS_TRAIN, NULL, "add a process that evaluates checkpoints"),
    ROW("hosts", FLAG_TEXT, FLAGS_TRAIN, "FILE",
        "run over ssh; FILE has: HOST [slots=N] [workdir=PATH]\n"
        "[role=ps|worker|chief|evaluator] [ports=LO-HI]"),
    ROW("rsh", FLAG_TEXT, FLAGS_TRAIN, "CMD", "replace ssh: `CMD HOST COMMAND` (or GRADWIRE_RSH)",
        .wants = "hosts"),
    ROW("address", FLAG_TEXT, FLAGS_RANK, "HOST",
        "how other ranks reach this host (default: its name)"),
    ROW("ports", FLAG_TEXT, FLAGS_RANK, "LO-HI", "ports to listen on (default: any free port)"),
    ROW("http_address", FLAG_TEXT, FLAGS_RANK, "HOST",
        "address of the job's page (default 127.0.0.1), on\n"
        "--http_port=PORT (default: any free port)",
        .preset = "127.0.0.1"),
    ROW("http_port", FLAG_NUMBER, FLAGS_RANK, "PORT", NULL, .preset = "0", .most = 65535),
    ROW("attempt", FLAG_TEXT, FLAGS_RANK, "ID",
        "id that the ranks of one start share; give a new id at\n"
        "each start (default: from srun or Open MPI)"),
    ROW("token_file", FLAG_TEXT, FLAGS_RANK, "FILE",
        "token of all ranks (default: rank 0 writes a new one\n"
        "to DIR/rendezvous, readable by this user only)"),
    ROW("tls_cert", FLAG_TEXT, FLAGS_CLUSTER, "FILE",
        "use TLS, with --tls_key=FILE and --tls_ca=FILE; the\n"
        "certificate must name 127.0.0.1, or each of the hosts"),
    ROW("restarts", FLAG_NUMBER, FLAGS_TRAIN, "N",
        "at most N restarts of processes in total (default 10)", .preset = "10",
        .most = RESTARTS_MAX),
    ROW("fresh", FLAG_ON, FLAGS_TRAIN, NULL, "move DIR to DIR.1 (DIR.2, ...), train from scratch"),
    ROW("detach", FLAG_ON, FLAGS_TRAIN, NULL, "return after the first step; the job continues"),
    ROW("fault", FLAG_LIST, FLAGS_TRAIN, "PROCESS=FAULT",
        "for tests: let a process misbehave: worker-1=nan:7"),
    ROW("bin_dir", FLAG_TEXT, FLAGS_CLUSTER, "DIR",
        "directory of ps and worker (or GRADWIRE_BIN_DIR)"),

    HEADING(FLAGS_ENTRYPOINT, "Without TF_CONFIG, from ordinals (StatefulSet, Indexed Job):"),
    ROW("role", FLAG_CHOICE, FLAGS_ENTRYPOINT, "chief|ps|worker", "the role of this pod",
        .wants = "ps", .allowed = "chief, ps, worker"),
    ROW("ps", FLAG_NUMBER, FLAGS_ENTRYPOINT, "N", "the number of ps", .wants = "workers",
        .least = 1, .most = WORKERS_MAX),
    ROW("workers", FLAG_NUMBER, FLAGS_ENTRYPOINT, "N", "the number of workers", .wants = "ps_host",
        .least = 1, .most = WORKERS_MAX),
    ROW("ps_host", FLAG_TEXT, FLAGS_ENTRYPOINT, "NAME-%.SERVICE:PORT", NULL,
        .wants = "worker_host"),
    ROW("worker_host", FLAG_TEXT, FLAGS_ENTRYPOINT, "NAME-%.SERVICE:PORT",
        "the address of each worker, and --ps_host that of each\nps; % stands for the ordinal",
        .wants = "role"),
    ROW("chief_address", FLAG_TEXT, FLAGS_ENTRYPOINT, "H:P",
        "the address of a separate chief, for all pods\n(default: worker 0 is the chief)",
        .wants = "role"),
    ROW("index", FLAG_TEXT, FLAGS_ENTRYPOINT, "I",
        "this pod's ordinal (default: JOB_COMPLETION_INDEX, or\nthe number at the end of the host "
        "name)",
        .wants = "role"),
    HEADING(FLAGS_ENTRYPOINT,
            "Without TF_CONFIG, on hosts: each runs a ps (port P) and a worker (P + 1)"),
    ROW("worker_ips", FLAG_TEXT, FLAGS_ENTRYPOINT, "IP,IP,..", "the addresses of all hosts",
        .wants = "current_ip"),
    ROW("current_ip", FLAG_TEXT, FLAGS_ENTRYPOINT, "IP", "the address of this host",
        .wants = "port"),
    ROW("port", FLAG_NUMBER, FLAGS_ENTRYPOINT, "P",
        "the port of the ps. With --http_port=H the ps answers\nHTTP on port H, and the worker on "
        "H + 1",
        .wants = "worker_ips", .least = 1, .most = 65534),

    HEADING(FLAGS_PROCESS, "HTTP:"),
    ROW("http_port", FLAG_NUMBER, FLAGS_PROCESS, "PORT",
        "answer HTTP requests on this port (default 0: none)", .preset = "0", .most = 65535),
    ROW("http_address", FLAG_TEXT, FLAGS_PROCESS, "HOST",
        "answer HTTP requests on this address; *: on all\n"
        "(default: that of the role, or loopback)",
        .wants = "http_port"),

    HEADING(FLAGS_PROCESS, "Process:"),
    ROW("log_level", FLAG_CHOICE, FLAGS_PROCESS, "LEVEL",
        "the lowest level to log: debug, info, warn or error\n"
        "(default info)",
        .preset = "info", .allowed = "debug, info, warn, error"),
    ROW("log_format", FLAG_CHOICE, FLAGS_PROCESS, "text|json",
        "the format of log lines (default text)", .preset = "text", .allowed = "text, json"),
    ROW("when_done", FLAG_CHOICE, FLAGS_PROCESS, "exit|wait",
        "exit when the job is done, or wait for the next job\n"
        "(default exit)",
        .preset = "exit", .allowed = "exit, wait"),
    ROW("grace_s", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "of a ps: the seconds from its supervisor's SIGTERM to\n"
        "SIGKILL (default: timeouts.grace_s of the job file)",
        .preset = "0"),
    ROW("termination_message", FLAG_TEXT, FLAGS_PROCESS, "FILE",
        "write the process's last message to this file"),
    ROW("cgroup_root", FLAG_TEXT, FLAGS_PROCESS, "DIR",
        "where cgroups are mounted (default /sys/fs/cgroup)", .preset = "/sys/fs/cgroup"),
    ROW("flagfile", FLAG_FILE, FLAGS_PROCESS, "FILE",
        "read more flags from this file, one per line"),

    HEADING(FLAGS_PROCESS, "For launchers:"),
    ROW("listen_fd", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "listen on the socket with this file descriptor"),
    ROW("http_fd", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "listen for HTTP on the socket with this descriptor"),
    ROW("progress_fd", FLAG_NUMBER, FLAGS_PROCESS, "N",
        "write progress to this descriptor, as lines of JSON"),
    ROW("lock_fd", FLAG_NUMBER, FLAGS_WORKER, "N",
        "the lock of the output directory is this descriptor"),
    ROW("rows", FLAG_TEXT, FLAGS_WORKER, "FDS",
        "share the rows with the host's other processes:\n"
        "MEMORY_FD,SPILL_FD,PROCESSES"),
    ROW("fault", FLAG_TEXT, FLAGS_PROCESS, "FAULT", /* see common/process/fault.h */
        "for tests: misbehave, such as nan:7"),
    ROW("print_job_reference", FLAG_ON, FLAGS_PROCESS, NULL, NULL),
    ROW("print_manual", FLAG_CHOICE, FLAGS_WORKER, "PAGE", NULL,
        .allowed = "gradwire, gradwire-ps, gradwire-worker, gradwire-job"),
    ROW("find_learning_rate", FLAG_ON, FLAGS_WORKER, NULL, NULL),
    ROW("doctor", FLAG_ON, FLAGS_WORKER, NULL, NULL), /* see worker/doctor/doctor.h */
    HEADING(FLAGS_DOCTOR, "Doctor:"),
    ROW("json", FLAG_ON, FLAGS_DOCTOR, NULL, "print one JSON object"),
    ROW("certificates", FLAG_TEXT, FLAGS_DOCTOR, "CERT,KEY,CA", "also check these files, for TLS"),
    ROW("json", FLAG_ON, FLAGS_WORKER, NULL, NULL, .wants = "doctor"),
    ROW("crew", FLAG_TEXT, FLAGS_WORKER, NULL, NULL, .wants = "doctor"),
    ROW("certificates", FLAG_TEXT, FLAGS_WORKER, "CERT,KEY,CA", NULL, .wants = "doctor"),

    ROW("job", FLAG_TEXT, FLAGS_CONVERT, "JOB",
        "the job that will read DIR: it says which columns are\nnumbers (default: all values of a "
        "column do)"),
    ROW("set", FLAG_LIST, FLAGS_MODEL | FLAGS_CONVERT, "key=value",
        "change a key of data, such as data.bad_rows=skip"),
    ROW("threads", FLAG_NUMBER, FLAGS_MODEL | FLAGS_CONVERT, "N",
        "compute threads (default: one for each core)", .least = 1, .most = THREADS_MAX),
    ROW("output", FLAG_TEXT, FLAGS_PREDICT, "FILE",
        "write this file, when all is done (default: stdout)"),
    ROW("format", FLAG_CHOICE, FLAGS_PREDICT, "csv|npy|parquet",
        "the format of the output (default: by the end of FILE,\n.npy or .parquet, otherwise csv)",
        .allowed = "csv, npy, parquet"),
    ROW("keep", FLAG_LIST, FLAGS_PREDICT, "NAME,...",
        "first write these columns of a csv, such as an id"),
    ROW("scores", FLAG_ON, FLAGS_PREDICT, NULL, "classes: write the scores of all classes"),
    ROW("top", FLAG_NUMBER, FLAGS_PREDICT, "K", "classes: write the best K classes and scores",
        .least = 1, .most = INT32_MAX),
    ROW("output", FLAG_TEXT, FLAGS_ENCODE, "FILE.npz",
        "the archive of arrays; FILE.npy: if there is one array"),
    ROW("raw", FLAG_ON, FLAGS_ENCODE, NULL, "numbers and words as they are, in place of features"),
    ROW("output", FLAG_TEXT, FLAGS_CONVERT, "DIR",
        "the directory to write: new, or begun by convert"),
    ROW("window", FLAG_NUMBER, FLAGS_CONVERT, "ROWS", "rows of a row group (default 32768)",
        .preset = "32768", .least = 1, .most = CONVERT_WINDOW_MAX),
    ROW("compression", FLAG_CHOICE, FLAGS_CONVERT, "zstd|snappy", "the compression (default zstd)",
        .preset = "zstd", .allowed = "zstd, snappy"),
    ROW("format", FLAG_CHOICE, FLAGS_EXPORT, "FORMAT",
        "the format: onnx, savedmodel, keras or safetensors",
        .allowed = "onnx, savedmodel, keras, safetensors"),
    ROW("output", FLAG_TEXT, FLAGS_EXPORT, "PATH",
        "the file or directory to write (default: in DIR/export)"),
    ROW("tables_mb", FLAG_NUMBER, FLAGS_EXPORT, "MIB",
        "tables up to this size are inside the graph of onnx and\n"
        "savedmodel (default 64); others go in as vectors",
        .preset = "64"),
    ROW("output", FLAG_TEXT, FLAGS_IMPORT, "DIR",
        "the directory to write: job.yaml, weights.safetensors"),
    ROW("job", FLAG_TEXT, FLAGS_IMPORT, "JOB", "for safetensors: the job file that has the layers"),
    ROW("rename", FLAG_LIST, FLAGS_IMPORT, "OLD=NEW",
        "for safetensors: a name that begins with OLD begins\nwith NEW; can be repeated"),
    ROW("json", FLAG_ON, FLAGS_EVALUATE | FLAGS_COMPARE, NULL, "print one JSON object"),

    HEADING(FLAGS_PROCESS, "Other:"),
    ROW("open", FLAG_ON, FLAGS_STATUS, NULL, "open the job's page with $BROWSER or xdg-open"),
    ROW("follow", FLAG_ON, FLAGS_LOGS, NULL, "print the last lines, then new lines until the end",
        .letter = 'f'),
    ROW("remove", FLAG_LIST, FLAGS_OLD, "N|all",
        "remove DIR.N, or all earlier runs; can be repeated"),
    ROW("help", FLAG_ON, FLAGS_ALL, NULL, "print this text; --version prints the version",
        .letter = 'h'),
    ROW("version", FLAG_ON, FLAGS_ALL, NULL, NULL),
    {.name = NULL, .help = NULL},
};

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
        .rows = flags_text("rows"),
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
