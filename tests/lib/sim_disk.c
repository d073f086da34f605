/* Storage of the simulated cluster: files of shards, and manifests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_rows.h"
#include "tests/lib/sim.h"

static void file_free(struct sim_file *f)
{
    free(f->w);
    for (int i = 0; i < OPTIMIZER_SLOTS_MAX; i++)
        free(f->slot[i]);
    if (f->rows)
        row_copy_close(f->rows);
    mem_free(f->rows);
    for (int i = 0; i < CHECKPOINT_EPOCHS; i++)
        bins_close(&f->bins[i]);
    free(f);
}

static void remove_files(struct sim *sim, uint64_t cut, const char *name)
{
    for (struct sim_file **at = &sim->files; *at;) {
        struct sim_file *f = *at;
        if (f->cut == cut && (!name || strcmp(f->name.name, name) == 0)) {
            *at = f->next;
            file_free(f);
        } else {
            at = &f->next;
        }
    }
}

static float *copy(const float *from, uint64_t elems)
{
    float *to = malloc(elems * sizeof *to);
    memcpy(to, from, elems * sizeof *to);
    return to;
}

/* ---- a shard's file ---- */

struct sim_save {
    struct sim_thread *thread;
    struct shard_image *image;
    struct row_copy *rows; /* that have come so far; NULL: the job has no tables */
    bool all_rows;
    bool given_up;
    struct checkpoint_file name;
    char error[64];
};

static void save_free(void *p)
{
    struct sim_save *s = p;
    if (s->thread->save == s)
        s->thread->save = NULL;
    if (s->rows)
        row_copy_close(s->rows);
    mem_free(s->rows);
    shard_image_free(s->image);
    free(s);
}

static void on_saved(struct sim *sim, struct sim_event *e)
{
    struct sim_save *s = e->p;
    struct sim_thread *t = s->thread;
    struct broken broken = {.kind = BROKEN_NONE};
    (void)sim;
    broken_find(&broken, &s->image->blocks);
    shard_on_saved(t->core, s->image->cut, s->error[0] ? NULL : &s->name, &broken,
                   s->error[0] ? s->error : NULL);
    save_free(s);
    sim_thread_go_on(t);
}

/* The rows that came become the file's. */
static void move_rows(struct sim_save *s, struct sim_file *f)
{
    f->rows = s->rows;
    s->rows = NULL;
    if (!f->rows)
        return;
    const struct checkpoint_rows *head = &f->rows->head;
    s->name.rows = f->rows->rows;
    s->name.first_bucket = head->buckets.first;
    s->name.end_bucket = head->buckets.end;
    s->name.clock = head->clock;
}

/* The rename: from here on the file exists, even if its writer dies. */
static void make_file(struct sim *sim, struct sim_save *s)
{
    const struct checkpoint_shard *b = &s->image->blocks;
    struct sim_file *f = calloc(1, sizeof *f);
    f->cut = s->image->cut;
    f->generation = b->generation;
    f->slots = b->slots;
    f->w = copy(b->w, b->elems);
    for (uint32_t i = 0; i < b->slots; i++)
        f->slot[i] = copy(b->slot[i], b->elems);
    (void)snprintf(s->name.name, sizeof s->name.name, "shard-%u.gw", b->shard);
    s->name.first_elem = b->first_elem;
    s->name.elems = b->elems;
    s->name.bytes = b->elems * sizeof(float) * (1 + b->slots);
    s->name.head_crc = ++sim->crc;
    move_rows(s, f);
    memcpy(f->bins, s->image->bins, sizeof f->bins);
    memset(s->image->bins, 0, sizeof s->image->bins);
    f->name = s->name;
    remove_files(sim, f->cut, f->name.name);
    f->next = sim->files;
    sim->files = f;
}

static struct sim_event *later(struct sim_save *s, int64_t us,
                               void (*run)(struct sim *, struct sim_event *))
{
    struct sim_event *e = sim_after(s->thread->sim, us, &s->thread->ps->proc, run);
    e->p = s;
    e->drop = save_free;
    return e;
}

