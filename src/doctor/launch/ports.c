// ports.c -- the port at which ranks meet: is it taken, may it be taken, does the kernel give it to others. The table of this room
// calls the probes.
#include "doctor/launch/launch_checks.h"

#include "doctor/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTENS = 0x0a, STORE_PORT = 29500 };

static int port_of(const doctor_context *c)
{
    return c->port > 0 ? c->port : STORE_PORT;
}

// "  0: 0100007F:733C 00000000:0000 0A ...": a port and a state in hexadecimal digits.
static status find_listener(const doctor_context *c, const char *file, int port, bool *there,
                            bool *reads, err *e)
{
    status result = OK;
    char *content = NULL;
    bool denied;
    unsigned own, state;
    TRY(doctor_read(c, file, &content, &denied, e));
    *reads = *reads || content;
    for (char *rest = content, *line; rest && (line = strsep(&rest, "\n"));)
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x", &own, &state) == 2 && state == LISTENS &&
            own == (unsigned)port)
            *there = true;
done:
    free(content);
    return result;
}

status launch_probe_port_used(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    bool there = false, reads = false;
    char number[16];
    TRY(find_listener(c, "/proc/net/tcp", port_of(c), &there, &reads, e));
    TRY(find_listener(c, "/proc/net/tcp6", port_of(c), &there, &reads, e));
    snprintf(number, sizeof number, "%d", port_of(c));
    if (there)
        doctor_find(out, "where", number, NULL);
    else if (!reads)
        doctor_blind(out, "/proc/net/tcp cannot be read");
done:
    return result;
}

// Returns whether "29500,30000-30010" has the port.
static bool is_reserved(const char *list, int port)
{
    int from, to, bytes = 0;
    while (sscanf(list, "%d%n", &from, &bytes) == 1) {
        list += bytes;
        to = from;
        if (sscanf(list, "-%d%n", &to, &bytes) == 1) list += bytes;
        if (port >= from && port <= to) return true;
        if (*list != ',') return false;
        list++;
    }
    return false;
}

status launch_probe_port_ephemeral(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    char line[4096], number[16], first[16], last[16];
    int from, to;
    const int port = port_of(c);
    if (!doctor_read_line(c, "/proc/sys/net/ipv4/ip_local_port_range", line, sizeof line) ||
        sscanf(line, "%d %d", &from, &to) != 2) {
        doctor_blind(out, "/proc/sys/net/ipv4/ip_local_port_range cannot be read");
        return OK;
    }
    if (port < from || port > to) return OK;
    if (doctor_read_line(c, "/proc/sys/net/ipv4/ip_local_reserved_ports", line, sizeof line) &&
        is_reserved(line, port))
        return OK;
    snprintf(number, sizeof number, "%d", port);
    snprintf(first, sizeof first, "%d", from);
    snprintf(last, sizeof last, "%d", to);
    doctor_find(out, "where", number, "from", first, "to", last, NULL);
    return OK;
}

// The effective rights of a process have a bit for low ports (CAP_NET_BIND_SERVICE).
status launch_probe_port_privileged(const doctor_context *c, doctor_findings *out, err *e)
{
    enum { BIND_BIT = 10 };
    status result = OK;
    char *content = NULL, number[16], least[16];
    bool denied;
    int64_t start = 1024;
    uint64_t rights = 0;
    TRY(doctor_read(c, "/proc/self/status", &content, &denied, e));
    const char *line = content ? strstr(content, "CapEff:") : NULL;
    if (!line || sscanf(line, "CapEff: %" SCNx64, &rights) != 1) {
        doctor_blind(out, "/proc/self/status has no rights");
        goto done;
    }
    (void)doctor_read_number(c, "/proc/sys/net/ipv4/ip_unprivileged_port_start", &start);
    if (port_of(c) >= start || (rights >> BIND_BIT & 1)) goto done;
    snprintf(number, sizeof number, "%d", port_of(c));
    snprintf(least, sizeof least, "%" PRId64, start);
    doctor_find(out, "where", number, "least", least, NULL);
done:
    free(content);
    return result;
}

status launch_probe_backlog(const doctor_context *c, doctor_findings *out, err *e)
{
    (void)e;
    enum { LEAST = 512 };
    int64_t most;
    char has[24];
    if (!doctor_read_number(c, "/proc/sys/net/core/somaxconn", &most)) {
        doctor_blind(out, "/proc/sys/net/core/somaxconn cannot be read");
    } else if (most < LEAST) {
        snprintf(has, sizeof has, "%" PRId64, most);
        doctor_find(out, "has", has, NULL);
    }
    return OK;
}
