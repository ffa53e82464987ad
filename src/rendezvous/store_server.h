// store_server.h -- the server of the TCP store: one thread that answers all clients.
//
// Opened by the leading agent, or by rank 0 where there is no agent. It does not know what keys mean. It
// trusts no client: what it reads before a client has shown the secret is of fixed size, such clients are few and
// have STORE_AUTHENTICATE_MS, any of them gives way to a new one, other users of the machine are refused, a frame has a longest length, a client has one request under way, and keys are
// bounded. Bad bytes close the connection that sent them.
#ifndef TRIREME_RENDEZVOUS_STORE_SERVER_H
#define TRIREME_RENDEZVOUS_STORE_SERVER_H

#include "net/address.h"
#include "net/secret.h"
#include "rendezvous/store.h"

enum { STORE_AUTHENTICATE_MS = 10000, STORE_UNAUTHENTICATED = 256, STORE_KEYS = 1 << 20 };

typedef struct store_server store_server;

// Listens on `a` (port 0: a free one) and starts the thread. *bound is the address with its port. The secret is
// copied. E_IO.
status store_server_open(const net_address *a, const net_secret *secret, store_server **out,
                         net_address *bound, err *e);
// Returns how many authenticated clients are connected. Any thread may call it.
int store_server_clients(const store_server *s);
// Ends all connections and the thread. s may be NULL.
void store_server_close(store_server *s);

#endif
