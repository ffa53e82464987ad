// message.h -- what a host tells rank 0's: its report, its pairs, its clock, and how it finds the names of hosts.
#ifndef TRIREME_DOCTOR_HOSTS_MESSAGE_H
#define TRIREME_DOCTOR_HOSTS_MESSAGE_H

#include "doctor/hosts/compare.h"

typedef struct host_message {
    doctor_report report;
    host_pair *pair; // [pairs]
    int pairs;
    host_clock clock;
    host_lookup *lookup; // [hosts]; NULL: not asked
    int hosts;
} host_message;

// Runs this host's part after its checks, whose report is taken: the clock, and with `active` pairs and names. Collective
// over the hosts of the group. The caller calls host_message_clear.
status host_message_fill(host_group *g, bool active, host_message *out, err *e);
status host_message_send(host_group *g, const host_message *m, err *e);
// Rank 0's host receives those of all hosts, its own too, into all[g->count]. One that is gone, or that does not report until the
// deadline, has an empty report of its name, and is_gone[i] is set.
status host_message_receive_all(host_group *g, int64_t deadline_ms, host_message *all,
                                bool *is_gone, err *e);
void host_message_clear(host_message *m);

#endif
