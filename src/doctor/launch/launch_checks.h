// launch_checks.h -- the inside of this room: probes of what starts ranks. Only files of this room include it.
#ifndef TRIREME_DOCTOR_LAUNCH_LAUNCH_CHECKS_H
#define TRIREME_DOCTOR_LAUNCH_LAUNCH_CHECKS_H

#include "doctor/check.h"

doctor_probe launch_probe_port_used, launch_probe_port_ephemeral, launch_probe_port_privileged,
    launch_probe_backlog;
doctor_probe launch_probe_orphans, launch_probe_stopped;
doctor_probe launch_probe_files, launch_probe_pids, launch_probe_kernel, launch_probe_ptrace,
    launch_probe_core, launch_probe_logout, launch_probe_clock, launch_probe_reboot,
    launch_probe_ssh;
doctor_probe launch_probe_python, launch_probe_torch_cpu, launch_probe_torch_cuda,
    launch_probe_torch_numpy;

// Finds a program in the folders of PATH; *out is its path, NULL: none. The caller frees it.
status launch_find_program(const doctor_context *c, const char *name, char **out, err *e);

#endif
