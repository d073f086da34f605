/* Words of a category or a key that a reader would take for one word, or for a missing value. */
#include "data/readers.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "data/meaning/encode.h"
#include "data/text/csv_hint.h"
#include "data/text/csv_number.h"

enum {
    WORDS = 1 << 20,  /* of more the first ones */
    WORD_BYTES = 256, /* longer ones are texts */
    PLAIN_BYTES = 3 * WORD_BYTES,
    BYTE_ORDER_MARK = 0xFEFF, /* it is warned of by itself */
};

static bool is_decimal(char c)
{
    return c >= '0' && c <= '9';
}

static bool has_number_signs(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!is_decimal(text[i]) && !memchr("+-.eE", text[i], 5))
            return false;
    return true;
}

/* Write the digits of a whole number with an exponent, as R and readr write 100000: "1e+05". Returns its bytes. */
static size_t without_exponent(char text[static PLAIN_BYTES], size_t bytes)
{
    char number[32];
    double v;
    if (bytes >= sizeof number || !memchr(text, 'e', bytes))
        return bytes;
    memcpy(number, text, bytes);
    number[bytes] = '\0';
    if (!csv_number_wide(number, bytes, &v) || fabs(v) >= 0x1p53 || v != trunc(v))
        return bytes;
    return (size_t)snprintf(text, PLAIN_BYTES, "%.0f", v);
}

/* Shorten the text of a number that is whole: "01.0" to "1". Versions, as 3.1 and 3.10, are none. */
static size_t shorten_number(char *text, size_t bytes)
{
    size_t digits = 0, points = 0, zeros = 0;
    if (bytes > 1 && *text == '-')
        return 1 + shorten_number(text + 1, bytes - 1);
    for (size_t i = 0; i < bytes; i++) {
        digits += is_decimal(text[i]);
        points += text[i] == '.';
    }
    if (!digits || points > 1 || digits + points != bytes)
        return bytes;
    size_t end = bytes;
    while (points && text[end - 1] == '0')
        end--;
    if (points && end > 1 && text[end - 1] == '.')
        bytes = end - 1;
    while (zeros + 1 < bytes && text[zeros] == '0' && is_decimal(text[zeros + 1]))
        zeros++;
    memmove(text, text + zeros, bytes - zeros);
    return bytes - zeros;
}

/* Letters, each with the one that it becomes with this mark behind it: Latin ones, four Cyrillic ones, and kana. */
static const struct {
    wchar_t mark;
    const wchar_t *pairs;
} compositions[] = {
    {0x300, L"aàeèiìnǹoòuùwẁyỳâầêềôồăằơờưừ"},
    {0x301, L"aácćeégǵiílĺnńoórŕsśuúwẃyýzźâấêếôốăắơớưứ"},
    {0x302, L"aâcĉeêgĝhĥiîjĵoôsŝuûwŵyŷạậẹệọộ"},
    {0x303, L"aãeẽiĩnñoõuũyỹâẫêễôỗăẵơỡưữ"},
    {0x304, L"aāeēiīoōuū"},
    {0x306, L"aăeĕgğiĭoŏuŭạặийуў"},
    {0x307, L"cċeėgġzż"},
    {0x308, L"aäeëiïoöuüyÿеёії"},
    {0x309, L"aảeẻiỉoỏuủyỷâẩêểôổăẳơởưử"},
    {0x30A, L"aåuů"},
    {0x30B, L"oőuű"},
    {0x30C, L"aǎcčdďeěiǐlľnňoǒrřsštťuǔzž"},
    {0x31B, L"oơuư"},
    {0x323, L"aạeẹiịoọuụyỵơợưự"},
    {0x326, L"sștț"},
    {0x327, L"cçgģkķlļnņrŗsştţ"},
    {0x328, L"aąeęiįuų"},
    {0x3099,
     L"かがきぎくぐけげこごさざしじすずせぜそぞただちぢつづてでとどはばひびふぶへべほぼ"
     L"カガキギクグケゲコゴサザシジスズセゼソゾタダチヂツヅテデトドハバヒビフブヘベホボウヴ"},
    {0x309A, L"はぱひぴふぷへぺほぽハパヒピフプヘペホポ"},
};

