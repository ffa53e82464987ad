// pairs.h -- connects all pairs of the hosts of a group in rounds, and measures them. Called on every host at the same time.
#ifndef TRIREME_DOCTOR_HOSTS_PAIRS_H
#define TRIREME_DOCTOR_HOSTS_PAIRS_H

#include "doctor/hosts/group.h"
#include "doctor/hosts/link.h"

#include <jansson.h>

typedef enum pair_state {
    PAIR_UNKNOWN,      // not measured
    PAIR_MEASURED,     // both can connect to each other
    PAIR_ONE_WAY,      // `from` cannot connect to `to`, but the other way round
    PAIR_ONE_WAY_BACK, // `to` cannot connect to `from`
    PAIR_SEPARATE,     // neither can
    PAIR_LOST,         // connected, but the connection was lost or stood still
} pair_state;

enum { PAIR_WHY_BYTES = 200 };

typedef struct host_pair {
    int from, to; // indices of hosts; from < to
    pair_state state;
    host_link link;
    char why[PAIR_WHY_BYTES]; // where it is not PAIR_MEASURED
} host_pair;

// Measures the pairs of this host in which it is `from`. The caller frees *out. Collective over the hosts of the group. A pair
// that does not answer takes some seconds; a host that two others cannot reach is not tried again.
status host_pairs_measure(host_group *g, host_pair **out, int *count, err *e);

status host_pair_to_json(const host_pair *p, json_t **out, err *e);
bool host_pair_from_json(const json_t *from, host_pair *out); // false: it is no pair

#endif
