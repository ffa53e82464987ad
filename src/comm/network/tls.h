// tls.h -- the communicator tls: ranks on any hosts, which exchange by TCP under TLS 1.3. Every pair of ranks has one
// connection, whose both ends show that they have the job's secret (net/tls.h). It is opened, and its port is closed,
// before the first call.
//
// It is a transport of network.h, which says how algorithms, messages and failures work. Opened by the registry.
#ifndef TRIREME_COMM_TLS_H
#define TRIREME_COMM_TLS_H

#include "comm/registry.h"

status tls_open(const comm_options *o, comm **out, err *e);

#endif