/* The letter and the mark as one character; 0: they have none. */
static uint32_t composed(uint32_t letter, uint32_t mark)
{
    for (size_t i = 0; i < sizeof compositions / sizeof *compositions; i++)
        for (const wchar_t *p = compositions[i].pairs; *p; p += 2)
            if ((uint32_t)compositions[i].mark == mark && (uint32_t)*p == letter)
                return (uint32_t)p[1];
    return 0;
}

static bool is_mark(uint32_t code)
{
    return (code >= 0x300 && code < 0x370) || code == 0x3099 || code == 0x309A;
}

/* The character of the usual width: of ASCII in full width, and of katakana in half. */
static uint32_t usual_width(uint32_t code)
{
    static const wchar_t katakana[] =
        L"。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフ"
        L"ヘホマミムメモヤユヨラリルレロワン\x3099\x309A";
    if (code >= 0xFF01 && code <= 0xFF5E)
        return code - 0xFF01 + '!';
    return code >= 0xFF61 && code <= 0xFF9F ? (uint32_t)katakana[code - 0xFF61] : code;
}

/* Word processors write other quotes and dashes than keyboards. */
static uint32_t usual_sign(uint32_t code)
{
    if (code == 0x2018 || code == 0x2019)
        return '\'';
    if (code == 0x201C || code == 0x201D)
        return '"';
    return (code >= 0x2010 && code <= 0x2015) || code == 0x2212 ? '-' : code;
}

/* The byte of a character in Windows-1252, or in Latin-1; 0: of ASCII, or it has none. */
static uint32_t high_byte(uint32_t code)
{
    static const wchar_t windows[] = L"€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8DŽ\x8F\x90‘’“”•–—˜™š›œ\x9DžŸ";
    const wchar_t *at = code > 0xFF ? wcschr(windows, (wchar_t)code) : NULL;
    return at ? 0x80 + (uint32_t)(at - windows) : code >= 0x80 && code <= 0xFF ? code : 0;
}

/* A character of UTF-8 that was read as Windows-1252 or Latin-1, and written as UTF-8 again. Returns its bytes; 0: there is none. */
static size_t twice_encoded(const char *word, size_t bytes, uint32_t *code)
{
    enum { MOST = 4 };
    char once[MOST];
    size_t end[MOST], n = 0, at = 0, used;
    uint32_t c;
    while (n < MOST && at < bytes && (used = printable_character(word + at, bytes - at, &c)) &&
           high_byte(c)) {
        once[n] = (char)high_byte(c);
        at += used;
        end[n++] = at;
    }
    used = n ? printable_character(once, n, code) : 0;
    return used > 1 ? end[used - 1] : 0;
}

/* A character as HTML writes it. Returns its bytes; 0: there is none. */
static size_t html_entity(const char *word, size_t bytes, uint32_t *code)
{
    static const struct {
        const char *text;
        uint32_t code;
    } of[] = {{"&amp;", '&'},  {"&lt;", '<'},    {"&gt;", '>'},  {"&quot;", '"'},
              {"&#39;", '\''}, {"&apos;", '\''}, {"&nbsp;", ' '}};
    for (size_t i = 0; i < sizeof of / sizeof *of && *word == '&'; i++)
        if (bytes >= strlen(of[i].text) && memcmp(word, of[i].text, strlen(of[i].text)) == 0) {
            *code = of[i].code;
            return strlen(of[i].text);
        }
    return 0;
}

/* A character as JSON can write it: "\u00fc"; surrogates are none. Returns its bytes; 0: there is none. */
static size_t json_escape(const char *word, size_t bytes, uint32_t *code)
{
    enum { BYTES = 6 };
    char digits[5] = "", *end;
    if (bytes < BYTES || word[0] != '\\' || word[1] != 'u')
        return 0;
    memcpy(digits, word + 2, sizeof digits - 1);
    const unsigned long value = isxdigit((unsigned char)*digits) ? strtoul(digits, &end, 16) : 0;
    if (!value || *end || (value >= 0xD800 && value < 0xE000))
        return 0;
    *code = (uint32_t)value;
    return BYTES;
}

/* A blank of any width, a tab, an end of a line. */
static bool is_blank(uint32_t code)
{
    return code == ' ' || (code >= '\t' && code <= '\r') || code == 0x85 || code == 0xA0 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
           code == 0x202F || code == 0x205F || code == 0x3000;
}

