// param_groups.h -- which parameter group each parameter of a model belongs to. A parameter may be made
// of several tensors of a file, its pieces; they must be in one group. Called by trainer.c and by
// session/, which lists the groups. It knows no plan.
#ifndef TRIREME_TRAIN_PARAM_GROUPS_H
#define TRIREME_TRAIN_PARAM_GROUPS_H

#include "model/model.h"
#include "optim/param_group.h"

// Copies the groups, each frozen one as two: its weights of linear layers are packed as NF4, as transformers packs them,
// and the others are not. The caller frees the items of *out.
status param_groups_split(const param_groups *groups, param_groups *out, err *e);
// Writes the index of each parameter's group to out[m->params]. The last group must match every
// name. E_USAGE names two pieces of one parameter that are in different groups.
status param_groups_assign(const model *m, const param_groups *groups, int *out, err *e);
// Is the parameter of this tensor frozen? `groups` is a const param_groups *; without items none is.
// For model_options.is_frozen.
bool param_groups_is_frozen(const void *groups, const char *tensor);
// The compute type of the parameter of this tensor; `groups` as above, with items. For
// model_options.type_of.
dtype param_groups_type_of(const void *groups, const char *tensor);
// The entry of a job's list that group `index` stands for; -1: none. With adapters each entry stands for two groups.
int param_groups_entry(const param_groups *groups, int index);
// The number of entries, and one more for the parameters that are in none.
int param_groups_entries(const param_groups *groups);
// Appends "groups[1] (*.bias)", or "no group" for a group that has no entry in a job.
void param_groups_describe(const param_groups *groups, int index, text *out);

#endif
