// fault.h -- a rank tells the starting process which mapped file was truncated under it. Used by
// processes.c only.
//
// A file that is truncated while it is mapped raises SIGBUS at the next read beyond its end. The
// rank's handler finds the file in /proc/self/maps and sends a line to a socket. The abstract name
// of the socket follows from the pid of the starting process, so the handler needs no variable.
#ifndef TRIREME_LAUNCH_FAULT_H
#define TRIREME_LAUNCH_FAULT_H

#include <stdbool.h>
#include <stddef.h>

// The starting process calls it before the fork. Returns the socket, which the caller closes; -1
// where none can be opened, and then errors name the rank without the file.
int fault_listen(void);
// A rank calls it after the fork: installs the handler. After the handler SIGBUS still ends the
// rank.
void fault_install(void);
// The starting process calls it when SIGBUS has ended a rank: copies the oldest line that was sent.
// False where there is none.
bool fault_receive(int listener, char *out, size_t room);

#endif
