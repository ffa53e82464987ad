// fault.h -- how a rank whose page was lost tells the starting process which file that was. Inside
// launch/ only.
//
// A file that is cut off while it is mapped raises SIGBUS at the next read beyond its end. The
// rank's handler finds the file in /proc/self/maps and sends a line to a socket whose abstract name
// follows from the number of the starting process; so the handler needs no variable.
#ifndef TRIREME_LAUNCH_FAULT_H
#define TRIREME_LAUNCH_FAULT_H

#include <stdbool.h>
#include <stddef.h>

// By the starting process, before the fork: the socket, or -1 where there can be none; a rank is
// then still named, without its file.
int fault_listen(void);
// By a rank, after the fork: installs the handler, which ends in death by SIGBUS as before.
void fault_install(void);
// By the starting process, when a rank has died of SIGBUS: the oldest line that was sent.
bool fault_receive(int listener, char *out, size_t room);

#endif
