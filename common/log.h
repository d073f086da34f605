/* Log lines for people, on stderr: time, level, who, text. One write per line, so lines never mix. */
#ifndef GRADWIRE_COMMON_LOG_H
#define GRADWIRE_COMMON_LOG_H

#include "common/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* "debug", "info", "warn", "error"; anything else is LOG_INFO. */
enum log_level log_level_of(const char *name);
/* Who speaks ("worker 1"), copied; and the least level that is written. Call before threads start. */
void log_init(const char *who, enum log_level least);

void log_debug(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_info(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *fmt, ...) PRINTF_LIKE(1, 2);
void log_error(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif
