/* The commands of gradwire-model. Each is a file NAME.c with NAME_main, which reads its flags (common/flags/table.c),
 * and returns the exit code. */
#ifndef GRADWIRE_MODEL_COMMAND_H
#define GRADWIRE_MODEL_COMMAND_H

/* Exit codes of a command that fails. */
enum { EXIT_FAILED = 1, EXIT_INPUT = 2 };

#endif
