/* How fast csv text becomes a data set, compared with reading the same bytes: dataset_load of a file
 * in the page cache, on `threads` threads, and a loop that reads the file in pieces and counts its
 * newlines, on one, as wc -l does.
 *
 * csv --threads N [--quoted] [--clicks|--libsvm] [--bytes B] [--rounds R]
 *     [--spilled|--gather|--parquet FILE] [--path FILE]
 *
 * --clicks: the file has Criteo's shape, a label, 13 whole numbers and 26 keys that are hashed, compared with
 * a loop that makes the same columns, hashes included, and checks nothing; with --quoted its keys are in
 * quotes. --libsvm: the file has rows of 20 to 59 weighted keys. --path: the name of the file, which stays.
 * --spilled: all rows go to a file (data.memory_mb), compared with all rows in memory. --gather:
 * random rows in batches, of such a data set compared with one in memory; one thread.
 *
 * --parquet FILE: the rows of --clicks as Parquet, which stays in FILE, compared with the csv.
 *
 * Without --clicks the file looks like network logs: 38 numbers, 3 categories and a label a row; with --quoted
 * its categories are in quotes. The check: rows, features and a sum over a column against what was
 * written. */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "benchmarks/bench.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/math/simd.h"
#include "data/arrow/parquet.h"
#include "data/text/csv_scan.h"
#include "data/dataset.h"

enum { NUMBERS = 38, WORDS = 3, ROUNDS_MAX = 101, SEED = 1, PIECE_BYTES = 512 << 10, BATCH = 64 };
enum { CLICK_NUMBERS = 13, CLICK_KEYS = 26, CLICK_FIELDS = 1 + CLICK_NUMBERS + CLICK_KEYS };

struct csv_bench {
    uint32_t threads;
    bool quoted, clicks, libsvm, spilled, gather, kept;
    uint64_t bytes, rounds;
    char dir[256], path[300];
    const char *parquet;                  /* NULL: it is not measured */
    uint64_t rows, sum;                   /* written; of the first column */
    struct job job, spilling, of_parquet; /* the same with all rows in a file, or of Parquet */
};

static const char *const words[WORDS][4] = {{"tcp", "udp", "icmp", "sctp"},
                                            {"http", "smtp", "private", "domain_u"},
                                            {"SF", "S0", "REJ", "RSTO"}};

static void write_click(struct csv_bench *b, FILE *file)
{
    uint64_t key = rng_key(SEED, RNG_TEST, b->rows, 0), first = rng_u64(key, 0) % 100000;
    fprintf(file, "%u,%llu", (unsigned)(rng_u64(key, 1) & 1), (unsigned long long)first);
    for (unsigned i = 1; i < CLICK_NUMBERS; i++) {
        uint64_t bits =
            rng_u64(key, 1 + i); /* a fifth is missing, and small numbers are frequent */
        if (bits % 5 == 0)
            fputc(',', file);
        else
            fprintf(file, ",%u", (unsigned)(bits >> 8 & 0xffff) >> (bits >> 32 & 15));
    }
    for (unsigned i = 0; i < CLICK_KEYS; i++) {
        uint64_t bits = rng_u64(key, 1 + CLICK_NUMBERS + i);
        fputs(b->quoted ? ",\"" : ",", file);
        if (bits >> 32 & 31)
            fprintf(file, "%08x", (unsigned)bits);
        fputs(b->quoted ? "\"" : "", file);
    }
    fputc('\n', file);
    b->rows++;
    b->sum += first;
}

static void write_pairs(struct csv_bench *b, FILE *file)
{
    uint64_t key = rng_key(SEED, RNG_TEST, b->rows, 0), n = 20 + rng_u64(key, 0) % 40, index = 0;
    const unsigned label = rng_u64(key, 1) & 1;
    fprintf(file, "%u", label);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits = rng_u64(key, 2 + i);
        index += 1 + bits % 5000;
        fprintf(file, bits >> 32 & 1 ? " %llu:1" : " %llu:0.%04u", (unsigned long long)index,
                (unsigned)(bits >> 40 & 8191));
    }
    fputc('\n', file);
    b->rows++;
    b->sum += label;
}

