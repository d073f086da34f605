/* The lessons of all rows of a stream, in one pass: the words of categories, and of numbers means for missing ones, and scales.
 *
 * Happy path: each thread takes the next block of rows, collects its words, and sums its numbers; words and moments of blocks are
 * joined in the order of the rows. So neither the number of threads nor the way in which the rows are read changes a bit of the result. Moments within a
 * block: Welford 1962, "Note on a method for calculating corrected sums of squares and products"; of two blocks: Chan, Golub and
 * LeVeque 1983, "Algorithms for computing the sample variance".
 * Failure modes: rows cannot be read: the first error in the order of the rows ends the pass; so do too many words. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/printable.h"
#include "common/process/process_state.h"
#include "data/readers.h"

/* Of the numbers of one input, in a block or in all blocks so far. */
struct spread {
    double count, mean, squares; /* squares: of the distances from the mean */
    double min, max, rounding;   /* as in struct number_moments */
};

struct lesson {
    struct row_reader *reader;
    uint64_t bytes, block_rows;
    uint64_t most_bytes;  /* of all words */
    struct spread *whole; /* (inputs) */
    pthread_mutex_t lock; /* of all below, and of `whole` */
    pthread_cond_t joined;
    uint64_t next, joins; /* blocks: to be read, and joined */
    enum err err;
    struct errmsg e; /* the first error in the order of the rows */
};

static void clear_spreads(struct spread *of, uint32_t inputs)
{
    for (uint32_t i = 0; i < inputs; i++)
        of[i] = (struct spread){.min = INFINITY, .max = -INFINITY};
}

static void add_to_spread(struct spread *s, double v)
{
    const double off = v - s->mean, rounding = fabs((double)(float)v - v);
    s->count++;
    s->mean += off / s->count;
    s->squares += off * (v - s->mean);
    s->min = v < s->min ? v : s->min;
    s->max = v > s->max ? v : s->max;
    s->rounding = rounding > s->rounding ? rounding : s->rounding;
}

static void join_spread(struct spread *all, const struct spread *next)
{
    const double count = all->count + next->count, off = next->mean - all->mean;
    if (next->count == 0)
        return;
    all->squares += next->squares + off * off * (all->count * next->count / count);
    all->mean += off * (next->count / count);
    all->count = count;
    all->min = fmin(all->min, next->min);
    all->max = fmax(all->max, next->max);
    all->rounding = fmax(all->rounding, next->rounding);
}

struct block {
    const struct row_reader *reader;
    struct spread *of;        /* (inputs) */
    struct vocabulary *words; /* (inputs) of categories */
    /* of the present piece */
    const struct vocabulary *piece; /* (inputs) */
    uint8_t **has;                  /* (inputs) by a word of the piece: `words` has it */
    size_t *has_bytes;              /* (inputs) */
};

static enum err learn_piece(void *ctx, const struct vocabulary *words, struct errmsg *e)
{
    struct block *b = ctx;
    b->piece = words;
    for (uint32_t i = 0; i < b->reader->schema->inputs; i++) {
        uint8_t *has = mem_grow(b->has[i], &b->has_bytes[i], words[i].count + (size_t)1, 1);
        if (!has)
            return err_memory(e);
        b->has[i] = has;
        memset(has, 0, words[i].count + (size_t)1);
    }
    return ERR_OK;
}

/* The word of the row, a cell of category i. */
static enum err learn_word(struct block *b, uint32_t i, uint32_t cell, struct errmsg *e)
{
    size_t bytes;
    uint32_t number;
    if (!cell || b->has[i][cell - 1])
        return ERR_OK;
    const char *word = vocabulary_text(&b->piece[i], cell - 1, &bytes);
    b->has[i][cell - 1] = 1;
    return vocabulary_add(&b->words[i], word, bytes, &number)
               ? err_memory_for(e, "the words of data.train")
               : ERR_OK;
}

static enum err learn_row(void *ctx, const uint32_t *cells, size_t n, bool bad, struct errmsg *e)
{
    (void)n;
    struct block *b = ctx;
    const uint32_t *high = schema_high_cells(b->reader->schema, cells);
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < b->reader->schema->inputs && !bad && !err; i++) {
        const struct schema_input *in = &b->reader->schema->input[i];
        const double v =
            in->kind == COLUMN_NUMBER ? schema_number(b->reader->schema, cells, high, i) : NAN;
        if (!isnan(v))
            add_to_spread(&b->of[i], v);
        else if (in->learns)
            err = learn_word(b, i, cells[i], e);
    }
    return err;
}

/* The rows of block `block`. False: there is none, or an error has occurred. */
static bool next_block(struct lesson *l, uint64_t *block)
{
    pthread_mutex_lock(&l->lock);
    const bool more = !l->err && l->next * l->block_rows < l->reader->rows;
    *block = l->next;
    l->next += more;
    pthread_mutex_unlock(&l->lock);
    return more;
}

