#include "data/text/csv_scan.h"

#include <string.h>

#include "common/math/kernels.h"
#include "common/math/simd.h"

enum { BLOCK = 64 };

#define INLINE static inline __attribute__((always_inline))

struct scan {
    const struct csv_grammar *g;
    const char *text;
    size_t bytes;
    size_t known; /* `bytes`, and those behind them that show whether a comment begins */
    bool rows;    /* a mark is the end of a row */
    bool odd;     /* not neat, as csv_scan_neat says */
    enum csv_place place;
    struct csv_findings found;
};

static struct scan begin(const char *text, size_t bytes, const struct csv_grammar *g)
{
    return (struct scan){.g = g,
                         .text = text,
                         .bytes = bytes,
                         .known = bytes,
                         .place = PLACE_ROW,
                         .found = {.quote = bytes, .cr = bytes}};
}

/* ---- a byte at a time: the rules ---- */

static bool begins_comment(const struct scan *s, size_t at)
{
    size_t n = s->g->comment_bytes;
    return n > 0 && s->known - at >= n && memcmp(s->text + at, s->g->comment, n) == 0;
}

/* The place after byte c, in a field without quotes or directly after its quotes. */
static enum csv_place after_byte(struct scan *s, size_t at, char c)
{
    if (c == '\n')
        return PLACE_ROW;
    if (c == s->g->delimiter)
        return PLACE_START;
    if (c == '\r' && s->found.cr == s->bytes)
        s->found.cr = at;
    return PLACE_FIELD;
}

static enum csv_place after_first(struct scan *s, size_t at, char c)
{
    if (s->g->trim && csv_is_blank(s->g, c))
        return PLACE_START;
    if (!s->g->quotes || c != '"')
        return s->g->escape && c == s->g->escape ? PLACE_ESCAPED : after_byte(s, at, c);
    s->found.quote = at;
    return PLACE_QUOTED;
}

static enum csv_place next_place(struct scan *s, size_t at)
{
    const char c = s->text[at];
    const bool escape = s->g->escape && c == s->g->escape;
    switch (s->place) {
    case PLACE_ROW:
        if (begins_comment(s, at))
            return c == '\n' ? PLACE_ROW : PLACE_COMMENT;
        return after_first(s, at, c);
    case PLACE_START:
        return after_first(s, at, c);
    case PLACE_FIELD:
        return escape ? PLACE_ESCAPED : after_byte(s, at, c);
    case PLACE_QUOTED:
        return escape ? PLACE_QUOTED_ESCAPED : c == '"' ? PLACE_AFTER_QUOTE : PLACE_QUOTED;
    case PLACE_AFTER_QUOTE:
        return c == '"' ? PLACE_QUOTED : after_byte(s, at, c);
    case PLACE_COMMENT:
        return c == '\n' ? PLACE_ROW : PLACE_COMMENT;
    case PLACE_ESCAPED:
        return PLACE_FIELD;
    case PLACE_QUOTED_ESCAPED:
        return PLACE_QUOTED;
    }
    return PLACE_FIELD;
}

/* The marks of at most BLOCK bytes: each place that begins a field comes after one. */
static uint64_t marks_by_byte(struct scan *s, size_t from, size_t to)
{
    uint64_t marks = 0;
    for (size_t i = from; i < to; i++) {
        s->place = next_place(s, i);
        bool ends =
            s->place == PLACE_ROW || (s->place == PLACE_START && s->text[i] == s->g->delimiter);
        marks |= (uint64_t)ends << (i - from);
    }
    return marks;
}

size_t csv_scan_row(const char *text, size_t bytes, const struct csv_grammar *g)
{
    struct scan s = begin(text, bytes, g);
    for (size_t i = 0; i < bytes; i++) {
        s.place = next_place(&s, i);
        if (s.place == PLACE_ROW)
            return i + 1;
    }
    return 0;
}

struct csv_findings csv_scan_findings(const char *text, size_t bytes, const struct csv_grammar *g)
{
    struct scan s = begin(text, bytes, g);
    for (size_t i = 0; i < bytes; i++)
        s.found.marks += marks_by_byte(&s, i, i + 1);
    bool quoted = s.place == PLACE_QUOTED || s.place == PLACE_QUOTED_ESCAPED;
    s.found.escape = s.place == PLACE_ESCAPED || s.place == PLACE_QUOTED_ESCAPED;
    s.found.quote = quoted ? s.found.quote : bytes;
    return s.found;
}

/* ---- a block at a time, where its quotes are in their usual places ---- */

/* A bit for each byte of a block. */
struct masks {
    uint64_t delimiter, newline, quote;
    uint64_t blank;   /* with trim only */
    uint64_t escape;  /* with escape only */
    uint64_t comment; /* the first byte of a comment's beginning */
};