static void write_row(struct csv_bench *b, FILE *file)
{
    if (b->libsvm) {
        write_pairs(b, file);
        return;
    }
    if (b->clicks) {
        write_click(b, file);
        return;
    }
    uint64_t key = rng_key(SEED, RNG_TEST, b->rows, 0), first = rng_u64(key, 0) % 100000;
    const char *quote = b->quoted ? "\"" : "";
    fprintf(file, "%llu", (unsigned long long)first);
    for (unsigned i = 1; i < NUMBERS; i++) {
        uint64_t bits = rng_u64(key, i);
        if (i <= WORDS)
            fprintf(file, ",%s%s%s", quote, words[i - 1][bits & 3], quote);
        if (bits >> 8 & 1)
            fprintf(file, ",%u", (unsigned)(bits >> 16 & (bits >> 9 & 1 ? 0xff : 1)));
        else
            fprintf(file, ",0.%02u", (unsigned)(bits >> 16 & 63));
    }
    fprintf(file, ",%s\n", rng_u64(key, NUMBERS) & 1 ? "normal." : "neptune.");
    b->rows++;
    b->sum += first;
}

static void make_file(struct csv_bench *b)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(b->dir, sizeof b->dir, "%s/gradwire-csv-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(b->dir))
        bench_die("%s: cannot be made", b->dir);
    if (!b->kept)
        snprintf(b->path, sizeof b->path, "%s/rows.csv", b->dir);
    FILE *file = fopen(b->path, "w");
    if (!file)
        bench_die("%s: cannot be written", b->path);
    while ((uint64_t)ftell(file) < b->bytes)
        write_row(b, file);
    b->bytes = (uint64_t)ftell(file);
    if (fclose(file))
        bench_die("%s: cannot be written", b->path);
}

static void put_parquet(struct parquet_writer *w, const char *lines, size_t bytes, FILE *to)
{
    struct errmsg e;
    const char *out;
    size_t n;
    if (parquet_write(w, lines, bytes, &out, &n, &e))
        bench_die("%s", e.text);
    if (fwrite(out, 1, n, to) != n)
        bench_die("the Parquet file cannot be written");
}

static void make_parquet(const struct csv_bench *b)
{
    char names[512] = "y", types[CLICK_FIELDS + 1] = "i";
    size_t n = 1;
    for (unsigned i = 1; i < CLICK_FIELDS; i++) {
        const bool key = i > CLICK_NUMBERS;
        n += (size_t)snprintf(names + n, sizeof names - n, ",%c%u", key ? 'C' : 'I',
                              key ? i - CLICK_NUMBERS : i);
        types[i] = key ? 's' : 'i';
    }
    names[n++] = '\n';
    struct parquet_writer w = {.arrow = NULL};
    struct errmsg e;
    FILE *from = fopen(b->path, "r"), *to = fopen(b->parquet, "w");
    char *text = bench_pages(b->bytes);
    if (!from || !to || fread(text, 1, b->bytes, from) != b->bytes)
        bench_die("%s: cannot be made", b->parquet);
    if (parquet_write_begin(&w, names, n, types, "zstd", &e))
        bench_die("%s", e.text);
    put_parquet(&w, text, b->bytes, to);
    put_parquet(&w, NULL, 0, to);
    parquet_write_close(&w);
    fclose(from);
    if (fclose(to))
        bench_die("%s: cannot be written", b->parquet);
    free(text);
}

/* A chunk of rows has more than the MiB that may be in memory. parquet: the file; NULL: the csv. */
static void make_job(struct csv_bench *b, struct job *job, bool spilling, const char *parquet)
{
    char text[8192];
    struct errmsg e;
    size_t n =
        (size_t)snprintf(text, sizeof text,
                         "model: {input: {shape: auto}, layers: [%s], loss: mse}\n"
                         "optimizer: sgd\nworker: {threads: %u}\n"
                         "data: {format: %s, train: '%s', memory_mb: %u, spill: '%s', columns: [%s",
                         b->libsvm   ? "linear: {inputs: [p], name: k}"
                         : b->clicks ? "linear: {inputs: 'C{1..26}', name: k}, dense: {inputs: "
                                       "'I{1..13}', units: 1, name: n}, add: [k, n]"
                                     : "dense: 1",
                         b->threads,
                         parquet     ? "parquet"
                         : b->libsvm ? "libsvm"
                                     : "csv",
                         parquet ? parquet : b->path, spilling ? 1 : UINT32_MAX, b->dir,
                         b->libsvm ? "label: y, keys: {name: p, max_values: 64, weights: true}]}\n"
                         : b->clicks ? "label: y, number: 'I{1..13}', key: 'C{1..26}']}\n"
                                     : "number: x0");
    const bool logs = !b->clicks && !b->libsvm;
    for (unsigned i = 1; i < NUMBERS && logs; i++) {
        if (i <= WORDS)
            n += (size_t)snprintf(text + n, sizeof text - n, ", category: w%u", i);
        n += (size_t)snprintf(text + n, sizeof text - n, ", number: x%u", i);
    }
    if (logs)
        n += (size_t)snprintf(text + n, sizeof text - n, ", label: {classes: [normal., '*']}]}\n");
    if (job_parse(job, text, n, "bench", "/", NULL, 0, &e))
        bench_die("%s", e.text);
}

