/* File names of cuts, as exchanged between a ps and a chief that share no storage (proto: StorePut, StoreGet,
 * StoreAnswer). */
#ifndef GRADWIRE_COMMON_CHECKPOINT_STORE_H
#define GRADWIRE_COMMON_CHECKPOINT_STORE_H

#include <stdbool.h>
#include <stdint.h>

enum { STORE_PIECE_BYTES = 1 << 20, STORE_NAME_MAX = 32 };

/* Return whether `file` is the name of a shard's file ("shard-12.gw"), of the manifest, or of encoding.json. The chief
 * must open no other file for a peer. */
bool store_is_shard(const char *file);
/* The same for a shard's file, with the shard's number. */
bool store_shard(const char *file, uint32_t *shard);
bool store_is_manifest(const char *file);
bool store_is_encoding(const char *file);

#endif
