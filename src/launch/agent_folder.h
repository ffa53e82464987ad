// agent_folder.h -- the folder of an agent's files: the one that the user names, or a temporary one, which is removed at the
// end. That of an agent that was killed is removed by the next one of the same user. Used by agent.c only.
#ifndef TRIREME_LAUNCH_AGENT_FOLDER_H
#define TRIREME_LAUNCH_AGENT_FOLDER_H

#include "base/err.h"

typedef struct agent_folder {
    char *path;
    int lock; // descriptor of a temporary folder, which says that its agent lives; -1: it is none
} agent_folder;

// given NULL: a temporary folder. The caller closes *out, also after a failure.
status agent_folder_open(const char *given, agent_folder *out, err *e);
void agent_folder_close(agent_folder *f);

#endif
