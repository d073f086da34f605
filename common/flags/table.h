/* The flags of all programs, as one table: a new flag is a row of table.c. */
#ifndef GRADWIRE_COMMON_FLAGS_TABLE_H
#define GRADWIRE_COMMON_FLAGS_TABLE_H

#include <stdint.h>

/* A command of the launcher counts as a program. */
enum {
    FLAGS_PS = 1,
    FLAGS_WORKER = 2,
    FLAGS_ENTRYPOINT = 4,
    FLAGS_LAUNCH = 8, /* without a command */
    FLAGS_TRAIN = 16,
    FLAGS_RANK = 32,
    FLAGS_STATUS = 64,
    FLAGS_STOP = 128,
    FLAGS_LOGS = 256,
    FLAGS_OLD = 512,
    FLAGS_PROCESS = FLAGS_PS | FLAGS_WORKER,
    FLAGS_CLUSTER = FLAGS_TRAIN | FLAGS_RANK,
    FLAGS_ALL = 1023
};

enum flag_kind {
    FLAG_HEADING, /* a line of the help */
    FLAG_TEXT,
    FLAG_CHOICE, /* one of `allowed` */
    FLAG_NUMBER, /* from `least` to `most` */
    FLAG_LIST,   /* each value is kept */
    FLAG_ON,     /* takes no value */
    FLAG_FILE,   /* flags stand in it */
    FLAG_KEY,    /* short for --set=KEY=value, `preset` is KEY */
};

struct flag {
    const char *name;
    enum flag_kind kind;
    unsigned programs;
    const char *value;   /* what stands for its value in help and errors */
    const char *help;    /* NULL: not shown */
    const char *preset;  /* NULL: "", -1 or false */
    const char *allowed; /* of FLAG_CHOICE: "a, b" */
    int32_t least, most; /* of FLAG_NUMBER; most 0: no bound */
    const char *wants;   /* another flag, without which this one has no effect */
    char letter;         /* -h; 0: none */
};

struct flags_program {
    const char *name;
    unsigned is, takes; /* the entrypoint takes flags of other programs, and hands them on */
    const char *usage;  /* begins with the word that errors begin with */
    const char *about;  /* a line */
    const char *end;    /* lines; may be "" */
    const char *word;   /* "JOB": the first word that is no flag; NULL: none is allowed */
    unsigned words_max;
};

extern const struct flag flags_table[];             /* the last one has no name and no help */
extern const struct flags_program flags_programs[]; /* the last one has no name */

#endif
