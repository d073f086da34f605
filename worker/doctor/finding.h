/* The result of one check as one line: "warn names: ps 1 (host): not yet; wait for its pod". Pure. */
#ifndef GRADWIRE_WORKER_DOCTOR_FINDING_H
#define GRADWIRE_WORKER_DOCTOR_FINDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

enum verdict {
    VERDICT_NONE /* nothing was checked: no line */,
    VERDICT_OK,
    VERDICT_WARN,
    VERDICT_FAIL
};

/* the most sentences of one verdict; the number of further ones is printed */
enum { FINDING_SAID_MAX = 6 };

struct finding {
    const char *name;
    enum verdict verdict;  /* the worst one so far */
    char text[1200];       /* the findings of that verdict */
    char mend[400];        /* how to fix it; "": nothing to fix */
    unsigned said, unsaid; /* number of sentences in `text`, and of those left out */
};

/* Add a finding. A worse verdict replaces the earlier findings. A better one is ignored, and so is a text that was
 * added before. */
void finding_say(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* If `err` is an error, add `e` as a failure. Returns whether it is. */
bool finding_error(struct finding *f, enum err err, const struct errmsg *e);
/* Set how to fix the findings so far; ignored unless `v` is their verdict. */
void finding_mend(struct finding *f, enum verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "FAIL names: ...; ...", without a newline. */
void finding_line(const struct finding *f, char *out, size_t bytes);
/* {"check", "verdict": "ok|warn|fail", "found", "mend"}; NULL: no memory. */
json_t *finding_json(const struct finding *f);

#endif
