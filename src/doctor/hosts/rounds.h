// rounds.h -- the order in which all pairs of hosts are measured: rounds of pairs that have no host in common, so that a
// pair is not disturbed by another one of its hosts. It is the round-robin tournament of the circle: one host stays, and the others move on.
#ifndef TRIREME_DOCTOR_HOSTS_ROUNDS_H
#define TRIREME_DOCTOR_HOSTS_ROUNDS_H

// How many rounds `hosts` hosts have: each pair is in one of them.
int hosts_rounds(int hosts);
// The partner of a host in a round; -1: it rests. Symmetric.
int hosts_partner(int hosts, int round, int host);

#endif
