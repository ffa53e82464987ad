// name_checks.c -- probes of the names of hosts. A passive check asks no name server, which may take seconds: it reads
// /etc/hosts, and says where only a name server knows. hosts/ resolves all names on all hosts.
#include "doctor/network/probes.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 256 };

static bool is_ipv4(const char *s)
{
    struct in_addr a;
    return inet_pton(AF_INET, s, &a) == 1;
}

static bool is_ipv6(const char *s)
{
    struct in6_addr a;
    return inet_pton(AF_INET6, s, &a) == 1;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static bool line_has_name(char *names, const char *name)
{
    char *rest = NULL;
    for (char *word = strtok_r(names, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest))
        if (strcasecmp(word, name) == 0) return true;
    return false;
}

// Finds the address that /etc/hosts gives a name: the first one that is IPv4, else the first. "" where it gives none.
static status find_in_hosts(const doctor_context *c, const char *name, char out[NAME_BYTES], err *e)
{
    status result = OK;
    char *content = NULL, *rest = NULL;
    bool denied;
    *out = 0;
    TRY(doctor_read(c, "/etc/hosts", &content, &denied, e));
    for (char *line = content ? strtok_r(content, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "#")] = 0;
        line += strspn(line, " \t");
        const size_t bytes = strcspn(line, " \t");
        if (!bytes || !line[bytes] || bytes >= NAME_BYTES) continue;
        line[bytes] = 0;
        if (!line_has_name(line + bytes + 1, name)) continue;
        if (!*out || (!is_ipv4(out) && is_ipv4(line))) memcpy(out, line, bytes + 1);
    }
done:
    free(content);
    return result;
}

static status file_has(const doctor_context *c, const char *path, const char *word, bool *out,
                       err *e)
{
    status result = OK;
    char *content = NULL, *rest = NULL;
    bool denied;
    *out = false;
    TRY(doctor_read(c, path, &content, &denied, e));
    for (char *line = content ? strtok_r(content, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "#;")] = 0;
        if (strstr(line, word)) *out = true;
    }
done:
    free(content);
    return result;
}

static bool own_name(const doctor_context *c, char out[NAME_BYTES])
{
    return (doctor_read_line(c, "/proc/sys/kernel/hostname", out, NAME_BYTES) ||
            doctor_read_line(c, "/etc/hostname", out, NAME_BYTES)) &&
           *out;
}

// The host at which ranks meet, and where it was named; NULL: nowhere.
static const char *find_peer(const doctor_context *c, const char **from)
{
    const char *address = doctor_variable(c, "MASTER_ADDR");
    *from = c->peer ? "--master-addr" : "MASTER_ADDR";
    return c->peer ? c->peer : address && *address ? address : NULL;
}

static int64_t number_of(const doctor_context *c, const char *variable)
{
    int64_t n = 0;
    const char *value = doctor_variable(c, variable);
    return value && text_to_count(value, &n) ? n : 0;
}

// Returns whether the variables of a launcher say that the run has several hosts.
static bool has_hosts(const doctor_context *c)
{
    const int64_t ranks = number_of(c, "WORLD_SIZE"), own = number_of(c, "LOCAL_WORLD_SIZE");
    return (own > 0 && ranks > own) || number_of(c, "GROUP_WORLD_SIZE") > 1 ||
           number_of(c, "NNODES") > 1 || number_of(c, "SLURM_NNODES") > 1;
}

status doctor_probe_host_name_loopback(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[NAME_BYTES], address[NAME_BYTES];
    const char *from;
    if (!own_name(c, name)) {
        doctor_skip(out, "the host has no name");
        return OK;
    }
    TRY(find_in_hosts(c, name, address, e));
    // A machine alone does not mind: many installers write 127.0.1.1 there.
    const bool matters = has_hosts(c) || find_peer(c, &from);
    if (is_loopback(address))
        doctor_find_as(out, matters ? DOCTOR_WARNING : DOCTOR_NOTE, "where", "/etc/hosts", "name",
                       name, "address", address, NULL);
done:
    return result;
}

// Returns whether /etc/hosts knows the name, or may leave it to a name server or to a module of the C library.
static status knows(const doctor_context *c, const char *name, bool is_own, bool *found,
                    bool *elsewhere, err *e)
{
    status result = OK;
    char address[NAME_BYTES];
    bool server, module;
    TRY(find_in_hosts(c, name, address, e));
    TRY(file_has(c, "/etc/resolv.conf", "nameserver", &server, e));
    TRY(file_has(c, "/etc/nsswitch.conf", "myhostname", &module, e));
    *found = *address || (is_own && module) || strcmp(name, "localhost") == 0;
    *elsewhere = !*found && server;
done:
    return result;
}

status doctor_probe_host_name_unknown(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char name[NAME_BYTES];
    bool found, elsewhere;
    if (!own_name(c, name)) {
        doctor_skip(out, "the host has no name");
        return OK;
    }
    TRY(knows(c, name, true, &found, &elsewhere, e));
    if (elsewhere)
        doctor_skip(out, "only a name server knows the name %s", name);
    else if (!found)
        doctor_find(out, "where", "/etc/hosts", "name", name, NULL);
done:
    return result;
}

status doctor_probe_peer_name(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    bool found, elsewhere;
    const char *from, *peer = find_peer(c, &from);
    if (!peer || is_ipv4(peer) || is_ipv6(peer)) {
        doctor_skip(out, peer ? "%s is an address" : "no host is named at which ranks meet", from);
        return OK;
    }
    TRY(knows(c, peer, false, &found, &elsewhere, e));
    if (elsewhere)
        doctor_skip(out, "only a name server knows the name %s", peer);
    else if (!found)
        doctor_find(out, "where", from, "peer", peer, NULL);
done:
    return result;
}

status doctor_probe_peer_loopback(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char address[NAME_BYTES];
    const char *from, *peer = find_peer(c, &from);
    const int64_t node =
        number_of(c, "GROUP_RANK") + number_of(c, "NODE_RANK") + number_of(c, "SLURM_NODEID");
    if (!peer || !has_hosts(c) || node == 0) {
        doctor_skip(out, "this host is not one of several that meet on another one");
        return OK;
    }
    TRY(find_in_hosts(c, peer, address, e));
    const char *found = *address ? address : peer;
    if (is_loopback(found) || strcmp(peer, "localhost") == 0)
        doctor_find(out, "where", from, "peer", peer, NULL);
done:
    return result;
}

status doctor_probe_peer_ipv6(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char address[NAME_BYTES];
    int64_t disabled = 0;
    const char *from, *peer = find_peer(c, &from);
    if (!peer) {
        doctor_skip(out, "no host is named at which ranks meet");
        return OK;
    }
    TRY(find_in_hosts(c, peer, address, e));
    const char *found = *address ? address : peer;
    if (!is_ipv6(found)) {
        doctor_skip(out, "%s has no IPv6 address in /etc/hosts", peer);
        return OK;
    }
    if (doctor_read_number(c, "/proc/sys/net/ipv6/conf/all/disable_ipv6", &disabled) && disabled)
        doctor_find(out, "where", from, "peer", peer, "address", found, NULL);
done:
    return result;
}
