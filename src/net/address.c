// address.c -- see address.h.
#include "net/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PORT = 65535 };

static status refuse(const char *given, err *e)
{
    return err_set(
        e, E_USAGE,
        "address \"%.*s\": valid are HOST, HOST:PORT and [IPv6]:PORT with a port from 0 to %d",
        TEXT_CUT(given, 120), MOST_PORT);
}

static bool parse_port(const char *given, int *out)
{
    int64_t port = -1;
    if (given[0] < '0' || given[0] > '9' || !text_to_count(given, &port)) return false;
    *out = (int)port;
    return port >= 0 && port <= MOST_PORT;
}

status net_endpoint_parse(const char *given, net_endpoint *out, err *e)
{
    const char *colon = strrchr(given, ':'), *host = given;
    size_t length = strlen(given);
    *out = (net_endpoint){0};
    if (given[0] == '[') {
        const char *end = strchr(given, ']');
        if (!end || (end[1] && end[1] != ':')) return refuse(given, e);
        host = given + 1;
        length = (size_t)(end - host);
        colon = end[1] ? end + 1 : NULL;
    } else if (colon && strchr(given, ':') != colon) {
        colon = NULL; // an IPv6 address
    } else if (colon) {
        length = (size_t)(colon - given);
    }
    if (length == 0 || length >= sizeof out->host) return refuse(given, e);
    memcpy(out->host, host, length);
    out->has_port = colon != NULL;
    if (colon && !parse_port(colon + 1, &out->port)) return refuse(given, e);
    return OK;
}

status net_endpoint_parse_server(const char *given, net_endpoint *out, err *e)
{
    *out = (net_endpoint){.host = "127.0.0.1", .has_port = true};
    if (parse_port(given, &out->port)) return OK;
    if (net_endpoint_parse(given, out, NULL) == OK && out->has_port) return OK;
    return err_set(e, E_USAGE,
                   "address \"%.*s\": valid are PORT, HOST:PORT and [IPv6]:PORT with a port from 0 "
                   "to %d",
                   TEXT_CUT(given, 120), MOST_PORT);
}

status net_address_resolve(const char *host, int port, net_address *out, err *e)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0)
        return err_set(e, E_IO, "host %.*s: %s", TEXT_CUT(host, 120),
                       code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *a = found; a; a = a->ai_next)
        if (a->ai_family == AF_INET) {
            chosen = a;
            break;
        }
    *out = (net_address){.bytes = chosen->ai_addrlen};
    memcpy(&out->raw, chosen->ai_addr, chosen->ai_addrlen);
    net_address_set_port(out, port);
    freeaddrinfo(found);
    return OK;
}

static const void *host_of(const net_address *a)
{
    return a->raw.ss_family == AF_INET6
               ? (const void *)&((const struct sockaddr_in6 *)&a->raw)->sin6_addr
               : (const void *)&((const struct sockaddr_in *)&a->raw)->sin_addr;
}

void net_address_print_host(const net_address *a, char out[NET_ADDRESS_TEXT])
{
    if (!inet_ntop(a->raw.ss_family, host_of(a), out, NET_ADDRESS_TEXT))
        snprintf(out, NET_ADDRESS_TEXT, "(no address)");
}

void net_address_print(const net_address *a, char out[NET_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN];
    if (!inet_ntop(a->raw.ss_family, host_of(a), host, sizeof host)) strcpy(host, "(no address)");
    snprintf(out, NET_ADDRESS_TEXT, a->raw.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host,
             net_address_port(a));
}

int net_address_port(const net_address *a)
{
    return ntohs(a->raw.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&a->raw)->sin6_port
                                              : ((const struct sockaddr_in *)&a->raw)->sin_port);
}

void net_address_set_port(net_address *a, int port)
{
    if (a->raw.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->raw)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&a->raw)->sin_port = htons((uint16_t)port);
}

void net_address_set_any(net_address *a)
{
    if (a->raw.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->raw)->sin6_addr = in6addr_any;
    else
        ((struct sockaddr_in *)&a->raw)->sin_addr.s_addr = htonl(INADDR_ANY);
}

void net_address_set_loopback(net_address *a)
{
    if (a->raw.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->raw)->sin6_addr = in6addr_loopback;
    else
        ((struct sockaddr_in *)&a->raw)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

bool net_address_is_loopback(const net_address *a)
{
    if (a->raw.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->raw)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&a->raw)->sin6_addr);
}

bool net_address_is_host(const net_address *a, const struct sockaddr *b)
{
    if (!b || b->sa_family != a->raw.ss_family) return false;
    net_address other = {0};
    memcpy(&other.raw, b,
           b->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    const size_t bytes =
        b->sa_family == AF_INET6 ? sizeof(struct in6_addr) : sizeof(struct in_addr);
    return memcmp(host_of(a), host_of(&other), bytes) == 0;
}

bool net_address_is_own(const net_address *a)
{
    struct ifaddrs *all = NULL;
    bool own = net_address_is_loopback(a);
    if (own || getifaddrs(&all) != 0) return own;
    for (const struct ifaddrs *i = all; i && !own; i = i->ifa_next)
        own = net_address_is_host(a, i->ifa_addr);
    freeifaddrs(all);
    return own;
}