static enum err join_words(struct lesson *l, const struct vocabulary *words, struct errmsg *e)
{
    struct schema_input *in = l->reader->schema->input;
    uint64_t all = 0;
    uint32_t most = 0, number;
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < l->reader->schema->inputs && !err; i++) {
        struct vocabulary *to = &in[i].words;
        for (uint32_t k = 0; k < words[i].count && !err; k++) {
            size_t bytes;
            const char *word = vocabulary_text(&words[i], k, &bytes);
            err = vocabulary_add(to, word, bytes, &number);
        }
        all += in[i].learns ? to->text_bytes + to->slots * sizeof *to->word : 0;
        most = to->count > in[most].words.count ? i : most;
    }
    if (err == ERR_NOMEM)
        return err_memory_for(e, "the words of data.train");
    if (!err && all <= l->most_bytes)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "category %s: too many words: with %" PRIu32
                   ", all need more than is left of data.memory_mb: make it a key, or give more "
                   "memory",
                   SHOWN(in[most].name), in[most].words.count);
}

static void join_block(struct lesson *l, uint64_t block, const struct block *b, enum err err,
                       const struct errmsg *e)
{
    pthread_mutex_lock(&l->lock);
    while (l->joins != block)
        pthread_cond_wait(&l->joined, &l->lock);
    if (!l->err && err)
        l->err = err_set(&l->e, err, "%s", e->text);
    if (!l->err)
        l->err = join_words(l, b->words, &l->e);
    for (uint32_t i = 0; i < l->reader->schema->inputs && !l->err; i++)
        join_spread(&l->whole[i], &b->of[i]);
    l->joins++;
    pthread_cond_broadcast(&l->joined);
    pthread_mutex_unlock(&l->lock);
}

/* The bytes of the first rows, as if all had equally many. */
static uint64_t bytes_before(const struct lesson *l, uint64_t rows)
{
    return (uint64_t)((double)l->bytes * ((double)rows / (double)l->reader->rows));
}

static void free_block(struct block *b, uint32_t inputs)
{
    for (uint32_t i = 0; i < inputs; i++) {
        if (b->words)
            vocabulary_close(&b->words[i]);
        if (b->has)
            mem_free(b->has[i]);
    }
    mem_free(b->of);
    mem_free(b->words);
    mem_free(b->has);
    mem_free(b->has_bytes);
}

static void learn_blocks(void *ctx, uint32_t thread)
{
    struct lesson *l = ctx;
    const uint32_t inputs = l->reader->schema->inputs;
    struct block b = {.reader = l->reader,
                      .of = mem_zalloc(inputs, sizeof *b.of),
                      .words = mem_zalloc(inputs, sizeof *b.words),
                      .has = mem_zalloc(inputs, sizeof *b.has),
                      .has_bytes = mem_zalloc(inputs, sizeof *b.has_bytes)};
    const bool there = b.of && b.words && b.has && b.has_bytes;
    uint64_t block;
    (void)thread;
    while (next_block(l, &block)) {
        struct errmsg e = {""};
        const uint64_t first = block * l->block_rows, left = l->reader->rows - first;
        const uint64_t rows = left < l->block_rows ? left : l->block_rows;
        enum err err = there ? ERR_OK : err_memory(&e);
        if (!err) {
            clear_spreads(b.of, inputs);
            for (uint32_t i = 0; i < inputs; i++)
                vocabulary_clear(&b.words[i]);
            err = l->reader->type->read(l->reader, first, first + rows, learn_row, &b, &e);
        }
        loading_rows(rows);
        loading_read(bytes_before(l, first + rows) - bytes_before(l, first));
        join_block(l, block, &b, err, &e);
    }
    free_block(&b, inputs);
}

static void teach_number(struct schema_input *in, const struct spread *s)
{
    const struct number_moments m = {.count = s->count,
                                     .squares = s->squares,
                                     .min = s->min,
                                     .max = s->max,
                                     .rounding = s->rounding};
    if (in->kind == COLUMN_NUMBER &&
        in->bucketing == BUCKETS_NONE) /* buckets that are given learn nothing */
        schema_learn_number(in, &m, s->count > 0 ? s->mean : 0);
}

enum err stream_learn(struct row_reader *reader, uint64_t bytes, uint64_t block_rows,
                      uint64_t most_bytes, struct pool *pool, struct errmsg *e)
{
    const uint32_t inputs = reader->schema->inputs;
    struct lesson l = {.reader = reader,
                       .bytes = bytes,
                       .block_rows = block_rows,
                       .most_bytes = most_bytes,
                       .whole = mem_zalloc(inputs, sizeof *l.whole)};
    if (!l.whole)
        return err_memory(e);
    clear_spreads(l.whole, inputs);
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.joined, NULL);
    loading_again();
    reader->raw = true;
    reader->learn = learn_piece;
    pool_run(pool, learn_blocks, &l);
    reader->raw = false;
    reader->learn = NULL;
    for (uint32_t i = 0; i < inputs && !l.err; i++)
        teach_number(&reader->schema->input[i], &l.whole[i]);
    pthread_cond_destroy(&l.joined);
    pthread_mutex_destroy(&l.lock);
    mem_free(l.whole);
    return l.err ? err_set(e, l.err, "%s", l.e.text) : schema_place_features(reader->schema, e);
}
