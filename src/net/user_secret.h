// user_secret.h -- the source of a rendezvous's secret: a file that the user names, or one that this program keeps for
// the processes of a user on this machine.
//
// Whoever opens or joins a rendezvous calls net_secret_find. Processes that another program has started, such as
// mpirun, srun or two shells, have no parent that could hand them a secret. So those that meet on loopback share one
// secret of the user: a file that only the user can read, in a folder that only the user can enter. Another process
// of this user could read the memory of a run in any case, so a secret of one run alone would keep nobody else out.
#ifndef TRIREME_NET_USER_SECRET_H
#define TRIREME_NET_USER_SECRET_H

#include "net/address.h"
#include "net/secret.h"

// The secret of a rendezvous at `a`: that of the file `given` (NULL or "": TRIREME_SECRET_FILE), or without a file that
// of the user, where only this machine reaches `a`. E_USAGE names `what` ("a store") where other hosts reach it.
status net_secret_find(const char *given, const net_address *a, const char *what, net_secret *out,
                       err *e);
// The user's secret, in the first of /run/user/UID/trireme, /dev/shm/trireme-UID and /tmp/trireme-UID that this user can
// have for itself. E_IO.
status net_secret_of_user(net_secret *out, err *e);
// The same in this folder, which is made where it is missing. E_IO where it belongs to another user, or others may use it.
status net_secret_in_folder(const char *folder, net_secret *out, err *e);

#endif
