// starter.c -- see starter.h.
#include "launch/starter.h"

#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

// Names begin so. Debian calls two of them mpirun.openmpi and mpiexec.mpich.
static const char *const LAUNCHERS[] = {"mpirun", "mpiexec", "orterun",    "orted",   "prte",
                                        "prun",   "hydra_",  "slurmstepd", "torchrun"};

void starter_find(launch_starter *out)
{
    char path[32];
    *out = (launch_starter){.pid = getppid()};
    snprintf(path, sizeof path, "/proc/%d/comm", (int)out->pid);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(out->name, sizeof out->name, f)) out->name[0] = 0;
    if (f) fclose(f);
    out->name[strcspn(out->name, "\n")] = 0;
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++)
        if (strncmp(out->name, LAUNCHERS[i], strlen(LAUNCHERS[i])) == 0) return;
    out->pid = 0;
}

void starter_lost(const launch_starter *s, world *w)
{
    err why = {0};
    if (comm_stop_requested(w->stop)) return;
    err_set(&why, E_PEER, "%s (pid %d), which started the ranks, has ended", s->name, (int)s->pid);
    comm_failure_set(w->failure, -1, &why);
}

status starter_watch(const launch_starter *s, world *w, int *fd, err *e)
{
    *fd = -1;
    if (!s->pid) return OK;
    if (getppid() == s->pid) *fd = pidfd_open(s->pid, 0);
    if (*fd < 0 && getppid() == s->pid) return err_errno(e, "cannot watch %s", s->name);
    if (getppid() == s->pid) return OK;
    starter_lost(s, w);
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return OK;
}