/* Bit i is the parity of bits 0 to i. */
INLINE uint64_t parity_so_far(uint64_t m)
{
    for (int shift = 1; shift < BLOCK; shift *= 2)
        m ^= m << shift;
    return m;
}

/* The places at which a field begins: after marks, and after the blanks that follow marks. *on: the last blank of the
 * block is one of these. */
INLINE uint64_t field_starts(uint64_t after_marks, uint64_t blank, bool *on)
{
    uint64_t beyond, runs = after_marks & blank;
    *on = __builtin_add_overflow(blank, runs, &beyond);
    return after_marks | (beyond & ~blank);
}

INLINE enum csv_place place_after(const struct masks *m, uint64_t marks, bool on)
{
    const uint64_t last = UINT64_C(1) << (BLOCK - 1);
    if (marks & last)
        return m->newline & last ? PLACE_ROW : PLACE_START;
    return on ? PLACE_START : PLACE_FIELD;
}

/* True if each of these bytes from p on is the CR of a line end. */
static bool are_returns(const struct scan *s, const char *p, uint64_t bytes)
{
    for (; bytes; bytes &= bytes - 1) {
        const char *at = p + __builtin_ctzll(bytes);
        if (*at != '\r' || at + 1 == s->text + s->bytes || at[1] != '\n')
            return false;
    }
    return true;
}

/* The marks of a block, at p, in which each quote opens a field, closes one, or is one of two in quotes, and in which no
 * comment begins and nothing is escaped. False: it is another block. valid: its bytes, of which the last block has fewer. */
INLINE bool marks_of_block(struct scan *s, const char *p, const struct masks *m, uint64_t valid,
                           uint64_t *out)
{
    const uint64_t inside = s->place == PLACE_QUOTED ? ~UINT64_C(0) : 0;
    const uint64_t quoted = m->quote ? parity_so_far(m->quote) ^ inside : inside;
    const uint64_t marks = (m->delimiter | m->newline) & ~quoted & valid;
    const bool row = s->place == PLACE_ROW, start = row || s->place == PLACE_START;
    bool on = false;
    uint64_t starts = field_starts(marks << 1 | start, m->blank, &on);
    uint64_t again = (m->quote & ~quoted) << 1 | (s->place == PLACE_AFTER_QUOTE);
    uint64_t rows = (marks & m->newline) << 1 | row;
    if (s->place > PLACE_FIELD && s->place != PLACE_QUOTED && s->place != PLACE_AFTER_QUOTE)
        return false;
    if (m->escape | (m->quote & quoted & ~(starts | again)) | (m->comment & rows))
        return false;
    s->odd = s->odd || !are_returns(s, p, again & valid & ~marks); /* also of doubled quotes */
    if (quoted >> (BLOCK - 1))
        s->place = PLACE_QUOTED;
    else if (m->quote >> (BLOCK - 1))
        s->place = PLACE_AFTER_QUOTE;
    else
        s->place = place_after(m, marks, on);
    *out = marks;
    return true;
}

/* Four at a time: to store some in vain takes less than to predict wrongly how many there are. */
INLINE uint32_t *positions(uint32_t *at, uint64_t marks, uint32_t first)
{
    const uint64_t none = UINT64_C(1) << (BLOCK - 1);
    uint32_t *end = at + __builtin_popcountll(marks);
    for (; at < end; at += 4)
        for (int i = 0; i < 4; i++, marks &= marks - 1)
            at[i] = first + (uint32_t)__builtin_ctzll(marks | none);
    return end;
}

/* Neither quotes nor escapes: each delimiter and each newline is a mark. */
#define SCAN_PLAIN(name, target, equal)                                                            \
    target static size_t name(uint32_t *at, const char *text, size_t bytes, char delimiter)        \
    {                                                                                              \
        uint32_t *first = at;                                                                      \
        for (size_t i = 0; i < bytes; i += BLOCK) {                                                \
            uint64_t marks = equal(text + i, delimiter) | equal(text + i, '\n');                   \
            if (bytes - i < BLOCK)                                                                 \
                marks &= (UINT64_C(1) << (bytes - i)) - 1;                                         \
            at = positions(at, marks, (uint32_t)i);                                                \
        }                                                                                          \
        return (size_t)(at - first);                                                               \
    }

