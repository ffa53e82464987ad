// folder.h -- what an earlier run left in train.out, and what becomes of it. Nothing is removed
// unless the user said so: a run that begins anew keeps the earlier one beside.
#ifndef TRIREME_SESSION_FOLDER_H
#define TRIREME_SESSION_FOLDER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

// A new run begins in `out`, which is made when need be. What an earlier run left (job.yaml,
// log.jsonl, checkpoints) is renamed to job-N.yaml, log-N.jsonl and checkpoints-N, with the first N
// that none of the three has; those names are appended to `kept` (NULL allowed). With `overwrite`
// it is removed instead. What else lies in the folder, and what was kept before, stays.
status folder_begin(const char *out, bool overwrite, text *kept, err *e);
// The run in `out` goes on from `checkpoint`, one of its own (ckpt_belongs_to_run): later checkpoints are
// kept beside, in checkpoints-N.
status folder_go_on(const char *out, const char *checkpoint, text *kept, err *e);

#endif
