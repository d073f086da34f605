/* Log lines for people, on stderr: time, level, process, text. Each line is one write, so lines of several threads
 * never mix. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* Parses "debug", "info", "warn" or "error"; any other name gives LOG_INFO. */
enum log_level log_level_of(const char *name);
/* Sets the name of this process in log lines ("worker 1"; copied) and the lowest level that is written. It also
 * opens /dev/null in place of each closed standard descriptor. Call before threads start. */
void log_init(const char *who, enum log_level least);
/* Write each line as a JSON object from now on: time, level, process, message. Call before threads start. */
void log_json(void);
/* Copies the text of the last log line above level debug, without time and process name; "" if none was written.
 * With `error` it copies the last line of level error instead, if one was written. Thread: any. */
void log_last_words(bool error, char *out, size_t bytes);

/* A copy of the last warnings and errors of this process, for its status page. */
enum { LOG_KEPT = 8, LOG_KEPT_BYTES = 240 };
struct log_kept {
    int64_t time_ms; /* since the Unix epoch */
    enum log_level level;
    char text[LOG_KEPT_BYTES]; /* truncated if longer */
};
/* Copies the last warnings and errors, the oldest first, and returns their number. Thread: any. */
uint32_t log_warnings(struct log_kept out[LOG_KEPT]);
/* The process no longer waits: forget the kept warnings about it, "waiting 10 s for ..". Thread: any. */
void log_wait_over(void);

enum { LOG_BURST = 20, LOG_BURST_MS = 10000 };

/* A limit for log lines that a peer can cause without end. Initialize it with zeros. */
struct log_budget {
    int64_t since_ms;
    uint32_t said, left_out;
};

/* Returns whether one more line can be written now: at most LOG_BURST in LOG_BURST_MS. `now_ms` is clock_now_ms's. If
 * true, *left_out is the number of lines suppressed since the last one. Thread: one for each budget. */
bool log_may(struct log_budget *b, int64_t now_ms, uint32_t *left_out);

/* Writes one line if `level` is not below log_init's. A line over 2,047 bytes is truncated. printf-like. Thread:
 * any. */
void log_at(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
