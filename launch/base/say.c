#include "launch/base/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SAY_LINE_BYTES = 1024, SAY_WIDTH = 80 };
#define SAY_CLEAR_LINE "\r\033[K"

static bool say_terminal;
static char say_last_status[SAY_LINE_BYTES];

void say_init(void)
{
    say_terminal = isatty(STDERR_FILENO) == 1;
    say_last_status[0] = 0;
}

bool say_on_terminal(void)
{
    return say_terminal;
}

static void say_bytes(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written; /* there is nowhere else to say that stderr is gone */
}

static void say_line(const char *before, const char *text)
{
    char line[2 * SAY_LINE_BYTES + 64];
    (void)snprintf(line, sizeof line, "%s%s%s\n%s", *say_last_status ? SAY_CLEAR_LINE : "", before,
                   text, say_last_status);
    say_bytes(line);
}

void say(enum log_level level, const char *fmt, ...)
{
    char text[SAY_LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (say_terminal)
        say_line(level == LOG_INFO ? "" : "gradwire: ", text);
    else
        log_at(level, "%s", text);
}

void say_status(const char *text)
{
    if (!say_terminal || (!*text && !*say_last_status))
        return;
    struct winsize size = {0};
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1
                                                                                : SAY_WIDTH - 1;
    (void)snprintf(say_last_status, sizeof say_last_status, "%.*s", width, text);
    char line[2 * SAY_LINE_BYTES + 64];
    (void)snprintf(line, sizeof line, SAY_CLEAR_LINE "%s", say_last_status);
    say_bytes(line);
}
