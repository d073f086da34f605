/* What one check found: one line, "warn names: ps 1 (host): not yet; wait for its pod". Pure. */
#ifndef GRADWIRE_WORKER_DOCTOR_FINDING_H
#define GRADWIRE_WORKER_DOCTOR_FINDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum verdict {
    VERDICT_NONE /* nothing was looked at: no line */,
    VERDICT_OK,
    VERDICT_WARN,
    VERDICT_FAIL
};

enum { FINDING_SAID_MAX = 6 }; /* sentences of one verdict; how many more there are is told */

struct finding {
    const char *name;
    enum verdict verdict;  /* the worst of what was said */
    char text[1200];       /* what was found, of that verdict */
    char mend[400];        /* "": nothing is to be mended */
    unsigned said, unsaid; /* sentences in `text`, and those left out */
};

/* A worse verdict replaces the earlier one. A better one is ignored, and so is a text that was said already. */
void finding_say(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* True where `err` is one: then `e` is said, as a failure. */
bool finding_error(struct finding *f, enum err err, const struct errmsg *e);
/* What would mend it, behind the last finding_say that counted. */
void finding_mend(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "FAIL names: ..; ..", without a newline. */
void finding_line(const struct finding *f, char *out, size_t bytes);
/* {"check", "verdict": "ok|warn|fail", "found", "mend"}; NULL: no memory. */
json_t *finding_json(const struct finding *f);

#endif
