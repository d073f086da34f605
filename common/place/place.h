/* A place: a store of objects, each of which is there whole or not at all. An object is not changed: it is written from scratch,
 * and appears when it is committed. Its name is one of the place, such as "journal", or one of a folder
 * of the place, such as "cut-0000000012/manifest.gw".
 * Two types are there: a folder (place_folder.c), and the chief's place through its connection (common/peers/chief_place.c). Each
 * process opens its own; place_of_job opens those of a job. A bucket would be another type: nothing here renames an object, appends
 * to one, or syncs. extend-gradwire.md says what a type is asked for.
 * Checkpoints, DIR/model and DIR/best are in places. These stay files:
 * - DIR/export, whose formats are trees that other libraries write, and each path of a command's user (predict/ maps its tables)
 * - the history, and the journal (worker/chief/journal_file.c), which are appended to: a line and a sync each time, and a reader skips
 *   a torn line. In a bucket they would be an object for each line or batch, which is another design
 * - the marks of the storage that a ps and the chief share (host_rename_token): they are about a file system
 * All functions block. Errors name the object. Thread: any; a writer or a reader: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/process/files.h"

enum { PLACE_NAME_MAX = 320 /* a folder, and a file name of up to 255 bytes */ };

struct place {
    const struct place_type *type;
    void *state;                      /* the type's */
    char where[FILES_PATH_MAX + 104]; /* for messages: before the object's name, and a slash */
};

/* An object that is being written. */
struct place_writer {
    const struct place *of;
    char name[PLACE_NAME_MAX], path[FILES_PATH_MAX]; /* path: for messages */
    uint64_t bytes;                                  /* appended so far */
    void *object;                                    /* the type's; NULL: not open */
};

/* An object that is being read. It stays the same one until it is closed, whatever happens to its name. */
struct place_reader {
    const struct place *of;
    char name[PLACE_NAME_MAX], path[FILES_PATH_MAX];
    uint64_t bytes;
    bool is_open;
    void *object; /* the type's, or fd */
    int fd;
};

/* Gets the name of an object in a folder, or of a folder there. */
typedef enum err place_each(void *ctx, const char *name);

/* The functions of a type. Those below call them; names and paths are set. ERR_NOTFOUND, ERR_CORRUPT and ERR_IO of a read say
 * that the object is lost: a job goes back to an older checkpoint (checkpoint_unusable). A type waits for storage that is away, or
 * returns another error. Before a folder's writes dirguard_check makes sure that DIR is still this process's; another type must see to
 * that itself. */
struct place_type {
    enum err (*begin)(struct place_writer *w, struct errmsg *e);
    enum err (*append)(struct place_writer *w, const void *data, size_t bytes, struct errmsg *e);
    enum err (*commit)(struct place_writer *w, struct errmsg *e); /* the object stays the type's */
    void (*abort)(struct place_writer *w);                        /* also after a commit */
    enum err (*open)(struct place_reader *r, struct errmsg *e);
    enum err (*read)(struct place_reader *r, uint64_t at, void *out, size_t bytes, size_t *got,
                     struct errmsg *e);
    void (*close)(struct place_reader *r);
    /* NULL, as those below: this process does not look, list, remove or hold there. */
    enum err (*stat)(const struct place *p, const char *name, int64_t *written_ms,
                     struct errmsg *e);
    enum err (*list)(const struct place *p, const char *folder, place_each *each, void *ctx,
                     struct errmsg *e);
    enum err (*remove)(const struct place *p, const char *name, struct errmsg *e);
    void (*clear)(const struct place *p, const char *folder, bool leftovers);
    enum err (*hold)(const struct place *p, const char *name, int *hold, struct errmsg *e);
};

/* Opens a place of a job. output: DIR; name: OUTPUT_CHECKPOINTS, OUTPUT_MODEL or OUTPUT_BEST. There is nothing to close. */
void place_of_job(struct place *p, const char *output, const char *name);
/* Opens the folder at `path`, or if `in` is not NULL the folder IN/PATH. It need not exist. There is nothing to close. */
void place_folder(struct place *p, const char *in, const char *path);

