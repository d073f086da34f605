#include "launch/base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/printable.h"

enum { SAY_LINE_BYTES = 1024, SAY_WIDTH = 80, SAY_CLEAR_BYTES = 32 };

static bool say_terminal;
static char say_last_status[SAY_LINE_BYTES];

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

void say_init(void)
{
    bool dumb = !is_set("TERM") || strcmp(getenv("TERM"), "dumb") == 0;
    say_terminal = isatty(STDERR_FILENO) == 1 && !dumb && !is_set("NO_COLOR");
    say_last_status[0] = 0;
}

bool say_on_terminal(void)
{
    return say_terminal;
}

static size_t say_columns(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col
                                                                           : SAY_WIDTH;
}

size_t say_width(void)
{
    return say_columns() -
           1; /* the last column stays free, because some terminals wrap when it is written */
}

static void say_bytes(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* if stderr is gone, nothing can report it */
}

/* The characters that clear the progress line on all of its rows; "" if none is shown. */
static const char *say_clear(char out[SAY_CLEAR_BYTES])
{
    size_t n = strlen(say_last_status), rows = n ? (n - 1) / say_columns() : 0;
    if (!n)
        out[0] = 0;
    else if (rows)
        (void)snprintf(out, SAY_CLEAR_BYTES, "\r\033[%zuA\033[J", rows);
    else
        (void)snprintf(out, SAY_CLEAR_BYTES, "\r\033[J");
    return out;
}

static void say_line(const char *before, const char *text)
{
    char line[2 * SAY_LINE_BYTES + 64], clear[SAY_CLEAR_BYTES];
    (void)say_clear(clear);
    if (strlen(say_last_status) > say_width()) /* the terminal was wider when it was drawn */
        say_last_status[say_width()] = 0;
    (void)snprintf(line, sizeof line, "%s%s%s\n%s", clear, before, text, say_last_status);
    say_bytes(line);
}

void say(enum log_level level, const char *fmt, ...)
{
    char text[SAY_LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    if (say_terminal)
        say_line(level == LOG_INFO ? "" : "gradwire: ", text);
    else
        log_at(level, "%s", text);
}

void say_plain(const char *fmt, ...)
{
    char text[2 * PRINTABLE_BYTES]; /* two paths fit */
    va_list args;
    va_start(args, fmt);
    (void)printable_vformat(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "gradwire: %s\n", text);
}

void say_status(const char *text)
{
    char line[SAY_LINE_BYTES + SAY_CLEAR_BYTES], clear[SAY_CLEAR_BYTES];
    if (!say_terminal || (!*text && !*say_last_status))
        return;
    (void)say_clear(clear);
    size_t room = say_width() + 1;
    if (room > sizeof say_last_status)
        room = sizeof say_last_status;
    (void)printable_text(say_last_status, room, text);
    (void)snprintf(line, sizeof line, "%s%s", clear, say_last_status);
    say_bytes(line);
}
