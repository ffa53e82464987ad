// private.h -- functions that the files of config/ share to make a job. Private to config/.
#ifndef TRIREME_CONFIG_PRIVATE_H
#define TRIREME_CONFIG_PRIVATE_H

#include "config/job.h"
#include "config/settings.h"
#include "model/schema.h"

// A job that holds every default; help prints it.
status job_new(const char *file, job **out, err *e);

// A job without values, and each key's value from its setting or its default.
status job_start(const char *file, const job_own *own, job **out, err *e);
status job_set_all(job *j, err *e);

// Refuses parameters of another optimizer, schedule, hook or precision; drops those that other systems' files give,
// which hold sections that are off.
status job_check_applies(job *j, err *e);

// Fills job.model from its settings and config.json. E_USAGE with file, line and key.
status job_read_model(job *j, err *e);

// Settles job.lora, when job.model is known. E_USAGE with file, line and key.
status job_read_lora(job *j, err *e);

// Fails with E_USAGE and the origin of a key in front of the message, in a function that has `j`,
// `e`, `result` and `done:`.
#define KEY_ERROR(path, ...)                                                                       \
    do {                                                                                           \
        result = err_set(e, E_USAGE, __VA_ARGS__);                                                 \
        setting_prefix(j->values, settings_of(j->values, path), e);                                \
        goto done;                                                                                 \
    } while (0)

// Checks that keys agree with each other, and resolves launch.ranks and launch.threads_per_rank.
status job_check(job *j, err *e);
// Checks the keys of `parallel` and train.fp16 that do not depend on launch.ranks. Fills
// strategy.pipeline.chunk_blocks.
status job_check_parallel(job *j, err *e);
// Checks the number of micro-batches, which the interleaved schedule limits.
status job_check_micros(const job *j, const mesh *m, err *e);

// ---- The list `groups` (groups.c)

// Reads all entries of a list. E_USAGE names file, line, entry and key.
status groups_set(job *j, const yaml_node *list, err *e);
void groups_free(job *j);
// Appends the entries as a list in flow YAML that reads back to the same entries.
void groups_format(const job *j, text *out);
// Checks the entries against the job's other keys. Warns of settings without effect.
status job_check_groups(job *j, err *e);
// Row `row` of GROUP_KEYS in an entry, for explain. False where the entry does not read the key.
// Appends "groups[1].lr_scale", the effective value and its origin.
bool group_line_at(const job *j, int group, int row, text *path, text *value, text *from);
// Appends the entries of a job.yaml's list, one a line, without the settings that may change when a
// run resumes. Entries at its end that have no others are left out.
void groups_identity(const yaml_node *list, text *out);
// Sets the optimizer's own defaults of all hyperparameters but the learning rate.
void optimizer_set_defaults(optim_config *c);
// Checks that the value of a key `dp` agrees with the mesh. The text of *e does not name the key.
status policies_check_value(const job *j, const yaml_node *n, const policies *dp, err *e);

// The product of the given sizes of the axes.
int64_t mesh_least_ranks(const job *j);
// The largest number of ranks up to `cores` that the mesh and the global batch allow, or else as
// many as the mesh needs.
int batch_auto_ranks(const job *j, int cores);
// Checks parallel.batch_split, whose largest number becomes train.micro_batch.
status batch_take_split(job *j, const mesh *m, err *e);
// Solves train.accumulation, which becomes 0: it gives the global batch or the micro-batch, or must agree with both.
status batch_take_accumulation(job *j, const mesh *m, err *e);
// E_USAGE where the global batch breaks the batch rule on this mesh. The error names the origin of the key that gives it.
status batch_check(const job *j, const mesh *m, err *e);

// Appends the sections of a path that are not open yet, and returns its last word, which stands *depth sections deep.
// `open` is the path of the section that is open.
const char *job_enter_sections(const char *path, text *open, int *depth, text *out);
// Appends a field of the job's model as flow YAML, and the origin of its value.
void model_field_explain(const job *j, const model_field *f, text *value, text *from);

#endif
