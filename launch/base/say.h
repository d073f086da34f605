/* The launcher's output on stderr: lines, and on a terminal a progress line below them that is drawn again and again.
 *
 * If the terminal is made narrower, most terminals wrap the progress line, which then takes several rows. The launcher
 * clears as many rows as the line takes at the terminal's present width. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/base/log.h"

/* Check (again) if stderr is a terminal. On a terminal lines are plain; otherwise they have time and level. A terminal with
 * NO_COLOR set, or with TERM unset or "dumb", is treated like a file. */
void say_init(void);
bool say_on_terminal(void);
/* The columns available for the progress line now. */
size_t say_width(void);

/* Print a line of level LOG_INFO, LOG_WARN or LOG_ERROR. */
void say(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define say_info(...) say(LOG_INFO, __VA_ARGS__)
#define say_warn(...) say(LOG_WARN, __VA_ARGS__)
#define say_error(...) say(LOG_ERROR, __VA_ARGS__)

/* Print a command's answer, "gradwire: TEXT", as a line: without time and level, also to a file. */
void say_plain(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Draw the progress line (ASCII), cut to the terminal's width; "" removes it. Does nothing if stderr is not a terminal. */
void say_status(const char *text);
