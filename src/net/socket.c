// socket.c -- see socket.h.
#define _GNU_SOURCE // accept4's flags of socket
#include "net/socket.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 4096, AGAIN_MS = 20, MS_NS = 1000000 };

static status open_socket(const net_address *a, int *fd, err *e)
{
    *fd = socket(a->raw.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return *fd >= 0 ? OK : err_errno(e, "cannot open a socket");
}

static status set_option(int fd, int level, int name, int value, err *e)
{
    if (setsockopt(fd, level, name, &value, sizeof value) == 0) return OK;
    return err_errno(e, "cannot set option %d of a socket", name);
}

static status bind_socket(const net_address *a, int *fd, net_address *bound, err *e)
{
    status result = OK;
    char text[NET_ADDRESS_TEXT];
    TRY(open_socket(a, fd, e));
    TRY(set_option(*fd, SOL_SOCKET, SO_REUSEADDR, 1, e));
    *bound = *a;
    if (bind(*fd, (const struct sockaddr *)&a->raw, a->bytes) != 0 ||
        getsockname(*fd, (struct sockaddr *)&bound->raw, &bound->bytes) != 0) {
        net_address_print(a, text);
        result = err_errno(e, "cannot use the address %s", text);
    }
done:
    return result;
}

static void close_failed(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

status net_listen(const net_address *a, int *fd, net_address *bound, err *e)
{
    status result = OK;
    net_address own;
    char text[NET_ADDRESS_TEXT];
    *fd = -1;
    TRY(bind_socket(a, fd, bound ? bound : &own, e));
    if (listen(*fd, BACKLOG) != 0) {
        net_address_print(a, text);
        result = err_errno(e, "cannot listen on %s", text);
    }
done:
    if (result != OK) close_failed(fd);
    return result;
}

status net_reserve_port(const net_address *a, int *fd, int *port, err *e)
{
    status result = OK;
    net_address free_one = *a, bound;
    *fd = -1;
    net_address_set_port(&free_one, 0);
    TRY(bind_socket(&free_one, fd, &bound, e));
    *port = net_address_port(&bound);
done:
    if (result != OK) close_failed(fd);
    return result;
}

status net_prepare(int fd, err *e)
{
    status result = OK;
    TRY(set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, e));
    TRY(set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, e));
    TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1, e));
    TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1, e));
    TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, NET_SILENT_S - 1, e));
    TRY(set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, NET_SILENT_S * 1000, e));
done:
    return result;
}

// Waits until the socket can be read or written. E_PEER at the deadline.
static status await(int fd, short events, int64_t deadline_ns, const char *what, err *e)
{
    for (;;) {
        const int64_t left = deadline_ns - clock_ns();
        struct pollfd p = {.fd = fd, .events = events};
        if (left <= 0) return err_set(e, E_PEER, "%s took too long", what);
        const int64_t ms = left / MS_NS + 1;
        const int ready = poll(&p, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
        if (ready > 0) return OK;
        if (ready < 0 && errno != EINTR) return err_errno(e, "cannot wait for %s", what);
    }
}

// One try. *refused: the address answered that nobody listens, or did not answer.
static status try_connect(const net_address *from, const net_address *a, int64_t deadline_ns,
                          int *fd, bool *refused, err *e)
{
    status result = OK;
    int why = 0;
    socklen_t bytes = sizeof why;
    net_address bound;
    *refused = false;
    if (from)
        TRY(bind_socket(from, fd, &bound, e));
    else
        TRY(open_socket(a, fd, e));
    if (connect(*fd, (const struct sockaddr *)&a->raw, a->bytes) != 0) {
        why = errno;
        if (why == EINPROGRESS) {
            TRY(await(*fd, POLLOUT, deadline_ns, "connecting", e));
            if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &why, &bytes) != 0) why = errno;
        }
    }
    if (why != 0) {
        *refused = why == ECONNREFUSED || why == ECONNRESET || why == EHOSTUNREACH ||
                   why == ENETUNREACH || why == ETIMEDOUT;
        errno = why;
        result = err_errno(e, "connecting");
        goto done;
    }
    TRY(net_prepare(*fd, e));
done:
    if (result != OK) close_failed(fd);
    return result;
}

status net_connect(const net_address *a, int64_t deadline_ns, int *fd, err *e)
{
    return net_connect_from(NULL, a, deadline_ns, fd, e);
}

status net_connect_from(const net_address *from, const net_address *a, int64_t deadline_ns, int *fd,
                        err *e)
{
    char text[NET_ADDRESS_TEXT];
    net_address any_port;
    err why = {0};
    if (from) {
        any_port = *from;
        net_address_set_port(&any_port, 0);
    }
    net_address_print(a, text);
    for (;;) {
        bool refused = false;
        const status got = try_connect(from ? &any_port : NULL, a, deadline_ns, fd, &refused, &why);
        if (got == OK) return OK;
        if (!refused && got != E_PEER) return err_set(e, got, "%s: %s", text, why.text);
        if (clock_ns() + (int64_t)AGAIN_MS * MS_NS >= deadline_ns)
            return err_set(e, E_PEER, "%s: nobody was there in time (%s)", text, why.text);
        poll(NULL, 0, AGAIN_MS);
    }
}

status net_write(int fd, const void *from, size_t bytes, int64_t deadline_ns, err *e)
{
    status result = OK;
    const char *next = from;
    while (bytes > 0) {
        const ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);
        if (sent >= 0) {
            next += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN) {
            TRY(await(fd, POLLOUT, deadline_ns, "sending", e));
        } else if (errno != EINTR) {
            return err_errno(e, "the connection is lost");
        }
    }
done:
    return result;
}

status net_read(int fd, void *to, size_t bytes, int64_t deadline_ns, err *e)
{
    status result = OK;
    char *next = to;
    while (bytes > 0) {
        const ssize_t got = recv(fd, next, bytes, 0);
        if (got > 0) {
            next += got;
            bytes -= (size_t)got;
        } else if (got == 0) {
            return err_set(e, E_IO, "the connection was closed by the other side");
        } else if (errno == EAGAIN) {
            TRY(await(fd, POLLIN, deadline_ns, "an answer", e));
        } else if (errno != EINTR) {
            return err_errno(e, "the connection is lost");
        }
    }
done:
    return result;
}
