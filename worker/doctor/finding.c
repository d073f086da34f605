#include "worker/doctor/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"

void finding_say(struct finding *f, enum verdict v, const char *fmt, ...)
{
    va_list args;
    char said[sizeof f->text];
    if (v < f->verdict)
        return;
    if (v > f->verdict) {
        f->verdict = v;
        f->text[0] = f->mend[0] = '\0';
        f->said = f->unsaid = 0;
    }
    va_start(args, fmt);
    (void)printable_vformat(said, sizeof said, fmt, args);
    va_end(args);
    if (f->said && strstr(f->text, said))
        return; /* the same finding for another file or part */
    if (f->said == FINDING_SAID_MAX) {
        f->unsaid++;
        return;
    }
    size_t at = strlen(f->text);
    if (f->said++)
        at += (size_t)snprintf(f->text + at, sizeof f->text - at, ", ");
    if (at < sizeof f->text)
        (void)printable_text(f->text + at, sizeof f->text - at, said);
}

bool finding_error(struct finding *f, enum err err, const struct errmsg *e)
{
    if (err)
        finding_say(f, VERDICT_FAIL, "%s", e->text);
    return err != ERR_OK;
}

void finding_mend(struct finding *f, enum verdict v, const char *fmt, ...)
{
    va_list args;
    if (v != f->verdict)
        return;
    va_start(args, fmt);
    (void)printable_vformat(f->mend, sizeof f->mend, fmt, args);
    va_end(args);
}

/* ", and 3 more" */
static const char *unsaid(const struct finding *f, char out[static 32])
{
    out[0] = '\0';
    if (f->unsaid)
        (void)snprintf(out, 32, ", and %u more", f->unsaid);
    return out;
}

void finding_line(const struct finding *f, char *out, size_t bytes)
{
    static const char *const words[] = {"", "ok", "warn", "FAIL"};
    char more[32];
    (void)printable_format(out, bytes, "%-4s %s: %s%s%s%s", words[f->verdict], f->name, f->text,
                           unsaid(f, more), f->mend[0] ? "; " : "", f->mend);
}

json_t *finding_json(const struct finding *f)
{
    static const char *const words[] = {"", "ok", "warn", "fail"};
    char more[32];
    return json_pack("{s:s, s:s, s:s+, s:s}", "check", f->name, "verdict", words[f->verdict],
                     "found", f->text, unsaid(f, more), "mend", f->mend);
}
