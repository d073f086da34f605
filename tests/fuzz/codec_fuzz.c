/* libFuzzer: any bytes as the body of any codec. The first byte names the codec, the second the chunks; the rest is the
 * body. Must hold: nothing outside the run is written; what decodes to numbers encodes again; a body that is longer
 * than the bound is refused. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/codec.h"

enum { ELEMS = 5008, GUARD = 0x5a };

static struct layout layout;
static struct plan plan;
static struct codec_shape shape;
static struct coder *coder;

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct errmsg e;
    static const uint32_t elems[] = {1500, 48, 3443};
    for (uint32_t i = 0; i < 3; i++)
        must(layout_add(&layout,
                        &(struct tensor){.rank = 1,
                                         .shape = {elems[i]},
                                         .role = i == 1 ? TENSOR_STATISTIC : TENSOR_WEIGHT},
                        &e) == ERR_OK);
    must(plan_init(&plan, ELEMS, (uint32_t[]){1}, 1, &e) == ERR_OK);
    shape = (struct codec_shape){&plan, &layout, 0.1f};
    must(coder_new(&coder) == ERR_OK);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t again[ELEMS * sizeof(float)];
    if (bytes < 2)
        return 0;
    enum codec c = (enum codec)(data[0] % (CODECS + 1));
    uint32_t first = data[1] % plan.chunks, chunks = 1 + data[1] / 16 % (plan.chunks - first);
    uint64_t elems = plan_run_elems(&plan, first, chunks);
    /* exactly as long as it may be, so that the sanitizer sees a byte too many */
    float *out = malloc(elems * sizeof(float));
    uint8_t *in = malloc(bytes - 1);
    must(out && in);
    memcpy(in, data + 2, bytes - 2);
    memset(out, GUARD, elems * sizeof(float));
    enum err err = codec_decode(coder, &shape, c, first, chunks, in, bytes - 2, out);
    if (!err) {
        uint64_t n;
        must(bytes - 2 <= codec_body_bytes(&shape, c, first, chunks));
        err = codec_encode(coder, &shape, &c, 1, first, chunks, out, again, &n);
        must(err == ERR_OK || err == ERR_INPUT || err == ERR_TOOBIG);
    } else {
        must(err == ERR_PROTO);
    }
    free(in);
    free(out);
    return 0;
}
