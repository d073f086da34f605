/* The launcher's output on stderr: lines, and on a terminal one line that redraws below them.
 *
 * A terminal may be made narrower while that line stands: most of them then wrap it, so it takes several rows. The
 * launcher clears as many rows as the line takes at the terminal's present width. */
#ifndef GRADWIRE_LAUNCH_BASE_SAY_H
#define GRADWIRE_LAUNCH_BASE_SAY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/log.h"

/* Look at stderr (again): on a terminal lines stand plain, elsewhere with time and level. NO_COLOR, and a TERM that is dumb
 * or not set, make a terminal an elsewhere. */
void say_init(void);
bool say_on_terminal(void);
/* Columns that the line which redraws may take, now. */
size_t say_width(void);

/* A line of the level LOG_INFO, LOG_WARN or LOG_ERROR. */
void say(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define say_info(...) say(LOG_INFO, __VA_ARGS__)
#define say_warn(...) say(LOG_WARN, __VA_ARGS__)
#define say_error(...) say(LOG_ERROR, __VA_ARGS__)

/* The line that redraws (ASCII), cut to the terminal's width; "" takes it away. Nothing elsewhere. */
void say_status(const char *text);

#endif
