/* A worker reads what a cut's rows mean from the chief, which is a thread here that says what a test wants. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
#include "common/net/socket.h"
#include "common/wire/msg.h"
#include "tests/lib/peer.h"
#include "worker/control/cut_reader.h"

static const char TEXT[] = "{\"columns\": [\"twenty and some bytes\"]}";
enum { CUT = 7, PIECE_BYTES = 11 };

enum way {
    WELL,
    FLIPS_A_BYTE,
    IS_LONGER,
    BREAKS_THE_MANIFEST,
    HAS_NO_ENCODING,
    IS_ANOTHER_CUT,
    HAS_LOST_IT,
    HANGS_UP,
    SAYS_NOTHING,
    REFUSES,
    WELCOMES,
    SKIPS_A_PIECE,
    CHANGES_ITS_SIZE,
    SENDS_MORE, /* than is left */
    HAS_A_HUGE_MANIFEST,
    IS_FOUND_BY_PS_0,
    HAS_NO_CUT,
    PS_0_REFUSES,
    IS_OVER,
    IS_OVER_AND_GOES_ON,
    HAS_LEARNED_LESS, /* than is asked for, and goes on */
    READS_FOR_LONG,   /* longer than start_ms */
    HAS_FAILED,       /* with 2: by its input */
    HAS_FAILED_OTHERWISE,
    HAS_FAILED_AND_IS_AWAITED, /* another one is */
};

enum {
    EPOCHS = 2,
    REFUSALS = 3,
    READS_MS = 2000,
    READS_TIMES = 10,
    SILENT_MS = PEER_DEADLINE_MS / 4
};

static struct chief {
    enum way way;
    int listening;
    char address[32];
    uint8_t *manifest;
    size_t manifest_bytes;
    int role, gets;
} chief;

/* ---- the chief ---- */

static void send_frame(int fd, enum frame_type type, const ProtobufCMessage *m, const void *body,
                       size_t body_bytes)
{
    uint8_t head[512];
    size_t bytes;
    uint8_t *frame =
        peer_encode(type, head, protobuf_c_message_pack(m, head), body, body_bytes, &bytes);
    peer_write(fd, frame, bytes);
    mem_free(frame);
}

/* NULL: the connection is over. */
static ProtobufCMessage *read_frame(int fd, struct frame *f)
{
    uint8_t header[FRAME_HEADER_BYTES], head[4096];
    if (recv(fd, header, sizeof header, MSG_WAITALL) != sizeof header)
        return NULL;
    assert_int_equal(frame_decode(f, header, &(struct frame_limits){FRAME_PLAIN, sizeof head, 0}),
                     ERR_OK);
    if (f->head_bytes)
        peer_read(fd, head, f->head_bytes);
    return msg_unpack(f->type, head, f->head_bytes);
}

static void say_lost(int fd)
{
    Gradwire__StoreAnswer m = GRADWIRE__STORE_ANSWER__INIT;
    m.request = 1;
    m.error = (char *)"it is gone";
    m.corrupt = true;
    send_frame(fd, FRAME_STORE_ANSWER, &m.base, NULL, 0);
}

static void serve(int fd, const Gradwire__StoreGet *get)
{
    bool manifest = strcmp(get->file, "manifest.gw") == 0;
    uint8_t text[sizeof TEXT];
    memcpy(text, TEXT, sizeof TEXT);
    text[20] ^= chief.way == FLIPS_A_BYTE;
    const uint8_t *file = manifest ? chief.manifest : text;
    Gradwire__StoreAnswer m = GRADWIRE__STORE_ANSWER__INIT;
    chief.gets++;
    m.request = get->request;
    m.offset = get->offset + (chief.way == SKIPS_A_PIECE && get->offset > 0);
    m.total = manifest ? chief.manifest_bytes : sizeof TEXT - 1 + (chief.way == IS_LONGER);
    if (chief.way == HAS_A_HUGE_MANIFEST)
        m.total = UINT64_MAX / 2;
    uint64_t left = get->offset < m.total ? m.total - get->offset : 0;
    left += chief.way == SENDS_MORE && !manifest && left && left < PIECE_BYTES; /* the text's NUL */
    m.total += chief.way == CHANGES_ITS_SIZE && get->offset > 0;
    send_frame(fd, FRAME_STORE_ANSWER, &m.base, file + get->offset,
               left < PIECE_BYTES ? (size_t)left : PIECE_BYTES);
}

