/* The commands of gradwire-model. Each is a file NAME.c with NAME_main, which reads its flags (common/flags/table.c),
 * and returns the exit code. */
#pragma once

#include <stdint.h>

#include "common/base/err.h"
#include "job/job.h"

/* Exit codes of a command that fails. */
enum { EXIT_FAILED = 1, EXIT_INPUT = 2 };

int compare_main(int argc, char **argv);
int convert_main(int argc, char **argv);
int evaluate_main(int argc, char **argv);
int import_main(int argc, char **argv);
int encode_main(int argc, char **argv);
int export_main(int argc, char **argv);
int predict_main(int argc, char **argv);

/* The command has failed: print one line on stderr. Returns the exit code: EXIT_INPUT if the input is wrong, otherwise
 * EXIT_FAILED. */
int command_failed(enum err err, const struct errmsg *e);

/* The value of --threads; without it as many as cores. */
uint32_t command_threads(void);

/* The names of files joined by line feeds, as in a job, in place of *paths, which is the caller's (mem_free). Errors: ERR_INPUT: a word
 * is no name; ERR_NOMEM. */
enum err command_join_names(const char *const *words, char **paths, struct errmsg *e) MUST_CHECK;

/* Make the command's second and later arguments, DATA, the job's data.eval. A job that generates csv rows then reads csv.
 * takes_held: without DATA, rows that are held out of data.train will do. Errors: ERR_INPUT: an argument is no name of a file;
 * stdin, but neither csv nor libsvm; the job generates rows of another kind; without DATA: the job has nothing to evaluate on;
 * ERR_NOMEM. */
enum err command_name_data(struct job *job, bool takes_held, struct errmsg *e) MUST_CHECK;

/* `path`, the file that the command writes, is none of the command's DATA (stdin aside), of the job's data.train and data.eval, or
 * of the model in the directory `dir`. job: before command_name_data. A file of the data that does not exist is no error here:
 * reading it is. Errors: ERR_INPUT: it is one. */
enum err command_check_output(const struct job *job, const char *dir, const char *path,
                              struct errmsg *e) MUST_CHECK;

/* All output is printed. Errors: ERR_IO: stdout could not take it. */
enum err command_flush(struct errmsg *e) MUST_CHECK;
