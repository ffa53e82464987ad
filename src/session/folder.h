// folder.h -- the files of an earlier run in train.out. A new run renames them and removes nothing,
// unless the user asked for it.
#ifndef TRIREME_SESSION_FOLDER_H
#define TRIREME_SESSION_FOLDER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

// Prepares the folder `out` for a new run and creates it where it does not exist. job.yaml,
// log.jsonl, checkpoints and the other files of an earlier run that are rows of PART are
// renamed to job-N.yaml, log-N.jsonl, checkpoints-N and so on, with the first N that none of them has.
// The new names are appended to `kept` (NULL allowed). With `overwrite` they are removed instead. Other
// files stay.
status folder_begin(const char *out, bool overwrite, text *kept, err *e);
// Prepares the run in `out` for resuming from `checkpoint`, one of its own (ckpt_belongs_to_run): later
// checkpoints are moved to checkpoints-N.
status folder_resume(const char *out, const char *checkpoint, text *kept, err *e);

#endif
