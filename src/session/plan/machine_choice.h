// machine_choice.h -- opens the machine whose rates a machine file has, for a job that is planned for it. The commands call
// it.
#ifndef TRIREME_SESSION_PLAN_MACHINE_CHOICE_H
#define TRIREME_SESSION_PLAN_MACHINE_CHOICE_H

#include "planner/machine.h"
#include "session/session.h"

// As commands take them; NULL: not given.
typedef struct machine_files {
    const char *cluster, *machine;
} machine_files;

// `file` NULL: the machine file of this user, $XDG_CONFIG_HOME/trireme/machine.json or ~/.config/trireme/machine.json;
// E_USAGE where there is none. The caller closes *out, also after a failure.
status session_machine_open(const job *j, const char *file, planner_machine *out, err *e);
// The machine file of this user, whether or not it exists; *out is owned by the caller. E_USAGE without a home.
status session_machine_path(char **out, err *e);

#endif
