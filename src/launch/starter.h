// starter.h -- the process of another launcher that has started this one, such as mpirun: when it is gone, so is the
// run, also where that launcher's processes are not told.
//
// A process whose parent is no such program, as behind a shell or nohup, has no starter: its parent may end before it.
#ifndef TRIREME_LAUNCH_STARTER_H
#define TRIREME_LAUNCH_STARTER_H

#include "rendezvous/world.h"

#include <sys/types.h>

typedef struct launch_starter {
    pid_t pid;     // 0: none
    char name[16]; // of its program, as in /proc/PID/comm
} launch_starter;

// The parent of this process, where it is the program of a launcher.
void starter_find(launch_starter *out);
// *fd receives a descriptor that becomes readable when the starter has ended; -1: there is none, or it has ended
// already, which fails the run.
status starter_watch(const launch_starter *s, world *w, int *fd, err *e);
// The starter has ended. That fails the run, unless it was asked to stop: then launchers end before their processes.
void starter_lost(const launch_starter *s, world *w);

#endif
