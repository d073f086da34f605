#include "tests/lib/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/process/files.h"

int folder_make(char *folder)
{
    strcpy(folder, "/tmp/gradwire-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

int folder_remove(const char *folder)
{
    char command[FOLDER_BYTES + 16];
    files_fail_at(-1, 0);
    mem_fail_at(-1);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

char folder_dir[FOLDER_BYTES];

int folder_setup(void **state)
{
    (void)state;
    return folder_make(folder_dir);
}

int folder_teardown(void **state)
{
    (void)state;
    return folder_remove(folder_dir);
}
