// agent_environment.h -- what a worker finds in its environment: torchrun's variables (docs/run.md lists them). Used by
// agent_workers.c only.
#ifndef TRIREME_LAUNCH_AGENT_ENVIRONMENT_H
#define TRIREME_LAUNCH_AGENT_ENVIRONMENT_H

#include "launch/agent_workers.h"
#include "launch/worker_env.h"

// The caller closes *out.
status agent_environment(const agent_workers *w, int local, worker_env *out, err *e);
// Fills the template of the prefix of a worker's teed lines.
void agent_environment_prefix(const agent_options *o, const agent_round *r, int local,
                              char out[PREFIX_BYTES]);
// The words of the program for one worker, where ${local_rank} stands for its number. The caller frees *out with
// agent_environment_program_free, also after a failure; *out is NULL before.
status agent_environment_program(char *const *program, int local, char ***out, err *e);
void agent_environment_program_free(char **program);

#endif
