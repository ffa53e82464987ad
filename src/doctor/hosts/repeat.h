// repeat.h -- measures the slowest pairs of hosts once more, one at a time: while all pairs of a round are measured they may
// share a switch or, on one machine, the processor, and a pair is named only where it is slow alone, too.
#ifndef TRIREME_DOCTOR_HOSTS_REPEAT_H
#define TRIREME_DOCTOR_HOSTS_REPEAT_H

#include "doctor/hosts/pairs.h"

// `own` [count] are this host's pairs of host_pairs_measure, in which the better values stay. Collective over the hosts of
// the group.
status host_pairs_repeat(host_group *g, host_pair *own, int count, err *e);

#endif
