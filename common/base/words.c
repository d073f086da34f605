#include "common/base/words.h"

#include <string.h>
#include <strings.h>

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

unsigned words_distance(const char *a, const char *b)
{
    size_t na = strnlen(a, WORDS_BYTES_MAX + 1), nb = strnlen(b, WORDS_BYTES_MAX + 1);
    if (na > WORDS_BYTES_MAX || nb > WORDS_BYTES_MAX)
        return WORDS_FAR;
    /* row i of the matrix, for the prefix of `a` of i bytes, is row[i % 3] */
    unsigned row[3][WORDS_BYTES_MAX + 1];
    for (unsigned j = 0; j <= nb; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= na; i++) {
        unsigned *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (unsigned j = 1; j <= nb; j++) {
            unsigned other = a[i - 1] != b[j - 1];
            now[j] = min3(before[j] + 1, now[j - 1] + 1, before[j - 1] + other);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_before[j - 2] + 1 < now[j])
                now[j] = two_before[j - 2] + 1;
        }
    }
    return row[na % 3][nb];
}

void words_init(struct words *w, const char *word)
{
    size_t n = strlen(word);
    unsigned near = n < 3 ? 1 : n < 8 ? 2 : n < 32 ? (unsigned)n / 3 : 10;
    *w = (struct words){.word = word, .best = NULL, .distance = near + 1};
}

void words_init_name(struct words *w, const char *name)
{
    *w = (struct words){
        .word = name, .names = true, .distance = (unsigned)((strnlen(name, 64) + 1) / 4 + 1)};
}

static const char *skip_digits(const char *s)
{
    return s + strspn(s, "0123456789");
}

/* True if the words are equal without their digits, and not with them. */
static bool differ_in_digits(const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return false;
    for (a = skip_digits(a), b = skip_digits(b); *a && *a == *b;) {
        a = skip_digits(a + 1);
        b = skip_digits(b + 1);
    }
    return *a == *b;
}

void words_try(struct words *w, const char *candidate)
{
    if (w->names && differ_in_digits(w->word, candidate))
        return;
    unsigned d = strcasecmp(w->word, candidate) == 0 ? 0 : words_distance(w->word, candidate);
    if (d < w->distance && d < strlen(candidate)) {
        w->distance = d;
        w->best = candidate;
    }
}
