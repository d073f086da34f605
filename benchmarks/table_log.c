/* Write the log of table_sizes.py: one column of labels, then COLUMNS columns of keys. Different examples have no key in
 * common.
 *
 * table_log --table-steps N --steps N --batch N --path FILE
 *
 * --table-steps is the number of steps that touch each row of the table once, so it determines the size of the table.
 * --steps is the number of steps of an epoch, a multiple of --table-steps. The order of the lines is made for the second
 * epoch of a job with the default seed: each step then has --batch different examples. Each --table-steps consecutive
 * steps read the whole table once, each time in a new random order. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "benchmarks/bench.h"
#include "common/base/rng.h"
#include "data/dataset.h"

enum { COLUMNS = 26, SEED = 1 /* training.seed */, EPOCH = 1 };

struct table_log {
    uint64_t table_steps, steps, batch;
    const char *path;
    uint64_t *example; /* of each line */
};

static void options_parse(struct table_log *l, int argc, char **argv)
{
    static const struct option known[] = {{"table-steps", 1, NULL, 't'},
                                          {"steps", 1, NULL, 's'},
                                          {"batch", 1, NULL, 'b'},
                                          {"path", 1, NULL, 'p'},
                                          {0}};
    for (int flag; (flag = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (flag == 't')
            l->table_steps = bench_number(optarg);
        else if (flag == 's')
            l->steps = bench_number(optarg);
        else if (flag == 'b')
            l->batch = bench_number(optarg);
        else if (flag == 'p')
            l->path = optarg;
        else
            exit(1);
    }
    if (!l->path || !l->batch || !l->table_steps || !l->steps || l->steps % l->table_steps)
        bench_die("--path and --batch, and --steps, a multiple of --table-steps, are wanted");
}

static void order_lines(struct table_log *l)
{
    const struct order order = {
        .rows = l->steps * l->batch, .batch_size = l->batch, .seed = SEED, .microbatches = 1};
    uint64_t *line = bench_pages((l->batch + 1) * sizeof *line), all = l->table_steps * l->batch;
    for (uint64_t step = 0; step < l->steps; step++) {
        uint64_t pass = rng_key(SEED, RNG_TEST, step / l->table_steps, 0);
        uint64_t first = step % l->table_steps * l->batch;
        (void)order_leaf(&order, EPOCH * l->steps + step, 0, line);
        for (uint64_t i = 0; i < l->batch; i++)
            l->example[line[i]] = rng_permute(pass, first + i, all);
    }
    free(line);
}

static void write_lines(const struct table_log *l)
{
    FILE *file = fopen(l->path, "w");
    if (!file)
        bench_die("%s: cannot be written", l->path);
    for (uint64_t i = 0; i < l->steps * l->batch; i++) {
        (void)fprintf(file, "%d", (int)(l->example[i] & 1));
        for (uint64_t k = 0; k < COLUMNS; k++)
            (void)fprintf(file, ",%lu", (unsigned long)(l->example[i] * COLUMNS + k));
        (void)fputc('\n', file);
    }
    if (ferror(file) | fclose(file))
        bench_die("%s: cannot be written", l->path);
}

int main(int argc, char **argv)
{
    struct table_log l = {0};
    options_parse(&l, argc, argv);
    l.example = bench_pages(l.steps * l.batch * sizeof *l.example);
    order_lines(&l);
    write_lines(&l);
    printf("{\"valid\": true}\n");
    free(l.example);
    return 0;
}
