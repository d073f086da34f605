#include "worker/chief/core/journal.h"

#include <stdio.h>
#include <string.h>

#include "common/base/crc32c.h"
#include "common/base/mem.h"

void journal_close(struct journal *j)
{
    mem_free(j->entry);
    *j = (struct journal){0};
}

enum err journal_add(struct journal *j, const struct journal_entry *entry)
{
    struct journal_entry *grown = mem_extend(j->entry, j->n, 1, sizeof *grown);
    if (!grown)
        return ERR_NOMEM;
    j->entry = grown;
    j->entry[j->n++] = *entry;
    return ERR_OK;
}

enum err journal_join(struct journal *to, const struct journal *from)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < from->n && !err; i++)
        err = journal_add(to, &from->entry[i]);
    return err;
}

/* ---- counts ---- */

static bool is_batch(const struct journal_entry *entry)
{
    return entry->kind == JOURNAL_REJECTED || entry->kind == JOURNAL_RECOVERED;
}

static bool has_before(const struct journal *j, uint64_t batch, size_t end)
{
    for (size_t i = 0; i < end; i++)
        if (is_batch(&j->entry[i]) && j->entry[i].batch == batch)
            return true;
    return false;
}

bool journal_has(const struct journal *j, uint64_t batch)
{
    return has_before(j, batch, j->n);
}

bool journal_skips(const struct journal *j, uint64_t batch)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->entry[i].kind == JOURNAL_RECOVERED && j->entry[i].batch == batch)
            return true;
    return false;
}

uint64_t journal_rejected(const struct journal *j)
{
    uint64_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += is_batch(&j->entry[i]) && !has_before(j, j->entry[i].batch, i);
    return n;
}

uint32_t journal_recoveries(const struct journal *j, uint64_t cut)
{
    uint32_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += j->entry[i].kind == JOURNAL_RECOVERED && j->entry[i].cut == cut;
    return n;
}

uint32_t journal_all_recoveries(const struct journal *j)
{
    uint32_t n = 0;
    for (size_t i = 0; i < j->n; i++)
        n += j->entry[i].kind == JOURNAL_RECOVERED;
    return n;
}

uint32_t journal_row(const struct journal *j, uint64_t batch)
{
    uint32_t n = 0;
    while (n < batch && journal_has(j, batch - 1 - n))
        n++;
    return n;
}

/* ---- the journal itself ---- */

void journal_one_line(struct journal_entry *entry)
{
    for (char *p = entry->what; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
}

struct journal_entry journal_name_entry(const char *name, uint64_t epochs)
{
    struct journal_entry entry = {.kind = JOURNAL_NAME, .batch = epochs, .cut = UINT64_MAX};
    (void)snprintf(entry.what, sizeof entry.what, "%s", name);
    return entry;
}

/* The text of the i-th entry of this kind; NULL: there are no more. */
static const char *text_of(const struct journal *j, enum journal_kind kind, size_t i)
{
    for (size_t k = 0; k < j->n; k++)
        if (j->entry[k].kind == kind && i-- == 0)
            return j->entry[k].what;
    return NULL;
}

const char *journal_name(const struct journal *j)
{
    const char *name = text_of(j, JOURNAL_NAME, 0);
    return name ? name : "";
}

uint64_t journal_named_epochs(const struct journal *j)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->entry[i].kind == JOURNAL_NAME)
            return j->entry[i].batch;
    return 0;
}

const char *journal_inexact(const struct journal *j)
{
    return text_of(j, JOURNAL_INEXACT, 0);
}

/* ---- lines that others know ---- */

static uint32_t crc_add(uint32_t crc, const struct journal_entry *entry)
{
    const uint64_t number[] = {(uint64_t)entry->kind, entry->batch, entry->generation, entry->cut};
    return crc32c(crc32c(crc, number, sizeof number), entry->what, strlen(entry->what) + 1);
}

struct journal_lines journal_lines(const struct journal *j, uint64_t n)
{
    struct journal_lines lines = {.n = n};
    for (uint64_t i = 0; i < n; i++)
        lines.crc = crc_add(lines.crc, &j->entry[i]);
    return lines;
}

bool journal_begins_with(const struct journal *j, struct journal_lines lines)
{
    return lines.n <= j->n && journal_lines(j, lines.n).crc == lines.crc;
}

/* ---- OpenBLAS's kernels ---- */

enum { BLAS_CHARACTERS = 63 };

struct journal_entry journal_blas_entry(const char *process, const char *blas)
{
    struct journal_entry entry = {.kind = JOURNAL_BLAS, .cut = UINT64_MAX};
    (void)snprintf(entry.what, sizeof entry.what, "%s: %.*s", process, BLAS_CHARACTERS, blas);
    journal_one_line(&entry);
    return entry;
}

bool journal_has_blas(const struct journal *j, const struct journal_entry *entry)
{
    const char *what;
    for (size_t i = 0; (what = text_of(j, JOURNAL_BLAS, i)); i++)
        if (strcmp(what, entry->what) == 0)
            return true;
    return false;
}

const char *journal_blas(const struct journal *j, size_t i)
{
    return text_of(j, JOURNAL_BLAS, i);
}

static const char *kernels_of(const char *what)
{
    const char *end = strstr(what, ": ");
    return end ? end + 2 : what;
}

const char *journal_blas_other(const struct journal *j, const char *blas)
{
    const char *what;
    for (size_t i = 0; (what = journal_blas(j, i)); i++)
        if (strcmp(kernels_of(what), blas) != 0)
            return what;
    return NULL;
}

bool journal_blas_same(const struct journal *j)
{
    const char *first = journal_blas(j, 0);
    return !first || !journal_blas_other(j, kernels_of(first));
}
