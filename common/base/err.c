#include "common/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int err_exit_code(enum err code)
{
    if (code == ERR_NOMEM || code == ERR_DISK)
        return 138;
    return code == ERR_OK ? 0 : code == ERR_INPUT ? 2 : 1;
}

enum err err_set(struct errmsg *e, enum err code, const char *fmt, ...)
{
    if (e) {
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(e->text, sizeof e->text, fmt, args);
        va_end(args);
    }
    return code;
}

enum err err_wrap(struct errmsg *e, enum err code, const char *fmt, ...)
{
    if (e) {
        struct errmsg inner = *e;
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(e->text, sizeof e->text, fmt, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof e->text) {
            size_t room = sizeof e->text - (size_t)n;
            size_t len = strnlen(inner.text, room - 1);
            memcpy(e->text + n, inner.text, len);
            e->text[(size_t)n + len] = 0;
        }
    }
    return code;
}
