#include "tests/lib/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/checkpoint/checkpoint_file.h"
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

const struct place *folder_place(const char *folder)
{
    static struct place places[FOLDER_PLACES];
    static size_t next;
    for (size_t i = 0; i < FOLDER_PLACES; i++)
        if (strcmp(places[i].where, folder) == 0)
            return &places[i];
    struct place *p = &places[next++ % FOLDER_PLACES];
    place_folder(p, NULL, folder);
    return p;
}

enum err folder_cut_path(char path[FILES_PATH_MAX], const char *folder, uint64_t cut,
                         const char *file)
{
    char name[PLACE_NAME_MAX];
    cut_object(name, cut, file ? file : "");
    return place_path(folder_place(folder), name, path, NULL);
}
