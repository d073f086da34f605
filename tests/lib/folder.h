/* A folder of a test's own, made and removed. */
#ifndef GRADWIRE_TESTS_LIB_FOLDER_H
#define GRADWIRE_TESTS_LIB_FOLDER_H

enum { FOLDER_BYTES = 64 };

/* Its path into folder: FOLDER_BYTES. 0, or -1: there is none. */
int folder_make(char *folder);

/* Removes it with all its contents, after it makes files and memory fail no more. 0, or another number. */
int folder_remove(const char *folder);

/* The same as cmocka's setup and teardown: folder_dir is the group's. */
extern char folder_dir[FOLDER_BYTES];
int folder_setup(void **state);
int folder_teardown(void **state);

#endif
