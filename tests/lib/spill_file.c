#include "tests/lib/spill_file.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

int spill_file(void)
{
    DIR *d = opendir("/proc/self/fd");
    int found = -1;
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d));) {
        char to[512] = {0};
        if (readlinkat(dirfd(d), entry->d_name, to, sizeof to - 1) > 0 &&
            strstr(to, "/gradwire-rows-"))
            found = atoi(entry->d_name);
    }
    closedir(d);
    assert_true(found >= 0);
    return found;
}

void spill_file_flip(int bit)
{
    uint8_t byte;
    int fd = spill_file();
    assert_int_equal(pread(fd, &byte, 1, bit / 8), 1);
    byte ^= (uint8_t)(1 << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
}
