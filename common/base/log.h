/* Log lines for people, on stderr: time, level, who, text. One write per line, so lines never mix. */
#ifndef GRADWIRE_COMMON_BASE_LOG_H
#define GRADWIRE_COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* "debug", "info", "warn", "error"; anything else is LOG_INFO. */
enum log_level log_level_of(const char *name);
/* Who speaks ("worker 1"), copied; and the least level that is written. Standard descriptors that are closed are /dev/null
 * from here on. Call before threads start. */
void log_init(const char *who, enum log_level least);
/* From here on each line is an object: time, level, process, message. Call before threads start. */
void log_json(void);
/* What this process said last: of level error, if there was one and `error` is asked for; else its last line of any
 * level above debug. Time and name are left out; "" before the first. Thread: any. */
void log_last_words(bool error, char *out, size_t bytes);

/* The last warnings and errors of this process, for people who look at it. */
enum { LOG_KEPT = 8, LOG_KEPT_BYTES = 240 };
struct log_kept {
    int64_t time_ms; /* since the epoch */
    enum log_level level;
    char text[LOG_KEPT_BYTES]; /* cut where it is longer */
};
/* The oldest first; how many. Thread: any. */
uint32_t log_warnings(struct log_kept out[LOG_KEPT]);

enum { LOG_BURST = 20, LOG_BURST_MS = 10000 };

/* Of what others may cause as often as they like. All zero at first. */
struct log_budget {
    int64_t since_ms;
    uint32_t said, left_out;
};

/* May one more line be said now? At most LOG_BURST in LOG_BURST_MS. True: *left_out is how many were not, before it.
 * Thread: one for a budget. */
bool log_may(struct log_budget *b, int64_t now_ms, uint32_t *left_out);

/* One line. */
void log_at(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

#endif
