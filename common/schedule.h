/* The learning rate as a function of the update's number: Keras 3's schedules, and a linear warm-up. Pure. */
#ifndef GRADWIRE_COMMON_SCHEDULE_H
#define GRADWIRE_COMMON_SCHEDULE_H

#include <stdint.h>

#include "common/job.h"

/* The rate of update t, counted from 1, where `rate` is the job's learning rate (Keras's initial_learning_rate). The
 * same bits on every machine: common/real.h. Thread: any; no state. */
double schedule_rate(const struct job_schedule *s, float rate, uint64_t t);

#endif
