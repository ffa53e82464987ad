// private.h -- what the files that make a job share. Private to config/.
#ifndef TRIREME_CONFIG_PRIVATE_H
#define TRIREME_CONFIG_PRIVATE_H

#include "config/job.h"
#include "config/settings.h"

// A job that holds every default and nothing that was said; for help and for job_open.
status job_new(const char *file, job **out, err *e);

// job.model from its settings, config.json included. E_USAGE with file, line and key.
status job_read_model(job *j, err *e);

// Checks that keys agree with each other, and resolves what follows from the rest (launch.ranks).
status job_check(job *j, err *e);

// The largest number of ranks <= cores that the batch can be split over.
int batch_auto_ranks(const job *j, int cores);
// The batch rule for a given number of ranks; changes nothing.
status batch_check(const job *j, int ranks, err *e);

// The model's fields under Trireme's own names, one by one from index 0. False after the last.
// `from` receives where the value came from; value is flow YAML.
bool model_field_at(const job *j, int index, const char **name, text *value, text *from);
// The fields with their defaults in each family, for help.
void model_fields_help(text *out);

#endif