static void answer_worker(int fd, Gradwire__HelloReply *reply)
{
    Gradwire__HelloReply was = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Over over = GRADWIRE__OVER__INIT;
    over.epochs = EPOCHS - (chief.way == HAS_LEARNED_LESS);
    was.over = &over;
    for (int i = 0; i < READS_TIMES && chief.way == READS_FOR_LONG; i++) {
        Gradwire__HelloReply reads = GRADWIRE__HELLO_REPLY__INIT;
        reads.chief_reads = true;
        send_frame(fd, FRAME_HELLO_REPLY, &reads.base, NULL, 0);
        clock_sleep_ms(READS_MS / (READS_TIMES - 2));
    }
    if (chief.way >= IS_OVER && chief.way <= HAS_LEARNED_LESS)
        send_frame(fd, FRAME_HELLO_REPLY, &was.base, NULL, 0);
    Gradwire__Done failed = GRADWIRE__DONE__INIT;
    failed.text = (char *)"data.train: x.csv: it is open";
    failed.exit_code = chief.way == HAS_FAILED_OTHERWISE ? 1 : 2;
    failed.linger_s = chief.way == HAS_FAILED_AND_IS_AWAITED ? 5 : 0;
    if (chief.way >= HAS_FAILED)
        reply->failed = &failed;
    reply->chief_address = chief.address;
    if (chief.way != IS_OVER)
        send_frame(fd, FRAME_HELLO_REPLY, &reply->base, NULL, 0);
}

static void answer_hello(int fd, const Gradwire__Hello *hello)
{
    Gradwire__HelloReply reply = GRADWIRE__HELLO_REPLY__INIT;
    Gradwire__Refuse refuse = GRADWIRE__REFUSE__INIT;
    Gradwire__Welcome welcome = GRADWIRE__WELCOME__INIT;
    chief.role = (int)hello->role;
    reply.cut = chief.way == HAS_NO_CUT ? 0 : CUT + 1;
    refuse.reason = GRADWIRE__REASON__OTHER_JOB;
    refuse.text = (char *)"of another house";
    if (chief.way == REFUSES || chief.way == PS_0_REFUSES)
        send_frame(fd, FRAME_REFUSE, &refuse.base, NULL, 0);
    else if (chief.way == WELCOMES)
        send_frame(fd, FRAME_WELCOME, &welcome.base, NULL, 0);
    else if (hello->role == GRADWIRE__ROLE__WORKER) /* to ps 0 */
        answer_worker(fd, &reply);
    else if (chief.way != SAYS_NOTHING)
        send_frame(fd, FRAME_HELLO_REPLY, &reply.base, NULL, 0);
}

static bool asks_ps(void)
{
    return chief.way == IS_FOUND_BY_PS_0 || chief.way >= HAS_NO_CUT;
}

static void serve_one(void)
{
    int fd = accept(chief.listening, NULL, NULL);
    struct frame f;
    ProtobufCMessage *m;
    while ((m = read_frame(fd, &f))) {
        bool ends = f.type == FRAME_STORE_GET && chief.way == HANGS_UP;
        if (f.type == FRAME_HELLO)
            answer_hello(fd, (const Gradwire__Hello *)m);
        else if (chief.way == HAS_LOST_IT)
            say_lost(fd);
        else if (!ends)
            serve(fd, (const Gradwire__StoreGet *)m);
        msg_free(m);
        if (ends)
            break;
    }
    close(fd);
}

