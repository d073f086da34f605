/* How fast csv text becomes a data set, beside going through the same bytes: dataset_load of a file
 * in the page cache, on `threads` threads, and a loop that reads the file in pieces and counts its
 * newlines, on one, as wc -l does.
 *
 * csv --threads N [--quoted] [--bytes B] [--rounds R]
 *
 * The file looks like network logs: 38 numbers, 3 categories and a label a row; with --quoted its
 * categories are in quotes. The check: rows, features and a sum over a column against what was
 * written. */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmarks/bench.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/rng.h"
#include "worker/data/csv_scan.h"
#include "worker/data/dataset.h"

enum { NUMBERS = 38, WORDS = 3, ROUNDS_MAX = 101, SEED = 1, PIECE_BYTES = 512 << 10 };

struct csv_bench {
    uint32_t threads;
    bool quoted;
    uint64_t bytes, rounds;
    char dir[256], path[300];
    uint64_t rows, sum; /* written; of the first column */
    struct job job;
};

static const char *const words[WORDS][4] = {{"tcp", "udp", "icmp", "sctp"},
                                            {"http", "smtp", "private", "domain_u"},
                                            {"SF", "S0", "REJ", "RSTO"}};

static void write_row(struct csv_bench *b, FILE *file)
{
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

static void make_job(struct csv_bench *b)
{
    char text[8192];
    struct errmsg e;
    size_t n = (size_t)snprintf(text, sizeof text,
                                "model: {input: {shape: auto}, layers: [dense: 1], loss: mse}\n"
                                "optimizer: sgd\nworker: {threads: %u}\n"
                                "data: {format: csv, train: '%s', columns: [number: x0",
                                b->threads, b->path);
    for (unsigned i = 1; i < NUMBERS; i++) {
        if (i <= WORDS)
            n += (size_t)snprintf(text + n, sizeof text - n, ", category: w%u", i);
        n += (size_t)snprintf(text + n, sizeof text - n, ", number: x%u", i);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, ", label: {classes: [normal., '*']}]}\n");
    if (job_parse(&b->job, text, n, "bench", "/", NULL, 0, &e))
        bench_die("%s", e.text);
}

static bool is_right(const struct csv_bench *b, const struct dataset *d)
{
    double sum = 0;
    for (uint64_t row = 0; row < d->rows; row++)
        sum += (double)table_float(table_row(&d->table, row)[0]);
    return d->rows == b->rows && d->features == NUMBERS + 4 * WORDS && sum == (double)b->sum;
}

static double load_seconds(struct csv_bench *b, bool *valid)
{
    struct dataset d;
    struct errmsg e;
    double began = clock_now_s();
    if (dataset_load(&d, &b->job, 0, 2, &e))
        bench_die("%s", e.text);
    double seconds = clock_now_s() - began;
    *valid = *valid && is_right(b, &d);
    dataset_close(&d);
    return seconds;
}

static double count_seconds(const struct csv_bench *b, char *piece, bool *valid)
{
    double began = clock_now_s();
    int fd = open(b->path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    uint64_t lines = 0;
    while (n > 0 && (n = read(fd, piece, PIECE_BYTES)) > 0)
        lines += csv_count(piece, (size_t)n, '\n');
    if (n < 0)
        bench_die("%s: cannot be read", b->path);
    close(fd);
    *valid = *valid && lines == b->rows;
    return clock_now_s() - began;
}

static void print_values(const char *name, const double *seconds, uint64_t n, uint64_t bytes)
{
    printf("\"%s\": [", name);
    for (uint64_t i = 0; i < n; i++)
        printf("%s%.4f", i ? ", " : "", (double)bytes / seconds[i] * 1e-9);
    printf("], ");
}

static void measure(struct csv_bench *b)
{
    double ours[ROUNDS_MAX], count[ROUNDS_MAX];
    bool valid = true;
    char *piece = bench_pages(PIECE_BYTES);
    (void)count_seconds(b, piece, &valid); /* warm */
    (void)load_seconds(b, &valid);
    for (uint64_t i = 0; i < b->rounds; i++) {
        ours[i] = load_seconds(b, &valid);
        count[i] = count_seconds(b, piece, &valid);
    }
    printf("{\"threads\": %u, \"bytes\": %llu, \"rows\": %llu, ", b->threads,
           (unsigned long long)b->bytes, (unsigned long long)b->rows);
    print_values("gb_per_s", ours, b->rounds, b->bytes);
    print_values("count_gb_per_s", count, b->rounds, b->bytes);
    printf("\"valid\": %s}\n", valid ? "true" : "false");
    free(piece);
}

static void parse_flags(struct csv_bench *b, int argc, char **argv)
{
    static const struct option options[] = {{"threads", required_argument, NULL, 't'},
                                            {"quoted", no_argument, NULL, 'q'},
                                            {"bytes", required_argument, NULL, 'b'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 't')
            b->threads = (uint32_t)bench_number(optarg);
        else if (c == 'q')
            b->quoted = true;
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
    make_job(&b);
    measure(&b);
    job_close(&b.job);
    unlink(b.path);
    rmdir(b.dir);
    return 0;
}
