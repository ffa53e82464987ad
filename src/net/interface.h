// interface.h -- an interface of this machine, chosen by the rules of NCCL_SOCKET_IFNAME.
#ifndef TRIREME_NET_INTERFACE_H
#define TRIREME_NET_INTERFACE_H

#include "net/address.h"

enum { NET_INTERFACE_TEXT = 16 };

typedef struct net_interface {
    char name[NET_INTERFACE_TEXT];
    net_address address; // without a port
} net_interface;

// Does the rule choose the interface? "eth" chooses every name that starts with it, "=eth0" this name; "^docker" and
// "^=eth0" choose all others. Names are separated by commas.
bool net_interface_matches(const char *rule, const char *name);
// The first interface that is up and that the rule chooses. One of several hosts is preferred to loopback, and IPv4 to
// IPv6. NULL or "": any. E_USAGE names the rule and the interfaces that are there.
status net_interface_find(const char *rule, net_interface *out, err *e);

#endif
