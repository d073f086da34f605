/* Control characters: a terminal obeys them, and a line feed begins another line of the log. */
#ifndef GRADWIRE_COMMON_BASE_CONTROL_H
#define GRADWIRE_COMMON_BASE_CONTROL_H

/* The byte as a message shows it: '?' for a control character. */
static inline char control_shown(char byte)
{
    return (unsigned char)byte < 0x20 || byte == 0x7f ? '?' : byte;
}

#endif
