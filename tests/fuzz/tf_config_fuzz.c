/* libFuzzer: any bytes as TF_CONFIG. A text that is understood must be consistent. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void holds_together(const struct cluster *c)
{
    if ((c->role == ROLE_PS && (!c->self || c->n_ps == 0)) || (c->alone && c->n_ps > 0) ||
        (c->is_chief && c->worker_id != 0) ||
        (!c->sparse && c->n_ps > 0 && c->role == ROLE_PS && c->index >= c->n_ps))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct cluster_flags flags = {"", "", "", "", -1, 0};
    char *text = malloc(bytes + 1);
    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    struct cluster c;
    struct errmsg e;
    if (cluster_init(&c, &flags, text, &e) == ERR_OK) {
        holds_together(&c);
        cluster_close(&c);
    }
    free(text);
    return 0;
}