/* A disk that is full may be so before all rows are there; a cut that is given up may be written to its end all the same,
 * if they are. */
static void on_written(struct sim *sim, struct sim_event *e)
{
    struct sim_save *s = e->p;
    bool all = !s->rows || s->all_rows;
    if (s->given_up && (!all || sim_chance(sim, 2))) {
        save_free(s);
        return;
    }
    if (sim->save_failures && sim_chance(sim, 2)) {
        sim->save_failures--;
        (void)snprintf(s->error, sizeof s->error, "No space left on device");
    } else if (all) {
        make_file(sim, s);
    } else {
        (void)later(s, 1 + (int64_t)sim_below(sim, 2000), on_written);
        return;
    }
    (void)later(s, (int64_t)sim_below(sim, 3000), on_saved);
}

bool sim_disk_save_room(struct sim_thread *t)
{
    return !sim_chance(t->sim, 10);
}

void sim_disk_save_rows(struct sim_thread *t, const struct row_group *g)
{
    struct sim_save *s = t->save;
    if (s->all_rows)
        sim_fail(t->sim, "rows of a cut behind the last");
    if (row_group_ends(g))
        s->all_rows = true;
    else if (row_copy_add(s->rows, g))
        abort();
}

void sim_disk_save_end(struct sim_thread *t)
{
    if (!t->save)
        return;
    sim_rows_seen.ended += t->save->rows && !t->save->all_rows;
    t->save->given_up = true;
    t->save = NULL;
}

/* Between two frames. */
static void on_copy(struct sim *sim, struct sim_event *e)
{
    struct sim_thread *t = &sim->ps[e->proc->index].thread[e->b];
    if (!t->save || t->save->image->cut != e->a)
        return;
    uint64_t calls = 1 + sim_below(sim, 30);
    while (calls-- && shard_copy(t->core))
        ;
    sim_thread_go_on(t);
    struct sim_event *next = sim_after(
        sim, (int64_t)sim_below(sim, sim_chance(sim, 10) ? 20000 : 600), e->proc, on_copy);
    next->a = e->a;
    next->b = e->b;
}

void sim_disk_save(struct sim_thread *t, struct shard_image *take_image)
{
    struct sim *sim = t->sim;
    const struct checkpoint_rows *rows = take_image->blocks.rows;
    struct sim_save *s = calloc(1, sizeof *s);
    if (t->save)
        sim_fail(sim, "a cut is saved before another one is over");
    s->thread = t;
    s->image = take_image;
    t->save = s;
    if (rows) {
        s->rows = mem_zalloc(1, sizeof *s->rows);
        row_copy_init(s->rows, rows->table, rows->tables, rows->buckets, rows->clock);
        struct sim_event *e = sim_after(sim, 0, &t->ps->proc, on_copy);
        e->a = take_image->cut;
        e->b = t->index;
    }
    (void)later(s, 500 + (int64_t)sim_below(sim, sim_chance(sim, 5) ? 400000 : 10000), on_written);
}

static const struct sim_file *find_file(const struct sim *sim, uint64_t cut,
                                        const struct checkpoint_file *name)
{
    for (const struct sim_file *f = sim->files; f; f = f->next)
        if (f->cut == cut && strcmp(f->name.name, name->name) == 0)
            return f->name.head_crc == name->head_crc ? f : NULL;
    return NULL;
}

enum err sim_disk_read(const struct sim *sim, const struct manifest *m, uint64_t first, uint64_t n,
                       float *w, float *const slot[OPTIMIZER_SLOTS_MAX])
{
    uint64_t got = 0;
    for (uint32_t i = 0; i < m->files; i++) {
        const struct sim_file *f = find_file(sim, m->cut, &m->file[i]);
        if (!f || f->corrupt || f->name.first_elem != m->file[i].first_elem ||
            f->name.elems != m->file[i].elems || f->slots != m->slots)
            return ERR_CORRUPT;
        uint64_t from = f->name.first_elem > first ? f->name.first_elem : first;
        uint64_t to = f->name.first_elem + f->name.elems;
        to = to < first + n ? to : first + n;
        if (from >= to)
            continue;
        got += to - from;
        uint64_t at = from - f->name.first_elem;
        if (w)
            memcpy(w + (from - first), f->w + at, (to - from) * sizeof *w);
        for (uint32_t k = 0; slot && k < f->slots; k++)
            if (slot[k])
                memcpy(slot[k] + (from - first), f->slot[k] + at, (to - from) * sizeof *w);
    }
    return got == n ? ERR_OK : ERR_CORRUPT;
}