/* As ps 0, and as the chief. */
static void *chief_main(void *unused)
{
    int as_ps = chief.way == PS_0_REFUSES ? REFUSALS : asks_ps();
    for (int i = 0; i < as_ps; i++)
        serve_one();
    if (chief.way != PS_0_REFUSES && chief.way != IS_OVER && chief.way < HAS_FAILED)
        serve_one();
    return unused;
}

/* ---- the worker ---- */

static void make_manifest(void)
{
    uint32_t threads[] = {1};
    struct checkpoint_file file = {.name = "shard-0.gw", .elems = 4, .bytes = 100};
    const struct manifest_encoding none = {0};
    const struct manifest_encoding there = {
        sizeof TEXT - 1, (uint32_t)crc32_z(0, (const uint8_t *)TEXT, sizeof TEXT - 1)};
    struct errmsg e = {""};
    struct manifest m = {.cut = chief.way == IS_ANOTHER_CUT ? CUT + 1 : CUT,
                         .total_elems = 4,
                         .identity_text = (char *)"",
                         .files = 1,
                         .file = &file,
                         .ps = 1,
                         .ps_threads = threads};
    m.encoding = chief.way == HAS_NO_ENCODING ? none : there;
    if (manifest_encode(&m, &chief.manifest, &chief.manifest_bytes, &e))
        fail_msg("%s", e.text);
    chief.manifest[10] ^= chief.way == BREAKS_THE_MANIFEST;
}

/* Where the job is done: of one that is not, none may be waited for. */
static int64_t over_ms(enum way way)
{
    return way == IS_OVER ? 100 : way == HAS_LEARNED_LESS ? 0 : PEER_DEADLINE_MS;
}

static enum err fetch(enum way way, char **text, struct manifest *m, struct errmsg *e)
{
    pthread_t thread;
    char *own[] = {chief.address};
    struct job job = {.name = "people", .training.epochs = EPOCHS};
    const struct cluster cluster = {
        .role = ROLE_WORKER, .index = 1, .worker_id = 1, .n_ps = 1, .ps = own};
    chief = (struct chief){.way = way, .listening = peer_listen(), .role = -1};
    make_manifest();
    (void)snprintf(chief.address, sizeof chief.address, "127.0.0.1:%u",
                   socket_port(chief.listening));
    assert_int_equal(pthread_create(&thread, NULL, chief_main, NULL), 0);
    static const struct contents contents = {.files = 0};
    const struct cut_reader r = {.job = &job,
                                 .contents = &contents,
                                 .cluster = &cluster,
                                 .chief = asks_ps() ? NULL : chief.address,
                                 .cut = asks_ps() ? CUT_READER_ANY : CUT,
                                 .start_ms = way == PS_0_REFUSES     ? 3000
                                             : way == READS_FOR_LONG ? READS_MS
                                                                     : PEER_DEADLINE_MS,
                                 .over_ms = over_ms(way),
                                 .silent_ms = way == SAYS_NOTHING ? 300 : SILENT_MS};
    int64_t began_ms = clock_now_ms();
    enum err err = cut_reader_fetch(&r, m, text, e);
    (void)shutdown(chief.listening, SHUT_RDWR); /* nobody else is waited for */
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(chief.listening);
    mem_free(chief.manifest);
    assert_true(way != PS_0_REFUSES || clock_now_ms() - began_ms < SILENT_MS);
    return err;
}

static void a_cuts_encoding_comes_in_pieces_and_is_that_of_its_manifest(void **state)
{
    (void)state;
    char *text = NULL;
    struct manifest m;
    struct errmsg e = {""};
    if (fetch(WELL, &text, &m, &e))
        fail_msg("%s", e.text);
    assert_string_equal(text, TEXT);
    assert_int_equal(m.cut, CUT);
    assert_int_equal(m.encoding.bytes, sizeof TEXT - 1);
    assert_int_equal(chief.role, GRADWIRE__ROLE__READER);
    assert_true(chief.gets > 4);
    mem_free(text);
    manifest_close(&m);
}

