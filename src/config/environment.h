// environment.h -- variables of PyTorch and NCCL that set keys of the job. Private to config/.
#ifndef TRIREME_CONFIG_ENVIRONMENT_H
#define TRIREME_CONFIG_ENVIRONMENT_H

#include "config/settings.h"

// Sets the keys that variables of the environment give. The job file and the command line override them.
// Appends a line to `notes` for each variable that is set and has no effect here, where the environment
// asks for messages of the level INFO. E_USAGE for a value that cannot be a key's.
status environment_read(job_values *v, text *notes, err *e);

#endif