/* Append the character's bits, 7 in a byte. */
static size_t append(char *out, size_t n, uint32_t code)
{
    for (; code > 0x7F; code >>= 7)
        out[n++] = (char)(code | 0x80);
    out[n++] = (char)code;
    return n;
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* The code of a byte that is no UTF-8: as Latin-1 has it if it is a letter there and no byte of several, otherwise one beyond all
 * characters. */
static uint32_t byte_code(const char *word, size_t at, size_t bytes)
{
    const uint32_t code = (unsigned char)word[at];
    const bool letter = code >= 0xC0 && (at == 0 || is_ascii(word[at - 1])) &&
                        (at + 1 == bytes || is_ascii(word[at + 1]));
    return letter ? code : 0x110000 + code;
}

/* The character at a place, as it was meant. Returns its bytes. */
static size_t meant_character(const char *word, size_t at, size_t bytes, uint32_t *code)
{
    size_t used = twice_encoded(word + at, bytes - at, code);
    used = used ? used : html_entity(word + at, bytes - at, code);
    used = used ? used : json_escape(word + at, bytes - at, code);
    used = used ? used : printable_character(word + at, bytes - at, code);
    *code = used ? usual_sign(*code) : byte_code(word, at, bytes);
    return used ? used : 1;
}

/* Of all letters where the system has C.UTF-8, else of ASCII's; "C" takes no memory. */
static locale_t lower_case(void)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    return l ? l : newlocale(LC_CTYPE_MASK, "C", NULL);
}

/* The word without what is easily overlooked. Case alone tells codes of one letter apart. */
static size_t plain_word(char out[static PLAIN_BYTES], const char *word, size_t bytes, locale_t l)
{
    size_t n = 0, last = 0, used;
    uint32_t before = 0, code;
    (void)csv_hint_trim(&word, &bytes);
    for (size_t i = 0; i < bytes; i += used) {
        used = meant_character(word, i, bytes, &code);
        code = is_blank(code) ? ' ' : usual_width(code);
        const bool again = code == ' ' && (n == 0 || before == ' ');
        if (again || (printable_is_unseen(code) && !is_mark(code) && code != BYTE_ORDER_MARK))
            continue;
        if (used < bytes)
            code = (uint32_t)towlower_l((wint_t)code, l);
        const uint32_t whole = is_mark(code) ? composed(before, code) : 0;
        n = whole ? last : n;
        last = n;
        before = whole ? whole : code;
        n = append(out, n, before);
    }
    n -= before == ' ';
    if (n > 2 && (*out == '"' || *out == '\'') && before == (uint32_t)*out) {
        n -= 2;
        memmove(out, out + 1, n);
    }
    return n;
}

/* Exponents count among numbers alone: ids of hex digits look as if they had some. */
static size_t equal_word(char out[static PLAIN_BYTES], const char *word, size_t bytes, bool numbers,
                         locale_t l)
{
    bytes = plain_word(out, word, bytes, l);
    return shorten_number(out, numbers ? without_exponent(out, bytes) : bytes);
}

static const char *shown(char out[static PRINTABLE_NAME_BYTES], const struct vocabulary *v,
                         uint32_t number)
{
    size_t bytes;
    const char *word = vocabulary_text(v, number, &bytes);
    return printable_name(out, word, bytes);
}

/* The number of words that are so, and in *first the first of them. */
static uint32_t count_words(const struct vocabulary *words, bool (*is)(const char *, size_t),
                            uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < words->count; i++) {
        size_t bytes;
        const char *word = vocabulary_text(words, i, &bytes);
        if (is(word, bytes) && n++ == 0)
            *first = i;
    }
    return n;
}

