/* How far this process has read the files of its data, for its status. A process reads its data once at a time. */
#ifndef GRADWIRE_COMMON_PROCESS_LOADING_H
#define GRADWIRE_COMMON_PROCESS_LOADING_H

#include <stdbool.h>
#include <stdint.h>

struct loading {
    uint64_t bytes, of_bytes; /* of the files, as they are on the disk; of_bytes 0: not known */
    uint64_t rows;
    double left_s; /* NAN: not known yet */
};

/* Reading begins, of files of so many bytes. `tell` is then called about once a second, on the thread that reads, if it is not
 * NULL. Thread: one; not while another reads. */
void loading_begin(uint64_t of_bytes, void (*tell)(void *ctx, const struct loading *now),
                   void *ctx);
void loading_end(void);

/* Bytes and rows were read; no effect before loading_begin. Thread: any. */
void loading_read(uint64_t bytes);
void loading_rows(uint64_t rows);

/* False: this process reads no data now. Thread: any. */
bool loading_look(struct loading *out);

#endif
