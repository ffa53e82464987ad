// ports.h -- the ports of InfiniBand and RoCE devices, from /sys/class/infiniband. rdma_checks.c looks at them.
#ifndef TRIREME_DOCTOR_NETWORK_PORTS_H
#define TRIREME_DOCTOR_NETWORK_PORTS_H

#include "doctor/doctor.h"

enum { PORT_NAME_BYTES = 80, PORT_WORD_BYTES = 48, PORT_PATH_BYTES = 256 };

typedef struct doctor_port {
    char name[PORT_NAME_BYTES];   // "mlx5_0:1", as NCCL and UCX name it
    char device[PORT_WORD_BYTES]; // "mlx5_0"
    char folder[PORT_PATH_BYTES]; // "/sys/class/infiniband/mlx5_0/ports/1"
    char state[PORT_WORD_BYTES], physical[PORT_WORD_BYTES]; // "ACTIVE", "LinkUp", without numbers
    double gbits;                                           // 0: not known
    bool is_ethernet;                                       // RoCE; false: InfiniBand
} doctor_port;

typedef struct doctor_ports {
    doctor_port *item; // [count]
    int count;
    size_t room;
} doctor_ports;

// Reads them. The caller frees out->item. An empty list where there is none.
status doctor_ports_read(const doctor_context *c, doctor_ports *out, err *e);
bool doctor_port_is_active(const doctor_port *p);
// A counter of a port; 0 where the driver does not have it.
int64_t doctor_port_counter(const doctor_context *c, const doctor_port *p, const char *name);

#endif
