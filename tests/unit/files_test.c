#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/process/files.h"
#include "common/base/mem.h"
#include "tests/lib/folder.h"

static char *const folder = folder_dir;

static const char *in_folder(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int entries(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void assert_holds(const char *path, const char *text)
{
    struct errmsg e;
    uint8_t *data;
    size_t bytes;
    assert_int_equal(files_read(path, 100, &data, &bytes, &e), ERR_OK);
    assert_int_equal(bytes, strlen(text));
    assert_string_equal((char *)data, text);
    mem_free(data);
}

static void files_read_gives_what_files_write_wrote(void **state)
{
    (void)state;
    struct errmsg e;
    const char *path = in_folder("a");
    assert_int_equal(files_write(path, "hello", 5, &e), ERR_OK);
    assert_holds(path, "hello");
    assert_int_equal(files_write(path, "", 0, &e), ERR_OK);
    assert_holds(path, "");
    assert_int_equal(entries(), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0400, 0400);
}

static void a_temporary_folder_and_lines_have_the_modes_that_the_umask_leaves(void **state)
{
    static const mode_t masks[] = {0, 0027, 0077};
    mode_t before = umask(0);
    (void)state;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char made[FILES_PATH_MAX], lines[32];
        struct errmsg e;
        struct stat st;
        (void)umask(masks[i]);
        assert_int_equal(files_begin_folder(in_folder("f"), made, &e), ERR_OK);
        assert_int_equal(stat(made, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0777 & ~masks[i]);
        assert_int_equal(rmdir(made), 0);
        (void)snprintf(lines, sizeof lines, "lines-%zu", i);
        assert_int_equal(line_file_append(in_folder(lines), "x\n", 2, &e), ERR_OK);
        assert_int_equal(stat(in_folder(lines), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0666 & ~masks[i]);
    }
    (void)umask(before);
}

static void a_file_system_that_is_read_only_is_named_with_the_way_out(void **state)
{
    (void)state;
    struct errmsg e;
    errno = EROFS;
    assert_int_equal(files_write_error("/output/lock", &e), ERR_IO);
    assert_string_equal(e.text, "/output/lock: Read-only file system: /output must be writable; in "
                                "a pod, mount a volume there without readOnly");
    errno = ENOSPC;
    assert_int_equal(files_write_error("/output/lock", &e), ERR_IO);
    assert_string_equal(e.text, "/output/lock: No space left on device");
}

static void files_written_in_pieces_appear_at_commit_only(void **state)
{
    (void)state;
    struct errmsg e;
    struct files_writer w;
    const char *path = in_folder("a");
    assert_int_equal(files_begin(&w, path, &e), ERR_OK);
    assert_int_equal(files_append(&w, "he", 2, &e), ERR_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(files_append(&w, "llo", 3, &e), ERR_OK);
    assert_int_equal(w.bytes, 5);
    assert_int_equal(files_commit(&w, &e), ERR_OK);
    files_abort(&w);
    assert_holds(path, "hello");
}

static void an_aborted_file_leaves_nothing(void **state)
{
    (void)state;
    struct errmsg e;
    struct files_writer w;
    assert_int_equal(files_begin(&w, in_folder("a"), &e), ERR_OK);
    assert_int_equal(files_append(&w, "he", 2, &e), ERR_OK);
    files_abort(&w);
    files_abort(&w);
    assert_int_equal(entries(), 0);
}

static void a_failed_step_of_a_first_write_leaves_nothing_and_names_the_path(void **state)
{
    (void)state;
    const char *path = in_folder("a");
    for (long n = 0;; n++) {
        struct errmsg e = {""};
        files_fail_at(n, ENOSPC);
        enum err err = files_write(path, "hello", 5, &e);
        if (!files_fail_fired()) {
            assert_int_equal(err, ERR_OK);
            assert_int_equal(n, 5); /* open, write, fsync, rename, fsync of the folder */
            return;
        }
        assert_int_equal(err, ERR_IO);
        assert_non_null(strstr(e.text, path));
        assert_non_null(strstr(e.text, "No space left on device"));
        assert_int_equal(entries(), 0);
    }
}

static void a_failed_step_of_a_later_write_leaves_a_whole_file(void **state)
{
    (void)state;
    const char *path = in_folder("a");
    struct errmsg e;
    for (long n = 0; n < 5; n++) {
        files_fail_at(-1, 0);
        assert_int_equal(files_write(path, "old", 3, &e), ERR_OK);
        files_fail_at(n, EIO);
        assert_int_equal(files_write(path, "new", 3, &e), ERR_IO);
        assert_true(files_fail_fired());
        assert_holds(path, n < 4 ? "old" : "new");
        assert_int_equal(entries(), 1);
    }
}

static void files_read_says_what_is_wrong(void **state)
{
    (void)state;
    struct errmsg e;
    uint8_t *data = NULL;
    size_t bytes = 7;
    const char *path = in_folder("a");
    assert_int_equal(files_read(path, 100, &data, &bytes, &e), ERR_NOTFOUND);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(files_write(path, "hello", 5, &e), ERR_OK);
    assert_int_equal(files_read(path, 4, &data, &bytes, &e), ERR_TOOBIG);
    assert_int_equal(files_read(folder, 100, &data, &bytes, &e), ERR_IO);
    mem_fail_at(0);
    assert_int_equal(files_read(path, 5, &data, &bytes, &e), ERR_NOMEM);
    assert_null(data);
    assert_int_equal(bytes, 7);
}

static void files_read_reads_what_has_no_size(void **state)
{
    (void)state;
    struct errmsg e;
    uint8_t *data;
    size_t bytes;
    assert_int_equal(files_read("/proc/self/status", 1 << 20, &data, &bytes, &e), ERR_OK);
    assert_true(bytes > 100);
    mem_free(data);
    assert_int_equal(files_read("/dev/zero", 10000, &data, &bytes, &e), ERR_TOOBIG);
    assert_int_equal(files_read("/dev/zero", 10, &data, &bytes, &e), ERR_TOOBIG);
}

static void files_mkdirs_makes_what_is_missing(void **state)
{
    (void)state;
    struct errmsg e;
    struct stat st;
    assert_int_equal(files_mkdirs(in_folder("x//y/z/"), &e), ERR_OK);
    assert_int_equal(stat(in_folder("x/y/z"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(files_mkdirs(in_folder("x/y/z"), &e), ERR_OK);
    assert_int_equal(files_mkdirs("/", &e), ERR_OK);
    assert_int_equal(files_mkdirs("", &e), ERR_IO);
}

static void files_mkdirs_names_the_file_that_is_in_the_way(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(files_write(in_folder("x"), "", 0, &e), ERR_OK);
    assert_int_equal(files_mkdirs(in_folder("x/y"), &e), ERR_IO);
    assert_non_null(strstr(e.text, in_folder("x")));
    assert_non_null(strstr(e.text, "Not a directory"));
}

/* root may write anywhere, so as another user. */
static void a_folder_that_is_not_writable_is_named_with_the_process_and_the_way_out(void **state)
{
    (void)state;
    enum { USER = 65532 };
    struct errmsg e;
    char expected[512];
    const bool root = geteuid() == 0;
    const char *path = in_folder("summary.json");
    assert_int_equal(chmod(folder, 0555), 0);
    if (root)
        assert_int_equal(seteuid(USER), 0);
    const unsigned user = geteuid(), group = getegid();
    enum err written = files_write(path, "x", 1, &e);
    struct errmsg made_e;
    enum err made = files_mkdirs(in_folder("checkpoints"), &made_e);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(written, ERR_IO);
    (void)snprintf(expected, sizeof expected,
                   "%s/summary.json: Permission denied: this process (user %u, group %u) cannot "
                   "write to %s; give it that directory, or in a pod set "
                   "securityContext.fsGroup",
                   folder, user, group, folder);
    assert_string_equal(e.text, expected);
    assert_int_equal(made, ERR_IO);
    assert_non_null(strstr(made_e.text, "/checkpoints: Permission denied: this process (user "));
    assert_non_null(strstr(made_e.text, "fsGroup"));
    assert_int_equal(entries(), 0);
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct errmsg e;
    char *path = malloc(5000);
    memset(path, 'a', 4999);
    path[4999] = 0;
    assert_int_equal(files_write(path, "", 0, &e), ERR_IO);
    assert_int_equal(files_mkdirs(path, &e), ERR_IO);
    free(path);
}

/* ---- complete reads and writes ---- */

/* Two pieces, the second one later. */
static void *write_pieces(void *fd)
{
    const int to = *(const int *)fd;
    assert_int_equal(files_put(to, "abc", 3), 3);
    for (int bytes = 1; bytes > 0;) /* until the reader has them */
        assert_int_equal(ioctl(to, FIONREAD, &bytes), 0);
    assert_int_equal(files_put(to, "de", 2), 2);
    (void)close(to);
    return NULL;
}

static void a_read_goes_on_until_all_bytes_came_or_the_file_ends(void **state)
{
    (void)state;
    int fd[2];
    pthread_t writer;
    char got[8] = "";
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_pieces, &fd[1]), 0);
    assert_int_equal(files_get(fd[0], got, 4), 4);
    assert_string_equal(got, "abcd");
    assert_int_equal(files_get(fd[0], got, 4), 1);
    assert_int_equal(files_get(fd[0], got, 4), 0);
    assert_int_equal(pthread_join(writer, NULL), 0);
    (void)close(fd[0]);
    assert_int_equal(files_get(fd[0], got, 4), -1);
    assert_int_equal(errno, EBADF);
}

static int alarms, answer;

static void on_alarm(int number)
{
    (void)number;
    if (++alarms == 3)
        (void)!write(answer, "ab", 2);
}

static void a_signal_does_not_end_a_read(void **state)
{
    (void)state;
    int fd[2];
    char got[8] = "";
    const struct itimerval every_ms = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm}, was; /* without SA_RESTART */
    assert_int_equal(pipe(fd), 0);
    answer = fd[1];
    assert_int_equal(sigaction(SIGALRM, &action, &was), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    ssize_t n = files_get(fd[0], got, 2);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &was, NULL), 0);
    assert_int_equal(n, 2);
    assert_string_equal(got, "ab");
    (void)close(fd[0]);
    (void)close(fd[1]);
}

static void a_write_that_leaves_bytes_out_says_why(void **state)
{
    (void)state;
    char got[8] = "";
    int full = open("/dev/full", O_WRONLY), fd = open(in_folder("a"), O_RDWR | O_CREAT, 0600);
    assert_int_equal(files_put(full, "ab", 2), 0);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(files_put_at(fd, "cd", 2, 2), 2);
    assert_int_equal(files_put(fd, "ab", 2), 2);
    assert_int_equal(files_get_at(fd, got, sizeof got, 1), 3);
    assert_string_equal(got, "bcd");
    struct rlimit was, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = (struct rlimit){6, was.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    size_t put = files_put_at(fd, "efgh", 4, 4);
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(put, 2);
    assert_int_equal(error, EFBIG);
    (void)close(fd);
    (void)close(full);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_read_gives_what_files_write_wrote),
        TEST(a_temporary_folder_and_lines_have_the_modes_that_the_umask_leaves),
        TEST(a_file_system_that_is_read_only_is_named_with_the_way_out),
        TEST(files_written_in_pieces_appear_at_commit_only),
        TEST(an_aborted_file_leaves_nothing),
        TEST(a_failed_step_of_a_first_write_leaves_nothing_and_names_the_path),
        TEST(a_failed_step_of_a_later_write_leaves_a_whole_file),
        TEST(files_read_says_what_is_wrong),
        TEST(files_read_reads_what_has_no_size),
        TEST(files_mkdirs_makes_what_is_missing),
        TEST(files_mkdirs_names_the_file_that_is_in_the_way),
        TEST(a_folder_that_is_not_writable_is_named_with_the_process_and_the_way_out),
        TEST(a_path_that_is_too_long_is_refused),
        TEST(a_read_goes_on_until_all_bytes_came_or_the_file_ends),
        TEST(a_signal_does_not_end_a_read),
        TEST(a_write_that_leaves_bytes_out_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
