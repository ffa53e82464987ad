// address.h -- the address of a socket: read from text, printed, and compared.
//
// Everything that meets over TCP calls it. It does not open sockets.
#ifndef TRIREME_NET_ADDRESS_H
#define TRIREME_NET_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { NET_ADDRESS_TEXT = 64, NET_HOST_BYTES = 256 };

// An IPv4 or IPv6 address with a port.
typedef struct net_address {
    struct sockaddr_storage raw;
    socklen_t bytes;
} net_address;

// A host and a port as a user writes them.
typedef struct net_endpoint {
    char host[NET_HOST_BYTES]; // a name or an address without brackets
    int port;                  // 0: none was given, or a free one is wanted
    bool has_port;
} net_endpoint;

// Reads "host", "host:port", "address", "[IPv6]:port" or an IPv6 address without a port. E_USAGE names the
// text and what is valid.
status net_endpoint_parse(const char *given, net_endpoint *out, err *e);
// Reads "PORT" or an address with a port, where a server listens. Without an address its host is
// "127.0.0.1". E_USAGE names the text and what is valid.
status net_endpoint_parse_server(const char *given, net_endpoint *out, err *e);
// Looks the host up. It prefers IPv4, as the hosts of a cluster are named in IPv4 more often. E_IO names the
// host. It may wait for a name server.
status net_address_resolve(const char *host, int port, net_address *out, err *e);
// Writes "127.0.0.1:29400" or "[::1]:29400".
void net_address_print(const net_address *a, char out[NET_ADDRESS_TEXT]);
// Writes "127.0.0.1" or "::1".
void net_address_print_host(const net_address *a, char out[NET_ADDRESS_TEXT]);
int net_address_port(const net_address *a);
void net_address_set_port(net_address *a, int port);
// All addresses of this host; the loopback address. The port stays.
void net_address_set_any(net_address *a);
void net_address_set_loopback(net_address *a);
// Returns whether only this machine reaches the address.
bool net_address_is_loopback(const net_address *a);
// Returns whether b, which may be NULL, has the host of a. Ports do not matter.
bool net_address_is_host(const net_address *a, const struct sockaddr *b);
// Returns whether it belongs to an interface of this machine. Loopback addresses do.
bool net_address_is_own(const net_address *a);

#endif
