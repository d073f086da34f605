#include "launch/remote/problems.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/mem.h"
#include "common/base/printable.h"

void problems_add(struct problems *p, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    p->n++;
    char **grown = mem_resize(p->line, p->kept + 1, sizeof *grown);
    if (!grown)
        return;
    p->line = grown;
    p->line[p->kept] = mem_strdup(text);
    p->kept += p->line[p->kept] != NULL;
}

void problems_close(struct problems *p)
{
    for (size_t i = 0; i < p->kept; i++)
        mem_free(p->line[i]);
    mem_free(p->line);
    *p = (struct problems){0};
}
