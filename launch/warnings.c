#include "launch/warnings.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- equal warnings ---- */

static bool word_before(const char *text, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at >= n && strncmp(text + at - n, word, n) == 0;
}

static bool word_behind(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && !isalnum((unsigned char)text[n]);
}

static bool is_port(const char *text, size_t at)
{
    return at > 1 && text[at - 1] == ':' &&
           (isdigit((unsigned char)text[at - 2]) || text[at - 2] == ']');
}

/* True: warnings that differ only in the number text[at, end) are the same. */
static bool number_changes(const char *text, size_t at, size_t end)
{
    return is_port(text, at) || word_before(text, at, "step ") || word_before(text, at, "batch ") ||
           word_behind(text + end, " s") || word_behind(text + end, " more") ||
           word_behind(text + end, " since");
}

/* 64-bit FNV-1a over the text without the numbers that can differ. */
uint64_t warnings_key(const char *text)
{
    uint64_t key = 0xCBF29CE484222325;
    for (size_t at = 0, end; text[at]; at = end) {
        size_t digits = strspn(text + at, "0123456789");
        end = at + (digits ? digits : 1);
        if (digits && number_changes(text, at, end))
            continue;
        for (size_t i = at; i < end; i++)
            key = (key ^ (unsigned char)text[i]) * 0x100000001B3;
    }
    return key ? key : 1;
}

/* The remembered warning with this key, or the entry to use for it. */
static struct warning *warnings_kept(struct warnings *w, uint64_t key)
{
    struct warning *oldest = w->kept;
    for (struct warning *k = w->kept; k < w->kept + WARNINGS_KEPT; k++) {
        if (k->key == key || k->key == 0)
            return k;
        if (k->heard_ms < oldest->heard_ms)
            oldest = k;
    }
    return oldest;
}

/* Note the warning. True: it was not logged for WARNINGS_QUIET_MS. */
static bool warnings_is_news(struct warnings *w, uint64_t key, int64_t now_ms)
{
    struct warning *k = warnings_kept(w, key);
    bool news = k->key != key || now_ms - k->heard_ms >= WARNINGS_QUIET_MS;
    *k = (struct warning){.key = key, .heard_ms = now_ms};
    return news;
}

/* ---- lines to show ---- */

static void held_add(struct warning_held *h, const char *name)
{
    size_t n = strlen(h->names);
    if (strcmp(h->last, name) == 0)
        return;
    (void)snprintf(h->last, sizeof h->last, "%s", name);
    if (h->named == WARNINGS_NAMED) {
        h->more++;
        return;
    }
    (void)snprintf(h->names + n, sizeof h->names - n, "%s%s", n ? ", " : "", name);
    h->named++;
}

static struct warning_held *warnings_held(struct warnings *w, uint64_t key)
{
    for (uint32_t i = 0; i < w->n_held; i++)
        if (w->held[i].key == key)
            return &w->held[i];
    return NULL;
}

void warnings_hear(struct warnings *w, const char *name, const char *text, int64_t now_ms)
{
    uint32_t left_out = 0;
    uint64_t key = warnings_key(text);
    bool news = warnings_is_news(w, key, now_ms);
    struct warning_held *h = warnings_held(w, key);
    if (!h && !news)
        return;
    if (!h && w->n_held < WARNINGS_HELD && log_may(&w->budget, now_ms, &left_out)) {
        h = &w->held[w->n_held++];
        *h = (struct warning_held){.key = key};
        (void)snprintf(h->text, sizeof h->text, "%s", text);
        w->left_out += left_out;
    } else if (!h && w->n_held == WARNINGS_HELD) {
        w->left_out++;
    }
    if (h)
        held_add(h, name);
    assert(w->n_held <= WARNINGS_HELD);
}

bool warnings_take(struct warnings *w, char out[WARNINGS_LINE_BYTES])
{
    if (w->left_out) {
        (void)snprintf(out, WARNINGS_LINE_BYTES,
                       "%u more warnings are in the logs of the processes", w->left_out);
        w->left_out = 0;
        return true;
    }
    if (w->n_held == 0)
        return false;
    const struct warning_held *h = &w->held[0];
    if (h->more)
        (void)snprintf(out, WARNINGS_LINE_BYTES, "%s and %u more: %s", h->names, h->more, h->text);
    else
        (void)snprintf(out, WARNINGS_LINE_BYTES, "%s: %s", h->names, h->text);
    w->n_held--;
    memmove(w->held, w->held + 1, w->n_held * sizeof *w->held);
    return true;
}
