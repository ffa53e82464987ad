// settings.h -- the values of a run's job.yaml that differ from another run's. compare.c calls it. It reads the form in which
// config/job_print.c writes job.yaml: a key a line, two spaces for each section around it.
#ifndef TRIREME_MONITOR_REPORT_SETTINGS_H
#define TRIREME_MONITOR_REPORT_SETTINGS_H

#include "base/err.h"

#include <jansson.h>

// {"parallel.dp": ["ddp", "zero3"], …}; null stands for a key that one of them lacks, and train.out is left out. Empty where
// a folder has no job.yaml. The caller calls json_decref.
status report_settings_compare(const char *folder_a, const char *folder_b, json_t **out, err *e);

#endif
