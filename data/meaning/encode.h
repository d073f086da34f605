/* A batch of columns becomes packed rows of cells (schema.h): numbers, words, keys, crosses, labels, weights. The one place where
 * values get their meaning, whatever format and program they come from. It opens no file, and starts no thread. */
#pragma once

#include "data/meaning/meaning.h"
#include "data/text/csv_hint.h"

struct rounding;

/* The first value of a column that has the number of a marker, and is spelled otherwise. */
struct learned_spelling {
    bool found;
    uint32_t row;  /* of the batch in which it was found */
    uint64_t line; /* its reader's; 0: none yet */
    uint32_t marker;
    char shown[CSV_SHOWN_BYTES];
};

/* The separators in the fields of a `keys` column, of a sample. */
enum { LEARNED_SEPARATORS = 12 };
/* Those that are usual, the likely ones first. shown: as a job file can have it. */
extern const struct learned_separator {
    const char *text, *shown;
} learned_separators[LEARNED_SEPARATORS];
struct learned_divided {
    bool is;                            /* by the column's separator: of all fields */
    uint64_t fields;                    /* that are not missing */
    uint64_t others;                    /* of these, by a usual one */
    uint64_t other[LEARNED_SEPARATORS]; /* by this one; a field can have several */
    uint64_t gaps, before,
        after; /* separators between two values, and those with a blank on this side */
    uint64_t lists, divided_lists; /* fields in brackets, and those of them with a separator */
    uint64_t texts;                /* fields that are not missing */
    uint64_t values, weights;      /* and of a column without weights those that end as ":0.5" */
};

enum learned_seen {
    LEARNED_KNOWN = 1,   /* a number, or a word of the vocabulary that is given */
    LEARNED_MISSING = 2, /* a missing value, which is a word of that vocabulary */
    LEARNED_OTHER = 4    /* another word */
};

/* Words that are not in a vocabulary: a given one, or the one that the training part has taught. */
struct learned_unknown {
    uint64_t rows;
    char shown[CSV_SHOWN_BYTES];  /* the first: bytes that are no UTF-8 as <F3> */
    bool raw;                     /* it has such bytes */
    char marker[CSV_SHOWN_BYTES]; /* the first usual marker of a missing value; "": none */
};

/* Of a sample: words of a key, and keys, as the words of one take 40 KiB for each thread. */
enum { LEARNED_KEY_WORDS = 1024, LEARNED_KEYS = 256 };

/* Words that values teach, and samples of them for warnings to the user. Of one thread. */
struct learned {
    uint8_t *seen;                   /* (inputs) what rows have of it, bits of enum learned_seen */
    struct learned_unknown *unknown; /* (inputs) */
    bool any_unknown;                /* some are there */
    /* (inputs + the schema's keys) rows without a value: of categories with given words, and of keys with missing: none */
    uint64_t *lacking;
    /* (inputs) while learning: the words of each category; a cell of n + 1 is word n of it */
    struct vocabulary *words;
    uint8_t **
        found; /* (inputs) bits of the words of a given vocabulary that rows have; NULL, or NULL in it: not wanted */
    struct learned_spelling
        *spelled; /* (inputs + 2) also of the label and the weight; NULL: not wanted */
    struct learned_divided *divided; /* (the schema's keys); NULL: not wanted */
    struct vocabulary *key_words; /* (LEARNED_KEYS) of the first `keys` keys: texts of a sample */
    struct vocabulary others;     /* labels that no listed class has, up to LEARNED_KEY_WORDS */
    uint32_t keys;
    struct rounding **rounding; /* (inputs + 1) a sample of their numbers; NULL: not wanted */
    uint32_t rounded;           /* of the inputs, those below it are noted */
};

/* samples: rounding, divided and found are wanted. spelled: so is that. Errors: ERR_NOMEM; then learned_close, too. */
enum err learned_init(struct learned *t, const struct table_schema *s, bool samples,
                      bool spelled) MUST_CHECK;
void learned_close(struct learned *t, uint32_t inputs);

/* Text of the next part begins: forget words and spellings, and keep the samples. */
void learned_clear(struct learned *t, uint32_t inputs);

/* The result. */
struct encoded_rows {
    /* for the caller to set: (rows, schema_raw_cells); then packed rows, one behind the other. A row that is not there keeps its
     * position, with the label NaN and zeros */
    uint32_t *cells;
    uint8_t *
        present; /* for the caller to set: bits of rows, (rows + 7) / 8 bytes; 0: the row is absent, or bad */
    size_t used;                /* of the cells */
    struct meaning_fault first; /* of the first row with a fault */
};

/* The most rows of a batch whose cells stay near. */
enum { ENCODE_ROWS = 64, ENCODE_CELLS = 1 << 16 };
static inline uint32_t encode_batch_rows(const struct table_schema *s)
{
    const uint32_t rows = ENCODE_CELLS / schema_raw_cells(s);
    return rows == 0 ? 1 : rows < ENCODE_ROWS ? rows : ENCODE_ROWS;
}

/* Hash the words of a dictionary, texts or integers, for batches whose rows have their places in it: of key column `cell`, whose keys
 * are hashed. Errors: ERR_NOMEM; then the caller frees what is in *out, too. Thread: any. */
enum err encode_codes(const struct meaning *m, uint32_t cell, const struct batch_column *words,
                      uint32_t n, struct batch_codes *out) MUST_CHECK;

/* field: (batch's columns). Which types fit: numbers: texts or doubles; key: texts, keys or, if it is hashed, integers or codes; keys: texts, to be divided, or lists of
 * texts or keys; category, label, weight: texts. Values of BATCH_KEYS are keys already: they are not hashed, and buckets are made of
 * them. A value that is null counts as missing, as a text of data.missing does: a number becomes what the column's `missing` says, a
 * category its first text of data.missing, a key what word_key_missing says; of a label or a weight it is a fault. A null list
 * is missing, an empty one has no keys. Rows below `sampled` are in the sample of rows. A row is bad by its first
 * value that does not fit, in the order of the columns; bad rows teach no words. Errors: ERR_NOMEM; ERR_TOOBIG: more words
 * than a vocabulary can have. Thread: any, with its own t. */
enum err encode_batch(const struct meaning *m, const struct meaning_field *field,
                      const struct column_batch *b, uint32_t sampled, struct learned *t,
                      struct encoded_rows *out) MUST_CHECK;
