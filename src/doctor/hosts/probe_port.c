// probe_port.c -- says why a port does not answer. See group.h. A firewall that drops packets differs from a port on which
// nobody listens in what comes back: nothing, or a refusal.
#include "doctor/hosts/group.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// One try to connect. Returns 0, or its errno.
static int try_port(const net_address *a, int64_t timeout_ms)
{
    const int64_t deadline_ns = clock_ns() + timeout_ms * 1000000;
    int problem = 0;
    socklen_t bytes = sizeof problem;
    const int fd = socket(a->raw.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    if (connect(fd, (const struct sockaddr *)&a->raw, a->bytes) != 0) problem = errno;
    if (problem == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int ready = 0;
        while (ready == 0 && clock_ns() < deadline_ns) ready = poll(&p, 1, 50);
        if (ready <= 0)
            problem = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0)
            problem = errno;
    }
    close(fd);
    return problem;
}

bool host_probe_port(const net_address *a, int64_t timeout_ms, char *out, size_t bytes)
{
    const int problem = try_port(a, timeout_ms);
    if (problem == 0)
        snprintf(out, bytes, "it answers");
    else if (problem == ECONNREFUSED)
        snprintf(out, bytes,
                 "the connection was refused: the host is there, but nobody listens on this port, "
                 "or a firewall rejects it");
    else if (problem == ETIMEDOUT)
        snprintf(out, bytes,
                 "nothing came back: a firewall drops the packets, or the address is wrong");
    else
        snprintf(out, bytes, "%s: there is no way to this address", strerror(problem));
    return problem == 0;
}
