// exporter.c -- see exporter.h.
#define _GNU_SOURCE // pipe2, close_range
#include "session/exporter.h"

#include "base/clock.h"
#include "base/file.h"
#include "monitor/metrics/csv.h"
#include "monitor/metrics/exporter.h"
#include "monitor/metrics/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGAIN_MS = 20, PORT_MS = 1000 };

// What the exporter tells the starting process when it listens, or cannot.
typedef struct exporter_report {
    err why; // code OK: it listens
    char address[SESSION_ADDRESS_BYTES];
} exporter_report;

// ---- The exporter's process

// Keeps only the two descriptors open: locks and connections of the starting process must not outlive it here.
static void keep_two(int *alive, int *report)
{
    const int a = fcntl(*alive, F_DUPFD_CLOEXEC, 8), r = fcntl(*report, F_DUPFD_CLOEXEC, 8);
    dup2(a, 0);
    dup2(r, 1);
    close_range(2, ~0U, 0);
    *alive = 0;
    *report = 1;
}

static void read_boot(char out[64])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(out, 64, f)) out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    if (f) fclose(f);
}

// The exporter of a round before, whose ranks were killed, may still have the port for a moment.
static status open_in_time(const exporter_options *o, exporter **out, err *e)
{
    const int64_t end = clock_ns() + (int64_t)PORT_MS * 1000000;
    status got;
    while ((got = exporter_open(o, out, e)) == E_IO && clock_ns() < end) poll(NULL, 0, AGAIN_MS);
    return got;
}

// Signals for the group of the starting process are not for it.
static _Noreturn void export_metrics(const job *j, bool of_run, int alive, int report)
{
    exporter *x = NULL;
    exporter_report told = {.why = {.code = OK}};
    char boot[64];
    setsid();
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "trireme metrics");
    keep_two(&alive, &report);
    read_boot(boot);
    const exporter_options o = {.metrics = {.folder = j->train.out,
                                            .boot = *boot ? boot : NULL,
                                            .of_run = of_run,
                                            .job_id = getenv("SLURM_JOB_ID")},
                                .address = j->observe.prometheus,
                                .textfile = j->observe.textfile};
    told.why.code = open_in_time(&o, &x, &told.why);
    if (x) (void)snprintf(told.address, sizeof told.address, "%s", exporter_address(x));
    const bool is_told = write(report, &told, sizeof told) == (ssize_t)sizeof told;
    close(report);
    if (x && is_told) (void)exporter_run(x, alive, NULL);
    exporter_close(x);
    _exit(0);
}

// ---- The starting process

static status read_report(int from, session_exporter *out, err *e)
{
    exporter_report told;
    ssize_t got;
    do got = read(from, &told, sizeof told);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof told)
        return err_set(e, E_IO, "observe: the exporter of metrics ended before it began");
    if (told.why.code != OK) return err_set(e, told.why.code, "observe: %s", told.why.text);
    memcpy(out->address, told.address, sizeof out->address);
    return OK;
}

status session_exporter_start(const job *j, bool of_run, session_exporter *out, err *e)
{
    int alive[2], report[2];
    *out = (session_exporter){.alive = -1};
    if (!j->observe.prometheus && !j->observe.textfile) return OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, alive) != 0)
        return err_errno(e, "cannot open a pair of sockets");
    if (pipe2(report, O_CLOEXEC) != 0) {
        close(alive[0]);
        close(alive[1]);
        return err_errno(e, "cannot open a pipe");
    }
    fflush(NULL); // otherwise the exporter would have what is buffered here
    out->pid = fork();
    if (out->pid == 0) {
        close(alive[1]);
        close(report[0]);
        export_metrics(j, of_run, alive[0], report[1]);
    }
    close(alive[0]);
    close(report[1]);
    out->alive = alive[1];
    status result =
        out->pid > 0 ? read_report(report[0], out, e) : err_errno(e, "cannot start the exporter");
    close(report[0]);
    if (result != OK) session_exporter_stop(out);
    return result;
}

void session_exporter_stop(session_exporter *x)
{
    if (x->pid == 0) return;
    // A rank that is being killed may still have the socket open, so a byte tells the exporter, unless it is gone.
    if (x->alive >= 0) {
        (void)send(x->alive, "", 1, MSG_NOSIGNAL);
        close(x->alive);
    }
    if (x->pid > 0)
        while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR) continue;
    *x = (session_exporter){.alive = -1};
}

// ---- The files of rank 0

status session_add_files(const job *j, event_sinks *out, err *e)
{
    status result = OK;
    char *path = NULL;
    event_sink one;
    if (j->observe.csv) {
        TRY(file_join(j->train.out, "metrics.csv", &path, e));
        TRY(csv_open(path, &one, e));
        event_sinks_add(out, one);
    }
    if (j->observe.tensorboard) {
        TRY(tensorboard_open(j->train.out, &one, e));
        event_sinks_add(out, one);
    }
done:
    free(path);
    return result;
}
