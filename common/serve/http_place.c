#include "common/serve/http_place.h"

#include <string.h>

#include "common/cluster/address.h"

enum err http_place_check(const struct http_place *place, const char *bind, struct errmsg *e)
{
    char host[ADDRESS_HOST_MAX];
    struct errmsg unsaid = {""};
    uint16_t port;
    if (!bind || !place->port || place->fd >= 0 ||
        address_split(bind, true, host, &port, &unsaid) || port != place->port)
        return ERR_OK;
    if (*host && *place->address && strcmp(host, place->address) != 0)
        return ERR_OK;
    return err_set(e, ERR_INPUT,
                   "--http_port=%d is also the port on which this process serves its job (%.100s): "
                   "give HTTP another port",
                   place->port, bind);
}