static bool is_right(const struct csv_bench *b, const struct dataset *d, bool spilling)
{
    static uint32_t buffer[1 << 16];
    double sum = 0;
    for (uint64_t row = 0; row < d->rows;) {
        uint64_t n = d->rows - row;
        const uint32_t *cells;
        struct errmsg e;
        if (table_look(&d->table, row, &n, buffer, sizeof buffer / sizeof *buffer, &cells, &e))
            bench_die("%s", e.text);
        for (row += n; n > 0; n--, cells += table_packed_cells(d->table.schema, cells))
            sum += (double)schema_float(cells[0]);
    }
    size_t in_file = spilling ? b->rows * schema_row_cells(d->table.schema) * sizeof *buffer : 0;
    const uint32_t features = b->libsvm ? 0 : b->clicks ? CLICK_NUMBERS : NUMBERS + 4 * WORDS;
    return d->rows == b->rows && d->features == features && sum == (double)b->sum &&
           table_spilled_bytes(&d->table) == in_file;
}

static void load(struct dataset *d, const struct job *job)
{
    struct errmsg e;
    if (dataset_load(d, job, 0, 2, &e))
        bench_die("%s", e.text);
}

/* Of one thread the time of its processor: a machine that does other things, too, does not change it as much. */
static double seconds_now(const struct csv_bench *b)
{
    struct timespec t;
    if (b->threads > 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t))
        return clock_now_s();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double load_seconds(struct csv_bench *b, const struct job *job, bool *valid)
{
    struct dataset d;
    double began = seconds_now(b);
    load(&d, job);
    double seconds = seconds_now(b) - began;
    *valid = *valid && is_right(b, &d, job == &b->spilling);
    dataset_close(&d);
    return seconds;
}

/* As many rows as there are, in batches of random ones. *sum: of the first column. */
static double gather_seconds(const struct csv_bench *b, const struct dataset *d, double *sum)
{
    const struct leaf_form form = dataset_form(d);
    struct leaf_buffer *buffer;
    struct leaf leaf;
    struct errmsg e;
    if (leaf_buffer_new(&buffer, &form, BATCH, LEAF_VALUES, &e))
        bench_die("%s", e.text);
    double began = clock_now_s();
    *sum = 0;
    for (uint64_t first = 0; first < b->rows; first += BATCH) {
        uint64_t rows[BATCH], key = rng_key(SEED, RNG_TEST, first, 1);
        for (uint32_t i = 0; i < BATCH; i++)
            rows[i] = rng_u64(key, i) % b->rows;
        if (dataset_gather(d, rows, BATCH, NULL, buffer, &leaf, &e))
            bench_die("%s", e.text);
        for (uint32_t i = 0; i < leaf.n; i++)
            *sum += (double)leaf.x[i * d->features];
    }
    double seconds = clock_now_s() - began;
    leaf_buffer_free(buffer);
    return seconds;
}

/* ---- the yardstick of clicks: ends of fields by masks, then one column after the other ---- */

#if defined __AVX512BW__
#define equal simd_equal_avx512
#elif defined __AVX2__
#define equal simd_equal_avx2
#else
#define equal simd_equal_base
#endif

struct raw_columns {
    uint32_t end[PIECE_BYTES + CSV_SCAN_PAD];
    float label[PIECE_BYTES / CLICK_FIELDS + 1];
    double number[CLICK_NUMBERS][PIECE_BYTES / CLICK_FIELDS + 1];
    uint64_t key[CLICK_KEYS][PIECE_BYTES / CLICK_FIELDS + 1];
};

