// folder.h -- the files of an earlier run in train.out. A new run renames them and removes nothing,
// unless the user asked for it.
#ifndef TRIREME_SESSION_FOLDER_H
#define TRIREME_SESSION_FOLDER_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>

// Prepares the folder `out` for a new run and creates it where it does not exist. job.yaml,
// log.jsonl, report.json, report.html and checkpoints of an earlier run are renamed to job-N.yaml,
// log-N.jsonl, report-N.json and so on, with the first N that none of them has. The new names are appended
// to `kept` (NULL allowed). With `overwrite` they are removed instead. Other files stay.
status folder_begin(const char *out, bool overwrite, text *kept, err *e);
// Prepares the run in `out` for resuming from `checkpoint`, one of its own (ckpt_belongs_to_run): later
// checkpoints are moved to checkpoints-N.
status folder_resume(const char *out, const char *checkpoint, text *kept, err *e);

#endif
