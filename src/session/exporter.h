// exporter.h -- the process that exports a run's metrics on this host (monitor/metrics/exporter.h), and the files of
// metrics that rank 0 writes. run.c starts and stops them.
//
// The exporter is a process of its own, because the starting process forks its ranks and so may have no threads, and
// because nothing that it does may delay a rank. It is forked before the ranks, and ends when the starting process ends.
#ifndef TRIREME_SESSION_EXPORTER_H
#define TRIREME_SESSION_EXPORTER_H

#include "base/event.h"
#include "config/job.h"

#include <sys/types.h>

enum { SESSION_ADDRESS_BYTES = 64 };

typedef struct session_exporter {
    pid_t pid;                           // 0: none runs
    int alive;                           // a socket, whose end the exporter sees
    char address[SESSION_ADDRESS_BYTES]; // where it serves, "127.0.0.1:9400"; "": nowhere
} session_exporter;

// Starts it where the job asks for it. `of_run`: it also exports what is of the whole run, as that of rank 0's host does.
// E_IO and E_USAGE name the address or the file.
status session_exporter_start(const job *j, bool of_run, session_exporter *out, err *e);
// Returns when it has written its file a last time.
void session_exporter_stop(session_exporter *x);

// Adds the sinks of observe.csv and observe.tensorboard, where the job asks for them.
status session_add_files(const job *j, event_sinks *out, err *e);

#endif
