// terminal.c -- reads SIGINT, SIGTERM and SIGHUP from a descriptor, so that Ctrl-C stops a run after its
// step, and hears of the end of the starter (starter.h).
//
// Called by launch.c and by the loops that wait for ranks. The signals are blocked before ranks
// start, so that they end no rank. Of the ranks it knows only the stop request and the failure record.
#include "launch/hangup.h"
#include "launch/workers.h"

#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

status terminal_open(launch_terminal *t, bool own_terminal, err *e)
{
    sigset_t set;
    if (!own_terminal) return OK;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (hangup_stops()) sigaddset(&set, SIGHUP);
    t->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (t->fd < 0) return err_errno(e, "cannot watch for signals");
    pthread_sigmask(SIG_BLOCK, &set, &t->before);
    return OK;
}

void terminal_read(launch_terminal *t, world *w)
{
    struct signalfd_siginfo signal_info;
    while (t->fd >= 0 && read(t->fd, &signal_info, sizeof signal_info) == sizeof signal_info) {
        if (++t->signals == 1) {
            t->first = (int)signal_info.ssi_signo;
            comm_stop_request(w->stop);
        } else {
            err why;
            memset(&why, 0, sizeof why);
            err_set(&why, E_PEER, "stopped by a second signal");
            comm_failure_set(w->failure, -1, &why);
        }
    }
}

void terminal_starter_ended(launch_terminal *t, world *w)
{
    starter_lost(t->starter, w);
    close(t->starter_fd);
    t->starter_fd = -1;
}

void terminal_close(launch_terminal *t)
{
    if (t->starter_fd >= 0) close(t->starter_fd);
    t->starter_fd = -1;
    if (t->fd < 0) return;
    close(t->fd);
    t->fd = -1;
    pthread_sigmask(SIG_SETMASK, &t->before, NULL);
}
