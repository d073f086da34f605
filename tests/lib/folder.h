/* A folder of a test's own, made and removed. */
#pragma once

#include <stdint.h>

#include "common/place/place.h"

enum { FOLDER_BYTES = 64 };

/* Its path into folder: FOLDER_BYTES. 0, or -1: there is none. */
int folder_make(char *folder);

/* Removes it with all its contents, after it makes files and memory fail no more. 0, or another number. */
int folder_remove(const char *folder);

/* The same as cmocka's setup and teardown: folder_dir is the group's. */
extern char folder_dir[FOLDER_BYTES];
int folder_setup(void **state);
int folder_teardown(void **state);

/* The folder as a place, for the calls that take one. It is valid until as many others as FOLDER_PLACES were asked for. */
enum { FOLDER_PLACES = 8 };
const struct place *folder_place(const char *folder);

/* Where a file of a cut in this folder is; file NULL: the cut's folder. Gives ERR_OK. */
enum err folder_cut_path(char path[FILES_PATH_MAX], const char *folder, uint64_t cut,
                         const char *file);
