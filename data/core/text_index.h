/* Where rows begin in files of text, so that any row can be read without those before it. Pure.
 *
 * A file's bytes, decompressed, are divided into cells of equal size. The index has the first line that begins in each cell
 * outside of quotes, and a checksum of the cell. Cells are scanned in parts, in any order and by any process: a scan does not
 * know in which state the reader reaches the part, so it begins in each one; text_index_join, which knows, picks one.
 *
 * A "record" is a row, or a line that is not a row: a header, a comment, an empty line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum {
    TEXT_INDEX_CELL_BYTES = 512 << 10,
    TEXT_INDEX_PART_CELLS = 16,
    /* of a reader, by numbers of its own: state 0 is the one at a file's beginning, where a record begins */
    TEXT_INDEX_STATES = 16
};
#define TEXT_INDEX_NONE UINT32_MAX

/* A cell, as a scan that began the part in one of the states has seen it. A record is counted in the cell with the first byte that
 * shows it to be a row. */
struct text_index_seen {
    uint32_t first; /* offset of the first record that begins in it; TEXT_INDEX_NONE: none does */
    uint32_t rows_before;  /* that were counted before `first` */
    uint32_t rows;         /* that were counted, with those */
    uint32_t lines_before; /* newlines before `first` */
};

struct text_index_part {
    uint32_t file, cells;
    uint64_t first_cell;
    uint32_t starts;                /* bits: the states from which it was scanned */
    uint8_t end[TEXT_INDEX_STATES]; /* the state behind the part, for each of them */
    uint32_t zero;                  /* so that no byte of a part has an unknown value */
    struct {
        uint64_t sum;   /* XXH3 of its bytes */
        uint32_t lines; /* newlines */
        uint32_t zero;
        struct text_index_seen seen[TEXT_INDEX_STATES];
    } cell[TEXT_INDEX_PART_CELLS];
};

struct text_index_entry {
    uint64_t row;  /* of the file's rows, a header among them: as many come before `first` */
    uint64_t line; /* of `first`, from 1 */
    uint64_t sum;
    uint32_t first; /* as in text_index_seen */
    uint32_t zero;  /* so that no byte of an entry has an unknown value */
};

struct text_index_file {
    uint64_t bytes, stored_bytes;   /* of the text; and of the file, which can be compressed */
    int64_t modified_ns;            /* when the file was; for the caller */
    uint64_t cells, joined;         /* joined: those of the parts that were joined */
    struct text_index_entry *entry; /* (cells) */
    uint64_t rows, lines;           /* rows: a header among them */
    uint8_t state;                  /* behind what was joined */
    bool compressed;
    uint8_t *
        points; /* (points_bytes) the caller's places in a compressed file; text_index_close frees them */
    size_t points_bytes;
    size_t capacity; /* of entry, for text_index_add */
};

struct text_index {
    uint64_t cell_bytes;
    uint64_t names; /* a hash of the files' names; for the caller */
    bool headers;   /* the first row of each file is a header, and no row of the data */
    uint32_t files;
    struct text_index_file *file;
};

/* Errors: ERR_NOMEM. Owns: text_index_close. */
enum err text_index_init(struct text_index *x, uint32_t files, uint64_t cell_bytes, bool headers,
                         struct errmsg *e) MUST_CHECK;
/* Call it for each file, once, before its parts are joined. Errors: ERR_NOMEM. */
enum err text_index_size(struct text_index *x, uint32_t file, uint64_t bytes, int64_t modified_ns,
                         struct errmsg *e) MUST_CHECK;
/* Add a cell to a file that text_index_size gave no bytes. Each but the last has cell_bytes. Errors: ERR_NOMEM. */
enum err text_index_add(struct text_index *x, uint32_t file, uint32_t bytes,
                        struct errmsg *e) MUST_CHECK;
/* The bytes of a cell: the last one of a file can be short. */
uint32_t text_index_cell_size(const struct text_index *x, uint32_t file, uint64_t cell);
/* A peer's part, of any cells: text_index_join takes it in each state. states: bits of those in which a file can be at a byte; the first
 * is 0. Errors: ERR_PROTO: it has impossible values. */
enum err text_index_check(const struct text_index *x, const struct text_index_part *p,
                          uint32_t states, struct errmsg *e) MUST_CHECK;
/* Add the next cells of a file; *p can be a peer's. Errors: ERR_PROTO: they are not the next ones, were not scanned from the state
 * that the file is in, or have impossible values. */
enum err text_index_join(struct text_index *x, const struct text_index_part *p,
                         struct errmsg *e) MUST_CHECK;
/* Of the data, once all parts are joined: headers do not count. */
uint64_t text_index_rows(const struct text_index *x);
uint64_t text_index_file_rows(const struct text_index *x, uint32_t file);

/* Where to begin to read for a row: `skip` rows that follow, a header among them, come before it. */
struct text_index_place {
    uint32_t file;
    uint64_t at, line, skip;
    uint64_t left; /* rows of the file, from it on */
};
/* The last entry before a row of the data, which exists. */
struct text_index_place text_index_find(const struct text_index *x, uint64_t row);
void text_index_close(struct text_index *x);

/* As bytes, to be kept or sent. of: a hash of all else that it depends on: the grammar of the text. *out:
 * (*bytes), the caller's (mem_free). All parts are joined. Errors: ERR_NOMEM. */
enum err text_index_pack(const struct text_index *x, uint64_t of, uint8_t **out, size_t *bytes,
                         struct errmsg *e) MUST_CHECK;
/* Owns: text_index_close. Errors: ERR_NOTFOUND: it is of something else; ERR_CORRUPT; ERR_NOMEM. */
enum err text_index_unpack(struct text_index *x, uint64_t of, const uint8_t *in, size_t bytes,
                           struct errmsg *e) MUST_CHECK;