/* Writes where the object is, for messages. name "": the place itself. Errors: ERR_IO the path is too long. */
enum err place_path(const struct place *p, const char *name, char path[FILES_PATH_MAX],
                    struct errmsg *e) MUST_CHECK;

/* Writes an object: begin, append any number of times, then commit or abort. After a commit the object is there, also after a
 * power cut, in place of an older one. After an error of it, or an abort, there is the older one, or none.
 * On an error of begin nothing need be aborted. Errors: ERR_IO, ERR_NOMEM; the type's. */
enum err place_begin(const struct place *p, const char *name, struct place_writer *w,
                     struct errmsg *e) MUST_CHECK;
enum err place_append(struct place_writer *w, const void *data, size_t bytes,
                      struct errmsg *e) MUST_CHECK;
/* Closes the writer, also on error. */
enum err place_commit(struct place_writer *w, struct errmsg *e) MUST_CHECK;
/* Does nothing if the writer is not open. */
void place_abort(struct place_writer *w);
/* All of it. */
enum err place_put(const struct place *p, const char *name, const void *data, size_t bytes,
                   struct errmsg *e) MUST_CHECK;

/* Opens an object for reading. r->path is set on error, too. Errors: ERR_NOTFOUND, ERR_IO, ERR_NOMEM; the type's. */
enum err place_open(const struct place *p, const char *name, struct place_reader *r,
                    struct errmsg *e) MUST_CHECK;
/* Reads a range. *got is less than `bytes` only where the object ends. Errors: ERR_IO, ERR_NOMEM; the type's. */
enum err place_read(struct place_reader *r, uint64_t at, void *out, size_t bytes, size_t *got,
                    struct errmsg *e) MUST_CHECK;
/* Does nothing if the reader is not open. */
void place_close(struct place_reader *r);
/* Reads all of an object of at most `max` bytes. The caller owns *data (mem_free); a NUL follows the bytes. Errors: as place_open;
 * ERR_TOOBIG. */
enum err place_get(const struct place *p, const char *name, size_t max, uint8_t **data,
                   size_t *bytes, struct errmsg *e) MUST_CHECK;
/* Looks whether the object is there, and when it was committed, in ms since 1970. Errors: ERR_NOTFOUND; ERR_IO it cannot be found
 * out. */
enum err place_stat(const struct place *p, const char *name, int64_t *written_ms,
                    struct errmsg *e) MUST_CHECK;
/* Passes each object and folder in `folder` ("": the place itself) to `each`, in any order. There are none if the folder is
 * missing. Errors: ERR_IO; ERR_NOMEM, also for any error of `each`. */
enum err place_list(const struct place *p, const char *folder, place_each *each, void *ctx,
                    struct errmsg *e) MUST_CHECK;
/* Removes an object; it does not come back after a power cut. Errors: ERR_NOTFOUND; ERR_STATE it is held, or of dirguard_check;
 * ERR_IO. */
enum err place_remove(const struct place *p, const char *name, struct errmsg *e) MUST_CHECK;
/* Removes all objects of a folder, also those that are held; some may come back after a power cut. With `leftovers` only what
 * writers left that were killed. Failures are logged; nothing is removed if dirguard_check fails. */
void place_clear(const struct place *p, const char *folder, bool leftovers);

/* Holds an object: no process's place_remove removes it until place_release, or the end of this process. If the storage has no
 * locks, others can remove it all the same. *hold: -1 if the type does not hold, and then a best epoch with tables, which is a
 * checkpoint that must stay, cannot be kept. Waits while another process removes it. Errors: ERR_NOTFOUND it was removed;
 * ERR_IO. */
enum err place_hold(const struct place *p, const char *name, int *hold,
                    struct errmsg *e) MUST_CHECK;
void place_release(int hold);
