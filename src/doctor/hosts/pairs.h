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

// The measurement of one pair once more, by its two hosts. *p is that of `from`, and gets the new values; NULL on `to`.
void host_pair_play(host_group *g, int other, host_pair *p);
// The lower rate of the two directions.
double host_pair_rate(const host_pair *p);
bool host_pair_is_measured(const host_pair *p); // in both directions, without a fault

// A pair is slow, or takes long, beside the medians of all measured pairs; of three hosts beside the best pair, because one
// slow host has two of the three.
typedef struct pair_medians {
    double gbits, latency_us;
    bool is_best;
} pair_medians;
status host_pairs_medians(const host_pair *pairs, int count, pair_medians *out, err *e);
bool host_pair_is_slow(const host_pair *p, const pair_medians *m);
bool host_pair_takes_long(const host_pair *p, const pair_medians *m);

status host_pair_to_json(const host_pair *p, json_t **out, err *e);
bool host_pair_from_json(const json_t *from, host_pair *out); // false: it is no pair

#endif
