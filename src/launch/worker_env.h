// worker_env.h -- the environment of a worker: that of the agent, with other values for some names.
#ifndef TRIREME_LAUNCH_WORKER_ENV_H
#define TRIREME_LAUNCH_WORKER_ENV_H

#include "base/err.h"

#include <stddef.h>

typedef struct worker_env {
    char **names; // "NAME=value", ends with NULL; owned
    size_t count, room;
} worker_env;

// Starts with a copy of `from` (environ's form).
status worker_env_open(char *const *from, worker_env *out, err *e);
// Sets NAME to a formatted value.
status worker_env_set(worker_env *v, err *e, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void worker_env_close(worker_env *v);

#endif
