// socket.h -- TCP sockets whose calls end in time: listen, connect, and complete reads and writes.
//
// All sockets are non-blocking and are not inherited by programs that are started. A deadline is a point of
// the monotonic clock in nanoseconds (clock_ns). A call that is too late returns E_PEER; E_IO says that the
// connection is lost. It does not know what is sent.
#ifndef TRIREME_NET_SOCKET_H
#define TRIREME_NET_SOCKET_H

#include "net/address.h"

#include <stdint.h>

// Listens on an address; port 0 takes a free one. *bound (NULL allowed) is the address with its port. The
// caller closes *fd. E_IO names the address.
status net_listen(const net_address *a, int *fd, net_address *bound, err *e);
// Keeps a free port of the address for a program that this one starts: no other program gets the port while
// *fd is open, and a program that sets SO_REUSEADDR, as servers do, can listen on it all the same. The caller
// closes *fd.
status net_reserve_port(const net_address *a, int *fd, int *port, err *e);
// Connects. As long as nobody listens it tries again until the deadline. The caller closes *fd.
status net_connect(const net_address *a, int64_t deadline_ns, int *fd, err *e);
// The same from an address of this machine, whose port does not matter.
status net_connect_from(const net_address *from, const net_address *a, int64_t deadline_ns, int *fd,
                        err *e);
// Sets the options of a connection that was accepted: no delay of small messages, and a peer that is gone
// without a word is noticed after NET_SILENT_S seconds.
enum { NET_SILENT_S = 4 };
status net_prepare(int fd, err *e);
// Sends or receives all bytes.
status net_write(int fd, const void *from, size_t bytes, int64_t deadline_ns, err *e);
status net_read(int fd, void *to, size_t bytes, int64_t deadline_ns, err *e);

#endif
