// greet.h -- both ends of a new connection show each other that they have the secret (secret.h), over the calls of
// socket.h. The store's client and the benchmark of links call it.
#ifndef TRIREME_NET_GREET_H
#define TRIREME_NET_GREET_H

#include "net/address.h"
#include "net/secret.h"

// May a server listen on `a` with this secret? E_USAGE, which names `what` ("a store"), where other hosts reach the
// address and there is no secret.
status net_secret_check(const net_secret *s, const net_address *a, const char *what, err *e);
// The client's turns on the connection fd. E_USAGE where the secrets differ, E_PEER at the deadline.
status net_greet_server(int fd, const net_secret *s, int64_t deadline_ns, net_session *out, err *e);
// The server's turns. E_USAGE where the client is not welcome: it has been told.
status net_greet_client(int fd, const net_secret *s, int64_t deadline_ns, net_session *out, err *e);

#endif
