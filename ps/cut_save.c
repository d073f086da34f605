#include "ps/cut_save.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/checkpoint/row_frame.h"
#include "common/process/fault.h"
#include "ps/row_pipe.h"

struct cut_save {
    struct cut_save_config config;
    uint64_t cut;
    bool has_rows;
    struct row_pipe pipe;
    atomic_int users; /* references: the shard's thread and the writer's */
    atomic_bool given_up;
    pthread_mutex_t lock; /* guards `image` until the writer has taken it */
    struct shard_image *image;
    struct cut_saved *out; /* the result that is being filled in */
    struct checkpoint_table table[ROW_TABLES_MAX];
    struct broken broken; /* the writer's thread: first value that is not finite so far */
    bool rows_over;       /* the shard's thread has passed all rows */
    uint64_t unslept;     /* bytes whose delay (--fault=disk) is still to be slept */
};

static void unref(struct cut_save *s)
{
    if (atomic_fetch_sub(&s->users, 1) > 1)
        return;
    shard_image_free(s->image);
    mem_free(s->out);
    if (s->has_rows)
        row_pipe_close(&s->pipe);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* ---- called by the writer's thread ---- */

/* Sleep as long as the slow disk of --fault=disk would take. */
static void sleep_as_the_disk(const struct cut_save *s, uint64_t bytes)
{
    double seconds = s->config.fault ? fault_disk_s(s->config.fault, bytes) : 0;
    if (seconds > 0)
        usleep((useconds_t)(seconds * 1e6));
}

static enum err next_rows(void *ctx, struct row_group *g, struct errmsg *e)
{
    struct cut_save *s = ctx;
    enum err err = row_pipe_next(&s->pipe, g, e);
    if (err)
        return err;
    const struct checkpoint_table *t = &s->pipe.table[g->table];
    broken_find_in_rows(&s->broken, g, t);
    s->unslept += row_group_bytes(g->rows, t->dim + t->slots);
    if (s->unslept >= ROW_PIPE_PIECE_BYTES || row_group_ends(g)) {
        sleep_as_the_disk(s, s->unslept);
        s->unslept = 0;
    }
    return ERR_OK;
}

static void write_image(struct cut_save *s, struct shard_image *image, struct cut_saved *out)
{
    const struct cut_save_config *c = &s->config;
    const struct checkpoint_shard *b = &image->blocks;
    sleep_as_the_disk(s, b->elems * sizeof(float) * (1 + b->slots));
    broken_find(&s->broken, b);
    out->err = checkpoint_write_shard((struct cut){c->place, s->cut}, b, &out->file, &out->e);
}

static struct shard_image *take_image(struct cut_save *s)
{
    pthread_mutex_lock(&s->lock);
    struct shard_image *image = s->image;
    s->image = NULL;
    pthread_mutex_unlock(&s->lock);
    return image;
}

static void run(void *arg)
{
    struct cut_save *s = arg;
    struct shard_image *image = take_image(s);
    int64_t began_ms = clock_now_ms();
    if (image) {
        struct cut_saved *out = s->out;
        s->out = NULL;
        write_image(s, image, out);
        shard_image_free(image);
        out->seconds = (double)(clock_now_ms() - began_ms + 1) / 1000;
        out->broken = s->broken;
        out->given_up = atomic_load(&s->given_up);
        s->config.on_done(s->config.ctx, out);
    }
    unref(s);
}

/* ---- called by the shard's thread ---- */

static void open_pipe(struct cut_save *s)
{
    struct checkpoint_rows *rows = &s->image->rows;
    memcpy(s->table, rows->table, rows->tables * sizeof *rows->table);
    row_pipe_open(&s->pipe, s->table, rows->tables, s->config.on_room, s->config.ctx);
    rows->next = next_rows;
    rows->ctx = s;
}

enum err cut_save_begin(struct cut_save **out, struct disk_thread *writer,
                        const struct cut_save_config *config, struct shard_image *take)
{
    struct cut_save *s = mem_zalloc(1, sizeof *s);
    struct cut_saved *saved = mem_zalloc(1, sizeof *saved);
    if (!s || !saved) {
        mem_free(s);
        mem_free(saved);
        shard_image_free(take);
        return ERR_NOMEM;
    }
    saved->cut = s->cut = take->cut;
    s->config = *config;
    s->image = take;
    s->out = saved;
    s->has_rows = take->blocks.rows != NULL;
    s->rows_over = !s->has_rows;
    atomic_init(&s->users, 2);
    pthread_mutex_init(&s->lock, NULL);
    if (s->has_rows)
        open_pipe(s);
    enum err err = disk_thread_post(writer, run, s);
    if (err) {
        atomic_store(&s->users, 1);
        unref(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

uint64_t cut_save_number(const struct cut_save *s)
{
    return s->cut;
}

bool cut_save_room(struct cut_save *s)
{
    return row_pipe_room(&s->pipe);
}

enum err cut_save_rows(struct cut_save *s, const struct row_group *g)
{
    if (!row_group_ends(g))
        return row_pipe_put(&s->pipe, g);
    s->rows_over = true;
    row_pipe_end(&s->pipe);
    return ERR_OK;
}

void cut_save_give_up(struct cut_save *s)
{
    atomic_store(&s->given_up, true);
    if (s->has_rows)
        row_pipe_give_up(&s->pipe);
    shard_image_free(take_image(s)); /* NULL if the writer has begun */
    unref(s);
}

void cut_save_end(struct cut_save *s)
{
    if (s->rows_over)
        unref(s);
    else
        cut_save_give_up(s);
}
