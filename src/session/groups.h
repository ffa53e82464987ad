// groups.h -- the job's parameter groups compared with the tensors of its model.
#ifndef TRIREME_SESSION_GROUPS_H
#define TRIREME_SESSION_GROUPS_H

#include "config/job.h"
#include "model/model.h"

// Checks that each pattern matches a tensor of the model, and that the tensors of a parameter are of
// one group. Appends a warning for each group that no tensor belongs to, because earlier ones match
// all its tensors. E_USAGE names the entry and the tensors.
status session_check_groups(const job *j, const model *m, text *warnings, err *e);
// Appends the group of each tensor as a table, or as an array of JSON.
status session_print_groups(const job *j, const model *m, bool json, text *out, err *e);

#endif
