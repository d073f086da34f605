/* Memory for the keys that a microbatch looks up. It is filled row by row, then made into lists of distinct keys in
 * ascending order, with the index of each row's keys in them. It is reused for the next microbatch. */
#ifndef GRADWIRE_DATA_LEAF_ROOM_H
#define GRADWIRE_DATA_LEAF_ROOM_H

#include "common/base/err.h"
#include "common/rows/lookups.h"
#include "data/table.h"

struct leaf_room;

/* For up to `rows` rows of a schema that has lookups. Errors: ERR_NOMEM. */
enum err leaf_room_new(struct leaf_room **room, const struct table_schema *s, uint32_t rows,
                       struct errmsg *e) MUST_CHECK;
/* The same for scores: the lists have the keys as they come, repeated ones too. All memory is allocated here: leaf_room_add
 * and leaf_room_finish do not fail. Errors: also ERR_INPUT: too many keys for one list. */
enum err leaf_room_new_repeating(struct leaf_room **room, const struct table_schema *s,
                                 uint32_t rows, struct errmsg *e) MUST_CHECK;
void leaf_room_free(struct leaf_room *room);

void leaf_room_clear(struct leaf_room *room);
/* Add a row, given its cells. Errors: ERR_NOMEM. */
enum err leaf_room_add(struct leaf_room *room, const uint32_t *cells, struct errmsg *e) MUST_CHECK;
/* All rows are added: make the lists. The result is valid until the room is cleared or freed. Errors: ERR_NOMEM. */
enum err leaf_room_finish(struct leaf_room *room, const struct leaf_keys **keys,
                          struct errmsg *e) MUST_CHECK;

#endif