static enum err note_equal(const struct reading *r, const char *name,
                           const struct vocabulary *words)
{
    struct vocabulary plain = {.count = 0};
    uint32_t last = words->count < WORDS ? words->count : WORDS, equal = 0, pair[2] = {0};
    uint32_t *first = mem_zalloc((size_t)last + 1, sizeof *first); /* of each plain word */
    uint32_t number_at;
    const bool numbers =
        words->count - count_words(words, has_number_signs, &number_at) <= 1 + words->count / 10;
    locale_t lower = lower_case();
    enum err err = first ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; i < last && !err; i++) {
        char text[PLAIN_BYTES];
        size_t bytes;
        uint32_t number;
        const char *word = vocabulary_text(words, i, &bytes);
        if (bytes > WORD_BYTES)
            continue;
        bytes = equal_word(text, word, bytes, numbers, lower);
        const uint32_t before = plain.count;
        err = vocabulary_add(&plain, text, bytes, &number);
        if (err)
            break;
        if (plain.count > before) {
            first[number] = i;
        } else if (equal++ == 0) {
            pair[0] = first[number];
            pair[1] = i;
        }
    }
    if (equal)
        dataset_warn(
            r,
            "%s: column %s: \"%s\" and \"%s\" are two words; %u of %u words differ from "
            "an earlier one in blanks%s, invisible characters, case, quotes, dashes, HTML, bytes "
            "of a letter (NFC, Latin-1, UTF-8 twice, \\u00fc), zeros or exponent of a number "
            "alone; if they "
            "mean the same, write them equally in the files",
            r->key, SHOWN(name), shown((char[PRINTABLE_NAME_BYTES]){""}, words, pair[0]),
            shown((char[PRINTABLE_NAME_BYTES]){""}, words, pair[1]), equal, last,
            r->job->data.format == DATA_PARQUET ? "" : " (data.trim)");
    vocabulary_close(&plain);
    freelocale(lower);
    mem_free(first);
    return err;
}

/* A text of data.missing with a comma was likely meant as several. */
static const char *text_with_comma(const struct vocabulary *missing, size_t *bytes)
{
    for (uint32_t i = 0; i < missing->count; i++) {
        const char *text = vocabulary_text(missing, i, bytes);
        if (*bytes > 1 && memchr(text, ',', *bytes))
            return text;
    }
    return NULL;
}

static void note_markers(const struct reading *r, const char *name, const struct vocabulary *words,
                         const struct vocabulary *missing)
{
    char list[CSV_HINT_MARKERS * 16] = "", hint[PRINTABLE_NAME_BYTES + 80] = "";
    size_t n = 0, bytes;
    for (size_t i = 0; i < CSV_HINT_MARKERS; i++) {
        const char *marker = csv_hint_markers[i];
        if (vocabulary_find(words, marker, strlen(marker)) != VOCABULARY_NONE &&
            vocabulary_find(missing, marker, strlen(marker)) == VOCABULARY_NONE)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s\"%s\"", n ? ", " : "", marker);
    }
    const char *joined = text_with_comma(missing, &bytes);
    if (joined)
        (void)snprintf(hint, sizeof hint,
                       "; \"%s\" there is one text: for several write a list, as [NA, null]",
                       printable_name((char[PRINTABLE_NAME_BYTES]){""}, joined, bytes));
    if (n)
        dataset_warn(r,
                     "%s: column %s: %s: read as a word like others; if it marks a missing value, "
                     "add it to data.missing%s",
                     r->key, SHOWN(name), list, hint);
}

/* "1.23457E+12": an id of more digits than were printed. */
static bool is_shortened(const char *word, size_t bytes)
{
    size_t at = bytes && *word == '-', digits;
    if (bytes < at + 7 || !is_decimal(word[at]) || word[at + 1] != '.')
        return false;
    for (at += 2, digits = at; at < bytes && is_decimal(word[at]);)
        at++;
    return at > digits && at + 4 == bytes && (word[at] == 'E' || word[at] == 'e') &&
           word[at + 1] == '+' && is_decimal(word[at + 2]) && is_decimal(word[at + 3]);
}

static void note_shortened(const struct reading *r, const char *name,
                           const struct vocabulary *words)
{
    uint32_t first = 0, n = count_words(words, is_shortened, &first);
    if (n * 2 > words->count)
        dataset_warn(r,
                     "%s: column %s: %u of %u words are numbers such as \"%s\": Excel writes long "
                     "ids so, and many become one; export their digits",
                     r->key, SHOWN(name), n, words->count,
                     shown((char[PRINTABLE_NAME_BYTES]){""}, words, first));
}

/* A line end and a tab can be in quotes, and of NUL the file is warned of. */
static bool has_control(const char *word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((word[i] > 0 && word[i] < ' ' && !strchr("\t\n\r", word[i])) || word[i] == 0x7F)
            return true;
    return false;
}

/* U+FFFD: a program that read a text in another encoding wrote it for what it could not read. */
static bool has_replacement(const char *word, size_t bytes)
{
    return memmem(word, bytes, "\xEF\xBF\xBD", 3) != NULL;
}

