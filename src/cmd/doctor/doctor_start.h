// doctor_start.h -- what a run looks at before its ranks start. Called by cmd/train.c.
#ifndef TRIREME_CMD_DOCTOR_START_H
#define TRIREME_CMD_DOCTOR_START_H

#include <stdbool.h>

// Runs the checks that cost nothing (doctor/check.h), and warns in one line where one has found something.
void doctor_warn_at_start(bool on_gpus);

#endif
