// store_tcp.h -- opens the store that a server keeps (store_server.h), from any host.
#ifndef TRIREME_RENDEZVOUS_STORE_TCP_H
#define TRIREME_RENDEZVOUS_STORE_TCP_H

#include "net/address.h"
#include "net/secret.h"
#include "rendezvous/store.h"

// Connects to the server at `a`, and waits for it to start if necessary. The caller closes *out with comm_store_close.
// E_PEER when nobody listens there in time, E_IO when the server lets the connection go until then, E_USAGE when the
// secrets differ. Not collective.
status comm_store_tcp_open(const net_address *a, const net_secret *secret, int64_t deadline_ms,
                           comm_store **out, err *e);
// The address of this end of the connection: the one from which this host reaches the server's. Not collective.
status comm_store_tcp_own(comm_store *s, net_address *out, err *e);
// Sets the action on disconnect: when this connection ends, or makes no call for silent_ms, the server gives
// the key the value, where it has none. So others learn of a host that has left. A connection has one action; a
// later call replaces it, and 0 bytes take it back. From then on a reply that does not come within half of silent_ms is
// E_IO, so that a client that is cut off knows it before the others do. silent_ms 0: the connection's end alone
// counts. s is a store of comm_store_tcp_open. Not collective.
status comm_store_tcp_set_on_disconnect(comm_store *s, const char *key, store_value value,
                                        int64_t silent_ms, err *e);
// Replies of s are awaited as long as its connection lasts: for the process that keeps the store itself, whose host may
// let it wait for longer than any network. A later call of comm_store_tcp_set_on_disconnect takes it back.
void comm_store_tcp_wait_long(comm_store *s);

#endif
