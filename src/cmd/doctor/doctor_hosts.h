// doctor_hosts.h -- `trireme doctor` on several hosts. Private to cmd/doctor/.
#ifndef TRIREME_CMD_DOCTOR_HOSTS_H
#define TRIREME_CMD_DOCTOR_HOSTS_H

#include "cmd/flags.h"
#include "doctor/doctor.h"
#include "launch/launcher.h"

#include <stdint.h>

// The flags of several hosts, which doctor's table has among its own.
typedef struct doctor_hosts_flags {
    const char *hosts, *hostfile, *secret_file, *timeout; // NULL: not given
    int64_t ssh_port;                                     // -1: not given
} doctor_hosts_flags;

// This process among those that a launcher, or doctor_hosts_start, has started.
typedef struct doctor_hosts_request {
    const doctor_context *context;
    doctor_level level;
    const char *const *codes; // NULL: all checks of the level
    bool strict, json, all;
    const doctor_hosts_flags *flags;
    const launcher_location *location; // with several hosts
} doctor_hosts_request;

// Runs this host's checks, and on rank 0's host compares those of all and prints them. Returns the exit code: there 0, 1 or 2
// as on one host; on the others 0. Of the processes of a host only the first one checks. Collective over the processes of the launcher.
int doctor_hosts_run(const doctor_hosts_request *q);
// Starts doctor on each host of --hosts or --hostfile through ssh, with the words argv[1] to argv[argc - 1], which have no flag of
// several hosts. Returns the exit code of the first host.
int doctor_hosts_start(const doctor_hosts_flags *f, int port, int argc, char **argv);
// The time to wait for other hosts: --timeout, 30 s by default. E_USAGE.
status doctor_hosts_timeout(const doctor_hosts_flags *f, int64_t *out_ms, err *e);

#endif
