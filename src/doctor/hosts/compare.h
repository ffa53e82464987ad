// compare.h -- what differs between the hosts of a run, from the reports of all: facts such as versions, rates that are lower
// than those of the other hosts, pairs of hosts, clocks and names. Its findings have rows of their own (rows.c), which no
// probe of one host finds. It measures nothing.
#ifndef TRIREME_DOCTOR_HOSTS_COMPARE_H
#define TRIREME_DOCTOR_HOSTS_COMPARE_H

#include "doctor/doctor.h"
#include "doctor/hosts/names.h"
#include "doctor/hosts/pairs.h"

// The rows, in this order.
enum {
    HOSTS_MISSING,
    HOSTS_GONE,
    HOSTS_DIFFER,
    HOSTS_SLOWER,
    HOSTS_UNREACHABLE,
    HOSTS_ONE_WAY,
    HOSTS_STALL,
    HOSTS_LOST,
    HOSTS_LINK,
    HOSTS_SLOW,
    HOSTS_LATENCY,
    HOSTS_UNMEASURED,
    HOSTS_CLOCK,
    HOSTS_LOOKUP,
    HOSTS_ROWS
};
extern const doctor_table DOCTOR_HOSTS;

typedef struct host_clock {
    double ahead_s, error_s; // of rank 0's host
} host_clock;

// What is known of all hosts. `host` of a report is the name of the host.
typedef struct hosts_input {
    const doctor_report *report; // [count]
    int count;
    const host_clock *clock; // [count]
    const host_pair *pair;   // [pairs]
    int pairs;
    const host_lookup
        *lookup; // [count * count]: of host j's name on host i at i * count + j; NULL: not asked
    const char *const *missing; // [missing_count] names of hosts that did not come
    int missing_count;
    double waited_s;     // for those
    const bool *is_gone; // [count]: it came, and did not report; NULL: none
} hosts_input;

// The caller calls doctor_report_clear.
status hosts_compare(const hosts_input *in, doctor_report *out, err *e);

#endif
