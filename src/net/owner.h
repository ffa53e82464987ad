// owner.h -- the user at the other end of a connection within this machine.
//
// Called by servers before they authenticate a client (secret.h), so that other users of the machine take no place
// among the clients that have not authenticated. The secret alone decides who may stay.
#ifndef TRIREME_NET_OWNER_H
#define TRIREME_NET_OWNER_H

#include <stdbool.h>

// Returns whether the connection fd comes over loopback from a process of another user. False also where the kernel does
// not tell (it is built without INET_DIAG).
bool net_peer_is_foreign(int fd);

#endif
