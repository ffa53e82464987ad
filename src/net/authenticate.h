// authenticate.h -- both ends of a new connection show each other that they have the secret (secret.h), over the calls of
// socket.h. The store's client and the benchmark of links call it.
#ifndef TRIREME_NET_GREET_H
#define TRIREME_NET_GREET_H

#include "net/address.h"
#include "net/secret.h"

// The client's turns on the connection fd. E_USAGE where the secrets differ, E_PEER at the deadline.
status net_authenticate_to_server(int fd, const net_secret *s, int64_t deadline_ns,
                                  net_session *out, err *e);
// The server's turns, for one client: waits on `listener` for the first that shows the secret. At most NET_UNAUTHENTICATED
// others are heard at a time, each for NET_AUTHENTICATE_MS, and the oldest gives way to a new one, so that those who say nothing
// keep nobody out. `refused` is called with the address of each client that is not welcome, and why. The caller closes
// out->fd. E_PEER at the deadline.
enum { NET_UNAUTHENTICATED = 64, NET_AUTHENTICATE_MS = 5000 };
typedef void net_refused(void *owner, const char *from, const char *why);
typedef struct net_client {
    int fd;
    char from[NET_ADDRESS_TEXT];
    net_session session;
} net_client;
status net_authenticate_client(int listener, const net_secret *s, int64_t deadline_ns,
                               net_refused *refused, void *owner, net_client *out, err *e);

#endif
