// interface.c -- see interface.h. Called by the benchmark of links.
#include "net/interface.h"

#include "base/text.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

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

// How well an interface suits; 0: not at all.
static int merit_of(const struct ifaddrs *i, const char *rule)
{
    if (!is_usable(i) || !net_interface_matches(rule, i->ifa_name)) return 0;
    return 1 + (i->ifa_flags & IFF_LOOPBACK ? 0 : 2) + (i->ifa_addr->sa_family == AF_INET);
}

static void list_names(const struct ifaddrs *all, text *out)
{
    const char *last = "";
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!is_usable(i) || strcmp(i->ifa_name, last) == 0) continue;
        text_addf(out, "%s%s", out->bytes ? ", " : "", i->ifa_name);
        last = i->ifa_name;
    }
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
    status result = OK;
    struct ifaddrs *all = NULL;
    text names = {0};
    int best = 0;
    const bool any = !rule || !*rule;
    if (getifaddrs(&all) != 0) return err_errno(e, "cannot list the interfaces of this machine");
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const int merit = merit_of(i, any ? "^" : rule);
        if (merit <= best) continue;
        best = merit;
        take(i, out);
    }
    if (best > 0) goto done;
    list_names(all, &names);
    result = err_set(e, E_USAGE, "interface %.*s: none that is up has such a name; valid are %s",
                     TEXT_CUT(any ? "of any name" : rule, 120), names.bytes ? names.chars : "none");
done:
    freeifaddrs(all);
    text_clear(&names);
    return result;
}