/* Every quote opens or closes a field. Four ends at a time: to store some in vain takes less than to predict how many there are. */
static size_t raw_ends(uint32_t *end, const char *text, size_t bytes)
{
    const uint64_t none = UINT64_C(1) << 63;
    uint32_t *to = end;
    uint64_t open = 0;
    for (size_t i = 0; i < bytes; i += 64) {
        uint64_t quoted = equal(text + i, '"');
        for (int shift = 1; shift < 64; shift *= 2)
            quoted ^= quoted << shift;
        quoted ^= open;
        open = 0 - (quoted >> 63);
        uint64_t ends = (equal(text + i, ',') | equal(text + i, '\n')) & ~quoted;
        if (bytes - i < 64)
            ends &= (UINT64_C(1) << (bytes - i)) - 1;
        uint32_t *behind = to + __builtin_popcountll(ends);
        for (; to < behind; to += 4)
            for (int k = 0; k < 4; k++, ends &= ends - 1)
                to[k] = (uint32_t)i + (uint32_t)__builtin_ctzll(ends | none);
        to = behind;
    }
    return (size_t)(to - end);
}

static double raw_number(const char *text, uint32_t bytes)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < bytes; i++)
        n = n * 10 + (uint64_t)(text[i] - '0');
    return bytes ? (double)n : -1;
}

static void raw_column(struct raw_columns *c, const char *text, size_t rows, uint32_t field)
{
    for (size_t i = 0; i < rows; i++) {
        const size_t at = i * CLICK_FIELDS + field;
        const uint32_t begin = at ? c->end[at - 1] + 1 : 0;
        uint32_t bytes = c->end[at] - begin;
        const char *p = text + begin;
        if (bytes && *p == '"') {
            p++;
            bytes -= 2;
        }
        if (field == 0)
            c->label[i] = (float)(*p - '0');
        else if (field <= CLICK_NUMBERS)
            c->number[field - 1][i] = raw_number(p, bytes);
        else
            c->key[field - 1 - CLICK_NUMBERS][i] = XXH3_64bits(p, bytes);
    }
}

static double raw_seconds(const struct csv_bench *b, char *piece, struct raw_columns *c,
                          bool *valid)
{
    double began = seconds_now(b), sum = 0;
    int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    uint64_t rows = 0;
    size_t there = 0;
    for (ssize_t n; (n = fd < 0 ? -1 : read(fd, piece + there, PIECE_BYTES - there)) != 0;) {
        if (n < 0)
            bench_die("%s: cannot be read", b->path);
        there += (size_t)n;
        const size_t whole = (size_t)((char *)memrchr(piece, '\n', there) + 1 - piece);
        const size_t here = raw_ends(c->end, piece, whole) / CLICK_FIELDS;
        for (uint32_t field = 0; field < CLICK_FIELDS; field++)
            raw_column(c, piece, here, field);
        for (size_t i = 0; i < here; i++)
            sum += c->number[0][i];
        rows += here;
        memmove(piece, piece + whole, there - whole);
        there -= whole;
    }
    close(fd);
    *valid = *valid && rows == b->rows && sum == (double)b->sum;
    return seconds_now(b) - began;
}

static double count_seconds(const struct csv_bench *b, char *piece, bool *valid)
{
    double began = seconds_now(b);
    int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    uint64_t lines = 0;
    while (n > 0 && (n = read(fd, piece, PIECE_BYTES)) > 0)
        lines += csv_count(piece, (size_t)n, '\n');
    if (n < 0)
        bench_die("%s: cannot be read", b->path);
    close(fd);
    *valid = *valid && lines == b->rows;
    return seconds_now(b) - began;
}

static void print_values(const char *name, const double *seconds, uint64_t n, double amount)
{
    printf("\"%s\": [", name);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%.4f", i ? ", " : "", amount / seconds[i]);
    printf("], ");
}

