/* Reads the text of --fault, and says for a batch, a checkpoint or a number of bytes whether the fault concerns it, and how long it
 * lasts. */
#include "common/process/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"

static bool read_nan(struct fault *f, const char *text)
{
    int end = -1;
    uint64_t first, last;
    if (sscanf(text, "nan:%" SCNu64 "%n", &first, &end) == 1 && end > 0 && !text[end])
        last = first;
    else if (sscanf(text, "nan:%" SCNu64 "-%" SCNu64 "%n", &first, &last, &end) != 2 || end < 0 ||
             text[end] || last < first)
        return false;
    *f = (struct fault){.kind = FAULT_NAN, .first = first, .last = last};
    return true;
}

/* Parses "WORD:NUMBER" with 0 < number <= most. */
static bool read_number(const char *text, const char *word, double most, double *out)
{
    size_t n = strlen(word);
    if (strncmp(text, word, n) != 0 || text[n] != ':')
        return false;
    char *end;
    const char *number = text + n + 1;
    double value = strtod(number, &end);
    if (end == number || *end || !(value > 0 && value <= most))
        return false;
    *out = value;
    return true;
}

static bool read_straggle(struct fault *f, const char *text)
{
    double number;
    if (read_number(text, "straggle", 1000, &number))
        *f = (struct fault){.kind = FAULT_STRAGGLE, .factor = number};
    else if (read_number(text, "sleep", 60, &number))
        *f = (struct fault){.kind = FAULT_SLEEP, .sleep_s = number};
    else
        return false;
    return true;
}

static bool read_of_ps(struct fault *f, const char *text)
{
    int disk = -1, eio = -1;
    uint64_t n;
    if (sscanf(text, "disk:%" SCNu64 "%n", &n, &disk) == 1 && !text[disk] && n)
        *f = (struct fault){.kind = FAULT_DISK, .factor = (double)n};
    else if (sscanf(text, "eio:%" SCNu64 "%n", &n, &eio) == 1 && !text[eio])
        *f = (struct fault){.kind = FAULT_EIO, .first = n};
    else
        return false;
    return true;
}

enum err fault_parse(struct fault *f, const char *text, struct errmsg *e)
{
    if (!*text) {
        *f = (struct fault){.kind = FAULT_NONE};
        return ERR_OK;
    }
    if (read_nan(f, text) || read_straggle(f, text) || read_of_ps(f, text))
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "--fault: '%.80s' is not allowed; allowed, for tests and benchmarks: nan:BATCH, "
                   "nan:FIRST-LAST, straggle:FACTOR (above 0, up to 1000), sleep:SECONDS (above 0, "
                   "up to 60); for a ps disk:BYTES (per second), eio:CHECKPOINT",
                   text);
}

bool fault_delays(const struct fault *f)
{
    return f->kind == FAULT_STRAGGLE || f->kind == FAULT_SLEEP;
}

bool fault_breaks(const struct fault *f, uint64_t batch)
{
    return f->kind == FAULT_NAN && batch >= f->first && batch <= f->last;
}

bool fault_hides(const struct fault *f, uint64_t cut)
{
    return f->kind == FAULT_EIO && f->first == cut;
}

bool fault_is_of_ps(const struct fault *f)
{
    return f->kind == FAULT_DISK || f->kind == FAULT_EIO;
}

double fault_sleep_s(struct fault *f, double took_s)
{
    if (f->kind != FAULT_STRAGGLE)
        return f->kind == FAULT_SLEEP ? f->sleep_s : 0;
    f->took_s[f->taken++ % FAULT_TIMES] = took_s;
    uint32_t n = f->taken < FAULT_TIMES ? f->taken : FAULT_TIMES;
    double sorted[FAULT_TIMES];
    memcpy(sorted, f->took_s, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, real_order);
    return f->factor * sorted[n / 2];
}

double fault_disk_s(const struct fault *f, uint64_t bytes)
{
    return f->kind == FAULT_DISK ? (double)bytes / f->factor : 0;
}
