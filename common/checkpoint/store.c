#include "common/checkpoint/store.h"

#include <stdio.h>
#include <string.h>

#include "common/checkpoint/checkpoint_file.h"

bool store_shard(const char *file, uint32_t *shard)
{
    char again[STORE_NAME_MAX];
    unsigned number;
    if (sscanf(file, "shard-%u.gw", &number) != 1)
        return false;
    (void)snprintf(again, sizeof again, "shard-%u.gw", number);
    if (strcmp(file, again) != 0)
        return false;
    *shard = number;
    return true;
}

bool store_is_shard(const char *file)
{
    uint32_t shard;
    return store_shard(file, &shard);
}

bool store_is_manifest(const char *file)
{
    return strcmp(file, CHECKPOINT_MANIFEST) == 0;
}

bool store_is_encoding(const char *file)
{
    return strcmp(file, CHECKPOINT_ENCODING) == 0;
}
