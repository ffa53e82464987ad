// table_limits.c -- the rows of limits of processes: /dev/shm, ulimit, and the number of threads. limits.c and shared.c have
// the probes.
#include "doctor/memory/probes.h"
#include "doctor/tables.h"

static const doctor_check ROWS[] = {
    {.code = "shm-missing",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "/dev/shm is mounted",
     .needs = "/proc/mounts",
     .issue = "{where} is not mounted",
     .why = "NCCL, UCX and PyTorch's data loaders keep their buffers there, and fail without it. "
            "Trireme's own ranks on "
            "CPUs do not need it.",
     .remedy =
         {"$ mount -t tmpfs -o size=50% tmpfs /dev/shm",
          "In a container, start it with the engine's default mounts, or with --shm-size=16g."},
     .reference = "docs/troubleshooting.md, Shared memory in a container",
     .recipe = {157},
     .probe = probe_shm_missing},
    {.code = "shm-leftovers",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_NOTE,
     .title = "/dev/shm holds no files of runs that have ended",
     .needs = "/dev/shm, /proc",
     .issue = "{where} holds {files} ({size}) of NCCL or PyTorch that no process uses any more",
     .why = "They take memory until somebody removes them, and the next run finds less room.",
     .remedy = {"$ ls -l /dev/shm", "Remove the files nccl-* and torch_* while no run is active."},
     .recipe = {157, 158},
     .probe = probe_shm_leftovers},
    {.code = "memlock-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "Network cards may pin as much memory as a run sends",
     .needs = "/proc/self/limits, /proc/self/status, /sys/class/infiniband",
     .issue = "The limit of locked memory is {limit} on a machine with {memory} and an RDMA "
              "network card",
     .why = "InfiniBand and RoCE cards pin the memory that they send from. NCCL and UCX then fail "
            "with \"Cannot allocate "
            "memory\" as soon as they register their buffers.",
     .remedy = {"$ ulimit -l unlimited",
                "For all users: the lines \"* soft memlock unlimited\" and \"* hard memlock "
                "unlimited\" in "
                "/etc/security/limits.conf.",
                "For services: LimitMEMLOCK=infinity in the unit, also in that of slurmd.",
                "$ docker run --ulimit memlock=-1 --cap-add IPC_LOCK …"},
     .reference = "NCCL user guide, Troubleshooting; man 5 limits.conf",
     .recipe = {154, 181},
     .probe = probe_memlock},
    {.code = "nofile-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "A rank may open as many files as it needs",
     .needs = "/proc/self/limits",
     .issue = "The hard limit of open files is {limit}; the ranks of this host need {need}",
     .why = "Sockets between ranks, shards of data and libraries are open files. A run ends with "
            "\"Too many open files\", "
            "often only after hours.",
     .remedy = {"For all users: the line \"* hard nofile 1048576\" in /etc/security/limits.conf.",
                "For services: LimitNOFILE=1048576 in the unit.",
                "$ docker run --ulimit nofile=1048576:1048576 …"},
     .reference = "man 5 limits.conf",
     .recipe = {153, 156},
     .probe = probe_nofile},
    {.code = "nofile-huge",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_NOTE,
     .title = "The limit of open files is not so large that launchers count to it",
     .needs = "/proc/self/limits",
     .issue = "The limit of open files is {limit}",
     .why = "Some programs close all files that could be open, one by one, before they start "
            "another program. Launchers of MPI, old "
            "versions of Python and services then take seconds to minutes.",
     .remedy = {"$ ulimit -Sn 1048576", "$ docker run --ulimit nofile=1048576:1048576 …",
                "For containerd: LimitNOFILE=1048576 in its unit."},
     .reference = "man 2 getrlimit, RLIMIT_NOFILE",
     .recipe = {165},
     .probe = probe_nofile_huge},
    {.code = "nproc-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "The user may start as many threads as the ranks need",
     .needs = "/proc/self/limits, /proc/self/status",
     .issue = "This user may have {limit} threads; the ranks of this host need up to {need}",
     .why = "Each rank has a thread for each of its cores, and libraries start more. A run ends "
            "with \"Resource temporarily "
            "unavailable\" where a thread cannot start.",
     .remedy = {"$ ulimit -u unlimited",
                "For all users: the line \"* soft nproc unlimited\" in /etc/security/limits.conf."},
     .reference = "man 5 limits.conf",
     .recipe = {165},
     .probe = probe_nproc},
    {.code = "pids-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "The control group has room for the threads of the ranks",
     .needs = "/sys/fs/cgroup: pids.max, pids.current",
     .issue = "The control group {where} allows {limit} threads, of which {left} are left; the "
              "ranks of this host need up "
              "to {need}",
     .why = "Threads beyond the limit cannot start, and a run ends with \"Resource temporarily "
            "unavailable\".",
     .remedy = {"$ docker run --pids-limit -1 …", "In Kubernetes: podPidsLimit of the kubelet. In "
                                                  "a service: TasksMax=infinity of the unit."},
     .reference = "Linux, Documentation/admin-guide/cgroup-v2.rst, PID",
     .recipe = {165},
     .probe = probe_pids},
    {.code = "stack-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "Threads have stacks of at least 2 MiB",
     .needs = "/proc/self/limits",
     .issue = "The limit of the stack is {limit}",
     .why = "New threads take this limit as their size. Libraries with deep calls are then killed "
            "by signal 11 (Segmentation "
            "fault).",
     .remedy = {"$ ulimit -s 8192"},
     .reference = "man 2 getrlimit, RLIMIT_STACK",
     .recipe = {165},
     .probe = probe_stack},
    {.code = "address-space-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "The address space of processes has no limit",
     .needs = "/proc/self/limits, /proc/meminfo",
     .issue = "The limit of the address space is {limit} on a machine with {memory}",
     .why = "CUDA reserves addresses for all memory of the host and of the GPUs, and ranks map the "
            "buffers of other ranks. "
            "Both need far more addresses than memory, and fail with \"out of memory\" while "
            "memory is free.",
     .remedy = {"$ ulimit -v unlimited",
                "In Slurm: VSizeFactor=0 in slurm.conf, and limits by control groups."},
     .reference = "man 2 getrlimit, RLIMIT_AS",
     .recipe = {162, 164},
     .probe = probe_address_space},
    {.code = "file-size-limit",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "Files may be as large as a checkpoint",
     .needs = "/proc/self/limits",
     .issue = "The limit of the size of a file is {limit}",
     .why = "The kernel ends a process that writes more into one file, so that a checkpoint fails. "
            "Memory that ranks share "
            "counts as a file, too.",
     .remedy = {"$ ulimit -f unlimited"},
     .reference = "man 2 getrlimit, RLIMIT_FSIZE",
     .recipe = {171},
     .probe = probe_file_size},
    {.code = "core-files",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_NOTE,
     .title = "A rank that crashes does not fill the disk",
     .needs = "/proc/self/limits, /proc/sys/kernel/core_pattern",
     .issue = "Each rank that crashes may write its memory (limit: {limit}) to the file {pattern}",
     .why = "Several ranks often crash together. Their files can fill the disk that the "
            "checkpoints need, and writing them "
            "delays the end of the run.",
     .remedy = {"$ ulimit -c 0", "Keep the limit where you want to examine crashes, and point "
                                 "kernel.core_pattern at a large disk."},
     .reference = "man 5 core",
     .recipe = {159},
     .probe = probe_core_files},
    {.code = "max-map-count",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_WARNING,
     .title = "A process may map as many areas of memory as is usual",
     .needs = "/proc/sys/vm/max_map_count",
     .issue = "{where} is {limit}; the kernel's default is 65530",
     .why = "Mapped shards of weights and data, and libraries of GPUs, take thousands of areas. "
            "Beyond the limit the kernel "
            "reports that memory has run out.",
     .remedy = {"$ sysctl -w vm.max_map_count=262144"},
     .reference = "Linux, Documentation/admin-guide/sysctl/vm.rst, max_map_count",
     .recipe = {158},
     .probe = probe_map_count},
    {.code = "oom-score",
     .level = DOCTOR_PASSIVE,
     .severity = DOCTOR_NOTE,
     .title = "The kernel does not prefer the ranks when it kills for lack of memory",
     .needs = "/proc/self/oom_score_adj",
     .issue = "{where} is {score}: where memory runs out, the kernel kills the processes of this "
              "shell before others",
     .why = "A service manager or Kubernetes (without a guaranteed quality of service) sets it. A "
            "rank is then killed although "
            "another process has taken the memory.",
     .remedy = {"In Kubernetes: give the pod requests that equal its limits. In a service: "
                "OOMScoreAdjust=0 of the unit."},
     .reference = "man 5 proc, /proc/pid/oom_score_adj",
     .recipe = {158},
     .probe = probe_oom_score},
};

const doctor_table DOCTOR_LIMITS = {"Limits of processes", ROWS, sizeof ROWS / sizeof *ROWS};
