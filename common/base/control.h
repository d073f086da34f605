/* Control characters in text from outside: a terminal would obey them, and a line feed would start a false log
 * line. */
#ifndef GRADWIRE_COMMON_BASE_CONTROL_H
#define GRADWIRE_COMMON_BASE_CONTROL_H

/* Returns the byte to print: '?' for a control character, otherwise the byte itself. */
static inline char control_shown(char byte)
{
    return (unsigned char)byte < 0x20 || byte == 0x7f ? '?' : byte;
}

#endif
