#include "launch/local/log_line.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/base/printable.h"

enum { LOG_LINE_TIME_BYTES = 20 }; /* at least: 2026-01-31T12:00:00Z */

/* False: the name is not a level. (log_level_of accepts any name.) */
static bool level_named(enum log_level *level, const char *name, size_t n)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0) {
            *level = log_level_of(names[i]);
            return true;
        }
    return false;
}

/* TIME LEVEL WHO: TEXT */
static bool parse_text(struct log_line *l, const char *line)
{
    enum log_level level;
    const char *space = strchr(line, ' ');
    if (!space || space - line < LOG_LINE_TIME_BYTES || line[4] != '-' || line[10] != 'T')
        return false;
    const char *name = space + 1, *end = strchr(name, ' ');
    const char *colon = end ? strstr(end, ": ") : NULL;
    if (!colon || !level_named(&level, name, (size_t)(end - name)))
        return false;
    l->level = level;
    (void)snprintf(l->text, sizeof l->text, "%s", colon + 2);
    return true;
}

/* {"time": .., "level": .., "process": .., "message": ..} */
static bool parse_json(struct log_line *l, const char *line)
{
    enum log_level level;
    json_t *object = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(object, "level"));
    const char *text = json_string_value(json_object_get(object, "message"));
    bool ours = name && text && level_named(&level, name, strlen(name));
    if (ours) {
        l->level = level;
        (void)snprintf(l->text, sizeof l->text, "%s", text);
    }
    json_decref(object);
    return ours;
}

bool log_line_parse(struct log_line *l, const char *line)
{
    bool ours = *line == '{' ? parse_json(l, line) : parse_text(l, line);
    if (ours)
        (void)printable_text(l->text, sizeof l->text, l->text);
    return ours;
}
