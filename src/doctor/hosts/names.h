// names.h -- looks up the names of all hosts on this one, within a time limit: a name server that does not answer takes the
// C library up to half a minute.
#ifndef TRIREME_DOCTOR_HOSTS_NAMES_H
#define TRIREME_DOCTOR_HOSTS_NAMES_H

#include "net/address.h"

typedef struct host_lookup {
    bool found, is_loopback;
} host_lookup;

// Fills out[count]. A name that has no answer in time counts as not found.
status host_names_look_up(const char *const *names, int count, int64_t timeout_ms, host_lookup *out,
                          err *e);

#endif
