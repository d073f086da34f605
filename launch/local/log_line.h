/* Parses a line of a process's log (common/base/log.h), in text or JSON format: level and text. No I/O. */
#ifndef GRADWIRE_LAUNCH_LOCAL_LOG_LINE_H
#define GRADWIRE_LAUNCH_LOCAL_LOG_LINE_H

#include <stdbool.h>

#include "common/base/log.h"

enum { LOG_LINE_TEXT_BYTES = 440 };

struct log_line {
    enum log_level level;
    char text[LOG_LINE_TEXT_BYTES]; /* without time, level and process; truncated to fit */
};

/* False: the line has another format, for example because a library printed it; *l is unchanged. */
bool log_line_parse(struct log_line *l, const char *line);

#endif
