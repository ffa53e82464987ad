// accelerate.h -- what the commands of `trireme accelerate` share. Private to cmd/accelerate/.
#ifndef TRIREME_CMD_ACCELERATE_H
#define TRIREME_CMD_ACCELERATE_H

#include "base/err.h"

// The file that Accelerate reads where none is named: accelerate/default_config.yaml below HF_HOME, or below huggingface
// in XDG_CACHE_HOME or ~/.cache; default_config.json where it alone exists. *out is NULL where there is none; the
// caller frees it.
status accelerate_find_config(char **out, err *e);

#endif
