/* Singly linked lists: each node has a member `next`. */
#pragma once

/* Remove `node` from the list that starts at `head`. Does nothing if the list does not contain it. */
#define LIST_REMOVE(head, node)                                                                    \
    do {                                                                                           \
        __typeof__(node) *list_at = &(head);                                                       \
        while (*list_at && *list_at != (node))                                                     \
            list_at = &(*list_at)->next;                                                           \
        if (*list_at)                                                                              \
            *list_at = (node)->next;                                                               \
    } while (0)
