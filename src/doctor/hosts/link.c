// link.c -- see link.h. One end sends chunks for some time, and the last one says so; the other end says how many bytes have
// come in which time. It says that early where nothing comes, or where the rest takes too long.
#include "doctor/hosts/link.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CHUNK = 1 << 16, ROUND_TRIPS = 20, MS_NS = 1000000, GOES_ON = 1, LAST = 2 };

// The receiver tells it the sender. Both ends are the same program.
typedef struct rate_report {
    uint64_t bytes; // in `ns`, without those of the first read
    int64_t ns;
    uint64_t all; // bytes that have come
} rate_report;

static int64_t after_ms(int64_t ms)
{
    return clock_ns() + ms * MS_NS;
}

static status lost(const char *what, err *e)
{
    return err_errno(e, "%s", what);
}

// Waits until the socket can do one of `events`. Returns those that it can, 0 at the deadline.
static int await(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        const int64_t left = deadline_ns - clock_ns();
        const int ready = poll(&p, 1, left > 0 ? (int)(left / MS_NS + 1) : 0);
        if (ready > 0) return p.revents;
        if (ready == 0 || errno != EINTR) return 0;
    }
}

// ---- Sending

// Sends chunks until the time is over, or until the receiver reports.
static status send_chunks(int fd, char *chunk, const host_link_times *t, err *e)
{
    const int64_t stop_ns = after_ms(t->send_ms), end_ns = after_ms(t->most_ms + t->stall_ms);
    size_t at = 0;
    memset(chunk, GOES_ON, CHUNK);
    for (bool last = false;;) {
        const int ready = await(fd, POLLIN | POLLOUT, end_ns);
        if (!ready || (ready & POLLIN)) return OK;
        const ssize_t n = send(fd, chunk + at, CHUNK - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return lost("sending", e);
        if (n > 0) at += (size_t)n;
        if (at < CHUNK) continue;
        if (last) return OK;
        at = 0;
        last = clock_ns() >= stop_ns;
        if (last) memset(chunk, LAST, CHUNK);
    }
}

static status send_stream(int fd, char *chunk, const host_link_times *t, host_rate *out, err *e)
{
    status result = OK;
    rate_report r;
    TRY(send_chunks(fd, chunk, t, e));
    TRY(net_read(fd, &r, sizeof r, after_ms(t->most_ms + t->stall_ms), e));
    *out = (host_rate){.gbits = r.ns > 0 ? (double)r.bytes * 8 / (double)r.ns : 0,
                       .stalled = r.all == 0};
done:
    return result;
}

// ---- Receiving

// Without `reports` nobody needs the report, which does not arrive where the own stream has not.
static status receive_stream(int fd, char *chunk, const host_link_times *t, host_rate *out,
                             bool reports, err *e)
{
    rate_report r = {0};
    const int64_t end_ns = after_ms(t->most_ms);
    int64_t first_ns = 0, stall_ns = after_ms(t->stall_ms);
    bool ended = false;
    while (!ended && await(fd, POLLIN, stall_ns < end_ns ? stall_ns : end_ns)) {
        const ssize_t n = recv(fd, chunk, CHUNK, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n == 0) errno = ECONNRESET;
        if (n <= 0) return lost("receiving", e);
        const int64_t now = clock_ns();
        if (first_ns) r.bytes += (uint64_t)n;
        if (!first_ns) first_ns = now;
        r.ns = now - first_ns;
        r.all += (uint64_t)n;
        ended = r.all % CHUNK == 0 && chunk[n - 1] == LAST;
        stall_ns = now + t->stall_ms * MS_NS;
    }
    *out = (host_rate){.gbits = r.ns > 0 ? (double)r.bytes * 8 / (double)r.ns : 0,
                       .stalled = r.all == 0};
    const status told = net_write(fd, &r, sizeof r, after_ms(t->stall_ms), reports ? e : NULL);
    return reports ? told : OK;
}

// ---- Both

static status measure_latency(int fd, bool begins, const host_link_times *t, double *us, err *e)
{
    status result = OK;
    char word = 0;
    int64_t best = INT64_MAX;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        const int64_t deadline_ns = after_ms(t->stall_ms), start_ns = clock_ns();
        if (begins) TRY(net_write(fd, &word, 1, deadline_ns, e));
        TRY(net_read(fd, &word, 1, deadline_ns, e));
        if (!begins) TRY(net_write(fd, &word, 1, deadline_ns, e));
        if (clock_ns() - start_ns < best) best = clock_ns() - start_ns;
    }
    *us = (double)best * 0.5e-3;
done:
    return result;
}

status host_link_measure(int fd, bool begins, const host_link_times *t, host_link *out, err *e)
{
    status result = OK;
    host_link own = {0};
    char *chunk = NULL;
    TRY(alloc_array(&chunk, CHUNK, 1, "a message between hosts", e));
    TRY(measure_latency(fd, begins, t, &own.latency_us, e));
    if (begins) {
        TRY(send_stream(fd, chunk, t, &own.out, e));
        TRY(receive_stream(fd, chunk, t, &own.in, false, e));
        *out = own;
    } else {
        TRY(receive_stream(fd, chunk, t, &own.in, true, e));
        // Where the own stream has not arrived, this answer does not arrive either.
        (void)send_stream(fd, chunk, t, &own.out, NULL);
    }
done:
    free(chunk);
    return result;
}
