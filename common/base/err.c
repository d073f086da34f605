#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"

static struct err_limits limits;

const char *err_str(enum err code)
{
    switch (code) {
#define X(name, text)                                                                              \
    case ERR_##name:                                                                               \
        return text;
        ERR_MAP(X)
#undef X
    }
    return "unknown error";
}

void err_limits_set(const struct err_limits *l)
{
    limits = *l;
}

int err_exit_code(enum err code)
{
    if (code == ERR_NOMEM)
        return limits.memory[0] ? 1 : 138;
    if (code == ERR_FILES || code == ERR_DISK)
        return 138;
    return code == ERR_OK ? 0 : code == ERR_INPUT ? 2 : 1;
}

enum err err_of_errno(int error)
{
    if (error == EMFILE || error == ENFILE)
        return ERR_FILES;
    return error == ENOMEM ? ERR_NOMEM : ERR_IO;
}

/* A text that is made of another one names the limit already. */
static void name_limit(struct errmsg *e, enum err code)
{
    const char *limit = code == ERR_NOMEM ? limits.memory : code == ERR_FILES ? limits.files : "";
    size_t n = strlen(e->text);
    if (limit[0] && !strstr(e->text, limit))
        (void)snprintf(e->text + n, sizeof e->text - n, "; %s", limit);
}

enum err err_set(struct errmsg *e, enum err code, const char *fmt, ...)
{
    if (e) {
        va_list args;
        va_start(args, fmt);
        (void)printable_vformat(e->text, sizeof e->text, fmt, args);
        va_end(args);
        name_limit(e, code);
    }
    return code;
}

enum err err_memory(struct errmsg *e)
{
    return err_set(e, ERR_NOMEM, "out of memory");
}

enum err err_memory_of(struct errmsg *e, const char *name)
{
    return err_set(e, ERR_NOMEM, "%s: out of memory", name);
}

enum err err_memory_for(struct errmsg *e, const char *fmt, ...)
{
    va_list args;
    struct errmsg what;
    va_start(args, fmt);
    (void)printable_vformat(what.text, sizeof what.text, fmt, args);
    va_end(args);
    return err_set(e, ERR_NOMEM, "no memory for %s", what.text);
}

enum err err_wrap(struct errmsg *e, enum err code, const char *fmt, ...)
{
    if (e) {
        struct errmsg inner = *e;
        va_list args;
        va_start(args, fmt);
        size_t n = printable_vformat(e->text, sizeof e->text, fmt, args);
        va_end(args);
        (void)printable_copy(e->text + n, sizeof e->text - n, inner.text, strlen(inner.text));
    }
    return code;
}
