/* The flags of all programs, in one table: to add a flag, add a row to table.c. */
#pragma once

#include <stdint.h>

/* Each command of the launcher counts as a program. */
enum {
    FLAGS_PS = 1,
    FLAGS_WORKER = 2,
    FLAGS_ENTRYPOINT = 4,
    FLAGS_LAUNCH = 8, /* the launcher without a command */
    FLAGS_TRAIN = 16,
    FLAGS_RANK = 32,
    FLAGS_STATUS = 64,
    FLAGS_STOP = 128,
    FLAGS_LOGS = 256,
    FLAGS_OLD = 512,
    FLAGS_DOCTOR = 1024,   /* the worker, as gradwire doctor */
    FLAGS_FINDER = 2048,   /* the worker, as gradwire lr-finder */
    FLAGS_EVALUATE = 4096, /* gradwire-model and its commands */
    FLAGS_PREDICT = 8192,
    FLAGS_ENCODE = 16384,
    FLAGS_EXPORT = 32768,
    FLAGS_IMPORT = 65536,
    FLAGS_COMPARE = 131072,
    FLAGS_CONVERT = 262144,
    FLAGS_PROCESS = FLAGS_PS | FLAGS_WORKER,
    FLAGS_CLUSTER = FLAGS_TRAIN | FLAGS_RANK,
    FLAGS_MODEL = FLAGS_EVALUATE | FLAGS_PREDICT | FLAGS_ENCODE, /* those that read data */
    FLAGS_ALL = 524287
};

enum flag_kind {
    FLAG_HEADING, /* a heading of the help */
    FLAG_TEXT,
    FLAG_CHOICE, /* one of `allowed` */
    FLAG_NUMBER, /* from `least` to `most` */
    FLAG_LIST,   /* all its values are kept */
    FLAG_ON,     /* takes no value */
    FLAG_FILE,   /* its value is a file of flags */
    FLAG_KEY,    /* short for --set=KEY=value; `preset` is KEY */
};

struct flag {
    const char *name;
    enum flag_kind kind;
    unsigned programs;
    const char *value;   /* placeholder for its value in help and errors */
    const char *help;    /* NULL: not shown */
    const char *preset;  /* NULL: "", -1 or false */
    const char *allowed; /* for FLAG_CHOICE: "a, b" */
    int32_t least, most; /* for FLAG_NUMBER; most 0: no limit */
    const char *wants;   /* another flag, which must be given too; NULL: none */
    char letter;         /* -h; 0: none */
};

struct flags_program {
    const char *name;
    /* is: this program's bit. takes: the programs whose flags it accepts; the entrypoint also accepts those of ps
     * and worker, and passes them on. */
    unsigned is, takes;
    const char *usage; /* its first word starts error messages */
    const char *about; /* one line */
    const char *end;   /* lines at the end of the help; can be "" */
    /* "JOB": the first argument that is not a flag; NULL: no such argument is allowed */
    const char *word;
    unsigned words_max;
};

extern const struct flag flags_table[];             /* the last one has no name and no help */
extern const struct flags_program flags_programs[]; /* the last one has no name */