static void measure(struct csv_bench *b)
{
    double ours[ROUNDS_MAX], count[ROUNDS_MAX];
    bool valid = true;
    char *piece = bench_pages(PIECE_BYTES + CSV_SCAN_PAD);
    struct raw_columns *columns = bench_pages(sizeof *columns);
    (void)count_seconds(b, piece, &valid); /* warm */
    const struct job *job = b->spilled ? &b->spilling : b->parquet ? &b->of_parquet : &b->job;
    (void)load_seconds(b, job, &valid);
    for (uint64_t i = 0; i < b->rounds; i++) {
        ours[i] = load_seconds(b, job, &valid);
        count[i] = b->spilled || b->parquet ? load_seconds(b, &b->job, &valid)
                   : b->clicks              ? raw_seconds(b, piece, columns, &valid)
                                            : count_seconds(b, piece, &valid);
    }
    printf("{\"threads\": %u, \"bytes\": %llu, \"rows\": %llu, ", b->threads,
           (unsigned long long)b->bytes, (unsigned long long)b->rows);
    if (b->parquet) {
        print_values("mrows_per_s", ours, b->rounds, (double)b->rows * 1e-6);
        print_values("csv_mrows_per_s", count, b->rounds, (double)b->rows * 1e-6);
    }
    print_values("gb_per_s", ours, b->rounds, (double)b->bytes * 1e-9);
    print_values(b->spilled  ? "memory_gb_per_s"
                 : b->clicks ? "raw_gb_per_s"
                             : "count_gb_per_s",
                 count, b->rounds, (double)b->bytes * 1e-9);
    printf("\"valid\": %s}\n", valid ? "true" : "false");
    free(columns);
    free(piece);
}

static void measure_gather(struct csv_bench *b)
{
    double ours[ROUNDS_MAX], memory[ROUNDS_MAX], sum[2];
    struct dataset there, spilled;
    load(&there, &b->job);
    load(&spilled, &b->spilling);
    bool valid = is_right(b, &there, false) && is_right(b, &spilled, true);
    (void)gather_seconds(b, &spilled, &sum[0]); /* warm */
    (void)gather_seconds(b, &there, &sum[1]);
    for (uint64_t i = 0; i < b->rounds; i++) {
        ours[i] = gather_seconds(b, &spilled, &sum[0]);
        memory[i] = gather_seconds(b, &there, &sum[1]);
        valid = valid && sum[0] == sum[1] && sum[0] > 0;
    }
    double rows = (double)((b->rows + BATCH - 1) / BATCH * BATCH) * 1e-6;
    printf("{\"threads\": 1, \"rows\": %llu, ", (unsigned long long)b->rows);
    print_values("mrows_per_s", ours, b->rounds, rows);
    print_values("memory_mrows_per_s", memory, b->rounds, rows);
    printf("\"valid\": %s}\n", valid ? "true" : "false");
    dataset_close(&there);
    dataset_close(&spilled);
}

static void parse_flags(struct csv_bench *b, int argc, char **argv)
{
    static const struct option options[] = {{"threads", required_argument, NULL, 't'},
                                            {"quoted", no_argument, NULL, 'q'},
                                            {"clicks", no_argument, NULL, 'c'},
                                            {"bytes", required_argument, NULL, 'b'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"spilled", no_argument, NULL, 's'},
                                            {"gather", no_argument, NULL, 'g'},
                                            {"libsvm", no_argument, NULL, 'l'},
                                            {"path", required_argument, NULL, 'p'},
                                            {"parquet", required_argument, NULL, 'f'},
                                            {0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 't')
            b->threads = (uint32_t)bench_number(optarg);
        else if (c == 'q')
            b->quoted = true;
        else if (c == 'c')
            b->clicks = true;
        else if (c == 'l')
            b->libsvm = true;
        else if (c == 'p') {
            b->kept = true;
            snprintf(b->path, sizeof b->path, "%s", optarg);
        } else if (c == 's')
            b->spilled = true;
        else if (c == 'g')
            b->gather = true;
        else if (c == 'f')
            b->parquet = optarg;
        else if (c == 'b')
            b->bytes = bench_number(optarg);
        else if (c == 'r')
            b->rounds = bench_number(optarg);
        else
            exit(1);
    }
    if (b->threads < 1 || b->rounds < 1 || b->rounds > ROUNDS_MAX || b->bytes < 1)
        bench_die("--threads and --rounds are at least 1, --rounds at most %d", ROUNDS_MAX);
}

int main(int argc, char **argv)
{
    struct csv_bench b = {.bytes = 64 << 20, .rounds = 9};
    log_init("bench", LOG_ERROR);
    parse_flags(&b, argc, argv);
    make_file(&b);
    make_job(&b, &b.job, false, NULL);
    make_job(&b, &b.spilling, true, NULL);
    make_job(&b, &b.of_parquet, false, b.parquet);
    if (b.parquet)
        make_parquet(&b);
    if (b.gather)
        measure_gather(&b);
    else
        measure(&b);
    job_close(&b.job);
    job_close(&b.spilling);
    job_close(&b.of_parquet);
    if (!b.kept)
        unlink(b.path);
    rmdir(b.dir);
    return 0;
}
