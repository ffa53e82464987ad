// adapter.h -- adapters and the bases that they belong to: what a job's checkpoints say of them, and the folders that a
// command names. inputs.c, session.c, resume.c and the commands that take --adapter call it.
#ifndef TRIREME_SESSION_ADAPTER_H
#define TRIREME_SESSION_ADAPTER_H

#include "session/session.h"

// Checks job.lora against the job's model, traced with its adapters, and lora.start against both. *out: for checkpoints.
// A job without adapters has none.
status session_adapter_prepare(const job *j, const model *m, session_adapter *out, err *e);
// Takes the mark of the weights of the base, and compares it with that of lora.start where a run saved that.
status session_adapter_check_base(const job *j, const safetensors *base, session_adapter *out,
                                  err *e);
// Checks that the adapter in `folder` was trained on a base with this mark. One that no run of Trireme saved says nothing.
status session_adapter_check_mark(const char *folder, uint64_t mark, err *e);
// Compares the adapters of a job with those of the checkpoint in `folder`. Appends what differs.
status session_adapter_compare(const session_inputs *in, const char *folder, text *different,
                               err *e);

// A model that a command reads weights of.
typedef struct session_folders {
    char *base;    // owned, like the next one
    char *adapter; // NULL: none
} session_folders;

// Resolves the folders that a user named: checkpoints, folders of runs or of HuggingFace. Where `folder` is an
// adapter, its base is the one that it names. The owner calls session_folders_clear.
status session_folders_find(const session_model_names *names, session_folders *out, err *e);
void session_folders_clear(session_folders *f);

#endif
