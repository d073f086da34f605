/* The names of all files and directories in a job's output directory DIR (docs/reference/files.md). tests/lint/house.py finds
 * a path that is spelled elsewhere. Names of checkpoints' files are in common/checkpoint/checkpoint_file.h. */
#pragma once

#define OUTPUT_BEST "best" /* the best epoch's weights, as in OUTPUT_MODEL */
#define OUTPUT_BY_HAND "by-hand"
#define OUTPUT_CHECKPOINTS "checkpoints"
#define OUTPUT_EVAL "eval.json" /* the evaluator's results */
#define OUTPUT_EXPORT "export"
#define OUTPUT_HISTORY "history.jsonl"
#define OUTPUT_LOCK "lock"
#define OUTPUT_LOGS "logs" /* TensorBoard's */
#define OUTPUT_MODEL "model"
#define OUTPUT_PROCESSES "processes"
#define OUTPUT_RATES "learning-rates.csv" /* of lr-finder */
#define OUTPUT_RENDEZVOUS "rendezvous"    /* has a directory for each attempt of `rank` */
#define OUTPUT_SUMMARY "summary.json"
#define OUTPUT_ASIDE "aside" /* in DIR.1, DIR.2, ...: names the directory that was moved here */

/* in OUTPUT_PROCESSES */
#define OUTPUT_PIDS OUTPUT_PROCESSES "/pids"
#define OUTPUT_HTTP OUTPUT_PROCESSES "/http"
#define OUTPUT_HOSTS OUTPUT_PROCESSES "/hosts"
#define OUTPUT_PROGRESS OUTPUT_PROCESSES "/progress.json"
#define OUTPUT_LAUNCHER OUTPUT_PROCESSES "/launcher" /* the pid of the last one that locked DIR */
#define OUTPUT_LAUNCHER_LOG OUTPUT_PROCESSES "/launcher.log"
#define OUTPUT_SUMMARY_BEFORE OUTPUT_PROCESSES "/summary-before.json" /* the last run's */

/* in OUTPUT_CHECKPOINTS, next to the checkpoints */
#define OUTPUT_JOURNAL "journal"
#define OUTPUT_BEGINS ".begins" /* is there until the first checkpoint is complete */

/* The names in DIR. The last ones identify it as a job's directory; they are removed last, in this order. */
#define OUTPUT_NAMES                                                                               \
    OUTPUT_BEST, OUTPUT_BY_HAND, OUTPUT_EVAL, OUTPUT_EXPORT, OUTPUT_HISTORY, OUTPUT_RATES,         \
        OUTPUT_LOGS, OUTPUT_MODEL, OUTPUT_SUMMARY, OUTPUT_RENDEZVOUS, OUTPUT_CHECKPOINTS,          \
        OUTPUT_PROCESSES, OUTPUT_LOCK, OUTPUT_ASIDE