static void find(enum way way)
{
    char *text = NULL;
    struct manifest m;
    struct errmsg e = {""};
    if (fetch(way, &text, &m, &e))
        fail_msg("%s", e.text);
    assert_string_equal(text, TEXT);
    assert_int_equal(m.cut, CUT);
    mem_free(text);
    manifest_close(&m);
}

static void ps_0_says_where_the_chief_is_and_the_chief_which_cut(void **state)
{
    (void)state;
    find(IS_FOUND_BY_PS_0);
}

static void the_time_for_which_a_chief_reads_its_data_does_not_count(void **state)
{
    (void)state;
    find(READS_FOR_LONG);
}

static void behind_a_job_that_is_done_a_chief_may_train_on(void **state)
{
    (void)state;
    find(HAS_LEARNED_LESS);
    find(IS_OVER_AND_GOES_ON);
}

static void what_is_not_as_the_manifest_says_ends_with_words(void **state)
{
    (void)state;
    static const struct {
        enum way way;
        enum err err;
        const char *why;
    } cases[] = {
        {FLIPS_A_BYTE, ERR_CORRUPT, "cut-0000000007/encoding.json: corrupt: its checksum differs"},
        {IS_LONGER, ERR_CORRUPT, "encoding.json: corrupt: it does not have the 38 bytes that"},
        {BREAKS_THE_MANIFEST, ERR_CORRUPT,
         "the chief's checkpoints/cut-0000000007/manifest.gw: corrupt"},
        {HAS_NO_ENCODING, ERR_NOTFOUND, "has no encoding.json: an earlier release wrote it"},
        {IS_ANOTHER_CUT, ERR_CORRUPT, "manifest.gw: corrupt: it belongs to checkpoint 8"},
        {HAS_LOST_IT, ERR_CORRUPT, "the chief: it is gone"},
        {HANGS_UP, ERR_CLOSED, "the connection to the chief is lost"},
        {SAYS_NOTHING, ERR_TIMEOUT, "has not answered for 0 s"},
        {REFUSES, ERR_REFUSED, "the chief refuses: of another house"},
        {WELCOMES, ERR_PROTO, "the chief does not serve the encoding of checkpoints"},
        {HAS_NO_CUT, ERR_NOTFOUND, "the chief has no checkpoint"},
        {PS_0_REFUSES, ERR_REFUSED, "has refused for 3 s (timeouts.start_s): of another house"},
        {IS_OVER, ERR_STATE, "the job is done, and no chief has connected to continue training"},
        {HAS_FAILED, ERR_INPUT, "the chief ended the job: data.train: x.csv: it is open"},
        {HAS_FAILED_OTHERWISE, ERR_CLOSED, "the chief ended the job: data.train"},
        {HAS_FAILED_AND_IS_AWAITED, ERR_CLOSED, "the chief ended the job: data.train"},
        {SKIPS_A_PIECE, ERR_PROTO, "a piece of manifest.gw that was not requested"},
        {CHANGES_ITS_SIZE, ERR_CORRUPT, "manifest.gw: it became another one while it was read"},
        {SENDS_MORE, ERR_PROTO, "a piece of encoding.json that was not requested"},
        {HAS_A_HUGE_MANIFEST, ERR_CORRUPT, "manifest.gw: corrupt: it is too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        struct manifest m;
        struct errmsg e = {""};
        enum err err = fetch(cases[i].way, &text, &m, &e);
        if (!strstr(e.text, cases[i].why))
            fail_msg("case %zu: %s", i, e.text);
        assert_int_equal(err, cases[i].err);
        assert_null(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cuts_encoding_comes_in_pieces_and_is_that_of_its_manifest),
        cmocka_unit_test(ps_0_says_where_the_chief_is_and_the_chief_which_cut),
        cmocka_unit_test(the_time_for_which_a_chief_reads_its_data_does_not_count),
        cmocka_unit_test(behind_a_job_that_is_done_a_chief_may_train_on),
        cmocka_unit_test(what_is_not_as_the_manifest_says_ends_with_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
