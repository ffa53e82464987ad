// interfaces.h -- the network interfaces of the machine that is checked, from /sys/class/net, /proc/net/route and
// /proc/net/if_inet6. The rows of this room look at them. It does not know which faults they have.
#ifndef TRIREME_DOCTOR_NETWORK_INTERFACES_H
#define TRIREME_DOCTOR_NETWORK_INTERFACES_H

#include "doctor/doctor.h"
#include "net/interface.h"

// What an interface is, as its name and its files say.
typedef enum interface_kind {
    INTERFACE_CARD,     // a device of the machine
    INTERFACE_LOOPBACK, // lo
    INTERFACE_BRIDGE,   // of containers or virtual machines: docker0, virbr0, cni0
    INTERFACE_OTHER,    // without a device: a bond, a tunnel, one end of a veth pair
} interface_kind;

typedef struct doctor_interface {
    char name[NET_INTERFACE_TEXT];
    interface_kind kind;
    int64_t index, mtu, mbits; // mbits -1: not known
    bool is_up, has_ipv4, has_ipv6;
    bool has_carrier;    // true also where the kernel does not say it
    bool is_half_duplex; // false where the kernel does not say it
    uint32_t subnet,
        mask; // of the first IPv4 route without a gateway, in network order; mask 0: none
} doctor_interface;

typedef struct doctor_interfaces {
    doctor_interface *item; // [count], in the order in which the kernel made them
    int count;
} doctor_interfaces;

// Reads them. The caller frees out->item. An empty list where /sys/class/net does not exist.
status doctor_interfaces_read(const doctor_context *c, doctor_interfaces *out, err *e);
// Returns whether messages to other hosts can go through it: it is up and has an address.
bool doctor_interface_is_usable(const doctor_interface *i);
// The rule of the environment and its variable, as net_interface_rule finds them; NULL: there is none.
const char *doctor_interface_rule(const doctor_context *c, const char **variable);
// The interface that net_interface_find takes by a rule (NULL: any); NULL where the rule chooses none.
const doctor_interface *doctor_interface_taken(const doctor_interfaces *all, const char *rule);
// Appends the names of usable interfaces, with ", ".
void doctor_interface_list(const doctor_interfaces *all, text *out);
// A number in a file of an interface; false where there is none.
bool doctor_interface_number(const doctor_context *c, const char *name, const char *file,
                             int64_t *out);

#endif
