#include "k8s/entrypoint/http.h"

#include "common/flags/flags.h"

enum { PORT_MAX = 65535 };

enum err http_next(uint32_t *next, uint32_t port, const char *said, const char *other,
                   struct errmsg *e)
{
    uint32_t http = (uint32_t)flags_number("http_port");
    if (http == PORT_MAX)
        return err_set(
            e, ERR_INPUT,
            "--http_port: '%u' is not allowed; allowed: 1 to 65534 (the %s has the next)", http,
            other);
    if (http && http + 1 >= port && http <= port + 1)
        return err_set(e, ERR_INPUT,
                       "--http_port=%u and the next meet %s and the next; give HTTP two others",
                       http, said);
    *next = http ? http + 1 : 0;
    return ERR_OK;
}
