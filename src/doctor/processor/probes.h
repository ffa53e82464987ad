// probes.h -- the probes of this room, which its table names: cores.c looks at which cores a run may use, rate.c at how fast
// they are. Each probe is described by its row.
#ifndef TRIREME_DOCTOR_PROCESSOR_PROBES_H
#define TRIREME_DOCTOR_PROCESSOR_PROBES_H

#include "doctor/check.h"

doctor_probe probe_cpu_limit, probe_cpu_throttled, probe_cpuset, probe_cores_per_rank,
    probe_cores_offline, probe_cores_isolated, probe_numa_ranks, probe_nice, probe_cpu_weight;
doctor_probe probe_governor, probe_energy_preference, probe_frequency_cap, probe_boost,
    probe_thermal, probe_steal, probe_load, probe_clocksource, probe_features, probe_core_kinds;

#endif
