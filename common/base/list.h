/* Singly linked lists whose link is a `next` in what is linked. */
#ifndef GRADWIRE_COMMON_BASE_LIST_H
#define GRADWIRE_COMMON_BASE_LIST_H

/* Take `node` out of the list that begins at `head`; nothing happens where it is not in it. */
#define LIST_REMOVE(head, node)                                                                    \
    do {                                                                                           \
        __typeof__(node) *list_at = &(head);                                                       \
        while (*list_at && *list_at != (node))                                                     \
            list_at = &(*list_at)->next;                                                           \
        if (*list_at)                                                                              \
            *list_at = (node)->next;                                                               \
    } while (0)

#endif
