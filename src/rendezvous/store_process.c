// store_process.c -- see store_process.h. Opened by hosts.c in the process of rank 0.
#define _GNU_SOURCE // pipe2
#include "rendezvous/store_process.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGAIN_MS = 20, LAST_MS = 5000, MS_NS = 1000000 };

static status listen_at(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                        store_server **out, err *e)
{
    const int64_t end = clock_ns() + deadline_ms * MS_NS;
    net_address bound;
    status got;
    while ((got = store_server_open(a, secret, out, &bound, e)) == E_IO && clock_ns() < end)
        poll(NULL, 0, AGAIN_MS);
    return got;
}

// Signals for the group of the process that started it are not for it.
static _Noreturn void keep(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                           int alive, int report)
{
    store_server *s = NULL;
    err why = {.code = OK};
    char byte;
    ssize_t got;
    setsid();
    prctl(PR_SET_NAME, "trireme store");
    for (int fd = 0; fd < 3; fd++) close(fd); // pipes of the caller must not stay open
    why.code = listen_at(a, secret, deadline_ms, &s, &why);
    if (write(report, &why, sizeof why) != (ssize_t)sizeof why) why.code = E_IO;
    close(report);
    if (why.code != OK) _exit(0);
    do got = read(alive, &byte, 1);
    while (got < 0 && errno == EINTR);
    const int64_t end = clock_ns() + (int64_t)LAST_MS * MS_NS;
    while (store_server_clients(s) > 0 && clock_ns() < end) poll(NULL, 0, AGAIN_MS);
    store_server_close(s);
    _exit(0);
}

static status read_report(int from, err *e)
{
    err why;
    ssize_t got;
    do got = read(from, &why, sizeof why);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof why)
        return err_set(e, E_IO, "the process of the store ended before it listened");
    return why.code == OK ? OK : err_set(e, why.code, "%s", why.text);
}

status store_process_open(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                          store_process *out, err *e)
{
    int alive[2], report[2];
    *out = (store_process){.alive = -1};
    if (pipe2(alive, O_CLOEXEC) != 0) return err_errno(e, "cannot open a pipe");
    if (pipe2(report, O_CLOEXEC) != 0) {
        close(alive[0]);
        close(alive[1]);
        return err_errno(e, "cannot open a pipe");
    }
    out->pid = fork();
    if (out->pid == 0) {
        close(alive[1]);
        close(report[0]);
        keep(a, secret, deadline_ms, alive[0], report[1]);
    }
    close(alive[0]);
    close(report[1]);
    out->alive = alive[1];
    status result =
        out->pid > 0 ? read_report(report[0], e) : err_errno(e, "cannot start the store");
    close(report[0]);
    if (result != OK) store_process_close(out);
    return result;
}

void store_process_close(store_process *p)
{
    if (p->pid == 0) return;
    if (p->alive >= 0) close(p->alive);
    if (p->pid > 0)
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    *p = (store_process){.alive = -1};
}
