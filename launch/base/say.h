/* What the launcher tells on stderr: lines, and on a terminal one line that redraws below them. */
#ifndef GRADWIRE_LAUNCH_BASE_SAY_H
#define GRADWIRE_LAUNCH_BASE_SAY_H

#include <stdbool.h>

#include "common/base/err.h"

/* Look at stderr (again): on a terminal lines stand plain, elsewhere with time and level. */
void say_init(void);
bool say_on_terminal(void);

void say_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void say_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void say_error(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* The line that redraws, cut to the terminal's width; "" takes it away. Nothing elsewhere. */
void say_status(const char *text);

#endif