#define SCAN(name, target, equal)                                                                  \
    target static size_t name(uint32_t *at, struct scan *s)                                        \
    {                                                                                              \
        const struct csv_grammar *g = s->g;                                                        \
        const char comment = g->comment_bytes ? *g->comment : '\0';                                \
        uint32_t *first = at;                                                                      \
        for (size_t i = 0; i < s->bytes; i += BLOCK) {                                             \
            const char *p = s->text + i;                                                           \
            uint64_t marks = 0;                                                                    \
            struct masks m = {equal(p, g->delimiter), equal(p, '\n'), 0, 0, 0, 0};                 \
            m.quote = g->quotes ? equal(p, '"') : 0;                                               \
            m.blank = g->trim ? (equal(p, ' ') | equal(p, '\t')) & ~m.delimiter : 0;               \
            m.escape = g->escape ? equal(p, g->escape) : 0;                                        \
            m.comment = g->comment_bytes ? equal(p, comment) : 0;                                  \
            const size_t left = s->bytes - i;                                                      \
            const uint64_t valid = left < BLOCK ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);        \
            m.quote &= valid;                                                                      \
            m.escape &= valid;                                                                     \
            m.comment &= valid;                                                                    \
            if ((s->rows && left < BLOCK) || /* at its end, the place is asked for */              \
                !marks_of_block(s, p, &m, valid, &marks)) {                                        \
                marks = marks_by_byte(s, i, left < BLOCK ? s->bytes : i + BLOCK);                  \
                s->odd = true;                                                                     \
            }                                                                                      \
            at = positions(at, s->rows ? marks & m.newline : marks, (uint32_t)i);                  \
        }                                                                                          \
        return (size_t)(at - first);                                                               \
    }

SCAN_PLAIN(plain_base, , simd_equal_base)
SCAN(scan_base, , simd_equal_base)
#if SIMD_X86
SCAN_PLAIN(plain_avx2, __attribute__((target("avx2"))), simd_equal_avx2)
SCAN_PLAIN(plain_avx512, __attribute__((target("avx512f,avx512bw"))), simd_equal_avx512)
SCAN(scan_avx2, __attribute__((target("avx2"))), simd_equal_avx2)
SCAN(scan_avx512, __attribute__((target("avx512f,avx512bw"))), simd_equal_avx512)
#endif

static size_t scan(uint32_t *at, struct scan *s)
{
    const bool plain = csv_is_plain(s->g) && !s->rows;
#if SIMD_X86
    if (kernels() == &kernels_avx512)
        return plain ? plain_avx512(at, s->text, s->bytes, s->g->delimiter) : scan_avx512(at, s);
    if (kernels() == &kernels_avx2)
        return plain ? plain_avx2(at, s->text, s->bytes, s->g->delimiter) : scan_avx2(at, s);
#endif
    return plain ? plain_base(at, s->text, s->bytes, s->g->delimiter) : scan_base(at, s);
}

size_t csv_scan(uint32_t *at, const char *text, size_t bytes, const struct csv_grammar *g)
{
    bool neat;
    return csv_scan_neat(at, text, bytes, g, &neat);
}

size_t csv_scan_neat(uint32_t *at, const char *text, size_t bytes, const struct csv_grammar *g,
                     bool *neat)
{
    struct scan s = begin(text, bytes, g);
    const size_t n = scan(at, &s);
    *neat = !s.odd;
    return n;
}

size_t csv_scan_rows(uint32_t *at, const char *text, size_t bytes, size_t more,
                     const struct csv_grammar *g, enum csv_place *place)
{
    struct scan s = begin(text, bytes, g);
    s.known += more;
    s.rows = true;
    s.place = *place;
    const size_t n = scan(at, &s);
    *place = s.place;
    return n;
}

/* Of `blocks` blocks. */
#define COUNT(name, target, equal)                                                                 \
    target static size_t name(const char *text, size_t blocks, char byte)                          \
    {                                                                                              \
        size_t n = 0;                                                                              \
        for (; blocks--; text += BLOCK)                                                            \
            n += (size_t)__builtin_popcountll(equal(text, byte));                                  \
        return n;                                                                                  \
    }

#if SIMD_X86
COUNT(count_avx2, __attribute__((target("avx2,popcnt"))), simd_equal_avx2)
COUNT(count_avx512, __attribute__((target("avx512f,avx512bw,popcnt"))), simd_equal_avx512)
#endif

size_t csv_count(const char *text, size_t bytes, char byte)
{
    size_t n = 0, done = 0;
#if SIMD_X86
    const size_t blocks = bytes / BLOCK;
    if (kernels() != &kernels_base) {
        n = (kernels() == &kernels_avx512 ? count_avx512 : count_avx2)(text, blocks, byte);
        done = blocks * BLOCK;
    }
#endif
    while (done < bytes) { /* in runs whose count fits a byte of each lane */
        size_t run = bytes - done < 4096 ? bytes - done : 4096;
        uint32_t here = 0;
        for (size_t i = 0; i < run; i++)
            here += text[done + i] == byte;
        n += here;
        done += run;
    }
    return n;
}

bool csv_is_escaped(const char *begin, const char *at, char escape)
{
    size_t n = 0;
    while (escape && at - n > begin && at[-1 - (ptrdiff_t)n] == escape)
        n++;
    return n % 2;
}

size_t csv_without_return(const struct csv_grammar *g, const char *text, size_t bytes)
{
    bool is =
        bytes && text[bytes - 1] == '\r' && !csv_is_escaped(text, text + bytes - 1, g->escape);
    return bytes - is;
}
