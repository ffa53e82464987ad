// probes.h -- the probes of this room, which its table names: container.c looks at what a container takes away, hidden.c at
// devices and files that it does not show. Each probe is described by its row.
#ifndef TRIREME_DOCTOR_CONTAINER_PROBES_H
#define TRIREME_DOCTOR_CONTAINER_PROBES_H

#include "doctor/check.h"

// What this process runs in, from files and variables that engines leave: "docker", "kubernetes"; "" in none. It is
// written to `name`.
status container_name(const doctor_context *c, char name[32], err *e);
// Does the same, and calls doctor_skip where there is no container.
status container_need(const doctor_context *c, doctor_findings *out, char name[32], err *e);

doctor_probe probe_container_ipc, probe_container_ptrace, probe_container_numa,
    probe_container_user, probe_container_capabilities, probe_subsystem;
doctor_probe probe_sys_hidden, probe_gpu_hidden, probe_rdma_hidden;

#endif
