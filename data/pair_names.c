#include "data/pair_names.h"

#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* The bytes that all names of a list begin and end with. Neither ends within a number. */
struct stem {
    size_t head, tail;
};

static size_t common_head(const char *a, const char *b, size_t most)
{
    size_t n = 0;
    while (n < most && a[n] && lower(a[n]) == lower(b[n]))
        n++;
    return n;
}

static size_t common_tail(const char *a, const char *b, size_t most)
{
    const char *p = a + strlen(a), *q = b + strlen(b);
    size_t n = 0;
    while (n < most && p > a && q > b && lower(p[-1]) == lower(q[-1])) {
        p--;
        q--;
        n++;
    }
    return n;
}

static struct stem stem_of(const char *const *name, size_t n)
{
    size_t shortest = strlen(name[0]), bytes = shortest;
    struct stem s = {bytes, bytes};
    for (size_t i = 1; i < n; i++) {
        s.head = common_head(name[0], name[i], s.head);
        s.tail = common_tail(name[0], name[i], s.tail);
        shortest = strlen(name[i]) < shortest ? strlen(name[i]) : shortest;
    }
    while (s.head > 0 && is_digit(name[0][s.head - 1]))
        s.head--;
    s.tail = s.tail < shortest - s.head ? s.tail : shortest - s.head;
    while (s.tail > 0 && is_digit(name[0][bytes - s.tail]))
        s.tail--;
    return s;
}

static struct pair_name without_stem(const char *name, struct stem s)
{
    return (struct pair_name){name + s.head, strlen(name) - s.head - s.tail};
}

/* Go to the first digit of a number that is not 0. */
static const char *skip_zeros(const char *at, const char *end)
{
    while (at + 1 < end && *at == '0' && is_digit(at[1]))
        at++;
    return at;
}

static bool agree(struct pair_name a, struct pair_name b)
{
    const char *p = a.text, *q = b.text, *p_end = p + a.bytes, *q_end = q + b.bytes;
    bool within = false; /* a number: its zeros count */
    while (p < p_end && q < q_end) {
        p = within ? p : skip_zeros(p, p_end);
        q = within ? q : skip_zeros(q, q_end);
        if (lower(*p) != lower(*q))
            return false;
        within = is_digit(*p);
        p++;
        q++;
    }
    return p == p_end && q == q_end;
}

/* Does a name of the list agree with it? */
static bool is_among(const char *const *name, size_t n, struct stem s, struct pair_name with)
{
    for (size_t i = 0; i < n; i++)
        if (agree(without_stem(name[i], s), with))
            return true;
    return false;
}

size_t pair_names_differ(const char *const *rows, const char *const *labels, size_t n,
                         struct pair_name *row, struct pair_name *label)
{
    if (n < 2) /* a single name has no end of its own */
        return n;
    const struct stem of_rows = stem_of(rows, n), of_labels = stem_of(labels, n);
    size_t differs = n, same = 0;
    for (size_t i = 0; i < n; i++) {
        bool is = agree(without_stem(rows[i], of_rows), without_stem(labels[i], of_labels));
        same += is;
        differs = is || differs < n ? differs : i;
    }
    if (differs == n)
        return n;
    *row = without_stem(rows[differs], of_rows);
    *label = without_stem(labels[differs], of_labels);
    return same || is_among(labels, n, of_labels, *row) || is_among(rows, n, of_rows, *label)
               ? differs
               : n;
}
