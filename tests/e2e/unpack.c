/* Prints for each argument what data/bytes/stream.c makes of the file: "ok BYTES SHA256", or "error TEXT". FILE:NAME is the
 * member NAME of a zip archive. For unpack_test.py, which compares with Python's libraries and with zstd. */
#include <stdio.h>
#include <string.h>

#include "common/base/sha256.h"
#include "data/bytes/stream.h"

/* `piece`: the size of a read; the ends of pieces and of members come together in many ways. */
static enum err unpack(struct stream *s, size_t piece, struct errmsg *e)
{
    static uint8_t part[1 << 16];
    struct sha256 *hash = sha256_new();
    char hex[SHA256_HEX_BYTES];
    unsigned long long bytes = 0;
    size_t got = piece;
    enum err err = hash ? ERR_OK : err_set(e, ERR_NOMEM, "out of memory");
    while (!err && got == piece) {
        err = stream_read(s, part, piece, &got, e);
        if (!err)
            sha256_add(hash, part, got);
        bytes += err ? 0 : got;
    }
    if (err)
        sha256_free(hash);
    else if (sha256_hex(hash, hex))
        err = err_set(e, ERR_NOMEM, "out of memory");
    else
        (void)printf("ok %llu %s\n", bytes, hex);
    return err;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct errmsg e = {""};
        struct stream *s = NULL;
        char *member = strchr(argv[i], ':');
        if (member)
            *member++ = '\0';
        enum err err =
            member ? stream_open_member(&s, argv[i], member, &e) : stream_open(&s, argv[i], &e);
        if (!err)
            err = unpack(s, i % 3 == 0 ? 1 << 16 : i % 3 == 1 ? 7 : 1000, &e);
        if (err)
            (void)printf("error %s\n", e.text);
        stream_close(s);
    }
    return 0;
}
