/* A shard thread that has lost what no peer can repeat says that its process must end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/process/fault.h"
#include "ps/shard_thread.h"
#include "tests/lib/folder.h"

enum { LOOK_MS = 5, LOOKS_MAX = 2000 };

/* The server, as far as a shard thread sees it. */
static struct fixture {
    struct loop loop;
    struct mailbox in;
    struct loop_timer look;
    struct shard_thread *thread;
    enum shard_letter waits_for;
    bool heard;
    enum err failed;
    const char *why;
    uint32_t looks;
} f;

static void on_letter(void *arg, struct mail *m)
{
    (void)arg;
    if (m->type == (int)f.waits_for) {
        f.heard = true;
        loop_stop(&f.loop);
    }
}

/* As the server's tick. */
static void look(void *arg)
{
    (void)arg;
    f.failed = shard_thread_failed(f.thread, &f.why);
    if (f.failed || ++f.looks == LOOKS_MAX)
        loop_stop(&f.loop);
}

static void begin(enum shard_letter waits_for)
{
    static const struct fault none;
    struct errmsg e;
    memset(&f, 0, sizeof f);
    f.waits_for = waits_for;
    assert_int_equal(loop_init(&f.loop), ERR_OK);
    assert_int_equal(mailbox_init(&f.in, &f.loop, on_letter, NULL), ERR_OK);
    assert_int_equal(shard_thread_new(&f.thread, 0, 0, folder_dir, NULL, &none, &f.in, &e), ERR_OK);
    loop_timer_init(&f.look, &f.loop, look, NULL);
    assert_int_equal(loop_timer_every(&f.look, LOOK_MS), ERR_OK);
}

static void end(void)
{
    loop_timer_stop(&f.look);
    shard_thread_free(f.thread);
    mailbox_close(&f.in);
    loop_close(&f.loop);
}

static enum err tell_enter(void)
{
    Gradwire__Generation g = GRADWIRE__GENERATION__INIT;
    Gradwire__Enter m = GRADWIRE__ENTER__INIT;
    g.number = 1;
    m.generation = &g;
    m.mode = GRADWIRE__ENTER_MODE__TAKEOVER; /* refused: there is nothing to take over */
    return shard_thread_tell(f.thread, FRAME_ENTER, &m.base);
}

static enum err ask_status(void)
{
    return shard_thread_ask(f.thread, SHARD_STATUS);
}

/* Each allocation in turn fails. The answer arrives, or the thread says that the process must end. */
static void no_allocation_loses(enum err (*request)(void), enum shard_letter answer,
                                const char *why)
{
    bool fired = true;
    uint32_t failures = 0;
    for (long n = 0; fired; n++) {
        begin(answer);
        mem_fail_at(n);
        if (request() == ERR_OK) { /* otherwise the server knows it */
            assert_int_equal(loop_run(&f.loop), ERR_OK);
            assert_true(f.heard || f.failed == ERR_NOMEM);
        }
        fired = mem_fail_fired();
        mem_fail_at(-1);
        failures += f.failed != ERR_OK;
        if (f.failed)
            assert_string_equal(f.why, why);
        end();
    }
    assert_true(failures > 0);
}

static void without_memory_for_a_message_to_the_chief_the_process_must_end(void **state)
{
    (void)state;
    no_allocation_loses(tell_enter, SHARD_TELLS,
                        "shard thread 0: no memory for a message to the chief");
}

static void without_memory_for_the_answer_to_the_chiefs_hello_the_process_must_end(void **state)
{
    (void)state;
    no_allocation_loses(ask_status, SHARD_STATUS,
                        "shard thread 0: no memory for the answer to the chief's hello");
}

/* The server does not read, until the mailbox is full. */
static void a_letter_that_finds_no_room_ends_the_process(void **state)
{
    (void)state;
    begin(SHARD_STATUS);
    uint32_t asked = 0;
    for (; !f.failed && asked < 100 * MAILBOX_MAX; look(NULL))
        asked += ask_status() == ERR_OK;
    assert_int_equal(f.failed, ERR_TOOBIG);
    assert_string_equal(f.why, "shard thread 0: a letter to the server is lost: too many wait");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            without_memory_for_a_message_to_the_chief_the_process_must_end, folder_setup,
            folder_teardown),
        cmocka_unit_test_setup_teardown(
            without_memory_for_the_answer_to_the_chiefs_hello_the_process_must_end, folder_setup,
            folder_teardown),
        cmocka_unit_test_setup_teardown(a_letter_that_finds_no_room_ends_the_process, folder_setup,
                                        folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
