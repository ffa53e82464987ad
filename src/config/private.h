// private.h -- what the files that make a job share. Private to config/.
#ifndef TRIREME_CONFIG_PRIVATE_H
#define TRIREME_CONFIG_PRIVATE_H

#include "config/job.h"
#include "config/settings.h"

// A job that holds every default and nothing that was said; for help and for job_open.
status job_new(const char *file, job **out, err *e);

// job.model from its settings, config.json included. E_USAGE with file, line and key.
status job_read_model(job *j, err *e);

// E_USAGE with the place of a key in front, out of a function with `j`, `e`, `result` and `done:`.
// A format, because every caller has one.
#define KEY_ERROR(path, ...)                                                                       \
    do {                                                                                           \
        result = err_set(e, E_USAGE, __VA_ARGS__);                                                 \
        setting_prefix(j->values, settings_of(j->values, path), e);                                \
        goto done;                                                                                 \
    } while (0)

// Checks that keys agree with each other, and resolves what follows from the rest (launch.ranks).
status job_check(job *j, err *e);
// The same of the keys of parallel: and train.fp16, as far as they do not depend on launch.ranks …
status job_check_parallel(job *j, err *e);
// … and the number of micro-batches that the pipeline's schedule asks for, which does.
status job_check_micros(const job *j, const mesh *m, err *e);

// The product of the axes' sizes, as far as they are given.
int64_t mesh_least_ranks(const job *j);
// The largest number of ranks <= cores that the mesh can be made of and the batch split over; where
// there is none, as many as the mesh needs.
int batch_auto_ranks(const job *j, int cores);
// The batch rule for a given mesh; changes nothing.
status batch_check(const job *j, const mesh *m, err *e);

// The model's fields under Trireme's own names, one by one from index 0. False after the last.
// `from` receives where the value came from; value is flow YAML.
bool model_field_at(const job *j, int index, const char **name, text *value, text *from);
// A field as help tells it, with its default in each family, one by one from index 0. False after
// the last. The texts of *out are added to.
bool model_field_help(int index, key_help *out);

#endif