static void note_words(const struct reading *r, const char *name, const struct vocabulary *words,
                       bool (*is)(const char *, size_t), const char *what)
{
    uint32_t first = 0, n = count_words(words, is, &first);
    char more[40] = "";
    if (n > 1)
        (void)snprintf(more, sizeof more, " (and %u word%s more)", n - 1, n > 2 ? "s" : "");
    if (n)
        dataset_warn(r, "%s: column %s: \"%s\"%s %s", r->key, SHOWN(name),
                     shown((char[PRINTABLE_NAME_BYTES]){""}, words, first), more, what);
}

/* A sign before a number is overlooked here, too: "+1" is "1". */
static size_t plain_label(char out[static PLAIN_BYTES], const struct vocabulary *v, uint32_t number,
                          locale_t l)
{
    size_t bytes;
    const char *word = vocabulary_text(v, number, &bytes);
    const bool sign = bytes > 1 && *word == '+' && is_decimal(word[1]);
    return bytes > WORD_BYTES ? 0 : equal_word(out, word + sign, bytes - sign, false, l);
}

static bool say_class(const struct reading *r, const struct vocabulary *other, uint32_t label,
                      const struct vocabulary *names, uint32_t name)
{
    dataset_warn(r,
                 "%s: the label \"%s\" is %s, but looks like the class "
                 "\"%s\"; if it is that class, list it, as in \"%s|%s\"",
                 r->key, shown((char[PRINTABLE_NAME_BYTES]){""}, other, label),
                 other == names ? "a class of its own" : "taken by \"*\"",
                 shown((char[PRINTABLE_NAME_BYTES]){""}, names, name),
                 shown((char[PRINTABLE_NAME_BYTES]){""}, names, name),
                 shown((char[PRINTABLE_NAME_BYTES]){""}, other, label));
    return true;
}

/* other: labels that "*" takes, or the names of the classes themselves. */
static enum err note_classes(const struct meaning *m, const struct vocabulary *other,
                             const struct reading *r)
{
    const struct vocabulary *names = &m->names;
    const bool own = other == names;
    const uint32_t labels = other->count < LEARNED_KEY_WORDS ? other->count : LEARNED_KEY_WORDS;
    const uint32_t last = own || !labels ? labels : names->count;
    struct vocabulary plain = {.count = 0};
    uint32_t *first = mem_zalloc((size_t)last + 1, sizeof *first), number; /* of each plain name */
    char text[PLAIN_BYTES];
    locale_t lower = lower_case();
    bool said = false;
    enum err err = first ? ERR_OK : ERR_NOMEM;
    for (uint32_t i = 0; i < last && !err && !said; i++) {
        const size_t bytes = plain_label(text, names, i, lower);
        const uint32_t before = plain.count;
        if (!bytes)
            continue;
        err = vocabulary_add(&plain, text, bytes, &number);
        if (plain.count > before)
            first[number] = i;
        else if (!err && own && m->class_of[i] != m->class_of[first[number]])
            said = say_class(r, names, i, names, first[number]);
    }
    for (uint32_t i = 0; i < labels && !err && !said && !own; i++) {
        number = vocabulary_find(&plain, text, plain_label(text, other, i, lower));
        if (number != VOCABULARY_NONE)
            said = say_class(r, other, i, names, first[number]);
    }
    vocabulary_close(&plain);
    freelocale(lower);
    mem_free(first);
    return err;
}

enum err words_note(const char *column, const struct vocabulary *words, enum words_kind kind,
                    const struct meaning *m, const struct reading *r, struct errmsg *e)
{
    note_markers(r, column, words, &m->missing);
    if (kind == WORDS_LABELS) {
        enum err err = note_classes(m, words, r);
        if (!err && !r->eval)
            err = note_classes(m, &m->names, r);
        return err ? err_memory(e) : ERR_OK;
    }
    note_shortened(r, column, words);
    note_words(r, column, words, has_replacement,
               "has U+FFFD in place of a character that another program could not read, so words "
               "that differ in it are one; export the text once more, as UTF-8");
    if (kind == WORDS_LISTS)
        return ERR_OK;
    note_words(r, column, words, has_control,
               "has control characters, which are part of the word; if they are not meant, remove "
               "them");
    return note_equal(r, column, words) ? err_memory(e) : ERR_OK;
}
