// interface.h -- an interface of this machine, chosen by the rules of NCCL_SOCKET_IFNAME.
#ifndef TRIREME_NET_INTERFACE_H
#define TRIREME_NET_INTERFACE_H

#include "base/text.h"
#include "net/address.h"

enum { NET_INTERFACE_TEXT = 16 };

#define NET_RDMA_DEVICES "/sys/class/infiniband"

typedef struct net_interface {
    char name[NET_INTERFACE_TEXT];
    net_address address; // without a port
} net_interface;

// The rule of the environment: TRIREME_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, else GLOO_SOCKET_IFNAME, where it is not
// empty. *variable becomes the name of the one that gives it. NULL: there is none.
const char *net_interface_rule(const char **variable);
// Returns whether the rule chooses the interface. "eth" chooses every name that starts with it, "=eth0" this name;
// "^docker" and "^=eth0" choose all others. Names are separated by commas.
bool net_interface_matches(const char *rule, const char *name);
// The first interface that is up and that the rule chooses. One of several hosts is preferred to loopback, and IPv4 to
// IPv6. NULL or "": any. E_USAGE names the rule and the interfaces that are there.
status net_interface_find(const char *rule, net_interface *out, err *e);
// The interface by which this machine sends to an address. E_IO where it has no way there.
status net_interface_toward(const net_address *remote, net_interface *out, err *e);
// Appends the names of all interfaces that are up and that the rule chooses, with commas. E_USAGE as above.
status net_interface_list(const char *rule, text *out, err *e);
// Appends the devices that the environment leaves to a library of networks: interfaces by the rule, and RDMA devices below
// `folder`, less these where NCCL_IB_DISABLE is 1, as in NCCL. Appends nothing where it leaves all. E_USAGE names the
// variable, and the interfaces that are there.
status net_interface_list_allowed(const char *folder, text *out, err *e);
// Appends the active ports of RDMA devices below `folder`, which is NET_RDMA_DEVICES, as UCX names them:
// "mlx5_0:1", with a comma before each where `out` has text. Appends nothing where there is no such folder.
void net_interface_list_rdma(const char *folder, text *out);
// Returns whether this machine has an active RDMA device that NCCL_IB_DISABLE=1 does not leave out.
bool net_interface_has_rdma(void);

#endif
