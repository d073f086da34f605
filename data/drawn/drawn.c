#include "data/drawn/drawn.h"

#include <string.h>

void drawn_init(struct drawn *d, const struct job *job, int eval, char delimiter)
{
    *d = (struct drawn){.eval = eval,
                        .kind = job->data.synthetic,
                        .delimiter = delimiter,
                        .rows =
                            eval ? job->data.synthetic_eval_rows : job->data.synthetic_train_rows};
    if (d->kind == SYNTHETIC_CLICKS)
        clicks_init(&d->clicks, job);
}

static void next_line(struct drawn *d)
{
    if (d->kind == SYNTHETIC_CLICKS)
        d->line_bytes = clicks_write(&d->clicks, d->line, d->delimiter, d->eval, d->row++);
    else
        d->line_bytes = census_write(d->line, sizeof d->line, d->eval, d->row++);
    d->at = 0;
}

size_t drawn_read(struct drawn *d, char *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        if (d->at == d->line_bytes) {
            if (d->row == d->rows)
                break;
            next_line(d);
        }
        size_t left = d->line_bytes - d->at, n = left < bytes - done ? left : bytes - done;
        memcpy(out + done, d->line + d->at, n);
        d->at += n;
        done += n;
    }
    return done;
}
