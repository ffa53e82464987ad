// interface.c -- see interface.h. Called by the benchmark of links and by the communicator ucx.
#include "net/interface.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *net_interface_rule(const char **variable)
{
    static const char *const variables[] = {"TRIREME_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                            "GLOO_SOCKET_IFNAME"};
    for (int i = 0; i < 3; i++) {
        const char *rule = getenv(variables[i]);
        *variable = variables[i];
        if (rule && *rule) return rule;
    }
    return NULL;
}

bool net_interface_matches(const char *rule, const char *name)
{
    const bool others = rule[0] == '^';
    if (others) rule++;
    const bool whole = rule[0] == '=';
    if (whole) rule++;
    bool found = false;
    for (size_t bytes; *rule && !found; rule += bytes + (rule[bytes] == ',')) {
        bytes = strcspn(rule, ",");
        found = bytes > 0 && strncmp(rule, name, bytes) == 0 && (!whole || !name[bytes]);
    }
    return found != others;
}

static bool is_usable(const struct ifaddrs *i)
{
    const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
    return (i->ifa_flags & IFF_UP) && (family == AF_INET || family == AF_INET6);
}

// Returns how well an interface suits; 0: not at all.
static int merit_of(const struct ifaddrs *i, const char *rule)
{
    if (!is_usable(i) || !net_interface_matches(rule, i->ifa_name)) return 0;
    return 1 + (i->ifa_flags & IFF_LOOPBACK ? 0 : 2) + (i->ifa_addr->sa_family == AF_INET);
}

// The names of usable interfaces that the rule chooses, each once: an interface has an entry for each address.
static void list_names(const struct ifaddrs *all, const char *rule, const char *between, text *out)
{
    for (const struct ifaddrs *i = all, *j; i; i = i->ifa_next) {
        if (!is_usable(i) || !net_interface_matches(rule, i->ifa_name)) continue;
        for (j = all; j != i; j = j->ifa_next)
            if (is_usable(j) && strcmp(i->ifa_name, j->ifa_name) == 0) break;
        if (j == i) text_addf(out, "%s%s", out->bytes ? between : "", i->ifa_name);
    }
}

static status refuse(const struct ifaddrs *all, const char *rule, err *e)
{
    text names = {0};
    list_names(all, "^", ", ", &names);
    err_set(e, E_USAGE, "interface %.*s: none that is up has such a name; valid are %s",
            TEXT_CUT(rule, 120), names.bytes ? names.chars : "none");
    text_clear(&names);
    return E_USAGE;
}

static void take(const struct ifaddrs *i, net_interface *out)
{
    *out = (net_interface){.address.bytes = i->ifa_addr->sa_family == AF_INET
                                                ? sizeof(struct sockaddr_in)
                                                : sizeof(struct sockaddr_in6)};
    snprintf(out->name, sizeof out->name, "%s", i->ifa_name);
    memcpy(&out->address.raw, i->ifa_addr, out->address.bytes);
}

status net_interface_find(const char *rule, net_interface *out, err *e)
{
    struct ifaddrs *all = NULL;
    int best = 0;
    const bool any = !rule || !*rule;
    if (getifaddrs(&all) != 0) return err_errno(e, "cannot list the interfaces of this machine");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const int merit = merit_of(i, any ? "^" : rule);
        if (merit <= best) continue;
        best = merit;
        take(i, out);
    }
    const status result = best > 0 ? OK : refuse(all, any ? "of any name" : rule, e);
    freeifaddrs(all);
    return result;
}

// A socket for datagrams gets an address of this machine without sending anything.
static status address_toward(const net_address *remote, net_address *out, err *e)
{
    char name[NET_ADDRESS_TEXT];
    net_address to = *remote;
    if (net_address_port(&to) == 0) net_address_set_port(&to, 9); // any will do
    const int fd = socket(to.raw.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    status result = OK;
    *out = (net_address){.bytes = sizeof out->raw};
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to.raw, to.bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&out->raw, &out->bytes) != 0) {
        net_address_print_host(remote, name);
        result = err_errno(e, "no interface of this machine leads to %s", name);
    }
    if (fd >= 0) close(fd);
    net_address_set_port(out, 0);
    return result;
}

status net_interface_toward(const net_address *remote, net_interface *out, err *e)
{
    status result = OK;
    struct ifaddrs *all = NULL;
    *out = (net_interface){.name = "lo"}; // has all of 127.0.0.0/8
    TRY(address_toward(remote, &out->address, e));
    if (getifaddrs(&all) != 0) FAIL(E_IO, "cannot list the interfaces of this machine");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (is_usable(i) && net_address_is_host(&out->address, i->ifa_addr))
            snprintf(out->name, sizeof out->name, "%s", i->ifa_name);
    freeifaddrs(all);
done:
    return result;
}

status net_interface_list(const char *rule, text *out, err *e)
{
    struct ifaddrs *all = NULL;
    text names = {0};
    status result = OK;
    if (getifaddrs(&all) != 0) return err_errno(e, "cannot list the interfaces of this machine");
    list_names(all, rule, ",", &names);
    result = names.failed ? text_check(&names, e) : names.bytes ? OK : refuse(all, rule, e);
    if (result == OK) text_addf(out, "%s%s", out->bytes ? "," : "", names.chars);
    freeifaddrs(all);
    text_clear(&names);
    return result;
}

// ---- RDMA

static bool is_active(const char *folder, const char *device, const char *port)
{
    text path = {0};
    char state[16] = "";
    text_addf(&path, "%s/%s/ports/%s/state", folder, device, port);
    FILE *f = path.failed ? NULL : fopen(path.chars, "re");
    const bool active = f && fgets(state, sizeof state, f) && state[0] == '4'; // "4: ACTIVE"
    if (f) fclose(f);
    text_clear(&path);
    return active;
}

static void list_ports(const char *folder, const char *device, text *out)
{
    text path = {0};
    text_addf(&path, "%s/%s/ports", folder, device);
    DIR *ports = path.failed ? NULL : opendir(path.chars);
    for (const struct dirent *p; ports && (p = readdir(ports));)
        if (p->d_name[0] != '.' && is_active(folder, device, p->d_name))
            text_addf(out, "%s%s:%s", out->bytes ? "," : "", device, p->d_name);
    if (ports) closedir(ports);
    text_clear(&path);
}

void net_interface_list_rdma(const char *folder, text *out)
{
    DIR *devices = opendir(folder);
    for (const struct dirent *d; devices && (d = readdir(devices));)
        if (d->d_name[0] != '.') list_ports(folder, d->d_name, out);
    if (devices) closedir(devices);
}

static bool leaves_rdma_out(void)
{
    const char *disabled = getenv("NCCL_IB_DISABLE");
    return disabled && strcmp(disabled, "1") == 0;
}

status net_interface_list_allowed(const char *folder, text *out, err *e)
{
    const char *variable, *rule = net_interface_rule(&variable);
    const bool without_rdma = leaves_rdma_out();
    if (!rule && !without_rdma) return OK;
    const status result = net_interface_list(rule ? rule : "^", out, e);
    if (result != OK) err_prefix(e, "%s: ", rule ? variable : "NCCL_IB_DISABLE");
    if (result == OK && !without_rdma) net_interface_list_rdma(folder, out);
    return result;
}

bool net_interface_has_rdma(void)
{
    text ports = {0};
    if (leaves_rdma_out()) return false;
    net_interface_list_rdma(NET_RDMA_DEVICES, &ports);
    const bool found = ports.bytes > 0;
    text_clear(&ports);
    return found;
}
