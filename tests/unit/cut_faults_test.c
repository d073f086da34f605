/* Cuts in a place that fails: a cut is written, others are pruned, and at each call in turn the place refuses, the process ends, or
 * a commit is lost or seen late. After each fault the next process finds the old cut or the new one, whole, and continues with it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint.h"
#include "tests/lib/memory_place.h"
#include "worker/chief/host.h"

enum { ELEMS = 40, SHARDS = 2, SLOTS = 1, KEEP = 2 };

/* The values of a cut tell its number. */
static float value(uint64_t cut, uint64_t elem)
{
    return (float)(100 * cut + elem);
}

static enum err write_shard(struct cut c, uint32_t shard, struct checkpoint_file *file,
                            struct errmsg *e)
{
    float w[ELEMS], slot[ELEMS];
    const uint64_t first = shard * ELEMS / SHARDS;
    for (uint64_t i = 0; i < ELEMS; i++)
        w[i] = slot[i] = value(c.id, i);
    const struct checkpoint_shard s = {.shard = shard,
                                       .first_elem = first,
                                       .elems = ELEMS / SHARDS,
                                       .slots = SLOTS,
                                       .w = w + first,
                                       .slot = {slot + first}};
    return checkpoint_write_shard(c, &s, file, e);
}

/* As a job does it. *published: the manifest is written. */
static void write_cut(struct cut c, bool *published)
{
    struct checkpoint_file file[SHARDS];
    struct errmsg e;
    struct manifest m = {
        .cut = c.id, .total_elems = ELEMS, .slots = SLOTS, .files = SHARDS, .file = file};
    enum err err = ERR_OK;
    for (uint32_t i = 0; i < SHARDS && !err; i++)
        err = write_shard(c, i, &file[i], &e);
    if (!err)
        err = checkpoint_write_encoding(c, "{}", 2, &m.encoding, &e);
    if (!err)
        err = checkpoint_publish(c.at, &m, &e);
    *published = !err;
    if (!err)
        checkpoint_prune(c.at, KEEP);
    else
        checkpoint_discard(c);
}

/* The cut from which the next process goes on. It is whole, and has its own values. */
static uint64_t found(const struct place *place)
{
    struct manifest m;
    struct errmsg e = {""};
    float w[ELEMS], slot[ELEMS];
    float *slots[OPTIMIZER_SLOTS_MAX] = {slot};
    if (host_find_cut(place, UINT64_MAX, &m, &e))
        fail_msg("no cut can be used: %s", e.text);
    uint64_t cut = m.cut;
    assert_int_equal(checkpoint_read(place, &m, 0, ELEMS, w, slots, &e), ERR_OK);
    for (uint64_t i = 0; i < ELEMS; i++)
        assert_true(w[i] == value(cut, i) && slot[i] == value(cut, i));
    manifest_close(&m);
    return cut;
}

/* A cut that is half removed, or half written, is none. */
static void assert_each_is_whole(const struct place *place)
{
    uint64_t *cuts;
    size_t n;
    struct errmsg e;
    assert_int_equal(checkpoint_list(place, &cuts, &n, &e), ERR_OK);
    for (size_t i = 0; i < n; i++) {
        struct manifest m;
        assert_int_equal(checkpoint_load_whole((struct cut){place, cuts[i]}, &m, &e), ERR_OK);
        manifest_close(&m);
    }
    mem_free(cuts);
}

/* Cuts 1 and 2 are there. Cut 3 is written, with this fault at call n. Returns whether the fault came. */
static bool try_fault(enum memory_fault fault, long n)
{
    struct memory_place m;
    bool published, again;
    memory_place_open(&m);
    for (uint64_t cut = 1; cut <= 2; cut++)
        write_cut((struct cut){&m.place, cut}, &published);
    memory_place_fail(&m, fault, n);
    write_cut((struct cut){&m.place, 3}, &published);
    bool came = memory_place_restart(&m);
    uint64_t cut = found(&m.place);
    assert_in_range(cut, 2, 3);
    if (fault != MEMORY_LOSES && fault != MEMORY_DELAYS) {
        assert_each_is_whole(&m.place);
        assert_true(cut == 3 || !published);
    }
    if (!came)
        assert_true(published && cut == 3);
    write_cut((struct cut){&m.place, 4}, &again);
    assert_true(again);
    assert_int_equal(found(&m.place), 4);
    write_cut((struct cut){&m.place, 5}, &again); /* nothing of what failed stays */
    assert_int_equal(found(&m.place), 5);
    assert_int_equal(memory_place_objects(&m), KEEP * (SHARDS + 2));
    memory_place_close(&m);
    return came;
}

static void whatever_fails_the_old_cut_or_the_new_one_is_whole(void **state)
{
    (void)state;
    for (int fault = 0; fault < MEMORY_FAULTS; fault++) {
        long n = 0;
        while (try_fault((enum memory_fault)fault, n))
            n++;
        assert_in_range(n, 20, 1000);
    }
}

/* Lists two cuts, or fails. */
static void assert_lists_both(const struct place *place)
{
    uint64_t *cuts;
    size_t n;
    struct errmsg e;
    if (checkpoint_list(place, &cuts, &n, &e))
        return;
    assert_int_equal(n, 2);
    mem_free(cuts);
}

/* Of the calls that read, too: nothing is passed over or removed because it could not be seen. */
static void a_cut_that_a_refused_call_hides_is_used_again(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct memory_place m;
        struct manifest read;
        struct errmsg e;
        bool published;
        memory_place_open(&m);
        for (uint64_t cut = 1; cut <= 2; cut++)
            write_cut((struct cut){&m.place, cut}, &published);
        memory_place_fail(&m, MEMORY_REFUSES, n);
        assert_lists_both(&m.place);
        memory_place_fail(&m, MEMORY_REFUSES, n);
        if (host_find_cut(&m.place, UINT64_MAX, &read, &e) == ERR_OK)
            manifest_close(&read);
        checkpoint_prune(&m.place, KEEP);
        bool came = memory_place_restart(&m);
        assert_int_equal(found(&m.place), 2);
        assert_int_equal(memory_place_objects(&m), 2 * (SHARDS + 2));
        memory_place_close(&m);
        if (!came)
            break;
        assert_in_range(n, 0, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_fails_the_old_cut_or_the_new_one_is_whole),
        cmocka_unit_test(a_cut_that_a_refused_call_hides_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
