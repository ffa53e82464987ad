// probes.h -- the probes of this room, which its tables name: limits.c and shared.c look at limits of processes, memory.c,
// pages.c and nodes.c at memory. Each probe is described by its row.
#ifndef TRIREME_DOCTOR_MEMORY_PROBES_H
#define TRIREME_DOCTOR_MEMORY_PROBES_H

#include "doctor/check.h"

doctor_probe probe_shm_size, probe_shm_missing;
doctor_probe probe_memlock, probe_nofile, probe_nofile_huge, probe_nproc, probe_pids, probe_stack,
    probe_address_space, probe_file_size, probe_core_files, probe_map_count, probe_oom_score;
doctor_probe probe_group_memory, probe_group_high, probe_group_oom, probe_machine_oom,
    probe_available, probe_per_gpu, probe_pressure, probe_panic_on_oom;
doctor_probe probe_overcommit, probe_swap_used, probe_swappiness, probe_huge_transparent,
    probe_huge_unused, probe_corrected, probe_uncorrected, probe_retired;
doctor_probe probe_numa_balancing, probe_node_free, probe_node_size, probe_zone_reclaim;

#endif
