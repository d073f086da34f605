#include "common/checkpoint/store.h"

#include <stdio.h>
#include <string.h>

#include "common/checkpoint/checkpoint_file.h"

bool store_is_shard(const char *file)
{
    char again[STORE_NAME_MAX];
    unsigned shard;
    if (sscanf(file, "shard-%u.gw", &shard) != 1)
        return false;
    (void)snprintf(again, sizeof again, "shard-%u.gw", shard);
    return strcmp(file, again) == 0;
}

bool store_is_manifest(const char *file)
{
    return strcmp(file, CHECKPOINT_MANIFEST) == 0;
}

bool store_is_encoding(const char *file)
{
    return strcmp(file, CHECKPOINT_ENCODING) == 0;
}