/* The file's rows that are wanted. */
static enum err read_rows(struct row_copy *c, const struct checkpoint_rows_wanted *w,
                          struct errmsg *e)
{
    struct row_group g;
    c->next_piece = 0; /* from the first row */
    c->next_at = 0;
    do {
        enum err err = c->head.next(c, &g, e);
        bool ends = !err && row_group_ends(&g);
        if (!err && !ends && g.bucket >= w->buckets.first && g.bucket < w->buckets.end)
            err = row_sink_pass(&w->sink, &g, e);
        if (err || ends)
            return err;
    } while (true);
}

enum err sim_disk_read_rows(const struct sim *sim, const struct manifest *m,
                            const struct checkpoint_rows_wanted *w, struct errmsg *e)
{
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < m->files && !err; i++) {
        const struct sim_file *f = find_file(sim, m->cut, &m->file[i]);
        bool same = f && f->rows && f->rows->head.tables == w->tables &&
                    memcmp(f->rows->table, w->table, w->tables * sizeof *w->table) == 0;
        err = same ? read_rows(f->rows, w, e)
                   : err_set(e, ERR_CORRUPT, "cut %" PRIu64 " has other tables", m->cut);
    }
    return err;
}

/* ---- manifests ---- */

static void *bytes_copy(const void *from, size_t bytes)
{
    void *to = mem_zalloc(bytes, 1);
    if (bytes)
        memcpy(to, from, bytes);
    return to;
}

static struct manifest sim_manifest_copy(const struct manifest *m)
{
    struct manifest to = *m;
    to.window_bits = bytes_copy(m->window_bits, m->window_bits_bytes);
    to.redo.dropped = bytes_copy(m->redo.dropped, m->redo.dropped_bytes);
    to.file = bytes_copy(m->file, m->files * sizeof *m->file);
    to.ps_threads = bytes_copy(m->ps_threads, m->ps * sizeof *m->ps_threads);
    to.identity_text = NULL;
    to.begun = (struct beginnings){.runs = 0}; /* no run is another's sequel */
    return to;
}

static void manifest_drop(void *p)
{
    struct sim_manifest *m = p;
    manifest_close(&m->m);
    free(m);
}

const struct sim_manifest *sim_disk_newest(const struct sim *sim)
{
    return sim->manifests;
}

static void prune(struct sim *sim)
{
    struct sim_manifest **at = &sim->manifests;
    for (int kept = 0; *at && kept < SIM_KEEP; kept++)
        at = &(*at)->next;
    while (*at) {
        struct sim_manifest *old = *at;
        *at = old->next;
        remove_files(sim, old->m.cut, NULL);
        manifest_drop(old);
    }
}

static void on_published(struct sim *sim, struct sim_event *e)
{
    struct sim_worker *k = &sim->worker[0];
    chief_on_published(k->chief, e->a, e->b ? "No space left on device" : NULL, sim_ms(sim));
    sim_worker_pump(sim, k);
}

static void on_manifest_written(struct sim *sim, struct sim_event *e)
{
    struct sim_manifest *m = e->p;
    uint64_t cut = m->m.cut;
    bool fails = sim->publish_failures && sim_chance(sim, 2);
    if (fails) {
        sim->publish_failures--;
        manifest_drop(m);
    } else {
        struct sim_manifest **at = &sim->manifests;
        while (*at && (*at)->m.cut > cut)
            at = &(*at)->next;
        if (*at && (*at)->m.cut == cut)
            sim_fail(sim, "cut %" PRIu64 " is published twice", cut);
        sim_trace(sim, "cut %" PRIu64 " of step %" PRIu64 " is published%s", cut, m->m.step,
                  m->m.final ? ", final" : "");
        m->next = *at;
        *at = m;
        sim_check_manifest(sim, &m->m);
        prune(sim);
    }
    struct sim_event *next = sim_after(sim, (int64_t)sim_below(sim, 3000), e->proc, on_published);
    next->a = cut;
    next->b = fails;
}

void sim_disk_publish(struct sim *sim, const struct manifest *m)
{
    struct sim_manifest *out = calloc(1, sizeof *out);
    out->m = sim_manifest_copy(m);
    sim_geo_publish(sim, out);
    struct sim_event *e = sim_after(sim, 300 + (int64_t)sim_below(sim, 5000), &sim->worker[0].proc,
                                    on_manifest_written);
    e->p = out;
    e->drop = manifest_drop;
}

void sim_disk_discard(struct sim *sim, uint64_t cut)
{
    for (const struct sim_manifest *m = sim->manifests; m; m = m->next)
        if (m->m.cut == cut)
            return;
    remove_files(sim, cut, NULL);
}

enum err sim_disk_find(struct sim *sim, uint64_t below, struct manifest *m)
{
    for (const struct sim_manifest *at = sim->manifests; at; at = at->next) {
        if (at->m.cut < below) {
            *m = sim_manifest_copy(&at->m);
            return ERR_OK;
        }
    }
    return ERR_NOTFOUND;
}

static void read_bins(const struct sim *sim, const struct manifest *m, struct bins *to)
{
    const struct sim_file *f = find_file(sim, m->cut, &m->file[0]);
    for (int i = 0; i < CHECKPOINT_EPOCHS && to; i++) {
        if (!f->bins[i].rows)
            continue;
        bins_close(&to[i]);
        if (bins_copy(&to[i], &f->bins[i]))
            abort();
    }
}

enum err sim_disk_load(struct sim *sim, uint64_t cut, struct manifest *m,
                       struct checkpoint_shard *blocks, struct errmsg *e)
{
    for (const struct sim_manifest *at = sim->manifests; at; at = at->next) {
        if (at->m.cut != cut)
            continue;
        if (sim_disk_read(sim, &at->m, blocks->first_elem, blocks->elems, blocks->w, blocks->slot))
            return cut % 2 ? err_set(e, ERR_CORRUPT, "cut %" PRIu64 " is damaged", cut)
                           : err_set(e, ERR_IO, "cut %" PRIu64 ": Input/output error", cut);
        read_bins(sim, &at->m, blocks->bins);
        enum err err = blocks->wanted ? sim_disk_read_rows(sim, &at->m, blocks->wanted, e) : ERR_OK;
        if (err)
            return err;
        *m = sim_manifest_copy(&at->m);
        return ERR_OK;
    }
    return err_set(e, ERR_NOTFOUND, "cut %" PRIu64 " is not there", cut);
}

/* Only where the one before it is whole: what nobody has is not what recovery can bring back. */
void sim_disk_corrupt(struct sim *sim)
{
    struct sim_manifest *m = sim->manifests;
    if (!m || !m->next || m->m.final)
        return;
    for (uint32_t i = 0; i < m->next->m.files; i++) {
        const struct sim_file *f = find_file(sim, m->next->m.cut, &m->next->m.file[i]);
        if (!f || f->corrupt)
            return;
    }
    for (struct sim_file *f = sim->files; f; f = f->next) {
        if (f->cut == m->m.cut) {
            f->corrupt = true;
            sim_trace(sim, "cut %" PRIu64 " is damaged", f->cut);
            return;
        }
    }
}

void sim_disk_close(struct sim *sim)
{
    journal_close(&sim->journal);
    while (sim->files) {
        struct sim_file *f = sim->files;
        sim->files = f->next;
        file_free(f);
    }
    while (sim->manifests) {
        struct sim_manifest *m = sim->manifests;
        sim->manifests = m->next;
        manifest_drop(m);
    }
}
